"""The course of `icectl remove-orphans`: options, plan, question, run, outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from icectl.cli.commands.remove_orphans import OrphansRequest
from icectl.cli.options import Change, Common
from icectl.cli.output_files import write_deleted_list
from icectl.cli.session import Session, identity_of, open_session, unpublished_metadata
from icectl.cli.settings import (
    ORPHANS_MAX_FRACTION,
    ORPHANS_OLDER_THAN,
    ORPHANS_QUARANTINE,
)
from icectl.cli.spark_options import check_no_spark_options, spark_options
from icectl.engine.orphan_search import LocalOrphanSearch, OrphanSearch
from icectl.engine.spark_orphans import SparkOrphanSearch
from icectl.entries.listed import listed_files, listed_none
from icectl.errors import CommitConflict, Refused, UsageError
from icectl.report import remove_orphans as report
from icectl.report.document import Outcome
from icectl.report.remove_orphans import (
    QuarantineUsed,
    orphans_result,
    print_plan,
    print_removed,
    question,
)
from icectl.run.remove_orphans.deletion import OrphansGone, execute, failures
from icectl.run.remove_orphans.remove_orphans import OrphanOptions, PreparedRemoval, prepare
from icectl.storage.inventory import InventoryFiles
from icectl.storage.location import name, scheme
from icectl.storage.same_store import SameStore
from icectl.units import parse_instant

COMMAND = "remove-orphans"
MISMATCH_MODES = ("error", "ignore")
ENGINES = ("local", "spark")


def run(common: Common, table: str, request: OrphansRequest, change: Change) -> Outcome:
    """Plan the removal; unless the plan is all that was asked for, ask, and run it."""
    _check_one_of("--prefix-mismatch", request.prefix_mismatch, MISMATCH_MODES)
    _check_engine(request)
    same_store = SameStore(
        _equal("--equal-scheme", request.equal_scheme or ()),
        _equal("--equal-authority", request.equal_authority or ()),
    )
    session = open_session(common, table, read_only=False, change=change)
    options = _options(session, request, same_store)
    access = session.access
    prepared = prepare(access, _search(session, request, same_store), options)
    session.approve(lambda: orphans_result(_told(prepared)))
    planning = change.dry_run or change.check
    if not prepared.plan.deletable_count:
        return _planned(prepared, status="nothing-to-do", dry_run=planning)
    if planning:
        return _told_only(prepared, change)
    if prepared.plan.is_too_much:
        raise _too_much(prepared)
    if not change.yes and not _confirmed(session, _told(prepared)):
        raise Refused("not confirmed; nothing was changed", hint="`--yes` confirms beforehand")
    common.shell.limits.check_deleted(prepared.plan.deletable_count)
    write_deleted_list(change, ())  # a place that cannot be written to shows now
    try:
        done = execute(access, prepared)
    except CommitConflict:
        if not change.skip_if_busy:
            raise
        return _planned(_without_orphans(prepared), status="nothing-to-do", dry_run=False)
    told = _told(prepared, done)
    assert told.removed is not None
    write_deleted_list(change, (file.location for file in listed_files(told.removed)))
    return _done(prepared, told)


def _without_orphans(prepared: PreparedRemoval) -> PreparedRemoval:
    """Empty a plan of its orphans, as it is told where another writer was faster."""
    none = listed_none(prepared.plan.orphans)
    return replace(prepared, plan=replace(prepared.plan, orphans=none, outside=none))


def _search(session: Session, request: OrphansRequest, same_store: SameStore) -> OrphanSearch:
    """Return the engine that was asked for, over the store or an inventory."""
    if request.engine == "spark":
        return _spark_search(session, request)
    files_below = session.store.list
    if request.inventory is not None:
        inventory = _absolute(request.inventory)
        files_below = InventoryFiles(session.store, inventory, same_store).below
    return LocalOrphanSearch(files_below, session.progress, session.deadline)


def _spark_search(session: Session, request: OrphansRequest) -> SparkOrphanSearch:
    options = spark_options(session, request.master, request.spark_conf or ())
    return SparkOrphanSearch(
        options, session.storage(), session.store, session.progress, session.deadline
    )


def _options(session: Session, request: OrphansRequest, same_store: SameStore) -> OrphanOptions:
    settings = session.settings
    older_than = settings.read(ORPHANS_OLDER_THAN)
    now_ms = session.env.now_ms()  # wrong usage shows before anything is read
    settings.read_as(ORPHANS_OLDER_THAN, lambda text: parse_instant(text, now_ms))
    quarantine = settings.read(ORPHANS_QUARANTINE)
    return OrphanOptions(
        older_than=lambda now_ms: parse_instant(older_than, now_ms),
        locations=[_absolute(location) for location in request.location or ()],
        same_store=same_store,
        ignore_mismatch=request.prefix_mismatch == "ignore",
        max_fraction=settings.read(ORPHANS_MAX_FRACTION),
        allow_recent=request.allow_recent,
        delete_outside=request.delete_outside,
        quarantine=None if quarantine is None else _absolute(quarantine),
        catalog_tables=session.other_tables,
        only=session.reviewed,
        engine=request.engine,
    )


def _absolute(location: str) -> str:
    trimmed = location.rstrip("/") or location
    return trimmed if scheme(location) else str(Path(location).absolute())


def _equal(option: str, given: Sequence[str]) -> Mapping[str, str]:
    """Split each `A=B` at its last `=`.

    Raises: UsageError.
    """
    found = {}
    for text in given:
        one, separator, other = text.rpartition("=")
        if not separator or not one or not other:
            raise UsageError(f"`{option}`: `{text}` is not two names with a `=` between them")
        found[one] = other
    return found


def _check_engine(request: OrphansRequest) -> None:
    _check_one_of("--engine", request.engine, ENGINES)
    if request.engine == "spark":
        if request.inventory is not None:
            raise UsageError(
                "`--inventory` goes with `--engine local`: with an inventory there is nothing to "
                "list on Spark"
            )
        return
    check_no_spark_options(request.master, request.spark_conf or ())


def _check_one_of(option: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        listed = ", ".join(f"`{choice}`" for choice in known)
        raise UsageError(f"`{option}`: `{given}` is none of {listed}")


def _too_much(prepared: PreparedRemoval) -> Refused:
    plan = prepared.plan
    share = plan.deletable_bytes / plan.listed_bytes
    return Refused(
        f"{share:.0%} of the listed bytes would go, more than {plan.max_fraction:.0%}: so many "
        "orphans mean that something is wrong, or a long neglect",
        hint="look at them with `--dry-run`; a larger `--max-fraction` lets them go",
        id="too-much",
    )


def _confirmed(session: Session, told: report.Orphans) -> bool:
    """Show what would happen, and ask; UsageError where there is nobody to ask."""
    if session.console.asks:
        print_plan(session.console, told, whole=False)
    return session.console.ask(question(told))


def _told(prepared: PreparedRemoval, done: OrphansGone | None = None) -> report.Orphans:
    """Return the removal as reports speak of it."""
    loaded = prepared.loaded
    place = unpublished_metadata(loaded)
    told = report.Orphans(
        loaded.metadata.location,
        prepared.plan,
        moves=prepared.options.quarantine is not None,
        given_metadata_file=None if place is None else name(place),
        engine=prepared.options.engine,
    )
    if done is None:
        return told
    used = done.quarantine
    return replace(
        told,
        removed=done.removed,
        failed=tuple(failures(done)),
        spared={str(reason): count for reason, count in done.spared.items()},
        stopped=done.stopped,
        quarantine=None if used is None else QuarantineUsed(used.folder, tuple(used.lists)),
    )


def _planned(
    prepared: PreparedRemoval,
    *,
    status: Literal["planned", "nothing-to-do", "refused"],
    dry_run: bool,
    warnings: Sequence[str] = (),
) -> Outcome:
    told = _told(prepared)
    return Outcome(
        command=COMMAND,
        result=orphans_result(told),
        render=lambda console: print_plan(console, told, whole=dry_run),
        table=identity_of(prepared.loaded),
        status=status,
        dry_run=dry_run,
        warnings=warnings,
    )


def _told_only(prepared: PreparedRemoval, change: Change) -> Outcome:
    """Return the plan; it ends with 5 where a real run would be refused."""
    if prepared.plan.is_too_much:
        refused = _too_much(prepared)
        outcome = _planned(
            prepared, status="refused", dry_run=True, warnings=[f"{refused.message}: refused"]
        )
        return replace(outcome, exit_code=refused.exit_code)
    outcome = _planned(prepared, status="planned", dry_run=True)
    return replace(outcome, exit_code=4) if change.check else outcome


def _done(prepared: PreparedRemoval, told: report.Orphans) -> Outcome:
    incomplete = bool(told.failed) or told.stopped
    return Outcome(
        command=COMMAND,
        result=orphans_result(told),
        render=lambda console: print_removed(console, told),
        table=identity_of(prepared.loaded, prepared.loaded.metadata_location),
        exit_code=3 if incomplete else 0,
        status="incomplete" if incomplete else "done",
    )
