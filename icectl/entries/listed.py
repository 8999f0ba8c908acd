"""Files as a listing shows them: location, size in bytes, and when they were modified."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """Files as a table of (location, size_bytes, modified_ms); a null time is not known."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a listing."""

    location: str
    size_bytes: int
    modified_ms: int | None


def listed_files(found: ListedFiles) -> Iterator[ListedFile]:
    """Yield every file, a part of the table at a time. Order: kept."""
    for batch in found.table.to_batches(max_chunksize=10_000):
        columns = [batch[name].to_pylist() for name in ("location", "size_bytes", "modified_ms")]
        yield from map(ListedFile, *columns)


def listed_bytes(found: ListedFiles) -> int:
    """Return the bytes of all files."""
    return int(pc.sum(found.table["size_bytes"]).as_py() or 0)


def listed_together(parts: Iterable[ListedFiles]) -> ListedFiles:
    """Return the files of several tables, at least one, in one. Order: kept."""
    return ListedFiles(pa.concat_tables([part.table for part in parts]))


def listed_none(found: ListedFiles) -> ListedFiles:
    """Return no files, in a table of the same columns."""
    return ListedFiles(found.table.slice(0, 0))


def listed_slices(found: ListedFiles, size: int) -> Iterator[ListedFiles]:
    """Yield the files in pieces of at most `size`. Order: kept."""
    for start in range(0, len(found), size):
        yield ListedFiles(found.table.slice(start, size))


def where(found: ListedFiles, flags: Sequence[bool] | pa.BooleanArray) -> ListedFiles:
    """Return the files whose flag is set. Order: kept."""
    mask = flags if isinstance(flags, pa.BooleanArray) else pa.array(flags, pa.bool_())
    return ListedFiles(found.table.filter(mask))


def but(found: ListedFiles, locations: Collection[str]) -> ListedFiles:
    """Return the files at other locations than these. Order: kept."""
    named = pa.array(locations, pa.string())
    return ListedFiles(
        found.table.filter(pc.invert(pc.is_in(found.table["location"], value_set=named)))
    )


def below(found: ListedFiles, bases: Collection[str]) -> tuple[ListedFiles, ListedFiles]:
    """Return the files below any of the locations, and the others. Order: kept."""
    inside = pa.array([False] * len(found), pa.bool_())
    for base in bases:
        inside = pc.or_(
            inside,
            pc.starts_with(found.table["location"].combine_chunks(), base.rstrip("/") + "/"),
        )
    return ListedFiles(found.table.filter(inside)), ListedFiles(
        found.table.filter(pc.invert(inside))
    )
