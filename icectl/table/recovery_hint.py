"""Hints that lead out of a broken table: which metadata file and which snapshot are still whole."""

from contextlib import suppress
from dataclasses import dataclass, replace
from shlex import quote
from threading import Thread

from icectl.catalog.metadata_files import METADATA_FOLDER
from icectl.catalog.versions import is_file_system_table, list_versions, newest
from icectl.checks.rule import Finding
from icectl.checks.rules import ALL_RULES
from icectl.env import Deadline
from icectl.errors import CorruptTable, MissingFile
from icectl.format.metadata import TableMetadata
from icectl.format.rule import OLDER_METADATA, RESTORE, REWRITE_MANIFESTS, ROLL_BACK
from icectl.format.snapshot import Snapshot
from icectl.progress import SilentProgress
from icectl.storage import location as locations
from icectl.table.context import TableContext
from icectl.table.whole import WholeLevel, WholeSnapshots, newest_whole_metadata
from icectl.units import print_instant

_MOST_SECONDS = 5.0
"""How long a run that has failed looks for what is whole."""

_LOST = frozenset({ROLL_BACK, RESTORE, ALL_RULES["R-008"].fix})
_GENERAL = _LOST | {CorruptTable.default_hint, OLDER_METADATA, REWRITE_MANIFESTS}
"""Next steps that name neither file nor snapshot, or do not lead out of a file that is broken."""

_UNREADABLE = "it cannot be read"


@dataclass(frozen=True, slots=True)
class BrokenTable:
    """A table that something is wrong with; `name` is what the caller calls it by."""

    context: TableContext
    name: str

    def hint(self, error: CorruptTable) -> str | None:
        """Tell what to do about an error: by what is whole, where its own hint is a general one.

        Cost: some seconds at most, and nothing that is wrong meanwhile is told.
        """
        if isinstance(error, MissingFile):
            found = self.recovery_hint("metadata")
            return error.hint if found is None else f"{error.hint}; else {found}"
        if error.hint not in _GENERAL:
            return error.hint
        return self.recovery_hint("metadata") or error.hint

    def hinted(self, findings: tuple[Finding, ...], level: WholeLevel) -> tuple[Finding, ...]:
        """Return the findings, with hints by what is whole in the place of general ones."""
        general = [one.severity == "error" and _is_general(one) for one in findings]
        broken = frozenset(
            one.subject for one, is_general in zip(findings, general, strict=True) if is_general
        )
        found = self.recovery_hint(level, broken) if broken else None
        return tuple(
            replace(one, hint=(found if lost else None) or one.hint)
            for one, lost in zip(findings, general, strict=True)
        )

    def recovery_hint(self, level: WholeLevel, broken: frozenset[str] = frozenset()) -> str | None:
        """Tell what is whole and how to go back to it; None where nobody can tell in time.

        `broken` are locations of what is known to be damaged; where no snapshot is without them,
        nothing is told.
        """
        found: list[str | None] = []

        def look() -> None:
            """Look for what is whole; errors are left alone."""
            with suppress(Exception):  # the run has failed already, and is told why
                found.append(self._look(level, broken))

        thread = Thread(target=look, name="icectl-recovery-hint", daemon=True)
        thread.start()
        thread.join(_MOST_SECONDS)
        return found[0] if found else None

    def _look(self, level: WholeLevel, broken: frozenset[str]) -> str | None:
        try:
            metadata = self.context.catalog.load().metadata
        except CorruptTable as error:
            return self._older_metadata(is_cut_off=error.rule in ("R-005", "R-006"))
        return self._older_snapshot(metadata, level, broken)

    def _older_snapshot(
        self, metadata: TableMetadata, level: WholeLevel, broken: frozenset[str]
    ) -> str | None:
        whole, table = self._newest_whole(metadata, level, broken), quote(self.name)
        if whole is None and broken and self._newest_whole(metadata, level, frozenset()):
            return None
        if whole is None:
            return (
                "no snapshot of branch main is whole: "
                f"`icectl repair {table} --dry-run` tells what can be rebuilt"
            )
        if whole.snapshot_id == metadata.current_snapshot_id:
            return (
                "the current snapshot is whole: "
                f"`icectl validate {table} --all-snapshots` names all that is broken"
            )
        return (
            f"the newest whole snapshot of branch main is {whole.snapshot_id}, of "
            f"{print_instant(whole.timestamp_ms)}: `icectl repair {table} --to-snapshot "
            f"{whole.snapshot_id}` goes back to it"
        )

    def _newest_whole(
        self, metadata: TableMetadata, level: WholeLevel, broken: frozenset[str]
    ) -> Snapshot | None:
        env = self.context.env
        deadline = Deadline(env, env.monotonic_seconds() + _MOST_SECONDS)
        quiet = replace(self.context, progress=SilentProgress(), deadline=deadline, concurrency=1)
        return WholeSnapshots(quiet, metadata, level, broken).newest("main")

    def _older_metadata(self, *, is_cut_off: bool) -> str:
        """Return the metadata file before the newest, which is cut off, or breaks a rule."""
        given = getattr(self.context.catalog, "metadata_file", None)
        folder = locations.join(self.name, METADATA_FOLDER)
        if given is not None:
            folder = locations.parent(given)
        versions = list_versions(self.context.store, folder)
        broken = given or newest(versions, lambda version: version.modified_ms or 0).location
        whole = newest_whole_metadata(self.context.store, versions, broken)
        name, table = locations.name(broken), quote(self.name)
        if whole is None:
            return f"no metadata file before {name} is whole: restore it from a copy"
        before = whole.version.location
        told = f"the newest whole metadata file before {name} is `{before}`"
        if given is not None or not is_file_system_table(versions):
            return f"{told}: point the catalog at it, or restore {name} from a copy"
        shown = f"{told}: `icectl inspect {quote(before)}` shows it, and"
        if not is_cut_off:
            return f"{shown} the engine that wrote {name} may set right what it says, or a copy"
        return f"{shown} `icectl repair {table}` goes back to it where that is safe"


def _is_general(finding: Finding) -> bool:
    if finding.message.startswith(_UNREADABLE):
        return finding.hint in _GENERAL
    return finding.hint in _LOST
