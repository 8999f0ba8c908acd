"""Recovery of a broken table: whole metadata and snapshots, what each way loses, and hints."""

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import compress, takewhile
from shlex import join, quote
from threading import Thread
from typing import Literal

import pyarrow as pa

from icectl.catalog.metadata_files import (
    METADATA_FOLDER,
    MetadataVersion,
    check_own_version,
    is_file_system_table,
    list_versions,
    metadata_version,
    moved_from,
    newest,
    read_file,
    relocation_hint,
)
from icectl.checks.rule import Finding
from icectl.checks.rules import ALL_RULES
from icectl.entries.files import content_files, distinct, excluding, including, sized_keys, without
from icectl.entries.inherit import inherit
from icectl.entries.rows import (
    PLANNING_COLUMNS,
    Entries,
    RawEntries,
    by_row,
    concat,
    data_files,
    live,
    total,
    with_manifest_number,
)
from icectl.env import Deadline
from icectl.errors import CorruptTable, MissingFile, OtherFile, StorageError, Unsupported
from icectl.files.metadata_file import find_table_uuid
from icectl.format.manifest import Content, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.rule import OLDER_METADATA, RESTORE, REWRITE_MANIFESTS, ROLL_BACK
from icectl.format.snapshot import Snapshot, ancestors
from icectl.progress import SilentProgress
from icectl.storage import location as locations
from icectl.storage.open import PathMapStore
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.guard import check_head_list, check_live, require_safe_base
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import ManifestRead, try_manifests
from icectl.table.reading import of_one_file, read_or_none
from icectl.table.retention import expiry_of
from icectl.table.stored import compare_with_store
from icectl.units import print_count, print_text, read_count


@dataclass(frozen=True, slots=True)
class Loss:
    """The cost of a way out, at most; None if it was not counted.

    `rows` are lost, `rows_back` were deleted and reappear, `snapshots` leave the branch.
    """

    rows: int | None = 0
    rows_back: int | None = 0
    snapshots: int = 0

    @property
    def order(self) -> tuple[bool, int, int]:
        """The key that losses sort by, the smallest first; a loss without a count is last."""
        known = self.rows is not None and self.rows_back is not None
        return not known, (self.rows or 0) + (self.rows_back or 0), self.snapshots

    def __str__(self) -> str:
        """Tell it: `drops 7 snapshots with 120 rows; brings back at most 20 deleted rows`."""
        if self.snapshots:
            drops = f"drops {print_count(self.snapshots, 'snapshot')} with {_rows(self.rows)}"
        elif self.rows == 0:
            drops = "" if self.rows_back != 0 else "loses no row"
        elif self.rows is None:
            drops = f"loses {_rows(None)}"
        else:
            drops = f"loses at most {_rows(self.rows)}"
        if self.rows_back != 0:
            count = self.rows_back
            few = "" if count is None else f"at most {print_count(count, 'deleted row')}"
            back = f"brings back {few or 'deleted rows'}"
            drops += f"; {back}" if drops else back
        return drops


NOTHING = Loss()


def add_up(losses: Sequence[Loss]) -> Loss:
    """Add losses up."""
    return Loss(
        _total([loss.rows for loss in losses]),
        _total([loss.rows_back for loss in losses]),
        sum(loss.snapshots for loss in losses),
    )


@dataclass(frozen=True, slots=True)
class WayOut:
    """The options of `icectl repair` that lead out of a broken table, and what they cost.

    `errors_left` counts what stays broken afterwards.
    """

    options: tuple[str, ...]
    loss: Loss
    errors_left: int = 0

    @property
    def order(self) -> tuple[int, bool, int, int]:
        """The key that ways sort by: first those that leave nothing broken, then the cheapest."""
        return self.errors_left, *self.loss.order

    def command(self, *table: str, branch: str = "main") -> str:
        of_branch = [] if branch == "main" else ["--branch", branch]
        return join(["icectl", "repair", *table, *of_branch, *self.options])


def dropping(loss: Loss) -> WayOut:
    """Return the way out that takes what is missing from the table, by what that costs."""
    options = ["--drop-missing"] if loss.rows != 0 or loss.rows_back == 0 else []
    options += ["--accept-undeleted"] if loss.rows_back != 0 else []
    return WayOut(tuple(options), loss)


def going_back(metadata: TableMetadata, head: Snapshot, target: Snapshot) -> WayOut:
    """Return the way out that sets a branch back from its head to a snapshot."""
    options = ("--to-snapshot", str(target.snapshot_id))
    return WayOut(options, loss_of_going_back(metadata, head, target))


def _rows(count: int | None) -> str:
    return "an unknown number of rows" if count is None else print_count(count, "row")


def loss_of_going_back(metadata: TableMetadata, head: Snapshot, target: Snapshot) -> Loss:
    """Return what a branch loses when it goes from its head to another snapshot.

    By the summaries of the snapshots that leave the branch (R-031): the rows that they added, those
    that compaction wrote again left out, and the deletes that they added. Deletes by value have no
    count of rows.
    """
    by_id = metadata.snapshots_by_id
    stays = {ancestor.snapshot_id for ancestor in ancestors(by_id, target.snapshot_id)}
    line = ancestors(by_id, head.snapshot_id)
    leaving = list(takewhile(lambda snapshot: snapshot.snapshot_id not in stays, line))
    changing = [snapshot for snapshot in leaving if snapshot.operation != "replace"]
    rows = _total([_added(snapshot, by_id) for snapshot in changing])
    rows_back = _total([_deleted_rows(snapshot) for snapshot in changing])
    return Loss(rows, rows_back, len(leaving))


def _added(snapshot: Snapshot, by_id: Mapping[int, Snapshot]) -> int | None:
    """Return the rows that a snapshot added; writers leave out the counters that are zero."""
    summary = snapshot.summary or {}
    if _keeps_counters(summary):
        return _counter(summary, "added-records")
    parent = by_id.get(snapshot.parent_snapshot_id or -1)
    before = {"total-records": "0"} if parent is None else parent.summary or {}
    totals = [_counter(counters, "total-records") for counters in (summary, before)]
    if snapshot.operation != "append" or None in totals or "total-records" not in summary:
        return None
    return (totals[0] or 0) - (totals[1] or 0)


def _deleted_rows(snapshot: Snapshot) -> int | None:
    """Return how many rows a snapshot deleted; None for equality deletes: no count is known."""
    summary = snapshot.summary or {}
    if snapshot.operation == "append":
        return 0
    if not _keeps_counters(summary) or _counter(summary, "added-equality-deletes") != 0:
        return None
    keys = ("deleted-records", "added-position-deletes")
    return _total([_counter(summary, key) for key in keys])


def _keeps_counters(summary: Mapping[str, str]) -> bool:
    return any(key.startswith(("added-", "deleted-", "removed-")) for key in summary)


def _counter(summary: Mapping[str, str], key: str) -> int | None:
    return read_count(summary.get(key, "0"))


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


WholeLevel = Literal["metadata", "files"]
"""`metadata`: every manifest can be read; `files`: its files are there too, with their sizes."""


@dataclass(frozen=True, slots=True)
class WholeMetadata:
    """A metadata file that can be read, and what it says."""

    version: MetadataVersion
    metadata: TableMetadata


def newest_whole_metadata(
    store: Store, versions: Sequence[MetadataVersion], broken: str
) -> WholeMetadata | None:
    """Return the newest metadata file with a lower number than a broken one that can be read.

    `versions` are the files in its directory. Files without a number are passed over, and so are
    those of another table than the broken one, as far as its beginning still says which it is of.
    Raises: StorageError of the store.
    Cost: reads files from the newest on until one is whole.
    """
    number = metadata_version(broken).version
    if number is None:
        return None
    uuid = read_or_none(lambda: find_table_uuid(store.read(broken)))
    older = [
        version
        for version in versions
        if version.version is not None
        and version.version < number
        and version.kind != "uncommitted"
    ]
    # Names of a convention go before others, and of these the one written last.
    older.sort(
        key=lambda item: (item.version or 0, item.kind != "other", item.modified_ms or 0),
        reverse=True,  # those that are alike stay in the order of their names
    )
    for version in older:
        try:
            metadata = read_file(store, version.location)
            check_own_version(metadata, version.location)
        except (CorruptTable, Unsupported, FileNotFoundError):
            continue
        if uuid is None or metadata.table_uuid == uuid:
            return WholeMetadata(version, metadata)
    return None


@dataclass(slots=True)
class WholeSnapshots:
    """A search for the snapshots of a table that are whole; what several share is read once.

    `broken` are locations of files that are there and known to be damaged.
    """

    context: TableContext
    metadata: TableMetadata
    level: WholeLevel
    broken: frozenset[str] = frozenset()
    _read: dict[ManifestFile, Entries | None] = field(default_factory=dict)
    _named: dict[ManifestFile, frozenset[str]] = field(default_factory=dict)
    _present: set[str] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)

    def newest(self, branch: str) -> Snapshot | None:
        """Return the newest snapshot of a branch that is whole: its head, or an ancestor of it.

        None where there is none, and no such branch. Raises: StorageError of the store; Incomplete.
        """
        ref = self.metadata.refs.get(branch)
        if ref is None:
            return None
        line = ancestors(self.metadata.snapshots_by_id, ref.snapshot_id)
        return next((snapshot for snapshot in line if self.is_whole(snapshot)), None)

    def is_whole(self, snapshot: Snapshot) -> bool:
        """Return whether all that a snapshot lists can be read, and its live entries agree.

        Raises: StorageError of the store; Incomplete.
        """
        self.context.deadline.check()
        try:
            manifests = read_snapshot_manifests(self.context.store, self.metadata, snapshot)
            is_known = any(not self.broken.isdisjoint(_own_files(one)) for one in manifests)
            entries = None if is_known else self._entries(manifests)
            if entries is None:
                return False
            check_live(self.metadata, snapshot, manifests, entries)
            check_head_list(self.context, self.metadata, snapshot, manifests)
        except FileNotFoundError:
            return False
        except (CorruptTable, Unsupported, StorageError) as error:
            of_one_file(error)
            return False
        return self.level == "metadata" or self._are_there(entries)

    def loss_of_dropping(self, snapshot: Snapshot) -> Loss | None:
        """Return what is lost at most where all that a snapshot misses is taken from the table.

        Files that are known to be damaged count as missing. None where more than that is wrong with
        it, nothing is missing, or no row would be left; and for version 4, whose roots and leaves
        are not rewritten.
        Raises: StorageError of the store; Incomplete.
        """
        if self.metadata.format_version > 3:
            return None
        try:
            lost, parts = [], []
            for manifest, read in self._read_manifests(snapshot):
                if read.rows is not None:
                    parts.append(_alive(read.rows, manifest))
                elif isinstance(read.problem, MissingFile | OtherFile) or (
                    isinstance(read.problem, CorruptTable) and read.problem.rule == "R-008"
                ):  # no reader can read it: it is missing, another's, or no Avro file
                    counts = (manifest.added_rows_count, manifest.existing_rows_count)
                    rows = _total(counts)
                    is_data = manifest.content is ManifestContent.DATA
                    lost.append(Loss(rows) if is_data else Loss(rows_back=rows))
                else:
                    return None
            live_entries = concat(parts)
            missing = self._missing(live_entries)
        except (FileNotFoundError, CorruptTable, Unsupported):
            return None
        if missing is None or not [*lost, *missing]:
            return None
        loss = add_up([*lost, *missing])
        rows_found = total(data_files(live_entries), "record_count")
        is_all = rows_found <= sum(missing_file.rows or 0 for missing_file in missing)
        return None if is_all else loss

    def damaged_files(self, snapshot: Snapshot) -> Sequence[str]:
        """Return the live files of a snapshot that are known to be damaged, and there.

        Raises: as loss_of_dropping.
        """
        locations: set[str] = set()
        with suppress(FileNotFoundError, CorruptTable, Unsupported):
            for manifest, read in self._read_manifests(snapshot):
                if read.rows is not None:
                    locations |= _live_locations(read.rows, manifest)
        damaged = sorted(self.broken & locations)
        return [location for location in damaged if self.context.store.stat(location) is not None]

    def needed(self, snapshot: Snapshot) -> frozenset[str]:
        """Return those of the broken locations that a snapshot needs.

        All of them where it cannot be read in whole. Raises: StorageError of the store; Incomplete.
        """
        named = {snapshot.manifest_list or snapshot.root_manifest or ""}
        try:
            for manifest, read in self._read_manifests(snapshot, unless=self._named):
                if read.problem is not None:
                    raise read.problem
                self._named[manifest] = self.broken & _live_locations(read.content[1], manifest)
            for manifest in self._manifests(snapshot):
                named |= {*_own_files(manifest), *self._named[manifest]}
        except (FileNotFoundError, CorruptTable, Unsupported):
            return self.broken
        return self.broken & named

    def replaced(self, head: Snapshot) -> dict[str, list[int]]:
        """Return broken files that were replaced in place, with the snapshots from before.

        Such a file is as large as its entry in the head says, and they state another size.
        Raises: as needed; CorruptTable and others where a list cannot be read.
        """
        own = self._stated(head)
        stored = {location: self.context.store.stat(location) for location in own}
        as_told = {
            location
            for location, status in stored.items()
            if status is not None and own[location] == {status.size_bytes}
        }
        before: dict[str, list[int]] = {}
        for one in self.metadata.snapshots if as_told else ():
            for location, sizes in self._stated(one).items():
                if location in as_told and sizes != own[location]:
                    before.setdefault(location, []).append(one.snapshot_id)
        return before

    def _stated(self, snapshot: Snapshot) -> dict[str, set[int]]:
        """Return the broken files of a snapshot, with the sizes that its entries state."""
        stated: dict[str, set[int]] = {}
        for manifest, read in self._read_manifests(snapshot):
            if read.rows is None:
                continue
            columns = ("location", "file_size_in_bytes")
            for location, size in by_row(_alive(read.rows, manifest), *columns):
                if location in self.broken:
                    stated.setdefault(location, set()).add(size)
        return stated

    def _manifests(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        return read_snapshot_manifests(self.context.store, self.metadata, snapshot, sound=False)

    def _read_manifests(
        self, snapshot: Snapshot, *, unless: Container[ManifestFile] = ()
    ) -> Iterator[tuple[ManifestFile, ManifestRead]]:
        manifests = [one for one in self._manifests(snapshot) if one not in unless]
        read = try_manifests(self.context, self.metadata, manifests, PLANNING_COLUMNS)
        with closing(read):
            yield from zip(manifests, read, strict=True)

    def _missing(self, alive: Entries) -> Sequence[Loss] | None:
        """Return the loss of each live file that is not there, as far as the level looks.

        None where the size of one is another than its entry says.
        """
        missing = set(self.broken)
        if self.level == "files":
            named = distinct(content_files(alive, sized_keys(alive)))
            compared = compare_with_store(self.context, named, self.metadata.location)
            for item in compared.discrepancies:
                is_absent = item.found is None and item.problem is None
                if not is_absent and item.location not in missing:
                    return None
                missing.add(item.location)
        columns = ("location", "content", "record_count")
        return [
            Loss(rows)
            if content == Content.DATA
            else Loss(rows_back=rows if content == Content.POSITION_DELETES else None)
            for location, content, rows in by_row(alive, *columns)
            if location in missing
        ]

    def _entries(self, manifests: Sequence[ManifestFile]) -> Entries | None:
        """Return the entries of manifests, `manifest` being the place there.

        None where one is broken.
        """
        parts = []
        for place, manifest in enumerate(manifests):
            if manifest not in self._read:
                (read,) = try_manifests(self.context, self.metadata, [manifest], PLANNING_COLUMNS)
                rows = None if read.rows is None else with_manifest_number(read.rows, 0)
                self._read[manifest] = None if rows is None else inherit(rows, [manifest])
            entries = self._read[manifest]
            if entries is None:
                return None
            parts.append(with_manifest_number(entries, place))
        return concat(parts)

    def _are_there(self, entries: Entries) -> bool:
        """Whether the files of live entries are in the store, none of them known to be damaged.

        Each is looked for once.
        """
        alive = live(entries)
        if not self.broken.isdisjoint(alive.table["location"].to_pylist()):
            return False
        named = distinct(content_files(alive, sized_keys(alive)))
        if not self._lost.isdisjoint(named.table["key"].to_pylist()):
            return False
        unknown = without(named, pa.array(self._present, pa.string()))
        compared = compare_with_store(self.context, unknown, self.metadata.location)
        lost = [discrepancy.location for discrepancy in compared.discrepancies]
        self._lost.update(including(unknown, lost).table["key"].to_pylist())
        self._present.update(excluding(unknown, lost).table["key"].to_pylist())
        return not lost


def _own_files(manifest: ManifestFile) -> tuple[str, ...]:
    return manifest.manifest_path, *manifest.dead_locations


def _alive(rows: RawEntries, manifest: ManifestFile) -> Entries:
    return live(inherit(with_manifest_number(rows, 0), [manifest]))


def _live_locations(rows: RawEntries, manifest: ManifestFile) -> set[str]:
    return set(_alive(rows, manifest).table["location"].to_pylist())


_MOST_SECONDS = 5.0
"""How long a run that has failed looks for what is whole."""

_LOST = frozenset({ROLL_BACK, RESTORE, ALL_RULES["R-008"].fix})
_GENERAL = _LOST | {CorruptTable.default_hint, OLDER_METADATA, REWRITE_MANIFESTS}
"""Next steps that name neither file nor snapshot, or do not lead out of a file that is broken."""

_GONE = frozenset({"R-024", "R-034"})
"""Rules that files break which are not where the metadata name them."""

_NO_WAY_OUT = "no snapshot of branch {} is complete"


@dataclass(frozen=True, slots=True)
class _Recovery:
    """The ways out of a broken table: a repair of its head, and others by the broken location.

    `is_moved` where the metadata name another place than their own: `repair` relocates them.
    """

    repair: str | None
    others: Mapping[str, str] = field(default_factory=dict)
    is_moved: bool = False

    def of(self, location: str) -> str | None:
        return self.others.get(location, self.repair)


@dataclass(frozen=True, slots=True)
class BrokenTable:
    """A table that something is wrong with; `words` name it to commands that change it."""

    context: TableContext
    words: tuple[str, ...]

    def hint(self, error: CorruptTable) -> str | None:
        """Tell what to do about an error: the way out that loses least, if one is known.

        Cost: some seconds at most, and nothing that goes wrong then is reported.
        """
        if not isinstance(error, MissingFile) and error.hint not in _GENERAL:
            return error.hint
        location = error.location or ""
        recovery = self._recovery("files", frozenset({location} - {""}))
        way_out = None if recovery is None else recovery.of(location)
        if isinstance(error, MissingFile) and (way_out or "").endswith(_NO_WAY_OUT.format("main")):
            return f"{error.hint}; else {way_out}"
        return way_out or error.hint

    def hinted(self, findings: tuple[Finding, ...], level: WholeLevel) -> tuple[Finding, ...]:
        """Return the findings, with the way out that loses least in the place of general hints."""
        general = [
            finding.severity == "error"
            and finding.hint in (_GENERAL if finding.is_unread else _LOST)
            for finding in findings
        ]
        broken = frozenset(finding.subject for finding in compress(findings, general))
        recovery = self._recovery(level, broken) if broken else None
        if recovery is None:
            return findings
        if recovery.is_moved:
            general = [finding.rule in _GONE for finding in findings]
        return tuple(
            replace(finding, hint=recovery.of(finding.subject) or finding.hint)
            if is_general
            else finding
            for finding, is_general in zip(findings, general, strict=True)
        )

    def _recovery(self, level: WholeLevel, broken: frozenset[str]) -> _Recovery | None:
        """Look for ways out; None if that is unknown in time.

        `broken` are locations of what is known to be damaged or missing.
        """
        recoveries: list[_Recovery] = []

        def look() -> None:
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
        try:
            require_safe_base(metadata)
        except CorruptTable as error:  # no commit leads out
            return _Recovery(error.hint)
        env = self.context.env
        deadline = Deadline(env, env.monotonic_seconds() + _MOST_SECONDS)
        quiet = replace(self.context, progress=SilentProgress(), deadline=deadline, concurrency=1)
        search = WholeSnapshots(quiet, metadata, level, broken)
        replaced: dict[str, str] = {}
        with suppress(FileNotFoundError, CorruptTable, Unsupported):
            replaced = self._replaced(metadata, head, search)
        search.broken -= replaced.keys()
        statistics = (
            f"`icectl repair {join(self.words)}` takes it out of the metadata; no row depends on it"
        )
        others = self._elsewhere(metadata, head, search) | replaced
        others |= {entry.statistics_path: statistics for entry in metadata.every_statistics}
        return _Recovery(self._repair(metadata, head, "main", search), others)

    def _replaced(
        self, metadata: TableMetadata, head: Snapshot, search: WholeSnapshots
    ) -> dict[str, str]:
        """Return hints for broken files that are as the current snapshot describes them."""
        heads = {ref.snapshot_id for ref in metadata.refs.values() if ref.type == "branch"}
        return {
            location: "it is as the current snapshot describes it, older ones describe another: "
            f"{expiry_of(metadata, ids, join(self.words))}"
            for location, ids in search.replaced(head).items()
            if heads.isdisjoint(ids)
        }

    def _elsewhere(
        self, metadata: TableMetadata, head: Snapshot, search: WholeSnapshots
    ) -> dict[str, str]:
        """Return hints for broken locations that the current snapshot does not need."""
        others = {location for location in search.broken - search.needed(head) if "/" in location}
        if not others:
            return {}
        needed = {one.snapshot_id: search.needed(one) for one in metadata.snapshots}
        hints = {}
        for location in others:
            ids = [snapshot_id for snapshot_id, places in needed.items() if location in places]
            if not ids:  # of what needs it the finding's own hint says more
                continue
            heads = (
                name
                for name, ref in metadata.refs.items()
                if ref.type == "branch" and ref.snapshot_id in ids
            )
            branch = next(heads, None)
            if branch is not None:  # its old head is left for the next run
                of_branch = metadata.snapshots_by_id[metadata.refs[branch].snapshot_id]
                repair = self._repair(metadata, of_branch, branch, search)
                if repair is not None:
                    hints[location] = f"branch {print_text(branch)} needs it: {repair}"
            else:
                expiry = expiry_of(metadata, ids, join(self.words))
                hints[location] = f"the current snapshot does not need it: {expiry}"
        return hints

    def _repair(
        self, metadata: TableMetadata, head: Snapshot, branch: str, search: WholeSnapshots
    ) -> str | None:
        """Name the repair of a branch that costs least, with its cost; None where it is whole."""
        words = self.words if branch == "main" else (*self.words, "--branch", branch)
        table, target = join(words), search.newest(branch)
        if target == head:
            return None
        repairs = [] if target is None else [going_back(metadata, head, target)]
        loss = search.loss_of_dropping(head)
        repairs += [] if loss is None else [dropping(loss)]
        if not repairs:
            no_way_out = _NO_WAY_OUT.format(print_text(branch))
            return f"`icectl repair {table} --dry-run` shows what can be rebuilt: {no_way_out}"
        best = min(repairs, key=lambda way: way.order)
        repair = f"`{best.command(*self.words, branch=branch)}` {best.loss}"
        damaged = search.damaged_files(head)
        if damaged and "--to-snapshot" not in best.options:
            files, them = f"`{damaged[0]}`", "it"
            if len(damaged) > 1:
                files, them = f"the {len(damaged)} damaged files", "them"
            return f"restore {files} from a copy; else move {them} away, and {repair}"
        if len(repairs) > 1:
            return f"{repair}; `icectl repair {table} --dry-run` compares the options"
        if loss is None and metadata.format_version < 4:  # a list or manifest, which may be proved
            return (
                f"`icectl repair {table} --dry-run` shows whether it can be rebuilt; else {repair}"
            )
        return repair

    def _older_metadata(self, *, is_cut_off: bool) -> str:
        metadata_file = getattr(self.context.catalog, "metadata_file", None)
        folder = locations.join(self.words[0], METADATA_FOLDER)
        if metadata_file is not None:
            folder = locations.parent(metadata_file)
        versions = list_versions(self.context.store, folder)
        broken = (
            metadata_file or newest(versions, lambda version: version.modified_ms or 0).location
        )
        whole = newest_whole_metadata(self.context.store, versions, broken)
        name, table = locations.name(broken), join(self.words)
        if whole is None:
            return f"no metadata file before {name} is complete: restore it from a copy"
        before = whole.version.location
        text = f"the newest complete metadata file before {name} is `{before}`"
        if metadata_file is not None or not is_file_system_table(versions):
            return f"{text}: point the catalog at it, or restore {name} from a copy"
        shown = f"{text}: `icectl inspect {quote(before)}` shows it"
        if not is_cut_off:
            return (
                f"{shown}; restore {name} from a copy, or correct it with the engine that wrote it"
            )
        return f"{shown}, and `icectl repair {table}` rolls back to it if that is safe"
