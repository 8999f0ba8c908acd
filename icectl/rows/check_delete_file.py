"""Checks of one delete file against its manifest entry and the data files that it names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa

from icectl.checks.rule import Finding
from icectl.checks.rules import finding
from icectl.errors import CorruptTable, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.deletion_vectors import (
    BLOB_TYPE,
    CARDINALITY,
    REFERENCED_DATA_FILE,
    check_cardinality,
    read_dv,
)
from icectl.files.parquet.schema import field_id
from icectl.files.puffin import PuffinBlob, read_blob, read_puffin_footer
from icectl.format.schema import FILE_PATH, POSITION, POSITION_DELETES
from icectl.rows.check_data_file import (
    RecordedFile,
    TableFacts,
    check_count,
    check_metrics,
    readable,
    type_problems,
    unread,
)
from icectl.rows.columns import ColumnFacts, path_to
from icectl.rows.decoded_rows import DecodedRows
from icectl.storage.location import before_path, comparison_key

RecordCount = Callable[[str], int | None]
"""Returns the rows of the live data file at a location; None without one."""


@dataclass(frozen=True, slots=True)
class RecordedDeletes:
    """A delete file as a manifest records it; members of deletion vectors are None elsewhere."""

    file: RecordedFile
    equality_ids: Sequence[int] = ()
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None


def check_position_deletes(
    file: IO[bytes], deletes: RecordedDeletes, record_count: RecordCount, *, by_footer: bool = False
) -> Iterator[Finding]:
    """Check that positions are sorted, and lie inside of live data files (R-121).

    Raises: OSError of the file.
    Cost: all columns, a row group at a time; `by_footer` two of them.
    """
    location = deletes.file.location

    def findings() -> Iterator[Finding]:
        opened = open_data_file(file, deletes.file.file_format.name)
        lacking = [id_ for id_ in (FILE_PATH, POSITION) if path_to(opened.schema, id_) is None]
        if lacking:
            yield finding("R-121", location, f"it has no column with the field id {lacking[0]}")
            return
        tally = _Positions(record_count)
        decoded = DecodedRows(opened, deletes.file.file_format, POSITION_DELETES)
        for rows in opened.batches({FILE_PATH, POSITION}) if by_footer else decoded.batches():
            if by_footer:
                rows.check()
            columns = {field_id(item): at for at, item in enumerate(rows.batch.schema)}
            tally.add(rows.batch.column(columns[FILE_PATH]), rows.batch.column(columns[POSITION]))
        if by_footer:
            yield from check_count(deletes.file, opened.record_count)
        else:
            yield from _compared(decoded, deletes)
        yield from tally.findings(location)

    return readable(location, findings())


def _compared(decoded: DecodedRows, deletes: RecordedDeletes) -> Iterator[Finding]:
    """Check all rows of a delete file; if they contradict its footer, only that is a finding."""
    belied = tuple(decoded.findings(deletes.file.location))
    yield from belied
    if not belied:
        yield from check_count(deletes.file, decoded.row_count)
        measured = decoded.measured.items()
        alike = {id_: facts for id_, facts in measured if id_ not in decoded.unlike}
        if _is_spelled_otherwise(alike.get(FILE_PATH), deletes.file):
            del alike[FILE_PATH]
        yield from check_metrics(deletes.file, alike, decoded.schema)


class _Positions:
    """A check of deleted positions, over all batches."""

    def __init__(self, record_count: RecordCount) -> None:
        self._record_count = record_count
        self._counts: dict[str, int | None] = {}
        self._last: tuple[str, int] | None = None
        self._unsorted = False
        self._outside: dict[str, int] = {}
        self._nulls = 0

    def add(self, paths: pa.Array, positions: pa.Array) -> None:
        self._nulls += paths.null_count + positions.null_count
        if self._nulls or not len(paths):
            return
        encoded = paths.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy()
        numbers = positions.to_numpy()
        ranks = np.argsort(np.argsort([name.encode() for name in names]))[codes]
        falls = (np.diff(ranks) < 0) | ((np.diff(ranks) == 0) & (np.diff(numbers) < 0))
        first = names[codes[0]], int(numbers[0])
        begins_before = self._last is not None and first < self._last
        self._unsorted = self._unsorted or bool(falls.any()) or begins_before
        self._last = names[codes[-1]], int(numbers[-1])
        for code, name in enumerate(names):
            if name not in self._counts:
                self._counts[name] = self._record_count(name)
            count = self._counts[name]
            of_file = numbers[codes == code]
            if (of_file < 0).any() or (count is not None and (of_file >= count).any()):
                self._outside[name] = int(of_file.max() if of_file.min() >= 0 else of_file.min())

    def findings(self, location: str) -> Iterator[Finding]:
        """Check the added deletes (R-111, R-121)."""
        if self._nulls:
            yield finding("R-121", location, "it has null paths or positions")
        if self._unsorted:
            yield finding("R-121", location, "its rows are not sorted by path and position")
        for name, position in self._outside.items():
            count = self._counts[name]
            message = f"it deletes position {position} of `{name}`, which has {count} rows"
            yield finding("R-121", location, message)
        unknown = [name for name, count in self._counts.items() if count is None]
        if unknown and len(unknown) == len(self._counts):
            message = f"none of its {len(unknown):,} data files is live; one is `{unknown[0]}`"
            yield finding("R-111", location, message, severity="info")


def _is_spelled_otherwise(paths: ColumnFacts | None, file: RecordedFile) -> bool:
    """Return whether bounds and rows have different schemes or hosts: they can't be compared."""
    bound = file.lower_bounds.get(FILE_PATH)
    if paths is None or bound is None or not isinstance(paths.lower, str):
        return False
    return before_path(paths.lower) != before_path(bound.decode(errors="replace"))


def check_equality_deletes(
    file: IO[bytes], deletes: RecordedDeletes, table: TableFacts, *, by_footer: bool = False
) -> Iterator[Finding]:
    """Check that equality deletes have the columns that they compare (R-123).

    Raises: OSError of the file.
    Cost: all columns, a row group at a time; only the footer `by_footer`.
    """
    location = deletes.file.location

    def findings() -> Iterator[Finding]:
        opened = open_data_file(file, deletes.file.file_format.name)
        lacking = [id_ for id_ in deletes.equality_ids if path_to(opened.schema, id_) is None]
        if lacking:
            message = f"it has no column with the field id {lacking[0]}, which it should compare"
            yield finding("R-123", location, message)
        if by_footer:
            yield from check_count(deletes.file, opened.record_count)
            return
        unlike = type_problems(opened.schema, table.schema)
        for problem in unlike.values():
            yield finding("R-095", location, problem)
        decoded = DecodedRows(opened, deletes.file.file_format, table.schema, unlike)
        for _ in decoded.batches():
            pass
        yield from _compared(decoded, deletes)

    return readable(location, findings())


def check_vectors(
    read_range: Callable[[int, int], bytes],
    size_bytes: int,
    vectors: Sequence[RecordedDeletes],
    record_count: RecordCount,
    named: Callable[[str], str],
) -> Iterator[Finding]:
    """Check the deletion vectors of one Puffin file: footer, checksums, positions (R-118, R-119).

    `read_range` returns bytes from an offset, a negative one from the end. `named` converts
    locations of the footer to those of manifests.
    Cost: the footer, and the bytes of the vectors.
    """
    location = vectors[0].file.location
    try:
        puffin = read_puffin_footer(read_range, size_bytes)
    except (CorruptTable, Unsupported) as error:
        yield unread(location, error)
        return
    blobs = {(blob.offset, blob.length): blob for blob in puffin.blobs}
    for vector in vectors:
        yield from _vector(read_range, blobs, vector, record_count, named)


def _vector(
    read_range: Callable[[int, int], bytes],
    blobs: Mapping[tuple[int, int], PuffinBlob],
    vector: RecordedDeletes,
    record_count: RecordCount,
    named: Callable[[str], str],
) -> Iterator[Finding]:
    location = vector.file.location
    offset, length = vector.content_offset, vector.content_size_in_bytes
    if offset is None or length is None or vector.referenced_data_file is None:
        return  # level metadata reports it
    blob = blobs.get((offset, length))
    if blob is None or blob.type != BLOB_TYPE:
        message = f"its footer has no deletion vector of {length} bytes at {offset}"
        yield finding("R-118", location, message)
        return
    place = blob.properties.get(REFERENCED_DATA_FILE)
    for name, stored, expected in (
        (
            REFERENCED_DATA_FILE,
            None if place is None else named(place),
            vector.referenced_data_file,
        ),
        (CARDINALITY, blob.properties.get(CARDINALITY), str(vector.file.record_count)),
    ):
        if stored is None or comparison_key(stored) != comparison_key(expected):
            message = f"its footer says `{name}` {stored}, the manifest {expected}"
            yield finding("R-118", location, message)
    try:
        positions = read_dv(read_blob(read_range(offset, length), blob), vector.file.record_count)
        check_cardinality(positions, vector.file.record_count)
    except (CorruptTable, Unsupported) as error:
        yield unread(location, error)
        return
    count = record_count(vector.referenced_data_file)
    if count is not None and len(positions) and int(positions[-1]) >= count:
        message = (
            f"it deletes position {int(positions[-1])} of `{vector.referenced_data_file}`, "
            f"which has {count} rows"
        )
        yield finding("R-118", location, message)
