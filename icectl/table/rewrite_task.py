"""Pieces of data work: what an engine needs to know to rewrite some files, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from icectl.checks.file_identity import StatedFile
from icectl.format.manifest import FileFormat


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
        """The bytes that the task reads of it."""
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
    carry `sequence_number` (R-045), and another begins where one has `roll_bytes`.
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


Task = RewriteTask | MergeDeletesTask
