"""The columns of Parquet files that are merged, and the form of each in the new file."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from icectl.files.parquet.data_file import open_parquet
from icectl.files.parquet.footer import (
    STRUCT,
    Integers,
    encode_bytes,
    encode_number,
    encode_struct,
    header_of_list,
)

MAGIC = b"PAR1"
INTEGER, LONG, TEXT, ELEMENTS = 5, 6, 8, 9
"""Kinds of the members of a footer."""

_REPETITIONS = {0: "required", 1: "optional", 2: "repeated"}
_PHYSICAL_TYPES = ("boolean", "int32", "int64", "int96", "float", "double", "binary", "fixed")


class NotMergeable(Exception):
    """Files that can't be merged without decoding them; says why."""


class NothingToMerge(NotMergeable):
    """Files without a row to copy: nothing takes their place."""


ColumnKey = int | bytes
"""The field id of a column, or its name where it has none."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file with all that is inside of it.

    `leaves` are the places of what is stored, `paths` their names as footers have them, and `shape`
    is what has to be the same in files that are merged: all that is said but names. `form` is
    what pages depend on: type, its length, repetition and number of parts.
    """

    key: ColumnKey
    name: bytes
    leaves: range
    paths: tuple[bytes, ...]
    shape: tuple[bytes, ...]
    form: tuple[tuple[int, ...], ...]
    elements: bytes
    orders: tuple[bytes, ...]

    @property
    def shown(self) -> str:
        return self.name.decode("utf-8", "replace")

    @property
    def stored_as(self) -> str:
        """Its repetition and physical type."""
        type_, _, repetition, children = self.form[0]
        name = "nested" if children > 0 else dict(enumerate(_PHYSICAL_TYPES)).get(type_, "unknown")
        return f"{_REPETITIONS.get(repetition, 'unknown')} {name}"

    @property
    def field(self) -> pa.Field:
        """The column as Arrow has it, with field ids."""
        return open_parquet(io.BytesIO(_file_of(self)), ()).schema.field(0)

    @property
    def is_optional(self) -> bool:
        """Whether rows may lack a value."""
        return self.form[0][2] == 1

    def is_stored_as(self, other: "FileColumn") -> bool:
        """Whether chunks of both can be in one file."""
        return self.shape == other.shape and self.orders == other.orders


@dataclass(frozen=True, slots=True)
class FileShape:
    """What has to agree in files that are merged: what is said once a file, and columns."""

    stated_once: tuple[tuple[str, bytes], ...]
    columns: tuple[FileColumn, ...]


@dataclass(frozen=True, slots=True)
class AlikeColumn:
    """A column of some files that store it alike: its bytes, and whether footers say it is full.

    A full column has no nulls, and no empty lists.
    """

    column: FileColumn
    size_bytes: int
    is_full: bool


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """The columns of one file, or of several that store them alike, and what they take."""

    shape: FileShape
    sizes: tuple[int, ...]
    are_full: tuple[bool, ...]

    @property
    def columns(self) -> Iterator[AlikeColumn]:
        parts = zip(self.shape.columns, self.sizes, self.are_full, strict=True)
        return (AlikeColumn(*part) for part in parts)

    def with_others(self, other: "StoredColumns") -> "StoredColumns":
        """Return those of more files, which store them in the same way."""
        sizes = tuple(map(sum, zip(self.sizes, other.sizes, strict=True)))
        are_full = tuple(map(all, zip(self.are_full, other.are_full, strict=True)))
        return replace(self, sizes=sizes, are_full=are_full)


class WithColumns(Protocol):
    """A file by its columns."""

    @property
    def columns(self) -> Sequence[FileColumn]:
        """Its columns, in their order."""


class ColumnForms(Protocol):
    """The forms that the columns of a table can be written in."""

    def common_form(
        self, columns: Sequence[AlikeColumn], *, may_be_missing: bool
    ) -> FileColumn | None:
        """Return a form that all of these can have, for the fewest bytes to decode; or None."""


@dataclass(frozen=True, slots=True)
class MergedColumns:
    """The columns of a file that is made of others."""

    columns: Sequence[FileColumn]

    @property
    def paths(self) -> Sequence[bytes]:
        return [path for column in self.columns for path in column.paths]

    def places_in(self, source: WithColumns) -> Integers:
        """Return where a file has what is stored, in order; -1 for what it lacks."""
        stored_columns = {column.key: column for column in source.columns}
        places: list[int] = []
        for column in self.columns:
            stored = stored_columns.get(column.key)
            places += [-1] * len(column.leaves) if stored is None else list(stored.leaves)
        return np.array(places, np.int64)

    def decoded_in(self, file: WithColumns) -> Sequence[ColumnKey]:
        """Return the columns that a file stores in another form."""
        forms = {column.key: column for column in self.columns}
        return [column.key for column in file.columns if not column.is_stored_as(forms[column.key])]

    def missing_in(self, files: Sequence[WithColumns]) -> Sequence[FileColumn]:
        """Return the columns that not all of some files have."""
        keys = [{column.key for column in file.columns} for file in files]
        return [column for column in self.columns if not all(column.key in has for has in keys)]

    def with_more(self, more: WithColumns) -> "MergedColumns":
        """Return the layout with columns a file has beyond it. Raises: NotMergeable."""
        known = {column.key: column for column in self.columns}
        for column in more.columns:
            if column.key in known and known[column.key].form != column.form:
                raise NotMergeable(
                    f"one of its files lacks `{column.shown}`, stored in an unusual way"
                )
        columns = [*self.columns, *(column for column in more.columns if column.key not in known)]
        return _checked(columns)


def joined(files: Sequence[StoredColumns], forms: ColumnForms | None = None) -> MergedColumns:
    """Return the columns that some files have together: of the first one, then of others.

    A column that is stored in several ways has the form of `forms`, if there are any.
    Raises: NotMergeable, where files differ in what is said once, where a column is stored in
    different ways, or may not be missing.
    """
    first = dict(files[0].shape.stated_once)
    columns: dict[ColumnKey, list[AlikeColumn]] = {}
    for stored in files:
        for what, value in stored.shape.stated_once:
            if first[what] != value:
                raise NotMergeable(f"it has another {what} than the files beside it")
        for column in stored.columns:
            columns.setdefault(column.column.key, []).append(column)
    return _checked([_joined(of, len(files), forms) for of in columns.values()])


def _joined(
    columns: Sequence[AlikeColumn], file_count: int, forms: ColumnForms | None
) -> FileColumn:
    """Return a column that some of the files have. Raises: NotMergeable."""
    first = columns[0].column
    other = next((of.column for of in columns if not first.is_stored_as(of.column)), None)
    is_missing = len(columns) < file_count
    if other is None and (first.is_optional or not is_missing):
        return first
    form = None if forms is None else forms.common_form(columns, may_be_missing=is_missing)
    if form is not None:
        return form
    if other is None:
        raise NotMergeable(f"not all files have `{first.shown}`, a required column of the others")
    one, another = other.stored_as, first.stored_as
    if one == another:
        one, another = str(other.field.type), str(first.field.type)
    if one == another:
        one, another = "annotated or ordered in another way", "as usual"
    raise NotMergeable(f"`{first.shown}` is {one}, in the files beside it {another}")


def _file_of(column: FileColumn) -> bytes:
    """Return a Parquet file with a column, and no rows."""
    root = encode_struct([(4, TEXT, encode_bytes(b"root")), (5, INTEGER, encode_number(1))])
    schema = header_of_list(STRUCT, 1 + len(column.form)) + root + column.elements
    no_groups = header_of_list(STRUCT, 0)
    members = [
        (1, INTEGER, encode_number(2)),
        (2, ELEMENTS, schema),
        (3, LONG, encode_number(0)),
        (4, ELEMENTS, no_groups),
    ]
    footer = encode_struct(members)
    return MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC


def combined(files: Iterable[StoredColumns]) -> Sequence[StoredColumns]:
    """Return one of each shape, for all files that have it."""
    by_shape: dict[FileShape, StoredColumns] = {}
    for stored in files:
        known = by_shape.get(stored.shape)
        by_shape[stored.shape] = stored if known is None else known.with_others(stored)
    return list(by_shape.values())


def _checked(columns: Sequence[FileColumn]) -> MergedColumns:
    if len({column.name for column in columns}) != len(columns):
        raise NotMergeable("two of the columns of its files have one name")
    for column in columns:
        if len(set(column.paths)) < len(column.paths):
            raise NotMergeable(f"two parts of `{column.shown}` have one name")
    return MergedColumns(columns)
