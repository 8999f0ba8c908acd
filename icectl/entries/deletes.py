"""Find which delete files apply to which data files.

The pairs may be as many as data files times delete files, so they are stored as ranges. Deletes are
sorted by target and sequence number, so those that apply to a data file are adjacent. A position
delete file without a referenced data file may apply to every older file of its partition. Once it
is read, it applies only to the files that it names.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries import rows
from icectl.entries.columns import Integers, Mask, mask_of
from icectl.entries.rows import Entries
from icectl.format.manifest import Content, FileFormat

N = TypeVar("N", np.int64, np.float64)

Groups = tuple[Integers, Integers]
"""A number per data file and per delete file: equal where a delete may apply, -1 for none."""


@dataclass(frozen=True, slots=True)
class DeleteRanges:
    """One kind of delete: for each data file a range of `order`, rows of the delete files."""

    order: Integers
    first: Integers
    stop: Integers

    @property
    def counts(self) -> Integers:
        if not len(self.order):
            return self.first
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class DeleteMatches:
    """Live data files, live delete files, and which apply to which (R-111 to R-113).

    `vectors_by_name` are those of sfc-1, whose partition does not count.
    """

    data: Entries
    deletes: Entries
    vectors: DeleteRanges
    position_deletes: tuple[DeleteRanges, DeleteRanges]
    """Of whole partitions, and of one data file each."""
    equality_deletes: tuple[DeleteRanges, DeleteRanges]
    """Of partitions, and of the whole table."""
    vectors_by_name: bool = False

    @property
    def ranges(self) -> tuple[DeleteRanges, ...]:
        """All kinds; no delete file is in more than one."""
        return (self.vectors, *self.position_deletes, *self.equality_deletes)


def match(
    entries: Entries, unpartitioned_spec_ids: Collection[int], *, vectors_by_name: bool = False
) -> DeleteMatches:
    """Find which live delete files apply to which live data files, by metadata alone.

    With `vectors_by_name`, a deletion vector applies to the file that it names, of any partition.

    Shape: the data files and delete files with their planning columns.
    Order: each keeps the order of `entries`.
    Cost: n log n; pairs are not made.
    Spec: Scan Planning; a position delete file without a referenced data file applies to every
    older file of its partition.
    """
    alive = rows.live(rows.planning(entries))
    data, deletes = rows.data_files(alive), rows.delete_files(alive)
    if not len(deletes):  # groups of many data files take memory
        none = _no_ranges(len(data))
        return DeleteMatches(data, deletes, none, (none, none), (none, none))
    table = deletes.table
    position = mask_of(pc.equal(table["content"], Content.POSITION_DELETES))
    vector = position & mask_of(pc.equal(table["file_format"], FileFormat.PUFFIN))
    referring = mask_of(pc.is_valid(table["referenced_data_file"]))
    unpartitioned = pa.array(sorted(unpartitioned_spec_ids), pa.int32())
    everywhere = ~position & mask_of(pc.is_in(table["spec_id"], value_set=unpartitioned))

    # Of specs and keys: pairs that deletes have and data files may have.
    by_partition = _combined(
        *(_groups(data.table[key], table[key], pc.unique(table[key])) for key in rows.GROUP_KEYS)
    )
    named = rows.location_keys(table["referenced_data_file"])
    known = pc.drop_null(pc.unique(named))
    located = data.table["location"]
    by_file = _groups(rows.location_keys(located) if len(known) else located, named, known)
    by_table = (np.zeros(len(data), np.int64), np.zeros(len(deletes), np.int64))
    both = _combined(by_partition, by_file)
    ranges = partial(_ranges, data, deletes)

    vectors = ranges(vector, by_file if vectors_by_name else both)
    covered = vectors.counts > 0
    return DeleteMatches(
        data=data,
        deletes=deletes,
        vectors=vectors,
        position_deletes=(
            _without(ranges(position & ~vector & ~referring, by_partition), covered),
            _without(ranges(position & ~vector & referring, both), covered),
        ),
        equality_deletes=(
            ranges(~position & ~everywhere, by_partition, "right"),
            ranges(everywhere, by_table, "right"),
        ),
        vectors_by_name=vectors_by_name,
    )


class DeleteScopes:
    """Partitions that deletes without a data file's name may apply in, each up to what number.

    Cost: memory for each partition with such deletes.
    """

    def __init__(self, deletes: Entries, unpartitioned_spec_ids: Collection[int]) -> None:
        table = deletes.table
        position = mask_of(pc.equal(table["content"], Content.POSITION_DELETES))
        chosen = rows.where(deletes, ~position | mask_of(pc.is_null(table["referenced_data_file"])))
        of_all = rows.of_specs(rows.equality_delete_files(chosen), unpartitioned_spec_ids)
        self._newest_of_all = rows.numbers(of_all, "sequence_number").max(initial=-1)
        self._known = [pc.unique(chosen.table[key]) for key in rows.GROUP_KEYS]
        self._scopes, places = np.unique(self._codes(chosen), return_inverse=True)
        self._newest = np.full(len(self._scopes), -1)
        np.maximum.at(self._newest, places, rows.numbers(chosen, "sequence_number"))

    def may_apply(self, data: Entries) -> Mask:
        """Return whether any of the deletes may apply to data files; all that do are among them."""
        number = rows.numbers(data, "sequence_number")
        codes = self._codes(data)
        places = np.searchsorted(self._scopes, codes)
        known = np.append(self._scopes, -1)[places] == codes
        newest = np.append(self._newest, -1)[places]
        applies = known & (codes >= 0) & (number <= newest)
        return np.asarray(applies | (number <= self._newest_of_all), np.bool_)

    def _codes(self, entries: Entries) -> Integers:
        """Return a number for each spec and partition of deletes, -1 for others."""
        spec, key = (
            rows.index_in(entries.table[name], known)
            for name, known in zip(rows.GROUP_KEYS, self._known, strict=True)
        )
        return np.where((spec < 0) | (key < 0), -1, spec * len(self._known[1]) + key)


def delete_counts(matches: DeleteMatches) -> Integers:
    """Count the deletes of every kind that apply to each data file. Order: of `matches.data`."""
    return sum((part.counts for part in matches.ranges), np.zeros(len(matches.data), np.int64))


def known_deleted_rows(matches: DeleteMatches) -> Integers:
    """Rows of each data file that vectors and position deletes of it alone are known to delete."""
    records = rows.numbers(matches.deletes, "record_count")
    return _sums(matches, (matches.vectors, matches.position_deletes[1]), records)


def equality_delete_counts(matches: DeleteMatches) -> Integers:
    """Count the equality deletes that apply to each data file. Order: of `matches.data`."""
    return matches.equality_deletes[0].counts + matches.equality_deletes[1].counts


def compared_keys(matches: DeleteMatches) -> Integers:
    """Count the keys that a reader compares with the rows of each data file. Order: of the data.

    They are those of all equality deletes that apply to it.
    """
    records = rows.numbers(matches.deletes, "record_count")
    return _sums(matches, matches.equality_deletes, records)


def compared_by_partition(matches: DeleteMatches) -> pa.Table:
    """Count, by partition, what a reader compares for equality deletes.

    Shape: GROUP_KEYS, with the data files that such deletes apply to (`files`), the keys that are
    compared with each of them (`keys`), and their rows (`rows`). Order: most keys first.
    """
    applies = pa.array(equality_delete_counts(matches) > 0)
    table = matches.data.table.select([*rows.GROUP_KEYS, "record_count"])
    table = table.append_column("keys", pa.array(compared_keys(matches))).filter(applies)
    sums = [("record_count", "sum"), ("keys", "sum"), ("keys", "count")]
    counted = table.group_by(rows.GROUP_KEYS).aggregate(sums)
    columns = [*rows.GROUP_KEYS, "record_count_sum", "keys_sum", "keys_count"]
    named = counted.select(columns).rename_columns([*rows.GROUP_KEYS, "rows", "keys", "files"])
    return named.sort_by([("keys", "descending"), ("spec_id", "ascending")])


def compared_ratios(matches: DeleteMatches) -> npt.NDArray[np.float64]:
    """Estimate the part of each data file's rows that equality deletes delete.

    Each key is one of one row, of all rows that it is compared with. Order: of `matches.data`.
    """
    keys = rows.numbers(matches.deletes, "record_count")
    compared = _per_delete_file(
        matches, matches.equality_deletes, rows.numbers(matches.data, "record_count")
    )
    return _sums(matches, matches.equality_deletes, keys / np.maximum(compared, 1))


def applying_to(matches: DeleteMatches, chosen: Mask) -> Mask:
    """Return which equality deletes apply to any of the chosen data files."""
    return _per_delete_file(matches, matches.equality_deletes, chosen.astype(np.int64)) > 0


def delete_files_of(matches: DeleteMatches, chosen: Mask) -> Mask:
    """Return which delete files of any kind apply to any of the chosen data files."""
    return _per_delete_file(matches, matches.ranges, chosen.astype(np.int64)) > 0


def count_among(matches: DeleteMatches, chosen: Mask) -> Integers:
    """Count those of the chosen equality deletes that apply to each data file."""
    return _sums(matches, matches.equality_deletes, chosen.astype(np.int64))


def newest_among(matches: DeleteMatches, chosen: Mask) -> Integers:
    """Return the highest sequence number of the chosen equality deletes that apply; 0 for none.

    Shape: one for each data file.
    """
    numbers = rows.numbers(matches.deletes, "sequence_number")
    newest = np.zeros(len(matches.data), np.int64)
    for part in matches.equality_deletes:
        if len(part.order):  # in a range the last one is the newest
            places = np.where(chosen[part.order], np.arange(len(part.order)), -1)
            last = np.append(np.maximum.accumulate(places), -1)[part.stop - 1]
            found = np.where(last >= part.first, numbers[part.order[last]], 0)
            newest = np.maximum(newest, found)
    return newest


def _sums(
    matches: DeleteMatches, parts: Sequence[DeleteRanges], values: npt.NDArray[N]
) -> npt.NDArray[N]:
    """Add up a value of each delete file, for each data file that it applies to."""
    found = np.zeros(len(matches.data), values.dtype)
    for part in parts:
        if len(part.order):
            sums = np.concatenate([np.zeros(1, values.dtype), np.cumsum(values[part.order])])
            found += sums[part.stop] - sums[part.first]
    return found


def _per_delete_file(
    matches: DeleteMatches, parts: Sequence[DeleteRanges], values: Integers
) -> Integers:
    """Add up a value of each data file, for each delete file that applies to it."""
    found = np.zeros(len(matches.deletes), np.int64)
    for part in parts:
        if len(part.order):
            size = len(part.order) + 1
            starts, stops = (np.bincount(at, values, size) for at in (part.first, part.stop))
            found[part.order] = np.cumsum(starts - stops)[: size - 1]
    return found


def per_delete_file(matches: DeleteMatches) -> Integers:
    """Count the data files that each delete file applies to. Order: of `matches.deletes`."""
    return _per_delete_file(matches, matches.ranges, np.ones(len(matches.data), np.int64))


def dangling(matches: DeleteMatches) -> Entries:
    """Delete files that apply to no live data file. Order: kept."""
    return rows.where(matches.deletes, per_delete_file(matches) == 0)


def pairs(matches: DeleteMatches) -> pa.Table:
    """Return (data_row, delete_row) of every pair that applies, in this order."""
    data_rows: list[Integers] = []
    delete_rows: list[Integers] = []
    for part in matches.ranges:
        counts = part.counts
        data_rows.append(np.repeat(np.arange(len(counts), dtype=np.int64), counts))
        within = np.arange(int(counts.sum()), dtype=np.int64)
        starts = np.repeat(part.first - (np.cumsum(counts) - counts), counts)
        delete_rows.append(part.order[within + starts])
    data, deletes = np.concatenate(data_rows), np.concatenate(delete_rows)
    order = np.lexsort((deletes, data))
    return pa.table({"data_row": data[order], "delete_row": deletes[order]})


def misplaced_deletes(matches: DeleteMatches) -> tuple[Integers, Integers]:
    """Deletes that name one live data file, no newer one, of another spec or partition (R-211).

    Shape: rows of the delete files, and of the data files that they name.
    Order: of the delete files.
    """
    referenced = matches.deletes.table["referenced_data_file"]
    if referenced.null_count == len(referenced):  # looking up in all data files takes its time
        return np.empty(0, np.int64), np.empty(0, np.int64)
    known = rows.location_keys(matches.data.table["location"])
    data_rows = rows.index_in(rows.location_keys(referenced), known)
    delete_rows = np.flatnonzero(data_rows >= 0)
    is_older, is_same = position_delete_applies(matches, data_rows[delete_rows], delete_rows)
    misplaced = delete_rows[is_older & ~is_same]
    return misplaced, data_rows[misplaced]


def position_delete_applies(
    matches: DeleteMatches, data_rows: Integers, delete_rows: Integers
) -> tuple[Mask, Mask]:
    """Whether data files are no newer than position deletes, and of their spec and partition.

    Shape: two flags for each pair of rows; a delete applies where both are true (R-111).
    """
    columns = [*rows.GROUP_KEYS, "sequence_number"]
    data, deletes = (
        rows.take(Entries(files.table.select(columns)), places)
        for files, places in ((matches.data, data_rows), (matches.deletes, delete_rows))
    )
    same = pc.and_(*(pc.equal(data.table[key], deletes.table[key]) for key in rows.GROUP_KEYS))
    older = rows.numbers(data, "sequence_number") <= rows.numbers(deletes, "sequence_number")
    is_same = mask_of(same)
    if matches.vectors_by_name:
        formats = rows.numbers(matches.deletes, "file_format")
        is_same |= formats[delete_rows] == int(FileFormat.PUFFIN)
    return older, is_same


def _groups(data: pa.ChunkedArray, deletes: pa.ChunkedArray, known: pa.Array) -> Groups:
    if not len(known):  # looking up in all data files takes its time
        return np.full(len(data), -1), np.full(len(deletes), -1)
    return rows.index_in(data, known), rows.index_in(deletes, known)


def _combined(outer: Groups, inner: Groups) -> Groups:
    width = 1 + max((int(codes.max()) for codes in inner if len(codes)), default=0)
    data, deletes = (
        np.where((a < 0) | (b < 0), -1, a * width + b) for a, b in zip(outer, inner, strict=True)
    )
    return data, deletes


def _ranges(
    data: Entries,
    deletes: Entries,
    mask: Mask,
    groups: Groups,
    side: Literal["left", "right"] = "left",
) -> DeleteRanges:
    """Sort the chosen deletes by group and sequence number and find each data file's range.

    `left` lets a delete apply to files of its own sequence number, `right` to older ones only.
    """
    chosen = np.flatnonzero(mask & (groups[1] >= 0))
    if not len(chosen):
        return _no_ranges(len(data))
    sequence = rows.numbers(deletes, "sequence_number")[chosen]
    # Ranks instead of the numbers themselves: group and rank fit one 64-bit key.
    known_groups, group = np.unique(groups[1][chosen], return_inverse=True)
    known_sequences, rank = np.unique(sequence, return_inverse=True)
    width = len(known_sequences) + 1
    keys = group * width + rank
    order = np.argsort(keys, kind="stable")
    keys = keys[order]

    place = np.searchsorted(known_groups, groups[0])
    known = np.append(known_groups, -2)[place] == groups[0]
    oldest = np.searchsorted(known_sequences, rows.numbers(data, "sequence_number"), side)
    first = np.where(known, np.searchsorted(keys, place * width + oldest), 0)
    stop = np.where(known, np.searchsorted(keys, (place + 1) * width - 1), 0)
    return DeleteRanges(chosen[order], first, stop)


def _no_ranges(data_file_count: int) -> DeleteRanges:
    """Of no delete, and of no memory, however many data files there are."""
    none = np.broadcast_to(np.int64(0), data_file_count)
    return DeleteRanges(np.empty(0, np.int64), none, none)


def _without(ranges: DeleteRanges, covered: Mask) -> DeleteRanges:
    if not len(ranges.order):
        return ranges
    return DeleteRanges(ranges.order, ranges.first, np.where(covered, ranges.first, ranges.stop))


NamedFiles = Mapping[str, Mapping[str, int]]
"""For position delete files that were read, by location: deleted rows by data file named."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Rows of the delete files that apply to one data file."""

    vectors: tuple[int, ...]
    position_deletes: tuple[int, ...]
    equality_deletes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NamedPositionDeletes:
    """Position delete files without a referenced data file, as they were read.

    `read` tells which of the delete files those are; `delete_rows` and `data_rows` are pairs that
    apply (R-111), ordered by data row. `misspelt` counts, for each data file, deleted rows that
    name it in another spelling than that of its entry: not all readers find it. `misplaced` are
    delete rows and data rows of deletes that name a data file of another partition: not all readers
    leave it at that.
    """

    read: Mask
    delete_rows: Integers
    data_rows: Integers
    misspelt: Integers
    misplaced: tuple[Integers, Integers]


def names_of(deletes: Entries, named: NamedFiles) -> frozenset[str]:
    """Return every data file that delete files name, in their manifest entries or inside."""
    referenced = pc.drop_null(pc.unique(deletes.table["referenced_data_file"])).to_pylist()
    return frozenset(referenced).union(*named.values())


def resolve_names(
    matches: DeleteMatches, named: NamedFiles, spelling: Mapping[str, str]
) -> NamedPositionDeletes:
    """Find the live data files that position delete files name.

    `spelling` gives the location of a live data file that is named in another way.
    """
    read = np.zeros(len(matches.deletes), np.bool_)
    names: list[tuple[int, str, int]] = []  # rows of deletes, and how many rows they delete of what
    of_partitions = matches.position_deletes[0].order
    locations = rows.take(matches.deletes, of_partitions).table["location"].to_pylist()
    for row, location in zip(of_partitions.tolist(), locations, strict=True):
        if location in named:
            read[row] = True
            names += [(row, name, count) for name, count in named[location].items()]
    if spelling:  # entries whose names are misspelt: `matches` may not have found these
        entries = rows.by_row(matches.deletes, "referenced_data_file", "record_count")
        names += [(row, name, n) for row, (name, n) in enumerate(entries) if name in spelling]
    data_rows = np.empty(0, np.int64)
    if names:  # looking up in all data files takes its time
        meant = pa.array([spelling.get(name, name) for _, name, _ in names], pa.string())
        data_rows = rows.index_in(meant, matches.data.table["location"])
    delete_rows = np.array([row for row, _, _ in names], np.int64)
    known = np.flatnonzero(data_rows >= 0)
    is_older, is_same = position_delete_applies(matches, data_rows[known], delete_rows[known])
    elsewhere, applies = known[is_older & ~is_same], known[is_older & is_same]
    applies = applies[matches.vectors.counts[data_rows[applies]] == 0]
    misspelt = np.zeros(len(matches.data), np.int64)
    for at in applies.tolist():
        _, name, count = names[at]
        if name in spelling:
            misspelt[data_rows[at]] += count
    order = applies[np.lexsort((delete_rows[applies], data_rows[applies]))]
    whole = misplaced_deletes(matches)
    both = (
        np.concatenate([whole[0], delete_rows[elsewhere]]),
        np.concatenate([whole[1], data_rows[elsewhere]]),
    )
    return NamedPositionDeletes(read, delete_rows[order], data_rows[order], misspelt, both)


_NONE = Applied((), (), ())


class DeleteIndex:
    """The deletes of data files one by one; cheap where a file has none."""

    def __init__(self, matches: DeleteMatches, named: NamedPositionDeletes) -> None:
        self._matches = matches
        self._named = named
        self._has_some = delete_counts(matches) > 0

    def of(self, row: int) -> Applied:
        """Return the deletes of one data file. Order: delete rows ascend."""
        if not self._has_some[row]:
            return _NONE
        # Position deletes of the file alone, and those whose names are not known.
        unread = [at for at in self._in_ranges(row, (1, 2)) if not self._named.read[at]]
        start, stop = np.searchsorted(self._named.data_rows, [row, row + 1])
        named = self._named.delete_rows[start:stop]
        position_deletes = (*unread, *named[self._named.read[named]].tolist())
        return Applied(
            self._in_ranges(row, (0,)),
            tuple(sorted(position_deletes)),
            self._in_ranges(row, range(3, 5)),
        )

    def _in_ranges(self, row: int, kinds: Sequence[int]) -> tuple[int, ...]:
        rows: list[int] = []
        for kind in kinds:
            part = self._matches.ranges[kind]
            rows += part.order[part.first[row] : part.stop[row]].tolist()
        return tuple(sorted(rows))


def dangling_rows(matches: DeleteMatches, named: NamedPositionDeletes) -> Integers:
    """Return delete files that apply to no live data file, by any reader. Order: ascending."""
    counts = per_delete_file(matches)
    by_name = np.bincount(named.delete_rows, minlength=len(counts))
    unused = by_name + np.where(named.read, 0, counts) == 0
    unused[named.misplaced[0]] = False
    return np.flatnonzero(unused)


def sharing_deletes(named: NamedPositionDeletes, data_rows: Collection[int]) -> set[int]:
    """Return data files and all that share a position delete file with them, or with these."""
    found: set[int] = set()
    more = set(data_rows)
    while more - found:
        found |= more
        shared = named.delete_rows[np.isin(named.data_rows, sorted(found))]
        more = set(named.data_rows[np.isin(named.delete_rows, shared)].tolist())
    return found


def needed_elsewhere(
    matches: DeleteMatches, named: NamedPositionDeletes, locations: Collection[str]
) -> Mask:
    """Position delete files of partitions that apply to data files at no such location, too.

    Shape: one flag per delete file; true as well where it is not known what a file names.
    """
    elsewhere = ~rows.are_at(matches.data, locations)[named.data_rows]
    needed = np.zeros(len(matches.deletes), np.bool_)
    needed[matches.position_deletes[0].order] = True
    needed[named.read] = False
    needed[named.delete_rows[elsewhere]] = True
    return needed
