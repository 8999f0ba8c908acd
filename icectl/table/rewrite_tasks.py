"""Tasks of a rewrite: bins of data files with the deletes that apply to each file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from icectl.checks.file_identity import StatedFile
from icectl.entries.deletes import DeleteIndex
from icectl.entries.rows import Entries, by_row, take
from icectl.format.manifest import FileFormat
from icectl.table.output_sizes import Sizes


@dataclass(frozen=True, slots=True)
class TaskVector:
    """One blob of a Puffin file."""

    location: str
    content_offset: int
    size_bytes: int
    record_count: int
    sequence_number: int


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A position delete file, or an equality delete file with its equality ids.

    `stated` is what its entry states of it, where that was read.
    """

    location: str
    file_format: FileFormat
    size_bytes: int
    record_count: int
    sequence_number: int
    spec_id: int
    partition_key: bytes
    equality_ids: tuple[int, ...] = ()
    referenced_data_file: str | None = None
    stated: StatedFile | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class InputFile:
    """A data file and the deletes that apply to it by metadata (R-111 to R-113).

    `position_deletes` and `equality_deletes` index the delete files of the task. Where the task
    does not read the whole file, it reads the row groups that begin in the bytes from the first of
    `split` up to, but not at, the second; positions count from the start of the file all the same.
    `stated` is what its entry states of it, where that was read.
    """

    location: str
    file_format: FileFormat
    size_bytes: int
    record_count: int
    spec_id: int
    partition_key: bytes
    sequence_number: int
    first_row_id: int | None = None
    split: tuple[int, int] | None = None
    vector: TaskVector | None = None
    position_deletes: tuple[int, ...] = ()
    equality_deletes: tuple[int, ...] = ()
    stated: StatedFile | None = field(default=None, compare=False)

    @property
    def read_bytes(self) -> int:
        return self.size_bytes if self.split is None else self.split[1] - self.split[0]


def even_splits(size_bytes: int, count: int) -> Sequence[tuple[int, int]]:
    """Cut a file into parts of about equal bytes, wherever its row groups begin."""
    return list(pairwise(size_bytes * number // count for number in range(count + 1)))


Method = Literal["auto", "merge", "rewrite"]
"""How data files become new ones: rows decoded and written again, or column chunks copied as they
are. `auto` is to merge where footers allow for it, and else to rewrite."""


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Data files whose live rows become new files: most often one.

    New files lie in the partition of `partition_key`; None lets the spec decide row by row. They
    carry `sequence_number` (R-045) and in their names the `mark`; another begins where one has
    `roll_bytes`.
    """

    task_id: str
    group: int
    inputs: tuple[InputFile, ...]
    delete_files: tuple[DeleteFile, ...]
    spec_id: int
    partition_key: bytes | None
    sequence_number: int
    roll_bytes: int
    expected_bytes: int
    method: Method = "rewrite"
    mark: str = ""


@dataclass(frozen=True, slots=True)
class MergeDeletesTask:
    """Data files whose position deletes and vectors become one each, of the form asked for.

    New deletes are of the spec and partition of their data file, and carry the highest sequence
    number of the old ones.
    """

    task_id: str
    group: int
    inputs: tuple[InputFile, ...]
    delete_files: tuple[DeleteFile, ...]
    form: Literal["positions", "vectors"]


@dataclass(frozen=True, slots=True)
class ConvertTask:
    """Data files whose rows are looked up in equality deletes, which are all of its delete files.

    `inputs` name no deletes of theirs: sequence number, spec and partition say which ones apply
    (R-112). `read_bytes` is about what is read. Nothing is written.
    """

    task_id: str
    group: int
    inputs: tuple[InputFile, ...]
    delete_files: tuple[DeleteFile, ...]
    read_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Data files of which some columns are read, and the deletes that apply to them.

    `read_bytes` is about what is read. Nothing is written.
    """

    task_id: str
    group: int
    inputs: tuple[InputFile, ...]
    delete_files: tuple[DeleteFile, ...] = ()
    read_bytes: int = 0


Task = RewriteTask | MergeDeletesTask | ConvertTask | ReadTask


LOADED_COLUMNS = frozenset(
    {
        "content", "status", "location", "file_format", "spec_id", "partition_key", "record_count",
        "file_size_in_bytes", "snapshot_id", "sequence_number", "file_sequence_number",
        "first_row_id", "sort_order_id", "referenced_data_file", "content_offset",
        "content_size_in_bytes", "split_offsets", "equality_ids", "key_metadata",
    }
)  # fmt: skip
"""What a compaction is planned by, metrics aside."""

_INPUT = (
    "location", "file_format", "file_size_in_bytes", "record_count", "spec_id", "partition_key",
    "sequence_number", "first_row_id",
)  # fmt: skip
_DELETE = (
    "location", "file_format", "file_size_in_bytes", "record_count", "sequence_number", "spec_id",
    "partition_key", "equality_ids", "referenced_data_file",
)  # fmt: skip
_VECTOR = (
    "location", "content_offset", "content_size_in_bytes", "record_count", "sequence_number",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bin:
    """Rows of the data files that one task reads; `split` where it reads part of a single one."""

    files: tuple[int, ...]
    split: tuple[int, int] | None
    expected_bytes: int


def split_bins(data: Entries, row: int, live_bytes: int, sizes: Sizes) -> tuple[Bin, ...]:
    """Cut a large file into bins of about equal parts, at the offsets that its entry names.

    A Parquet file without such offsets is cut by bytes; another one is one bin, whose task writes
    several files.
    """
    ((file_format, size, offsets),) = by_row(
        take(data, [row]), "file_format", "file_size_in_bytes", "split_offsets"
    )
    count = sizes.parts(live_bytes)
    if file_format != FileFormat.PARQUET:
        return (Bin((row,), None, live_bytes),)
    is_cut = offsets and None not in offsets
    if not is_cut or any(low >= high for low, high in pairwise([0, *offsets, size])):
        shares = even_splits(live_bytes, count)
        return tuple(
            Bin((row,), split, stop - start)
            for split, (start, stop) in zip(even_splits(size, count), shares, strict=True)
        )
    stored = size - offsets[0]
    starts: dict[int, int] = {}
    for start, stop in zip(offsets, [*offsets[1:], size], strict=True):
        middle = (start + stop) / 2 - offsets[0]
        starts.setdefault(min(count - 1, int(middle * count / stored)), start)
    # From the first byte to the last, so that no row group is left out whatever offsets say.
    bounds = [0, *list(starts.values())[1:], size]
    if len(bounds) == 2:
        return (Bin((row,), None, live_bytes),)
    return tuple(
        Bin((row,), (start, stop), live_bytes * (stop - max(start, offsets[0])) // stored)
        for start, stop in pairwise(bounds)
    )


def data_inputs(data: Entries) -> tuple[InputFile, ...]:
    """Return data files that are read with all of their rows, deleted ones too. Order: kept."""
    return _plain_inputs(by_row(data, *_INPUT))


def _plain_inputs(values: Iterable[Sequence[Any]]) -> tuple[InputFile, ...]:
    return tuple(InputFile(location, FileFormat(kind), *rest) for location, kind, *rest in values)


class TaskMaker:
    """A maker of tasks of the chosen data files of a snapshot; its columns are read once.

    `index` is of `data` and `deletes`, row by row.
    """

    def __init__(
        self, data: Entries, deletes: Entries, index: DeleteIndex, chosen: Sequence[int]
    ) -> None:
        self._deletes = deletes
        self._index = index
        of_inputs = Entries(data.table.select(list(_INPUT)))
        self._values = dict(zip(chosen, by_row(take(of_inputs, chosen), *_INPUT), strict=True))

    def rewrite(self, bin_: Bin, blank: RewriteTask) -> RewriteTask:
        """Return the task of a bin, all else as `blank` has it."""
        inputs, delete_files = self.inputs(bin_.files, bin_.split)
        return replace(
            blank, inputs=inputs, delete_files=delete_files, expected_bytes=bin_.expected_bytes
        )

    def row_count(self, rows: Sequence[int]) -> int:
        place = _INPUT.index("record_count")
        return sum(self._values[row][place] for row in rows)

    def merge(self, rows: Sequence[int], blank: MergeDeletesTask) -> MergeDeletesTask:
        """Return the task that merges what deletes rows of data files by position, else as `blank`.

        It names no equality deletes: what it names is replaced.
        """
        inputs, delete_files = self.inputs(rows, None)
        used = sorted({place for file in inputs for place in file.position_deletes})
        places = {place: new for new, place in enumerate(used)}
        by_position = tuple(
            replace(
                file,
                position_deletes=tuple(places[delete] for delete in file.position_deletes),
                equality_deletes=(),
            )
            for file in inputs
        )
        deletes = tuple(delete_files[place] for place in used)
        return replace(blank, inputs=by_position, delete_files=deletes)

    def convert(self, rows: Sequence[int], blank: ConvertTask) -> ConvertTask:
        """Return the task that looks rows of data files up in its deletes, else as `blank`."""
        return replace(blank, inputs=_plain_inputs(self._values[row] for row in rows))

    def inputs(
        self, rows: Sequence[int], split: tuple[int, int] | None
    ) -> tuple[tuple[InputFile, ...], tuple[DeleteFile, ...]]:
        """Data files with the deletes that apply, and those of them that are files, each once."""
        of_files = [self._index.of(row) for row in rows]
        files = sorted(
            {row for file in of_files for row in (*file.position_deletes, *file.equality_deletes)}
        )
        places = {row: place for place, row in enumerate(files)}
        vector_rows = [row for file in of_files for row in file.vectors]
        vectors = dict(zip(vector_rows, self._rows(vector_rows, _VECTOR), strict=True))
        inputs = []
        for row, applied in zip(rows, of_files, strict=True):
            location, file_format, size, records, spec_id, key, number, row_id = self._values[row]
            inputs.append(
                InputFile(
                    location,
                    FileFormat(file_format),
                    size,
                    records,
                    spec_id,
                    key,
                    number,
                    row_id,
                    split=split,
                    vector=TaskVector(*vectors[applied.vectors[0]]) if applied.vectors else None,
                    position_deletes=tuple(places[at] for at in applied.position_deletes),
                    equality_deletes=tuple(places[at] for at in applied.equality_deletes),
                )
            )
        return tuple(inputs), self.delete_files(files)

    def delete_files(self, rows: Sequence[int]) -> tuple[DeleteFile, ...]:
        """Return delete files by their rows, in that order."""
        return tuple(
            DeleteFile(path, FileFormat(kind), size, count, number, spec, key, tuple(ids or ()), of)
            for path, kind, size, count, number, spec, key, ids, of in self._rows(rows, _DELETE)
        )

    def _rows(self, rows: Sequence[int], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        return by_row(take(self._deletes, rows), *columns) if rows else iter(())
