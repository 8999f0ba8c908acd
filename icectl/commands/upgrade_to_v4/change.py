"""An upgrade to a newer format version as a planned change: of 1 to 2, and of any to 4."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from icectl.catalog.protocol import LoadedTable
from icectl.checks.rule import Finding
from icectl.cli.session import unpublished_metadata
from icectl.commands.change import Finished, PlannedChange
from icectl.commands.upgrade_to_v4.report import Upgrade, print_upgrade, question, upgrade_result
from icectl.errors import IcectlError, Refused


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The table after a run, and the snapshot that it made, if any.

    `unfinished` is the error that left something undone after the first commit.
    """

    landed: LoadedTable
    snapshot_id: int | None = None
    unfinished: IcectlError | None = None


def refused(forbidding: Sequence[Finding], error_id: str) -> Refused:
    """Return the error of a table that is not upgraded: the first rule that forbids it."""
    first = forbidding[0]
    message = f"{first.subject}: {first.message} ({first.rule})"
    return Refused(message, hint=first.hint, id=error_id)


def planned_upgrade(
    command: str,
    loaded: LoadedTable,
    report: Upgrade,
    execute: Callable[[], Upgraded],
    *,
    refusal: Refused | None,
    clean_up: Callable[[], None],
) -> PlannedChange[Upgrade]:
    """Return the change; `refusal` is the error of a plan that findings forbid."""

    def finish() -> Finished[Upgrade]:
        upgraded = execute()
        unfinished = upgraded.unfinished
        return Finished(
            replace(
                report,
                done=True,
                snapshot_id=upgraded.snapshot_id,
                unfinished=None if unfinished is None else unfinished.message,
                new_metadata_file=unpublished_metadata(upgraded.landed),
            ),
            upgraded.landed.metadata_location,
            is_complete=unfinished is None,
        )

    return PlannedChange(
        command=command,
        loaded=loaded,
        report=report,
        result=upgrade_result,
        show=lambda console, upgrade, _: print_upgrade(console, upgrade),
        has_work=report.plan.has_work,
        execute=finish,
        superseded=lambda: replace(report, plan=_NoUpgrade(report.plan.from_version)),
        clean_up=clean_up,
        question=question(report),
        refusal=refusal,
    )


@dataclass(frozen=True, slots=True)
class _NoUpgrade:
    """The plan to report where another writer committed first."""

    from_version: int
    steps: tuple[()] = ()
    findings: tuple[Finding, ...] = ()
    legacy_manifests: int = 0
    has_work: bool = False
