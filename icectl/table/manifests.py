"""Manifests of a table: read in parallel, with bounded memory, in order."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from threading import Lock
from typing import Generic, Literal, TypeVar

import numpy as np
import pyarrow as pa

from icectl.checks.identity import SCREENED, doubtful_manifests
from icectl.entries.columns import Positions
from icectl.entries.inherit import inherit
from icectl.entries.locations import with_schemes
from icectl.entries.rows import (
    PLANNING_COLUMNS,
    E,
    Entries,
    RawEntries,
    concat,
    where,
    with_manifests_moved,
)
from icectl.entries.stats import with_referenced_data_files
from icectl.errors import CorruptTable, OtherFile, Unsupported
from icectl.files.deletion_vectors import read_bitmap
from icectl.files.inflate import UnusuallyLargeError, usual_sizes
from icectl.format.layout import Layout, layout_of_manifest
from icectl.format.manifest import ManifestContent, ManifestFile, ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.table.context import TableContext
from icectl.table.manifest_lists import reader_of
from icectl.table.reading import (
    FileRead,
    Problem,
    decode_file,
    in_threads,
    naming,
    raise_problem,
    read_in_threads,
    try_file,
)

Trust = Literal["sound", "own", "any"]
"""What manifests have to be: `sound` enough for a change to stand on; at least those that the list
describes (`own`); or `any`, to be shown."""


class SharedValues:
    """The last chunk of one repeated value of each column, to be shared.

    Most columns have one value for many manifests: the snapshot, the sequence number, the spec, or
    null. As Arrow stores them they take a third of a table's memory.
    """

    def __init__(self) -> None:
        self._last: dict[str, pa.Array] = {}

    def shared(self, entries: E) -> E:
        """Return the same rows, whose chunks of one value share the memory of earlier ones.

        Order: kept.
        Cost: memory for one chunk of each column that has one value.
        """
        table = entries.table
        columns = [
            pa.chunked_array([self._chunk(name, chunk) for chunk in column.chunks], column.type)
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
        return type(entries)(pa.table(columns, schema=table.schema))

    def _chunk(self, name: str, chunk: pa.Array) -> pa.Array:
        count = len(chunk)
        if not count or not chunk.slice(1).equals(chunk.slice(0, count - 1)):
            return chunk
        last = self._last.get(name)
        if last is None or not last.slice(0, 1).equals(chunk.slice(0, 1)):
            last = None
        if last is None or len(last) < count:
            last = self._last[name] = pa.repeat(chunk[0], count)
        return last.slice(0, count)


_TOGETHER_BYTES = 2**21
"""Stored bytes of manifests that are decoded together: there may be many small ones."""

_SMALL_BYTES = 2**14
"""Up to this size a manifest of data is read with the columns of those of deletes beside it: each
upsert adds one of both, and only manifests with the same columns are decoded together."""

_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class ManifestRead:
    """A manifest as it was read, or the problem with it.

    `index` is its place in the requested list; `size_bytes` is as stored, None if unreadable.
    """

    index: int
    size_bytes: int | None = None
    header: ManifestHeader | None = None
    rows: RawEntries | None = None
    problem: Problem | None = None

    @property
    def content(self) -> tuple[ManifestHeader, RawEntries]:
        if self.header is None or self.rows is None:
            raise ValueError(self.index)
        return self.header, self.rows


@dataclass(frozen=True, slots=True)
class ManifestsRead:
    """Consecutive manifests of the requested list, from `first` on.

    `rows` are those of all; `manifest` is the place in that list. `sizes` are bytes as stored.
    `odd` says which of them are not those that the list describes, if they are shown all the same.
    """

    first: int
    manifests: Sequence[ManifestFile]
    sizes: Sequence[int]
    headers: Sequence[ManifestHeader]
    rows: RawEntries
    odd: Sequence[OtherFile] = ()

    def entries(self) -> Entries:
        """Return the rows with inheritance resolved. Raises: CorruptTable."""
        inherited = inherit(with_manifests_moved(self.rows, -self.first), self.manifests)
        return with_manifests_moved(inherited, self.first)


def scan_manifests(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    columns: frozenset[str] | Sequence[frozenset[str]],
    *,
    trust: Trust = "sound",
) -> Iterator[ManifestsRead]:
    """Read manifests as stored, small ones many at a time; `columns` of all or of each.

    Order: that of `manifests`; close the iterator to stop early.
    Raises: CorruptTable, naming the file; MissingFile; Unsupported; StorageError.
    Cost: `concurrency` reads and as many inflations as there are processors run ahead of the
    consumer, over at most 64 MiB of stored manifests.
    """
    groups = _in_groups(context, metadata, manifests, columns, lambda part: part, trust)
    with closing(groups) as parts:
        for part in parts:
            if isinstance(part, _Failed):
                raise part.problem
            yield part


def scan_entries(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    columns: frozenset[str],
    leave_out: Callable[[Problem], None] = raise_problem,
    show_odd: Callable[[Problem], None] | None = None,
) -> Iterator[Entries]:
    """Read manifests, small ones many at a time, as entries with inheritance resolved.

    `leave_out` is called with the problem of each unreadable manifest, and may ignore it. With
    `show_odd`, manifests that the list does not describe are read too, and it gets the problem.
    Order: that of `manifests`, which `manifest` indexes; close the iterator to stop early.
    Raises: as scan_manifests.
    Cost: as scan_manifests.
    """

    def finish(part: ManifestsRead) -> tuple[Entries, Sequence[OtherFile]]:
        return part.entries(), part.odd

    trust: Trust = "own" if show_odd is None else "any"
    groups = _in_groups(context, metadata, manifests, columns, finish, trust)
    with closing(groups) as parts:
        for part in parts:
            if isinstance(part, _Failed):
                leave_out(part.problem)
                continue
            entries, odd = part
            if show_odd is not None:
                for problem in odd:
                    show_odd(problem)
            yield entries


Heed = Callable[[ManifestsRead], None]
"""Takes note of manifests as they are read, of their headers for example."""


def heed_not(part: ManifestsRead) -> None:
    """Take no note."""


def load_entries(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    columns: frozenset[str],
    *,
    to_match: bool = False,
    show_odd: Callable[[Problem], None] | None = None,
    trust: Trust = "sound",
    heed: Heed = heed_not,
) -> Entries:
    """Read all entries of some manifests into one table; `to_match` for entries.deletes.match.

    `show_odd` is as in scan_entries; without it, `trust` as in scan_manifests. `heed` gets each
    part of entries to be matched, as stored.

    Shape: to be matched, referenced_data_file is filled from the path bounds of older position
    delete files.
    Order: (`manifest`, `manifest_pos`); `manifest` indexes `manifests`.
    Raises: as scan_manifests.
    Cost: to be matched, memory for values that differ from row to row.
    """
    parts: list[Entries] = []
    if not to_match:
        if show_odd is not None:
            return concat(scan_entries(context, metadata, manifests, columns, show_odd=show_odd))
        scanned = scan_manifests(context, metadata, manifests, columns, trust=trust)
        return concat([part.entries() for part in scanned])
    of_deletes = columns | {"lower_bounds", "upper_bounds"}
    are_deletes = [manifest.content is ManifestContent.DELETES for manifest in manifests]
    most_bytes = _SMALL_BYTES if any(are_deletes) else 0
    columns_of = [
        of_deletes if is_delete or manifest.manifest_length <= most_bytes else columns
        for manifest, is_delete in zip(manifests, are_deletes, strict=True)
    ]
    shared = SharedValues()
    trust = trust if show_odd is None else "any"
    for part in scan_manifests(context, metadata, manifests, columns_of, trust=trust):
        heed(part)
        if show_odd is not None:
            for problem in part.odd:
                show_odd(problem)
        entries = part
        if columns_of[part.first] == of_deletes:
            named = with_schemes(metadata, with_referenced_data_files(part.rows)).table
            rows = RawEntries(named.drop_columns(sorted(of_deletes - columns)))
            entries = replace(part, rows=rows)
        parts.append(shared.shared(entries.entries()))
    return concat(parts)


def try_manifests(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    columns: frozenset[str],
) -> Generator[ManifestRead, None, None]:
    """Read manifests, with damaged and missing ones as problems.

    Order: that of `manifests`; close the iterator to stop early.
    Raises: StorageError, if the store itself fails.
    Cost: as scan_manifests.
    """
    with closing(_in_groups(context, metadata, manifests, columns, _one_by_one)) as groups:
        for group in groups:
            if isinstance(group, _Failed):
                yield ManifestRead(group.index, group.size_bytes, problem=group.problem)
            else:
                yield from group


_Stored = tuple[Sequence[int], Sequence[FileRead]]
"""Places of manifests in the requested list, and the content of each."""


def _one_by_one(part: ManifestsRead) -> Sequence[ManifestRead]:
    """Return each manifest with its rows, which are not copied."""
    numbers = part.rows.table["manifest"].to_numpy()
    bounds = np.searchsorted(numbers, np.arange(part.first, part.first + len(part.headers) + 1))
    slices = zip(bounds[:-1].tolist(), np.diff(bounds).tolist(), strict=True)
    each = zip(part.sizes, part.headers, slices, strict=True)
    return [
        ManifestRead(part.first + at, size, header, RawEntries(part.rows.table.slice(*of_manifest)))
        for at, (size, header, of_manifest) in enumerate(each)
    ]


@dataclass(frozen=True, slots=True)
class _Failed:
    """A manifest that cannot be read, by its place in the requested list."""

    index: int
    size_bytes: int | None
    problem: Problem


@dataclass(frozen=True, slots=True)
class _Large:
    """A manifest that inflates to an unusual size, and is read again by itself."""

    index: int


_ONE_LARGE = Lock()
"""Held while such a manifest is decoded: one at a time in a process."""


@dataclass(frozen=True, slots=True)
class _Decoder(Generic[_Done]):
    """Decodes groups of manifests, with the `columns` of each.

    `finish` makes the result of a group, in the thread that decoded it.
    """

    metadata: TableMetadata
    manifests: Sequence[ManifestFile]
    columns: Sequence[frozenset[str]]
    finish: Callable[[ManifestsRead], _Done]
    concurrency: int
    trust: Trust
    other_copies: dict[tuple[str, str, int], bool] = field(default_factory=dict)

    def decode(self, stored: _Stored) -> Sequence[tuple[int, _Done | _Failed | _Large]]:
        """Return a group as one, or each of its manifests if one has a problem, with counts.

        A group that inflates to too much is left to `decode_large`.
        """
        indices, contents = stored
        if len(self.manifests) == 1:
            return self._decode(indices, contents)
        size = sum(len(content) for content in contents if isinstance(content, bytes))
        try:
            with usual_sizes(size):
                return self._decode(indices, contents)
        except UnusuallyLargeError:
            return [(1, _Large(index)) for index in indices]

    def decode_large(self, index: int, content: FileRead) -> _Done | _Failed:
        with _ONE_LARGE:
            return self._try(index, content)

    def _decode(
        self, indices: Sequence[int], contents: Sequence[FileRead]
    ) -> Sequence[tuple[int, _Done | _Failed | _Large]]:
        readable = [content for content in contents if isinstance(content, bytes)]
        try:
            if len(readable) == len(contents):
                return [(len(indices), self._read(indices, readable))]
        except (CorruptTable, Unsupported):
            pass  # decoding each by itself shows which it is
        return [(1, self._try(*file)) for file in zip(indices, contents, strict=True)]

    def _try(self, index: int, content: FileRead) -> _Done | _Failed:
        if not isinstance(content, bytes):
            return _Failed(index, None, content)
        location = self.manifests[index].manifest_path
        try:
            return decode_file(location, lambda: self._read([index], [content]))
        except (CorruptTable, Unsupported) as error:
            return _Failed(index, len(content), error)

    def _read(self, indices: Sequence[int], contents: Sequence[bytes]) -> _Done:
        columns, first = self.columns[indices[0]], self.manifests[indices[0]]
        if first.in_root:  # nothing else describes it
            return self.finish(self._decoded(indices, contents, columns))
        screened = SCREENED | self._compared_with_partitions(indices, columns)
        part = self._decoded(indices, contents, columns | screened)
        odd = self._check_own(part, contents)
        added = sorted((screened - columns) & set(part.rows.table.column_names))
        rows = RawEntries(part.rows.table.drop_columns(added))
        if first.dead:  # such a leaf is decoded alone
            rows = without_dead(rows, read_bitmap(first.dead))
        return self.finish(replace(part, rows=rows, odd=odd))

    def _compared_with_partitions(
        self, indices: Sequence[int], columns: frozenset[str]
    ) -> frozenset[str]:
        """Return the columns that partitions are compared with, where a change reads these.

        Leaves of version 4 keep identity partitions as bounds (sfc-1 5.4).
        """
        first = self.manifests[indices[0]]
        spec = self.metadata.spec(first.partition_spec_id)
        if (
            self.trust != "sound"
            or "partition_key" not in columns
            or spec is None
            or all(item.transform.name != "identity" for item in spec.fields)
            or layout_of_manifest(first) is not Layout.MANIFEST_LISTS
        ):
            return frozenset()
        from icectl.checks.partitions import BOUNDED

        return BOUNDED

    def _decoded(
        self, indices: Sequence[int], contents: Sequence[bytes], columns: frozenset[str]
    ) -> ManifestsRead:
        """Decode manifests of one form; only manifests of lists are several."""
        first = self.manifests[indices[0]]
        reader = reader_of(self.metadata, layout_of_manifest(first))
        # A single manifest gets all processors.
        threads = _processors(self.concurrency) if len(self.manifests) == 1 else 1
        headers, rows = reader.decode(
            contents, first, columns=columns, indices=indices, threads=threads
        )
        listed = [self.manifests[index] for index in indices]
        return ManifestsRead(indices[0], listed, [*map(len, contents)], headers, rows)

    def _of_other_copies(self, part: ManifestsRead) -> Iterator[int]:
        """Yield the manifests whose copy of a schema or spec is another; each is compared once."""
        for place, (row, header) in enumerate(zip(part.manifests, part.headers, strict=True)):
            schema, fields = (header.metadata.get(of, "") for of in ("schema", "partition-spec"))
            copies = schema, fields, row.partition_spec_id
            if copies not in self.other_copies:
                from icectl.checks.schemas import other_columns, other_fields

                spec = self.metadata.spec(row.partition_spec_id)
                self.other_copies[copies] = other_columns(
                    self.metadata, header
                ) is not None or other_fields(header, spec)
            if self.other_copies[copies]:
                yield place

    def _check_own(self, part: ManifestsRead, contents: Sequence[bytes]) -> Sequence[OtherFile]:
        """Check that manifests are those of their rows in the list.

        Returns the errors on those that are shown all the same. Doubtful ones are decoded again,
        with all planning columns. Raises: OtherFile; CorruptTable, if one is not `sound`.
        """
        sizes, first, odd = part.sizes, part.first, []
        doubtful = doubtful_manifests(part.manifests, part.headers, sizes, part.rows, first)
        if self.trust == "sound":
            from icectl.checks.partitions import outside_summaries

            outside = outside_summaries(self.metadata, part.manifests, part.rows, first)
            doubtful = sorted({*doubtful, *self._of_other_copies(part), *outside})
        for place in doubtful:
            from icectl.checks.rule import refuse

            decoded = self._decoded([first + place], [contents[place]], PLANNING_COLUMNS)
            manifest, header = part.manifests[place], decoded.headers[0]
            reader = reader_of(self.metadata, layout_of_manifest(manifest))
            try:
                with naming(manifest.manifest_path):
                    found = reader.doubts(manifest, header, decoded.sizes[0], decoded.rows)
            except OtherFile as error:
                if self.trust != "any":
                    raise
                odd.append(error)
            else:
                refuse(found if self.trust == "sound" else ())
        if self.trust == "sound":
            from icectl.checks.partitions import refuse_misplaced

            refuse_misplaced(self.metadata, part.rows)
        return odd


def _groups(
    manifests: Sequence[ManifestFile], columns: Sequence[frozenset[str]]
) -> Sequence[Sequence[int]]:
    groups: list[list[int]] = []
    size = 0
    for index, manifest in enumerate(manifests):
        size += manifest.manifest_length
        if (
            groups
            and size <= _TOGETHER_BYTES
            and manifest.partition_spec_id == manifests[index - 1].partition_spec_id
            and {layout_of_manifest(manifest), layout_of_manifest(manifests[index - 1])}
            == {Layout.MANIFEST_LISTS}
            and columns[index] == columns[index - 1]
        ):
            groups[-1].append(index)
        else:
            groups.append([index])
            size = manifest.manifest_length
    return groups


def without_dead(rows: E, dead: Positions) -> E:
    """Return the rows of a leaf at no dead position. Order: kept. Raises: CorruptTable V4-083."""
    if len(dead) and int(dead[-1]) >= len(rows):  # V4-083
        message = f"it has {len(rows)} rows, and a delete vector names position {int(dead[-1])}"
        raise CorruptTable(message, rule="V4-083")
    alive = np.ones(len(rows), np.bool_)
    alive[dead.astype(np.int64)] = False
    return where(rows, alive)


def _processors(concurrency: int) -> int:
    return min(os.cpu_count() or 1, concurrency)


def _in_groups(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    columns: frozenset[str] | Sequence[frozenset[str]],
    finish: Callable[[ManifestsRead], _Done],
    trust: Trust = "own",
) -> Generator[_Done | _Failed, None, None]:
    """Read manifests and decode them group by group, as _Decoder does.

    Reading waits for the store, decoding for a processor: each has its own threads. So few decoders
    take memory.
    """
    columns_of = [columns] * len(manifests) if isinstance(columns, frozenset) else columns
    decoder = _Decoder(metadata, manifests, columns_of, finish, context.concurrency, trust)
    context.progress.phase("reading manifests", total=len(manifests))
    sizes = [manifest.manifest_length for manifest in manifests]

    def read(index: int) -> FileRead:
        return try_file(context.store, manifests[index].manifest_path)

    stored = read_in_threads(read, range(len(manifests)), sizes, threads=context.concurrency)
    groups = _groups(manifests, columns_of)
    gathered = ((group, list(islice(stored, len(group)))) for group in groups)
    group_sizes = [sum(sizes[index] for index in group) for group in groups]
    processors = _processors(context.concurrency)
    decoded = in_threads(decoder.decode, gathered, group_sizes, threads=processors)
    with closing(stored), closing(decoded):
        for part in decoded:
            for count, decoded_as in part:
                result = decoded_as
                if isinstance(result, _Large):
                    result = decoder.decode_large(result.index, read(result.index))
                if not isinstance(result, _Failed):
                    context.progress.advance(count)
                yield result
