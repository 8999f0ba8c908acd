"""Search live entries for broken rules: of many snapshots at once, or of a change's base.

Snapshots share most of their manifests. Each rule therefore searches the entries of all distinct
manifests once; a snapshot then only selects among the few candidates found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.rule import Breach, located
from icectl.entries import rows as vocabulary
from icectl.entries.columns import LOCATION_HASH, Integers, Mask, distinct_count, mask_of
from icectl.entries.rows import Entries, location_keys, numbers, repeats
from icectl.entries.summary import Totals
from icectl.format.manifest import Content, FileFormat, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.format.properties import DATA_PATH
from icectl.format.rule import REMOVE_STATISTICS, Fault
from icectl.format.snapshot import Snapshot

_TAIL = 64
"""Bytes at the end of a location, which name its file."""

LARGEST_FILE = 2**48
"""Bytes, more than any store takes in one file."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


def fault_of(places: npt.NDArray[Any], locations: pa.Array | pa.ChunkedArray) -> Fault | None:
    """Return the entries at places, which ascend; None where there are none."""
    return Fault(len(places), locations[int(places[0])].as_py()) if len(places) else None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows that share something two live entries of a snapshot must not share.

    `groups` numbers what is shared; rows of one group that lie in one snapshot are a fault.
    """

    groups: Integers
    manifests: Integers
    locations: pa.Array

    def in_snapshot(self, chosen: npt.NDArray[np.bool_]) -> Fault | None:
        """Return the repetitions among the rows of the chosen manifests."""
        here = np.flatnonzero(chosen[self.manifests])
        _, first = np.unique(self.groups[here], return_index=True)
        return fault_of(np.setdiff1d(here, here[first]), self.locations)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Deletion vectors with the live rows of the data files that they are for.

    `pairs` holds (vector, manifest of the data file, whether partitions agree), vectors numbered.
    """

    manifests: Integers
    named: pa.Array
    pairs: Integers

    def lost(self, chosen: npt.NDArray[np.bool_]) -> Fault | None:
        """Return vectors whose data file is not live in the chosen manifests (R-116)."""
        lost = np.zeros(len(self.manifests), np.bool_)
        lost[self.pairs[chosen[self.pairs[:, 1]], 0]] = True
        return fault_of(np.flatnonzero(chosen[self.manifests] & ~lost), self.named)

    def elsewhere(self, chosen: npt.NDArray[np.bool_]) -> Fault | None:
        """Return vectors of another partition than their data file (R-211)."""
        differing = self.pairs[self.pairs[:, 2] == 0]
        here = chosen[differing[:, 1]] & chosen[self.manifests[differing[:, 0]]]
        return fault_of(np.unique(differing[here, 0]), self.named)


@dataclass(frozen=True, slots=True)
class RowIds:
    """Row ids of live data files, sorted by where they begin."""

    starts: Integers
    ends: Integers
    manifests: Integers
    locations: pa.Array

    def overlapping(self, chosen: npt.NDArray[np.bool_]) -> Fault | None:
        """Return files whose row ids begin before those of the file before them end (R-103)."""
        here = np.flatnonzero(chosen[self.manifests])
        wrong = here[overlapping(self.starts[here], self.ends[here])]
        return fault_of(wrong, self.locations)


@dataclass(frozen=True, slots=True)
class LiveFaults:
    """The facts that snapshots are checked with; manifests are numbered as in the entries."""

    totals: Sequence[Totals]
    greatest_number: Integers
    greatest_row_id: Integers
    outside: Mapping[int, Fault] = field(repr=False)
    repeated: Candidates
    repeated_vectors: Candidates
    overlapping_vectors: Candidates
    vectors: Vectors
    row_ids: RowIds


def live_faults(entries: Entries, manifest_count: int, roots: Sequence[str]) -> LiveFaults:
    """Prepare the checks; `roots` are the places where the table's files should lie.

    Cost: n log n over all entries; for a snapshot only its manifests and the candidates.
    """
    planned = vocabulary.planning(entries)
    is_live = _numbers(planned, "status") != Status.DELETED
    alive = planned if is_live.all() else vocabulary.where(planned, is_live)
    is_vector = (_numbers(alive, "content") == Content.POSITION_DELETES) & (
        _numbers(alive, "file_format") == FileFormat.PUFFIN
    )
    vectors, files = Entries(alive.table.slice(0, 0)), alive
    if is_vector.any():
        vectors, files = vocabulary.where(alive, is_vector), vocabulary.where(alive, ~is_vector)
    is_data = _numbers(files, "content") == Content.DATA
    data = files if is_data.all() else vocabulary.where(files, is_data)
    keys = location_keys(files.table["location"])
    starts = pc.fill_null(files.table["first_row_id"], -1).to_numpy()
    ends = starts + numbers(files, "record_count")
    return LiveFaults(
        totals=_totals(alive, is_vector, manifest_count),
        greatest_number=_greatest(alive, numbers(alive, "sequence_number"), manifest_count),
        greatest_row_id=_greatest(files, np.where(starts < 0, -1, ends), manifest_count),
        outside=files_outside(files, keys, roots),
        repeated=_candidates(files, keys),
        repeated_vectors=_candidates(vectors, location_keys(vectors.table["referenced_data_file"])),
        overlapping_vectors=_overlapping(vectors),
        vectors=_vectors(vectors, data),
        row_ids=_row_id_ranges(data),
    )


def _numbers(entries: Entries, column: str) -> npt.NDArray[np.int8]:
    return np.asarray(entries.table[column].to_numpy(), np.int8)


def _totals(
    alive: Entries, is_vector: npt.NDArray[np.bool_], manifest_count: int
) -> Sequence[Totals]:
    """Return files, bytes and records of each manifest."""
    manifests, content = numbers(alive, "manifest"), _numbers(alive, "content")
    records = numbers(alive, "record_count")
    sizes = np.where(
        is_vector, _filled(alive, "content_size_in_bytes"), numbers(alive, "file_size_in_bytes")
    )
    sums = []
    for chosen in (
        content == Content.DATA,
        (content == Content.POSITION_DELETES) & ~is_vector,
        content == Content.EQUALITY_DELETES,
        is_vector,
    ):
        for values in (np.ones(len(alive), np.int64), sizes, records):
            found = np.zeros(manifest_count, np.int64)
            np.add.at(found, manifests[chosen], values[chosen])
            sums.append(found.tolist())
    return [Totals(*counts) for counts in zip(*sums, strict=True)]


def _filled(entries: Entries, column: str) -> Integers:
    """Return a column of numbers, 0 where there is none."""
    return np.asarray(pc.fill_null(entries.table[column], 0).to_numpy(), np.int64)


def _greatest(entries: Entries, values: Integers, manifest_count: int) -> Integers:
    greatest = np.full(manifest_count, -1, np.int64)
    np.maximum.at(greatest, numbers(entries, "manifest"), values)
    return greatest


def files_outside(
    files: Entries, keys: pa.ChunkedArray, roots: Sequence[str]
) -> Mapping[int, Fault]:
    """Return files that lie below none of the roots, by manifest.

    `keys` are those of their locations.
    """
    prefixes = location_keys(pa.chunked_array([pa.array(roots, pa.string())])).to_pylist()
    inside = np.zeros(len(files), np.bool_)
    for prefix in prefixes:
        starts = pc.starts_with(keys, pattern=prefix.rstrip("/") + "/")
        inside |= np.asarray(pc.fill_null(starts, fill_value=True).to_numpy(), np.bool_)
    places = np.flatnonzero(~inside)
    manifests, first, count = np.unique(
        numbers(files, "manifest")[places], return_index=True, return_counts=True
    )
    return {
        int(manifest): Fault(int(number), files.table["location"][int(places[at])].as_py())
        for manifest, at, number in zip(manifests, first, count, strict=True)
    }


def _candidates(entries: Entries, keys: pa.ChunkedArray) -> Candidates:
    """Return the rows whose key another row has too; null keys have nothing in common.

    Keys are compared by their last bytes first, so that few of them are compared as a whole.
    """
    prints = np.concatenate([np.zeros(0, np.uint64), *map(fingerprints, keys.chunks)])
    order = np.argsort(prints, kind="stable")
    same = np.flatnonzero(prints[order][1:] == prints[order][:-1])
    alike = np.unique(np.concatenate([order[same], order[same + 1]]))
    chosen = keys.take(pa.array(alike)).combine_chunks()
    codes = chosen.dictionary_encode()
    indices = np.asarray(pc.fill_null(codes.indices, -1).to_numpy(), np.int64)
    times = np.bincount(indices[indices >= 0], minlength=len(codes.dictionary) + 1)
    repeated = np.flatnonzero((indices >= 0) & (times[indices] > 1))
    rows = alike[repeated]
    return Candidates(
        indices[repeated],
        numbers(entries, "manifest")[rows],
        entries.table["location"].take(pa.array(rows)).combine_chunks(),
    )


def fingerprints(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a number for each text that equal texts share: of its length and its last bytes."""
    if not len(keys):
        return np.zeros(0, np.uint64)
    _, offsets, content = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    stored = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    base = int(ends[0])
    # Bytes before the first text stand in for those that short texts lack.
    padded = np.concatenate([np.zeros(_TAIL, np.uint8), stored[base : int(ends[-1])]])
    # Eight bytes at every offset, aligned or not, as one number.
    words = np.ndarray((len(padded) - 7,), "<u8", padded, 0, (1,))
    hashes = np.diff(ends).astype(np.uint64)
    last = ends[1:].astype(np.int64) - base + _TAIL
    lengths = np.diff(ends)
    for back in range(8, _TAIL + 1, 8):
        word = words[last - back]
        hashes ^= np.where(lengths >= back, word, np.uint64(0))
        hashes *= _ODD
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _overlapping(vectors: Entries) -> Candidates:
    """Return vectors that share bytes of a Puffin file, other than being the same vector."""
    if not len(vectors):
        return Candidates(*(np.zeros(0, np.int64),) * 2, pa.array([], pa.string()))
    files = location_keys(vectors.table["location"]).combine_chunks().dictionary_encode()
    file = np.asarray(files.indices.to_numpy(), np.int64)
    start = _filled(vectors, "content_offset")
    end = start + _filled(vectors, "content_size_in_bytes")
    order = np.lexsort((end, start, file))
    file, start, end = file[order], start[order], end[order]
    same_file = file[1:] == file[:-1]
    shares = (
        same_file & (start[1:] < end[:-1]) & ((start[1:] != start[:-1]) | (end[1:] != end[:-1]))
    )
    later = np.flatnonzero(shares) + 1
    rows = np.concatenate([later - 1, later])
    return Candidates(
        np.concatenate([np.arange(len(later))] * 2).astype(np.int64),
        numbers(vectors, "manifest")[order][rows],
        vectors.table["location"].combine_chunks().take(pa.array(order[rows])),
    )


def _vectors(vectors: Entries, data: Entries) -> Vectors:
    named = vectors.table["referenced_data_file"].combine_chunks()
    keys = pc.unique(location_keys(vectors.table["referenced_data_file"]))
    known = pc.drop_null(keys)
    wanted = vocabulary.index_in(location_keys(vectors.table["referenced_data_file"]), known)
    indexes = vocabulary.index_in(location_keys(data.table["location"]), known)
    data_rows = np.flatnonzero(indexes >= 0)
    order = data_rows[np.argsort(indexes[data_rows], kind="stable")]
    starts = np.searchsorted(indexes[order], np.arange(len(known) + 1))
    pairs: list[tuple[int, int, int]] = []
    manifests = numbers(data, "manifest")
    groups = []
    for name in vocabulary.GROUP_KEYS:
        values = pc.unique(vectors.table[name])
        groups.append([vocabulary.index_in(of.table[name], values) for of in (data, vectors)])
    for vector, at in enumerate(wanted.tolist()):
        if at < 0:
            continue
        for row in order[starts[at] : starts[at + 1]].tolist():
            agree = all(of_data[row] == of_vectors[vector] for of_data, of_vectors in groups)
            pairs.append((vector, int(manifests[row]), int(agree)))
    return Vectors(
        numbers(vectors, "manifest"), named, np.array(pairs, np.int64).reshape(len(pairs), 3)
    )


def _row_id_ranges(data: Entries) -> RowIds:
    starts = np.asarray(pc.fill_null(data.table["first_row_id"], -1).to_numpy(), np.int64)
    numbered = np.flatnonzero(starts >= 0)
    order = numbered[np.argsort(starts[numbered], kind="stable")]
    return RowIds(
        starts[order],
        starts[order] + numbers(data, "record_count")[order],
        numbers(data, "manifest")[order],
        data.table["location"].combine_chunks().take(pa.array(order)),
    )


def expected_places(metadata: TableMetadata) -> Sequence[str]:
    """Return the places where files of the table should lie (R-161)."""
    data_path = metadata.properties.get(DATA_PATH.name)
    return [metadata.location, *([data_path] if data_path else [])]


def chosen_manifests(numbers_: Set[int], manifest_count: int) -> npt.NDArray[np.bool_]:
    """Flag the manifests that a snapshot lists."""
    flags = np.zeros(manifest_count, np.bool_)
    flags[list(numbers_)] = True
    return flags


# -- what a change is planned with ----------------------------------------------------------------


_LOCAL = ("file:", "file://")
"""What may come before a path of this machine."""

IS_METADATA = "is a metadata file of the table, too"
IS_STATISTICS = "is a statistics file of the table, too"

_METADATA_ENDINGS = (".avro", ".json", ".gz", ".text")
"""How names of metadata files end, beside those that only the lists of a table tell."""


class RowlessFiles:
    """The files of a table that hold no rows: its metadata files, and those of statistics.

    `manifests` are known ones. Those that only older snapshots list are known by their names, in
    the folders of the others; `names` has the rest. One of these is for all parts of a plan.
    """

    def __init__(self, metadata: TableMetadata, manifests: Iterable[ManifestFile]) -> None:
        known = {item.manifest_list or item.root_manifest for item in metadata.snapshots}
        known |= {item.manifest_path for item in manifests}
        logged = (item.metadata_file for item in metadata.metadata_log)
        known |= {file for file in logged if file.endswith((".metadata.json", ".metadata.json.gz"))}
        named = pa.array(filter(None, known), pa.string())
        self._metadata = _spelled(named)
        self._folders = {_folder(key) for key in location_keys(named).to_pylist()}
        statistics = {item.statistics_path for item in metadata.every_statistics}
        self._statistics = _spelled(pa.array(statistics, pa.string()))
        self.names = frozenset({*named.to_pylist(), *statistics})

    def metadata_among(self, table: pa.Table) -> Mask:
        """Find entries that name a metadata file; `table` has their location and format."""
        locations = table["location"]
        found = mask_of(pc.is_in(locations, self._metadata))
        is_odd = ~mask_of(pc.ends_with(locations, ".parquet"))
        is_odd &= mask_of(pc.not_equal(table["file_format"], int(FileFormat.AVRO)))
        for ending in _METADATA_ENDINGS if is_odd.any() else ():
            places = np.flatnonzero(is_odd & mask_of(pc.ends_with(locations, ending)))
            keys = location_keys(locations.take(pa.array(places))).to_pylist()
            found[places] |= np.array([_folder(key) in self._folders for key in keys], np.bool_)
        return found

    def statistics_among(self, table: pa.Table) -> Mask:
        """Find entries that name a file of statistics; `table` has their location."""
        return mask_of(pc.is_in(table["location"], self._statistics))


def _folder(key: str) -> str:
    return key.rpartition("/")[0]


def _spelled(locations: pa.Array) -> pa.Array:
    """Return locations in all spellings that a path of this machine may have."""
    keys = location_keys(locations).to_pylist()
    spelled = [f"{scheme}{key}" for key in keys for scheme in _LOCAL if key[:1] == "/"]
    return pa.array([*keys, *spelled], pa.string())


class LiveView(Protocol):
    """The live files of a snapshot, by their rows in columns of entries."""

    subject: str
    next_row_id: int | None

    def has(self, *names: str) -> bool:
        """Return whether columns were loaded."""

    def numbers(self, name: str) -> Integers:
        """Return a number column; null is -1."""

    def breaches(self, what: str, rows: Integers, column: str = "location") -> Iterator[Breach]:
        """Yield one breach for all rows that have the same thing wrong."""

    @property
    def data(self) -> Integers:
        """The data files."""

    @property
    def repeated_files(self) -> Integers:
        """Files but for delete vectors that an earlier row lists."""


class LiveRows:
    """The live rows of entries that a change of a snapshot is planned with.

    Columns that were not loaded are not there; what they would show is not looked for. Rows may
    be part of a snapshot that has deletes elsewhere (`beside_deletes`). `rowless` are files that no
    row may name.
    """

    def __init__(
        self,
        entries: Entries,
        metadata: TableMetadata,
        snapshot: Snapshot,
        subject: str | None = None,
        *,
        beside_deletes: bool = False,
        rowless: RowlessFiles | None = None,
    ) -> None:
        self.beside_deletes = beside_deletes
        self.rowless = rowless or RowlessFiles(metadata, ())
        self.table = entries.table
        self.metadata = metadata
        self.snapshot = snapshot
        self.next_row_id = metadata.next_row_id
        self.subject = subject or f"snapshot {snapshot.snapshot_id}"
        self.is_live = _numbers(entries, "status") != Status.DELETED
        content = _numbers(entries, "content")
        self.is_data = self.is_live & (content == Content.DATA)
        self.is_vector = self.is_live & (content == Content.POSITION_DELETES)
        if self.is_vector.any():
            self.is_vector &= _numbers(entries, "file_format") == FileFormat.PUFFIN

    def has(self, *names: str) -> bool:
        """Return whether columns were loaded."""
        return set(names) <= set(self.table.column_names)

    def numbers(self, name: str) -> Integers:
        """Return a number column; null is -1."""
        column = self.table[name]
        filled = pc.fill_null(column, -1) if column.null_count else column
        return np.asarray(filled.to_numpy(), np.int64)

    def keys(self, name: str, mask: Mask) -> pa.ChunkedArray:
        """Return a column of locations in the form that they are compared in, of some rows."""
        column = self.table[name]
        return location_keys(column if mask.all() else column.filter(pa.array(mask)))

    def breaches(self, what: str, rows: Integers, column: str = "location") -> Iterator[Breach]:
        """Yield one breach for all rows that have the same thing wrong."""
        if len(rows) and not self.has(column):
            yield Breach(f"one of {len(rows):,} of its files {what}")
        elif len(rows):
            yield from located(self.subject, fault_of(rows, self.table[column]), what)

    @cached_property
    def data(self) -> Integers:
        return np.flatnonzero(self.is_data)

    @cached_property
    def repeated_files(self) -> Integers:
        files = self.is_live & ~self.is_vector
        return np.flatnonzero(files)[repeated_places(self.keys("location", files))]


def deletes_in_version_1(live: LiveRows) -> Iterator[Breach]:
    """Find deletes, which readers of version 1 do not know (R-120)."""
    if live.metadata.format_version == 1:
        what = "is a delete file in a table of version 1, whose readers know none"
        yield from live.breaches(what, np.flatnonzero(live.is_live & ~live.is_data))


def late(live: LiveRows) -> Iterator[Breach]:
    """Find sequence numbers above that of the snapshot (R-044, V4-064)."""
    if live.metadata.format_version > 1 and live.has("sequence_number"):
        last = live.snapshot.sequence_number
        wrong = live.is_live & (live.numbers("sequence_number") > last)
        what = f"has a sequence number above that of its snapshot, {last}"
        yield from live.breaches(what, np.flatnonzero(wrong))


def renumbered(live: LiveRows) -> Iterator[Breach]:
    """Find data sequence numbers that no writer gives, where deletes go by them (R-044).

    Only rewritten files keep an older number than that of the commit that added them.
    """
    wanted = ("sequence_number", "file_sequence_number", "snapshot_id", "content")
    has_deletes = (live.is_live & ~live.is_data).any() or live.beside_deletes
    if live.metadata.format_version == 1 or not has_deletes or not live.has(*wanted):
        return
    numbers, given = live.numbers("sequence_number"), live.numbers("file_sequence_number")
    later = live.is_live & (given >= 0) & (numbers > given)
    what = "has a data sequence number above the one of the commit that added it"
    yield from live.breaches(what, np.flatnonzero(later))
    other = live.is_live & (numbers != given) & (given >= 0) & ~later
    equality = live.numbers("content") == Content.EQUALITY_DELETES
    appended = [one.snapshot_id for one in live.metadata.snapshots if one.operation == "append"]
    added = live.is_data & np.isin(live.numbers("snapshot_id"), appended)
    what = "has another data sequence number than the commit that added it"
    yield from live.breaches(what, np.flatnonzero(other & (equality | added)))


def live_again(live: LiveRows) -> Iterator[Breach]:
    """Find files that are live more than once (R-066)."""
    if live.has("location"):
        yield from live.breaches("is live again", live.repeated_files)
    elif live.has(LOCATION_HASH):
        files = live.is_live & ~live.is_vector
        hashes = np.asarray(live.table[LOCATION_HASH].to_numpy(), np.uint64)[files]
        count = len(hashes) - distinct_count(hashes)
        if count:
            yield Breach(f"{count:,} of its files are live again")


def unreadable_formats(live: LiveRows) -> Iterator[Breach]:
    """Find rows in files of a format that has none (R-063)."""
    formats = live.numbers("file_format") if live.has("file_format") else None
    if formats is not None:
        wrong = live.is_live & (formats == FileFormat.UNKNOWN)
        wrong |= live.is_live & ~live.is_vector & (formats == FileFormat.PUFFIN)
        yield from live.breaches("is in a format that has no rows", np.flatnonzero(wrong))


def naming_metadata(live: LiveRows) -> Iterator[Breach]:
    """Find data and delete files that are metadata files, too (R-063)."""
    if live.has("location", "file_format"):
        named = np.flatnonzero(live.is_live & live.rowless.metadata_among(live.table))
        yield from live.breaches(IS_METADATA, named)


def naming_statistics(live: LiveRows) -> Iterator[Breach]:
    """Find data and delete files that are statistics files, too (R-140)."""
    if live.has("location"):
        named = np.flatnonzero(live.is_live & live.rowless.statistics_among(live.table))
        for breach in live.breaches(IS_STATISTICS, named):
            yield replace(breach, severity="error", hint=REMOVE_STATISTICS)


def incomplete_vectors(live: LiveRows) -> Iterator[Breach]:
    """Find deletion vectors without their place or data file, or outside of their file (R-118)."""
    names = ("referenced_data_file", "content_offset", "content_size_in_bytes")
    if not live.is_vector.any() or not live.has("location", "file_size_in_bytes", *names):
        return
    lacking = np.logical_or.reduce([mask_of(pc.is_null(live.table[name])) for name in names])
    start, size = live.numbers("content_offset"), live.numbers("content_size_in_bytes")
    outside = (start < 0) | (size < 0) | (start + size > live.numbers("file_size_in_bytes"))
    what = "is a deletion vector without its place in the file, or without its data file"
    yield from live.breaches(what, np.flatnonzero(live.is_vector & (lacking | outside)))


def of_no_size(live: LiveRows) -> Iterator[Breach]:
    """Find sizes that no store holds in one file (R-063)."""
    if live.has("file_size_in_bytes"):
        sizes = live.numbers("file_size_in_bytes")
        wrong = live.is_live & ((sizes > LARGEST_FILE) | (sizes < 1))
        yield from live.breaches("has a size that no file has", np.flatnonzero(wrong))


def _row_ids(live: LiveView) -> tuple[Integers, Integers, Integers]:
    """Return the data files that have row ids, where these begin, and where they end."""
    if live.next_row_id is None or not live.has("first_row_id", "record_count"):
        return (np.empty(0, np.int64),) * 3
    starts = live.numbers("first_row_id")[live.data]
    rows, starts = live.data[starts >= 0], starts[starts >= 0]
    return rows, starts, starts + live.numbers("record_count")[rows]


def with_row_ids_of_others(live: LiveView) -> Iterator[Breach]:
    """Find row ids that two data files have (R-103, V4-067)."""
    rows, starts, ends = _row_ids(live)
    wrong = np.sort(rows[overlapping(starts, ends)])
    yield from live.breaches("has row ids that another file has too", wrong)


def with_row_ids_above_next(live: LiveView) -> Iterator[Breach]:
    """Find row ids that new rows would get too (R-104, V4-067)."""
    rows, _, ends = _row_ids(live)
    if len(rows) and live.next_row_id is not None:
        what = f"has row ids above `next-row-id`, {live.next_row_id}"
        yield from live.breaches(what, rows[ends > live.next_row_id])


def overlapping(starts: Integers, ends: Integers) -> Integers:
    """Return the places of ranges that begin before the end of one that begins no later."""
    if not (starts[1:] < ends[:-1]).any():  # as ranges in their order are
        return np.empty(0, np.int64)
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(ends[order])
    return order[1:][starts[order[1:]] < reached[:-1]]


def repeated_places(keys: pa.ChunkedArray) -> Integers:
    """Return the places whose key an earlier one has; null has none in common."""
    prints = np.empty(len(keys), np.uint64)
    start = 0
    for chunk in keys.chunks:
        prints[start : start + len(chunk)] = fingerprints(chunk)
        start += len(chunk)
    prints.sort()
    if not (prints[1:] == prints[:-1]).any():
        return np.empty(0, np.int64)
    return np.flatnonzero(repeats(keys))
