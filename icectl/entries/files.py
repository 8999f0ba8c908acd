"""Tables of files by location, kind and size, for planning deletions and for listings.

Each file has one row, even if several entries name it or it has many deletion vectors. `key`
decides whether two locations could be the same file; the caller that builds the table chooses it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Mask
from icectl.entries.rows import Entries, RawEntries, Rows, index_in, location_keys
from icectl.format.manifest import Content, FileFormat


class FileKind(IntEnum):
    """The kind of a file of a table, in the order in which files are deleted."""

    DATA_FILES = 0
    POSITION_DELETE_FILES = 1
    EQUALITY_DELETE_FILES = 2
    DELETION_VECTOR_FILES = 3
    MANIFESTS = 4
    MANIFEST_LISTS = 5
    ROOT_MANIFESTS = 6
    STATISTICS_FILES = 7
    PARTITION_STATISTICS_FILES = 8
    METADATA_FILES = 9


SCHEMA = pa.schema(
    [
        pa.field("location", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("size_bytes", pa.int64()),
    ]
)


class Files(Rows):
    """Files as a table of SCHEMA; a null size is not known."""


class ListedFiles(Rows):
    """Files as a table of (location, size_bytes, modified_ms); a null time is not known."""


AnyFiles = TypeVar("AnyFiles", Files, ListedFiles)


NO_FILES = Files(SCHEMA.empty_table())


def files(
    locations: Sequence[str], keys: Sequence[str], kind: FileKind, sizes: Sequence[int | None]
) -> Files:
    """Return files of one kind. Order: as given."""
    columns = [
        pa.array(locations, pa.string()),
        pa.array(keys, pa.string()),
        pa.array([int(kind)] * len(locations), pa.int8()),
        pa.array(sizes, pa.int64()),
    ]
    return Files(pa.Table.from_arrays(columns, schema=SCHEMA))


def content_files(entries: RawEntries | Entries, keys: pa.ChunkedArray) -> Files:
    """Return the files that entries name, a Puffin file once for each vector. Order: kept."""
    table = entries.table
    is_vector = pc.and_(
        pc.equal(table["content"], int(Content.POSITION_DELETES)),
        pc.equal(table["file_format"], int(FileFormat.PUFFIN)),
    )
    vector = pa.scalar(int(FileKind.DELETION_VECTOR_FILES), pa.int8())
    kinds = pc.if_else(is_vector, vector, table["content"].cast(pa.int8()))
    columns = [table["location"], keys, kinds, table["file_size_in_bytes"]]
    return Files(pa.Table.from_arrays(columns, schema=SCHEMA))


def sized_keys(entries: RawEntries | Entries) -> pa.ChunkedArray:
    """Return keys that are the same where entries give one file one size. Order: kept."""
    sizes = entries.table["file_size_in_bytes"].cast(pa.string())
    return pc.binary_join_element_wise(location_keys(entries.table["location"]), sizes, " ")


def together(parts: Iterable[Files]) -> Files:
    """Return files of several tables in one. Order: kept."""
    return Files(pa.concat_tables([NO_FILES.table, *(part.table for part in parts)]))


def distinct(listed: Files) -> Files:
    """Return every file once, in the order of deletion: by kind, then location.

    Cost: no copy, if each is there once and they are in order.
    """
    return in_order(once(listed))


def once(listed: Files) -> Files:
    """Return the first row of every file; the same ones, if each is there once. Order: kept."""
    keys = listed.table["key"]
    known = pc.unique(keys)
    if len(known) == len(keys):
        return listed
    firsts = np.unique(index_in(keys, known), return_index=True)[1]
    return Files(listed.table.take(pa.array(firsts)))


def in_order(listed: Files) -> Files:
    """Return the files in the order of deletion: by kind, then location; the same ones, if so."""
    if _are_in_order(listed.table):
        return listed
    order = pc.sort_indices(listed.table, [("kind", "ascending"), ("location", "ascending")])
    return Files(listed.table.take(order))


def _are_in_order(table: pa.Table) -> bool:
    ahead, behind = table.slice(0, max(len(table) - 1, 0)), table.slice(1)
    is_alike = pc.equal(ahead["kind"], behind["kind"])
    is_next = pc.and_(is_alike, pc.less_equal(ahead["location"], behind["location"]))
    in_turn = pc.or_(pc.less(ahead["kind"], behind["kind"]), is_next)
    return bool(pc.all(in_turn, min_count=0).as_py())


def without(listed: Files, keys: pa.ChunkedArray | pa.Array) -> Files:
    """Return the files whose key is not among `keys`. Order: kept."""
    if not len(listed) or not len(keys):
        return listed
    listed_keys = listed.table["key"]
    if len(listed_keys) < len(keys):  # a table of the fewer is made sooner
        keys = keys.filter(_among(keys, listed_keys))
    return _chosen(listed, pc.invert(_among(listed_keys, keys)))


def _among(keys: pa.ChunkedArray | pa.Array, others: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    known = others.combine_chunks() if isinstance(others, pa.ChunkedArray) else others
    return pc.is_in(keys, known, skip_nulls=True)


def excluding(listed: AnyFiles, locations: Collection[str]) -> AnyFiles:
    """Return the files whose location is not among the given ones. Order: kept."""
    return _chosen(listed, pc.invert(_named(listed, locations)))


def including(listed: AnyFiles, locations: Collection[str]) -> AnyFiles:
    """Return the files whose location is among the given ones. Order: kept."""
    return _chosen(listed, _named(listed, locations))


def _chosen(listed: AnyFiles, mask: pa.BooleanArray | pa.ChunkedArray) -> AnyFiles:
    """Return the files where a mask is true; the same ones, not copied, if it is true of all."""
    if pc.all(mask, skip_nulls=False, min_count=0).as_py():
        return listed
    return type(listed)(listed.table.filter(mask))


def _named(listed: Files | ListedFiles, locations: Collection[str]) -> pa.ChunkedArray:
    column = listed.table["location"]
    if len(locations) > len(column):  # a table of the fewer is made sooner
        locations = {*column.to_pylist()}.intersection(locations)
    return pc.is_in(column, value_set=pa.array(locations, pa.string()), skip_nulls=True)


def beginning_with(listed: Files, prefix: str) -> tuple[Files, Files]:
    """Return the files whose location begins with `prefix`, and the others. Order: kept."""
    mask = pc.starts_with(listed.table["location"], prefix)
    return _chosen(listed, mask), _chosen(listed, pc.invert(mask))


def containing(listed: Files, part: str) -> Files:
    """Return the files whose location contains `part`. Order: kept."""
    return Files(listed.table.filter(pc.match_substring(listed.table["location"], part)))


def keys_ending_with(listed: Files, end: str) -> list[str]:
    """Return the keys that end so. Order: kept."""
    keys = listed.table["key"]
    ending: list[str] = keys.filter(pc.ends_with(keys, end)).to_pylist()
    return ending


def with_keys(listed: Files, keys: Collection[str]) -> Files:
    """Return the files of some keys. Order: kept."""
    named = pa.array(list(keys), pa.string())
    return Files(listed.table.filter(pc.is_in(listed.table["key"], value_set=named)))


def folders_of(listed: Files) -> list[str]:
    """Return the folders that the files are right in, each once."""
    folders = pc.replace_substring_regex(listed.table["location"], "/[^/]*$", "")
    once: list[str] = pc.unique(folders).to_pylist()
    return once


def are_content(listed: Files) -> Mask:
    """Return whether each is a data or delete file, or one of vectors. Order: kept."""
    return np.asarray(listed.table["kind"].to_numpy() < int(FileKind.MANIFESTS), np.bool_)


def of_kind(listed: Files, kind: FileKind) -> Files:
    """Return the files of one kind. Order: kept."""
    return Files(listed.table.filter(pc.equal(listed.table["kind"], int(kind))))


def slices(listed: AnyFiles, size: int) -> Iterator[AnyFiles]:
    """Yield the files in pieces of at most `size`. Order: kept."""
    for start in range(0, len(listed), size):
        yield type(listed)(listed.table.slice(start, size))


def in_batches(parts: Iterable[Files], size: int) -> Iterator[Files]:
    """Yield the files of several tables in pieces of `size`, the last of fewer. Order: kept."""
    waiting: list[Files] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += len(part)
        if count >= size:
            listed = _copied(waiting)
            whole = count - count % size
            yield from slices(Files(listed.table.slice(0, whole)), size)
            waiting, count = [Files(listed.table.slice(whole))], count - whole
    if count:
        yield _copied(waiting)


def _copied(parts: Iterable[Files]) -> Files:
    """Return files of several tables in one whose columns are not in parts. Order: kept."""
    return Files(together(parts).table.combine_chunks())


def count_by_kind(listed: Files) -> Mapping[FileKind, int]:
    """Count the files of each kind, kinds without a file too."""
    counts = pc.value_counts(listed.table["kind"].combine_chunks()).to_pylist()
    by_code = {item["values"]: item["counts"] for item in counts}
    return {kind: by_code.get(int(kind), 0) for kind in FileKind}


def total_bytes(listed: Files | ListedFiles) -> int:
    """Return bytes of the files whose size is known."""
    return int(pc.sum(listed.table["size_bytes"]).as_py() or 0)


def of_other_kinds(listed: Files, kinds: Collection[FileKind]) -> Files:
    """Return the files of none of these kinds. Order: kept."""
    left_out = pa.array([int(kind) for kind in kinds], pa.int8())
    return Files(listed.table.filter(pc.invert(pc.is_in(listed.table["kind"], left_out))))


def each_row(listed: Files) -> Iterator[tuple[str, FileKind, int | None]]:
    """Yield (location, kind, size in bytes) of every file, few at once. Order: kept."""
    kinds = list(FileKind)
    for batch in listed.table.to_batches(max_chunksize=10_000):
        columns = (batch[name].to_pylist() for name in ("location", "kind", "size_bytes"))
        for place, kind, size in zip(*columns, strict=True):
            yield place, kinds[kind], size


def rows(listed: Files) -> list[tuple[str, FileKind, int | None]]:
    """List (location, kind, size in bytes) of every file. Order: kept."""
    return list(each_row(listed))


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a listing."""

    location: str
    size_bytes: int
    modified_ms: int | None


def listed_files(listed: ListedFiles) -> Iterator[ListedFile]:
    """Yield every file, a part of the table at a time. Order: kept."""
    for batch in listed.table.to_batches(max_chunksize=10_000):
        columns = [batch[name].to_pylist() for name in ("location", "size_bytes", "modified_ms")]
        yield from map(ListedFile, *columns)


def where(listed: ListedFiles, flags: Sequence[bool] | pa.BooleanArray) -> ListedFiles:
    """Return the files whose flag is set. Order: kept."""
    mask = flags if isinstance(flags, pa.BooleanArray) else pa.array(flags, pa.bool_())
    return _chosen(listed, mask)


def below(listed: ListedFiles, bases: Collection[str]) -> tuple[ListedFiles, ListedFiles]:
    """Return the files below any of the locations, and the others. Order: kept."""
    inside = pa.chunked_array([np.zeros(len(listed), np.bool_)])
    for base in bases:
        prefix = base.rstrip("/") + "/"
        inside = pc.or_(inside, pc.starts_with(listed.table["location"], prefix))
    return _chosen(listed, inside), _chosen(listed, pc.invert(inside))
