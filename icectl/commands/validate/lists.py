"""The checks of snapshots by their layout, and that of manifest lists, manifests and live files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.bound_types import BoundTypes, types_of_bounds
from icectl.checks.live_entries import chosen_manifests, expected_places, live_faults
from icectl.checks.objects import (
    CHECKED_COLUMNS,
    EntriesKind,
    LiveSnapshot,
    ManifestEntries,
    ManifestList,
    StoredManifest,
    kind_of_entries,
)
from icectl.checks.rule import Finding
from icectl.checks.rules import READ_AGAIN, RULES, RuleChoice, finding, unread_finding
from icectl.entries.columns import Mask, mask_of
from icectl.entries.conditions import Predicate
from icectl.entries.inherit import inherit
from icectl.entries.may_match import files_may_match, manifests_may_match
from icectl.entries.rows import Entries, RawEntries, concat, planning, where, with_manifest_number
from icectl.errors import CorruptTable, MissingFile, OtherFile
from icectl.format.layout import Layout, layout_of_table
from icectl.format.manifest import ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.progress import SilentProgress
from icectl.table.manifest_lists import ManifestListRead, try_manifest_lists
from icectl.table.manifests import ManifestRead, try_manifests
from icectl.table.reader import Reader
from icectl.table.reading import Problem

_CHECKS: Mapping[Layout, str] = {
    Layout.MANIFEST_LISTS: "icectl.commands.validate.lists",
    Layout.SFC_1: "icectl.commands.validate.sfc1",
}
"""Modules with a function `check`: loaded where there is such a snapshot."""

_ROWS_TOGETHER, _MANIFESTS_TOGETHER = 2_000, 500
"""How many entries a small manifest has at most, and how many of these are checked together."""


@dataclass(slots=True)
class CheckTally:
    """Findings and counts while a check is under way; a finding that comes again counts once.

    `within` is a condition: manifests and files without a row that matches are skipped. Live files
    of skipped manifests are as their lists count them, `skipped_files` those of other manifests.
    """

    rules: RuleChoice
    within: Predicate | None = None
    findings: dict[Finding, None] = field(default_factory=dict)
    snapshots: int = 0
    files: int = 0
    bytes_read: int = 0
    contents_read: int = 0
    skipped_manifests: dict[str, int] = field(default_factory=dict)
    skipped_files: int = 0

    def add(self, findings: Iterable[Finding]) -> None:
        """Keep what is to be reported."""
        self.findings.update(dict.fromkeys(filter(self.rules.keeps, findings)))

    def count_file(self, size_bytes: int | None) -> None:
        """One more file was looked at."""
        self.files += 1
        self.bytes_read += size_bytes or 0

    def skip(self, manifests: Iterable[ManifestFile]) -> None:
        """Count manifests that are not read."""
        for manifest in manifests:
            self.skipped_manifests[manifest.manifest_path] = manifest.live_files or 0

    def matching(self, entries: Entries, metadata: TableMetadata) -> Mask:
        """Return which files may have a matching row; `entries` have METRICS.

        Raises: CorruptTable R-068.
        """
        if self.within is None:
            return np.ones(len(entries), np.bool_)
        specs, schemas = metadata.partition_specs, metadata.schemas
        return files_may_match(entries, self.within, specs, schemas)

    def chosen(self, alive: Entries, matching: Mask) -> Entries:
        """Return the live files that may have a matching row, and count the others."""
        chosen = where(alive, matching)
        self.skipped_files += len(alive) - len(chosen)
        return chosen


@dataclass(frozen=True, slots=True)
class SnapshotsChecked:
    """What deeper levels look at, once snapshots of one layout are checked at level `metadata`.

    `live` are the planning columns of entries that live, `chosen` those of them to look at, `lists`
    the manifests of snapshots whose lists or roots are whole; `manifests` tells those that can be
    read. `of_files` and `of_contents` find what the layout has to check further where files are
    looked for, and where they are read.
    """

    live: Entries
    chosen: Entries
    lists: Mapping[int, Sequence[ManifestFile]]
    manifests: Callable[[], Sequence[ManifestFile]]
    of_files: Callable[[], Iterable[Finding]] = tuple
    of_contents: Callable[[], Iterable[Finding]] = tuple


CheckSnapshots = Callable[[Reader, Sequence[Snapshot], CheckTally], SnapshotsChecked]


def check_snapshots_of(layout: Layout) -> CheckSnapshots:
    """Return the check of snapshots of one layout at level `metadata`."""
    check: CheckSnapshots = import_module(_CHECKS[layout]).check
    return check


# -- manifest lists and manifests -----------------------------------------------------------------


def check(reader: Reader, snapshots: Sequence[Snapshot], found: CheckTally) -> SnapshotsChecked:
    """Check snapshots that list their manifests in manifest lists, or embed them.

    Raises: StorageError where the store itself fails; Incomplete at the deadline.
    Cost: every manifest list and manifest once; planning columns of their entries in memory.
    """
    lists: list[ManifestListRead] = []
    metadata = reader.metadata
    read = try_manifest_lists(reader.context, metadata, snapshots)
    with closing(read):
        for listed in read:
            reader.context.deadline.check()
            found.snapshots += 1
            found.count_file(listed.size_bytes)
            found.add(_of_list(reader, *problem) for problem in listed.problems)
            of_list = (listed.snapshot, listed.properties, listed.manifests)
            found.add(RULES.findings(ManifestList(metadata, *of_list)))
            lists.append(listed)
    rows: dict[str, dict[ManifestFile, None]] = {}
    for listed in lists:
        for manifest in listed.manifests:
            rows.setdefault(manifest.manifest_path, {})[manifest] = None
    described = {location: tuple(distinct) for location, distinct in rows.items()}
    if found.within is not None:
        described = _described_within(metadata, described, found.within)
        found.skip(next(iter(rows[place])) for place in rows.keys() - described.keys())
    entries, numbers, matching = _check_manifests(reader, described, found)
    faults = live_faults(entries, len(numbers), expected_places(metadata))
    reader.context.progress.phase("checking snapshots", total=len(lists))
    for listed in lists:
        reader.context.deadline.check()
        known = [numbers.get(manifest.manifest_path) for manifest in listed.manifests]
        chosen = [number for number in known if number is not None]
        is_whole = not listed.problems and len(chosen) == len(known)
        flags = chosen_manifests(set(chosen), len(numbers))
        alive = LiveSnapshot(metadata, listed.snapshot, chosen, faults, flags, is_whole)
        found.add(RULES.findings(alive))
        reader.context.progress.advance(1)
    is_live = pc.not_equal(entries.table["status"], Status.DELETED)
    files = where(entries, is_live)
    return SnapshotsChecked(
        files,
        found.chosen(files, matching[mask_of(is_live)]),
        {one.snapshot.snapshot_id: one.manifests for one in lists if not one.problems},
        lambda: [rows[0] for rows in described.values()],
    )


def _described_within(
    metadata: TableMetadata, described: Mapping[str, Sequence[ManifestFile]], within: Predicate
) -> dict[str, tuple[ManifestFile, ...]]:
    """Return manifests that may list files with a matching row, or deletes that apply to some.

    Deletes apply to files of their partition, or are of no partition and may always match (R-112).
    """
    rows = [row for of_manifest in described.values() for row in of_manifest]
    may = manifests_may_match(rows, within, metadata.partition_specs, metadata.schemas)
    wanted = {row.manifest_path for row in compress(rows, may.tolist())}
    return {place: tuple(described[place]) for place in described if place in wanted}


def _of_list(reader: Reader, location: str, problem: Problem) -> Finding:
    """Return the finding of a manifest list; version 4 may have a root instead."""
    has_roots = layout_of_table(reader.metadata) is Layout.SFC_1
    may_be_root = has_roots and type(problem) is CorruptTable
    if may_be_root and reader.context.store.read_range(location, 0, 4) == b"PAR1":  # V4-035
        message = "it is a Parquet file, where a snapshot names a manifest list"
        return finding("V4-035", location, message, severity="error")
    return _unreadable(location, problem)


def _check_manifests(
    reader: Reader, described: Mapping[str, Sequence[ManifestFile]], tally: CheckTally
) -> tuple[Entries, Mapping[str, int | None], Mask]:
    """Read every manifest once.

    First: the planning columns of all entries; their `manifest` is the number of the manifest.
    Second: the number of each manifest, None where it could not be read. Third: which entries
    match the condition of the check.
    """
    metadata = reader.metadata
    manifests = [rows[0] for rows in described.values()]
    types = types_of_bounds(metadata)
    parts: list[Entries] = []
    matching = [np.ones(0, np.bool_)]
    numbers: dict[str, int | None] = dict.fromkeys(described)
    progress = reader.context.progress
    progress.phase("checking manifests", total=len(manifests))
    quiet = replace(reader.context, progress=SilentProgress())  # what is read is not yet checked
    read = try_manifests(quiet, metadata, manifests, CHECKED_COLUMNS)
    with closing(read):
        for item, is_sound in _with_soundness(metadata, manifests, read, types):
            reader.context.deadline.check()
            progress.advance(1)
            manifest = manifests[item.index]
            tally.count_file(item.size_bytes)
            if item.problem is not None or item.size_bytes is None:
                tally.add([_unreadable(manifest.manifest_path, item.problem)])
                continue
            header, rows = item.content
            rows_of_lists = described[manifest.manifest_path]
            entries = ManifestEntries(metadata, manifest, header, rows, types)
            stored = StoredManifest(metadata, rows_of_lists, header, item.size_bytes, entries)
            tally.add(RULES.findings(stored))
            faults = () if is_sound else tuple(RULES.findings(entries))
            tally.add(faults)
            try:
                inherited = inherit(with_manifest_number(planning(rows), 0), [manifest])
                matching.append(tally.matching(Entries(rows.table), metadata))
                parts.append(with_manifest_number(inherited, item.index))
            except CorruptTable as error:
                if error.rule not in {fault.rule for fault in faults}:
                    tally.add([_unreadable(manifest.manifest_path, error)])
            else:
                numbers[manifest.manifest_path] = item.index
    return concat(parts), numbers, np.concatenate(matching)


def _with_soundness(
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    read: Iterable[ManifestRead],
    types: BoundTypes,
) -> Iterator[tuple[ManifestRead, bool]]:
    """Yield manifests with whether their entries are known to break no rule.

    Small ones of one kind are checked together: most have few entries, and the cost is by check.
    """
    for chunk in _chunks(read):
        by_kind: dict[EntriesKind, list[ManifestRead]] = {}
        for item in chunk:
            if item.header is not None and len(item.content[1]) < _ROWS_TOGETHER:
                kind = kind_of_entries(manifests[item.index], item.header)
                by_kind.setdefault(kind, []).append(item)
        sound: set[int] = set()
        for alike in by_kind.values():
            if len(alike) > 1 and are_sound_together(metadata, manifests, alike, types):
                sound |= {item.index for item in alike}
        for item in chunk:
            yield item, item.index in sound


def _chunks(read: Iterable[ManifestRead]) -> Iterator[list[ManifestRead]]:
    chunk: list[ManifestRead] = []
    row_count = 0
    for item in read:
        chunk.append(item)
        row_count += 0 if item.rows is None else len(item.rows)
        if row_count >= _ROWS_TOGETHER or len(chunk) == _MANIFESTS_TOGETHER:
            yield chunk
            chunk, row_count = [], 0
    yield chunk


def are_sound_together(
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    alike: Sequence[ManifestRead],
    types: BoundTypes,
) -> bool:
    """Return whether the entries of manifests of one kind, as one, break no rule."""
    rows = [item.content[1] for item in alike]
    added_by = [manifests[item.index].added_snapshot_id or 0 for item in alike]
    first, header = manifests[alike[0].index], alike[0].content[0]
    together = ManifestEntries(
        metadata,
        first,
        header,
        RawEntries(pa.concat_tables([part.table for part in rows]).combine_chunks()),
        types,
        np.repeat(added_by, [len(part) for part in rows]),
    )
    return next(RULES.findings(together), None) is None


def _unreadable(location: str, problem: Problem | None) -> Finding:
    """Return the finding of an unreadable file, by its broken rule or as missing (R-034)."""
    if isinstance(problem, MissingFile):
        return finding("R-034", location, "the file is missing")
    if isinstance(problem, CorruptTable):
        rule, reason = problem.rule, problem.reason
        if isinstance(problem, OtherFile):
            return finding(rule, location, reason, severity="error", hint=problem.hint)
        return unread_finding(rule, location, reason, severity="error")
    return unread_finding(
        "R-034", location, "" if problem is None else problem.reason, hint=READ_AGAIN
    )
