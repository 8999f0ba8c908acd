"""Hints that lead out of a broken table: which metadata file and which snapshot are still whole."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from shlex import quote
from threading import Thread

from icectl.catalog.metadata_files import METADATA_FOLDER, moved_from, relocation_hint
from icectl.catalog.versions import is_file_system_table, list_versions, newest
from icectl.checks.rule import Finding
from icectl.checks.rules import ALL_RULES
from icectl.env import Deadline
from icectl.errors import CorruptTable, MissingFile
from icectl.format.metadata import TableMetadata
from icectl.format.rule import OLDER_METADATA, RESTORE, REWRITE_MANIFESTS, ROLL_BACK
from icectl.format.snapshot import PartitionStatisticsFile, Snapshot, StatisticsFile
from icectl.progress import SilentProgress
from icectl.storage import location as locations
from icectl.storage.path_map import PathMapStore
from icectl.table.context import TableContext
from icectl.table.losses import dropping, going_back
from icectl.table.whole import WholeLevel, WholeSnapshots, newest_whole_metadata

_MOST_SECONDS = 5.0
"""How long a run that has failed looks for what is whole."""

_LOST = frozenset({ROLL_BACK, RESTORE, ALL_RULES["R-008"].fix})
_GENERAL = _LOST | {CorruptTable.default_hint, OLDER_METADATA, REWRITE_MANIFESTS}
"""Next steps that name neither file nor snapshot, or do not lead out of a file that is broken."""

_UNREADABLE = "it cannot be read"
_GONE = frozenset({"R-024", "R-034"})
"""Rules that files break which are not where the metadata name them."""

_NO_WAY_OUT = "no snapshot of branch main is whole"
_NAMED_FILE = re.compile("`([^`]+)`")
"""The location that the message of an error begins with."""


@dataclass(frozen=True, slots=True)
class _Recovery:
    """The ways out of a broken table: a repair of its head, and others by the broken location.

    `is_moved` where the metadata name another place than their own: `repair` relocates them.
    """

    repair: str | None
    others: Mapping[str, str] = field(default_factory=dict)
    is_moved: bool = False

    def of(self, location: str | None) -> str | None:
        """Return the way out where the object at a location is broken."""
        return self.others.get(location or "", self.repair)


@dataclass(frozen=True, slots=True)
class BrokenTable:
    """A table that something is wrong with; `name` is what the caller calls it by."""

    context: TableContext
    name: str

    def hint(self, error: CorruptTable) -> str | None:
        """Tell what to do about an error: the way out that loses least, if one is known.

        Cost: some seconds at most, and nothing that is wrong meanwhile is told.
        """
        if not isinstance(error, MissingFile) and error.hint not in _GENERAL:
            return error.hint
        named = _NAMED_FILE.match(error.message)
        location = None if named is None else named[1]
        broken = frozenset[str]() if location is None else frozenset({location})
        recovery = self._recovery("files", broken)
        way_out = None if recovery is None else recovery.of(location)
        if isinstance(error, MissingFile) and (way_out or "").startswith(_NO_WAY_OUT):
            return f"{error.hint}; else {way_out}"
        return way_out or error.hint

    def hinted(self, findings: tuple[Finding, ...], level: WholeLevel) -> tuple[Finding, ...]:
        """Return the findings, with the way out that loses least in the place of general hints."""
        general = [one.severity == "error" and _is_general(one) for one in findings]
        broken = frozenset(
            one.subject for one, is_general in zip(findings, general, strict=True) if is_general
        )
        recovery = self._recovery(level, broken) if broken else None
        if recovery is not None and recovery.is_moved:
            return tuple(
                replace(one, hint=recovery.repair or one.hint) if one.rule in _GONE else one
                for one in findings
            )
        return tuple(
            replace(one, hint=(recovery.of(one.subject) if recovery and lost else None) or one.hint)
            for one, lost in zip(findings, general, strict=True)
        )

    def _recovery(self, level: WholeLevel, broken: frozenset[str]) -> _Recovery | None:
        """Look for ways out; None where nobody can tell in time.

        `broken` are locations of what is known to be damaged or missing.
        """
        recoveries: list[_Recovery] = []

        def look() -> None:
            """Look for what is whole; errors are left alone."""
            with suppress(Exception):  # the run has failed already, and is told why
                recoveries.append(self._look(level, broken))

        thread = Thread(target=look, name="icectl-recovery-hint", daemon=True)
        thread.start()
        thread.join(_MOST_SECONDS)
        return recoveries[0] if recoveries else None

    def _look(self, level: WholeLevel, broken: frozenset[str]) -> _Recovery:
        try:
            loaded = self.context.catalog.load()
        except CorruptTable as error:
            return _Recovery(self._older_metadata(is_cut_off=error.rule in ("R-005", "R-006")))
        if moved_from(loaded) is not None and not isinstance(self.context.store, PathMapStore):
            place = locations.parent(locations.parent(loaded.metadata_location))
            return _Recovery(relocation_hint(place, loaded), is_moved=True)
        metadata = loaded.metadata
        head = metadata.current_snapshot
        if head is None:
            return _Recovery(None)
        search, table = self._search(metadata, level, broken), quote(self.name)
        expire = (
            f"the current snapshot does not need it: `icectl expire-snapshots {table}` drops old "
            "snapshots that do"
        )
        statistics = f"`icectl repair {table}` takes it out of the metadata; no row depends on it"
        entries: Sequence[StatisticsFile | PartitionStatisticsFile]
        entries = (*metadata.statistics, *metadata.partition_statistics)
        others = dict.fromkeys(search.not_named(head, broken), expire)
        others |= dict.fromkeys((one.statistics_path for one in entries), statistics)
        return _Recovery(self._repair(metadata, head, search), others)

    def _repair(
        self, metadata: TableMetadata, head: Snapshot, search: WholeSnapshots
    ) -> str | None:
        """Name the repair of main that costs least, with its cost; None where main is whole."""
        table, whole = quote(self.name), search.newest("main")
        if whole == head:
            return None
        ways = [] if whole is None else [going_back(metadata, head, whole)]
        loss = search.loss_of_dropping(head)
        ways += [] if loss is None else [dropping(loss)]
        if not ways:
            return f"{_NO_WAY_OUT}: `icectl repair {table} --dry-run` shows what can be rebuilt"
        best = min(ways, key=lambda way: way.order)
        repair = f"`{best.command(self.name)}` {best.loss}"
        damaged = search.damaged_files(head)
        if damaged and "--to-snapshot" not in best.options:
            files, them = f"`{damaged[0]}`", "it"
            if len(damaged) > 1:
                files, them = f"the {len(damaged)} damaged files", "them"
            return f"restore {files} from a copy; else move {them} away, and {repair}"
        if len(ways) > 1:
            repair += f"; `icectl repair {table} --dry-run` compares the ways out"
        return repair

    def _search(
        self, metadata: TableMetadata, level: WholeLevel, broken: frozenset[str]
    ) -> WholeSnapshots:
        env = self.context.env
        deadline = Deadline(env, env.monotonic_seconds() + _MOST_SECONDS)
        quiet = replace(self.context, progress=SilentProgress(), deadline=deadline, concurrency=1)
        return WholeSnapshots(quiet, metadata, level, broken)

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
        text = f"the newest whole metadata file before {name} is `{before}`"
        if given is not None or not is_file_system_table(versions):
            return f"{text}: point the catalog at it, or restore {name} from a copy"
        shown = f"{text}: `icectl inspect {quote(before)}` shows it, and"
        if not is_cut_off:
            return f"{shown} the engine that wrote {name} may set right what it says, or a copy"
        return f"{shown} `icectl repair {table}` goes back to it where that is safe"


def _is_general(finding: Finding) -> bool:
    if finding.message.startswith(_UNREADABLE):
        return finding.hint in _GENERAL
    return finding.hint in _LOST
