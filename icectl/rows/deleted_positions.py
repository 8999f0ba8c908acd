"""Rows of data files that are deleted by position: delete files and deletion vectors (R-121)."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.file_identity import RESTORE_IT
from icectl.errors import CorruptTable, OtherFile, Unsupported
from icectl.files.data_file import DataFile
from icectl.files.data_rows import check_values
from icectl.files.deletion_vectors import (
    REFERENCED_DATA_FILE,
    Positions,
    check_cardinality,
    read_dv,
)
from icectl.files.parquet.schema import field_id
from icectl.files.puffin import PuffinBlob, read_puffin_footer
from icectl.format.locations import with_scheme
from icectl.format.schema import FILE_PATH, PATH_FIELD, POSITION, POSITION_FIELD, Schema
from icectl.format.types import NestedField
from icectl.rows.columns import conversion, path_to
from icectl.rows.read_data import SourceFile, open_own
from icectl.storage.location import loosest_key, name

Flags = npt.NDArray[np.bool_]
"""One flag per row of a file; true for deleted rows."""


class DeletedPositions:
    """Deleted rows of some data files, by the location of each.

    `scheme` is added to paths in delete files without one (sfc-1 L2), unless it is empty. Several
    threads may add positions.
    Memory: a byte for each row of the data files that have deletes.
    """

    def __init__(self, record_counts: Mapping[str, int], scheme: str = "") -> None:
        self._record_counts = record_counts
        self._scheme = scheme
        self._flags: dict[str, Flags] = {}
        self._otherwise_spelled: dict[str, Flags] = {}
        self._by_key = {loosest_key(location): location for location in record_counts}
        self._lock = Lock()

    def of(self, location: str) -> Flags | None:
        """Return the flags of a data file; None if no row is deleted."""
        return self._flags.get(location)

    def add(self, location: str, positions: npt.NDArray[np.integer]) -> None:
        """Delete rows of one data file; positions behind the last row delete nothing."""
        self._mark(self._flags, location, positions)

    def add_file(
        self, deletes: DataFile, applies_to: Collection[str], only: str | None = None
    ) -> None:
        """Delete the rows that a position delete file names in files that it applies to.

        Raises: as named_positions; Unsupported.
        """
        found = named_positions(deletes, applies_to, self._by_key, self._scheme, only=only)
        self._add_named(found)

    def add_together(self, deletes: DataFile, files: Sequence["PositionDeletes"]) -> None:
        """Delete the rows that several files name which were opened as one, as add_file does."""
        (rows,) = _named_rows(deletes)  # files that are opened as one have a single batch
        start = 0
        for one in files:
            target_of = _targets(one.applies_to, self._by_key, self._scheme, one.named)
            stop = start + one.file.record_count
            self._add_named(rows.by_target(target_of, slice(start, stop)))
            start = stop

    def _add_named(self, positions: Iterable[tuple["NamedFile", npt.NDArray[np.integer]]]) -> None:
        for target, numbers in positions:
            marked = self._flags if target.is_exact else self._otherwise_spelled
            self._mark(marked, target.location, numbers)

    def check_spelling(self) -> None:
        """Refuse deletes that only apply if two spellings of a path mean the same file.

        Raises: Unsupported, if such deletes name rows that no other deletes.
        """
        count = sum(
            int((flags & np.logical_not(self._flags.get(location, False))).sum())
            for location, flags in self._otherwise_spelled.items()
        )
        if count:
            raise spelled_otherwise(next(iter(self._otherwise_spelled)), count)

    def _mark(
        self, marked: dict[str, Flags], location: str, positions: npt.NDArray[np.integer]
    ) -> None:
        count = self._record_counts[location]
        inside = positions[(positions >= 0) & (positions < count)]
        with self._lock:
            flags = marked.get(location)
            if flags is None:
                flags = marked[location] = np.zeros(count, np.bool_)
            flags[inside.astype(np.int64)] = True


def spelled_otherwise(location: str, row_count: int) -> Unsupported:
    """Return the error for deletes that spell a path differently."""
    return Unsupported(
        f"position deletes write the path of {location} in another form, so readers disagree on "
        f"{row_count:,} rows",
        hint="rewrite the position deletes with the engine that wrote them",
    )


def puffin_blobs(file: IO[bytes]) -> Mapping[tuple[int, int], PuffinBlob]:
    """Return the blobs of a Puffin file by offset and length. Raises: as read_puffin_footer."""
    size_bytes = file.seek(0, 2)

    def read_range(offset: int, length: int) -> bytes:
        file.seek(size_bytes + offset)
        return file.read(length)

    footer = read_puffin_footer(read_range, size_bytes)
    return {(blob.offset, blob.length): blob for blob in footer.blobs}


def vector_positions(file: IO[bytes], offset: int, size_bytes: int, count: int) -> Positions:
    """Return the positions of one deletion vector of a Puffin file. Raises: as read_dv; R-118."""
    file.seek(offset)
    positions = read_dv(file.read(size_bytes), count)
    check_cardinality(positions, count)
    return positions


@dataclass(frozen=True, slots=True)
class PositionDeletes:
    """A position delete file; `applies_to` are the locations of data files (R-111, R-113).

    Its entry may name the only data file (`named`).
    """

    file: SourceFile
    applies_to: frozenset[str]
    named: str | None = None

    def open(self, file: IO[bytes]) -> DataFile:
        return open_own(file, self.file, Schema(0, ()), is_read_whole=True)


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """A deletion vector of one data file, by its place in a Puffin file (R-118)."""

    location: str
    content_offset: int
    content_size_in_bytes: int
    record_count: int
    data_file: str

    def check_own(self, blobs: Mapping[tuple[int, int], PuffinBlob]) -> None:
        """Check that the footer of the Puffin file has the vector of the data file.

        Names are compared without folders: tables are moved, and spell these differently.
        Raises: OtherFile R-118.
        """
        blob = blobs.get((self.content_offset, self.content_size_in_bytes))
        if blob is None:
            message = f"{self.location} has no deletion vector at {self.content_offset}"
            raise OtherFile(message, rule="R-118", hint=RESTORE_IT)
        stated = blob.properties.get(REFERENCED_DATA_FILE)
        if stated is not None and name(stated) != name(self.data_file):
            message = f"the deletion vector of {self.data_file} is one of {stated}"
            raise OtherFile(message, rule="R-118", hint=RESTORE_IT)

    def positions(self, file: IO[bytes]) -> Positions:
        size = self.content_size_in_bytes
        return vector_positions(file, self.content_offset, size, self.record_count)


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A named data file, spelled as in its entry (`is_exact`) or differently."""

    location: str
    is_exact: bool


_TargetOf = Callable[[str], NamedFile | None]
"""Returns the data file that a path names; None for one that deletes do not apply to."""


def named_positions(
    deletes: DataFile,
    applies_to: Collection[str],
    by_key: Mapping[str, str],
    scheme: str = "",
    *,
    only: str | None = None,
) -> Iterator[tuple[NamedFile, npt.NDArray[np.int64]]]:
    """Yield the positions of a position delete file, by data file that it applies to.

    `by_key` has locations by loosest key; `scheme` is that of paths without one; `only` is the
    single data file that its entry names, if any.
    Raises: CorruptTable R-099, R-121; OtherFile R-121, if it names a file that is not `only`.
    """
    target_of = _targets(applies_to, by_key, scheme, only)
    for rows in _named_rows(deletes):
        yield from rows.by_target(target_of, slice(None))


def _targets(
    applies_to: Collection[str], by_key: Mapping[str, str], scheme: str, only: str | None
) -> _TargetOf:
    """Return what finds the data files of named_positions."""
    applies = frozenset(applies_to)

    @cache
    def target_of(path: str) -> NamedFile | None:
        if scheme:
            path = with_scheme(scheme, path)
        if only is not None and loosest_key(path) != loosest_key(only):
            message = f"a position delete file of {only} names {path}"
            raise OtherFile(message, rule="R-121", hint=RESTORE_IT)
        if path in applies:
            return NamedFile(path, is_exact=True)
        meant = by_key.get(loosest_key(path))
        return NamedFile(meant, is_exact=False) if meant in applies else None

    return target_of


@dataclass(frozen=True, slots=True)
class _NamedRows:
    """Rows of position deletes: the path of each by its place among `paths`, and its position."""

    paths: Sequence[str]
    codes: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int64]

    def by_target(
        self, target_of: _TargetOf, part: slice
    ) -> Iterator[tuple[NamedFile, npt.NDArray[np.int64]]]:
        """Yield the positions of a part of the rows, by data file. Raises: as `target_of`."""
        codes, positions = self.codes[part], self.positions[part]
        if len(codes) and codes.min() != codes.max():
            order = np.argsort(codes, kind="stable")
            codes, positions = codes[order], positions[order]
        ends = [*(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
        start = 0
        for end in ends if len(codes) else ():
            target = target_of(self.paths[codes[start]])
            if target is not None:
                yield target, positions[start:end]
            start = end


def _named_rows(deletes: DataFile) -> Iterator[_NamedRows]:
    """Yield the rows of position deletes. Raises: CorruptTable R-099, R-121."""
    if any(path_to(deletes.schema, id_) is None for id_ in (FILE_PATH, POSITION)):
        message = "a position delete file lacks one of the columns `file_path` and `pos`"
        raise CorruptTable(message, rule="R-121")
    order = [id_ for id_ in map(field_id, deletes.schema) if id_ in (FILE_PATH, POSITION)]
    places = order.index(FILE_PATH), order.index(POSITION)
    for rows in deletes.batches({FILE_PATH, POSITION}):
        paths = as_stated(rows.batch.column(places[0]), PATH_FIELD)
        positions = as_stated(rows.batch.column(places[1]), POSITION_FIELD)
        if paths.null_count or positions.null_count:
            message = "a position delete file has a null path or position"
            raise CorruptTable(message, rule="R-121")
        encoded = paths.dictionary_encode()
        check_values(encoded.dictionary)
        codes = encoded.indices.to_numpy()
        yield _NamedRows(encoded.dictionary.to_pylist(), codes, positions.to_numpy())


def as_stated(column: pa.Array, stated: NestedField) -> pa.Array:
    """Return a column of a position delete file in the type of the format.

    Raises: CorruptTable R-121, if the stored type can't become it.
    """
    convert = conversion(column.type, stated.type)
    try:
        if convert is not None:
            return convert(column)
    except pa.ArrowInvalid:
        pass
    message = f"`{stated.name}` of a position delete file is stored as {column.type}"
    raise CorruptTable(message, rule="R-121")


def named_data_files(opened: DataFile) -> dict[str, int]:
    """Count the rows of a position delete file by data file, as spelt.

    Raises: CorruptTable R-099, R-121; Unsupported. Errors of the file pass.
    Cost: one column, a row group at a time.
    """
    places = [place for place, item in enumerate(opened.schema) if field_id(item) == FILE_PATH]
    if not places:
        message = "a position delete file lacks the column `file_path`"
        raise CorruptTable(message, rule="R-121")
    counts: Counter[str] = Counter()
    for rows in opened.batches({FILE_PATH}):
        name_counts = pc.value_counts(as_stated(rows.batch.column(0), PATH_FIELD))
        check_values(name_counts.field(0))
        for name_count in name_counts.to_pylist():
            if name_count["values"] is None:
                raise CorruptTable("a position delete file has a null path", rule="R-121")
            counts[name_count["values"]] += name_count["counts"]
    return dict(counts)
