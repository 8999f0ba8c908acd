"""Rows of data files as rows of the table: columns by field id, in the table's types (R-180).

A file is read in the batches of files/data_file.py, as stored, and then projected. So deletes can
compare columns that the table no longer has.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import SEEK_END, BytesIO
from itertools import chain
from types import MappingProxyType
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from icectl.checks.file_identity import RESTORE_IT, StatedFile, check_own_file, is_just_as_stated
from icectl.entries.partition_key import sort_key
from icectl.errors import CorruptTable, OtherFile, Unsupported
from icectl.files.avro.data_file import AvroDataFile
from icectl.files.data_file import DataFile, open_data_file
from icectl.files.data_rows import LARGEST_BATCH_BYTES, FileRows, ids_by_place, ids_of, retype_array
from icectl.files.orc import OrcDataFile
from icectl.files.parquet.data_file import OnlyChunks, ParquetDataFile
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import (
    NameMapping,
    Places,
    Shredding,
    arrow_schema,
    arrow_type,
    child_fields,
    field_id,
    is_same_type,
    places_by_id,
    remembered,
    without_extensions,
)
from icectl.files.parquet.shredding import as_parquet, shredded_variants, unfit_type, whole_variants
from icectl.files.parquet.small_files import SmallFile, open_alike
from icectl.format import single_value
from icectl.format.schema import Schema, children
from icectl.format.single_value import Value
from icectl.format.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    is_nested,
    type_text,
)
from icectl.rows.check_data_file import LAST_UPDATED, ROW_ID
from icectl.rows.columns import Convert, conversion, inside, path_to, with_lost_seconds
from icectl.table.reading import naming


def is_any_list(kind: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's lists, and no map."""
    return bool(
        arrow_types.is_list(kind)
        or arrow_types.is_large_list(kind)
        or arrow_types.is_fixed_size_list(kind)
    )


def mask_of(column: pa.Array) -> pa.Array | None:
    """Return where a column is null; None for a column without nulls."""
    return column.is_null() if column.null_count else None


def offsets_of(column: pa.Array) -> pa.Array:
    """Return the offsets of lists or maps into their `used_of`, as a whole array, not a slice."""
    offsets = column.offsets.to_numpy()
    return pa.array(offsets - offsets[0])


def used_of(column: pa.Array, inner: pa.Array) -> pa.Array:
    """Return the values in lists or maps, without those outside of their slice."""
    first, last = (column.offsets[place].as_py() for place in (0, -1))
    return inner.slice(first, last - first)


def hides_nulls(column: pa.Array) -> bool:
    """Return whether a required part has nulls, below a null struct."""
    kind = column.type
    if arrow_types.is_struct(kind):
        inner = [column.field(place) for place in range(kind.num_fields)]
    elif arrow_types.is_map(kind):
        inner = [column.keys, column.items]
    elif is_any_list(kind):
        inner = [column.values]
    else:
        return False
    pairs = zip(child_fields(kind), inner, strict=True)
    return any(
        (not field.nullable and part.null_count) or hides_nulls(part) for field, part in pairs
    )


def without_nulls(values: pa.Array) -> pa.Array:
    """Return the values, with arbitrary bytes instead of nulls.

    A required field is null below a null struct, which no reader sees. But Parquet files can't be
    written from such arrays. Parts of the values must be without nulls already.
    """
    kind = values.type
    if isinstance(values, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(kind, without_nulls(values.storage))
    if arrow_types.is_struct(kind):
        fields = [values.field(place) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    if arrow_types.is_map(kind):
        keys, items = (used_of(values, part) for part in (values.keys, values.items))
        return pa.MapArray.from_arrays(offsets_of(values), keys, items, kind)
    if arrow_types.is_list(kind):
        used = used_of(values, values.values)
        return pa.ListArray.from_arrays(offsets_of(values), used, kind)
    return pa.Array.from_buffers(kind, len(values), [None, *values.buffers()[1:]], 0, values.offset)


def nulls_of(kind: pa.DataType, count: int) -> pa.Array:
    """Return nulls of a type that Parquet can store: see without_nulls."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, nulls_of(kind.storage_type, count))
    if not arrow_types.is_struct(kind):
        return pa.nulls(count, kind)
    fields = []
    for part in child_fields(kind):
        values = nulls_of(part.type, count)
        fields.append(values if part.nullable else without_nulls(values))
    return pa.StructArray.from_arrays(
        fields, fields=list(kind), mask=pa.array(np.ones(count, np.bool_))
    )


Positions = npt.NDArray[np.int64]

_places = remembered(places_by_id)
_LONG = PrimitiveType("long")
_UNKNOWN, _VARIANT = PrimitiveType("unknown"), PrimitiveType("variant")
_SHORT_BYTES = 1 << 20
"""A file up to which is read by one call: its columns one by one take longer."""

LINEAGE = (
    NestedField(ROW_ID, "_row_id", _LONG, required=False),
    NestedField(LAST_UPDATED, "_last_updated_sequence_number", _LONG, required=False),
)
"""The columns that keep the identity of rows in new files (R-105)."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file to read rows of, by its manifest entry.

    `constants` are the values of identity partition fields by the id of their source column. With a
    `split` (Parquet), only row groups that begin in its bytes are read; a split that ends with the
    entry's `size_bytes` has all behind them too. `stated`, the statistics of columns, is the
    entry's.
    """

    location: str
    file_format: str
    record_count: int
    sequence_number: int
    first_row_id: int | None = None
    constants: Mapping[int, Value] = field(default_factory=dict)
    split: tuple[int, int] | None = None
    size_bytes: int | None = None
    stated: StatedFile | None = None


def written_schema(schema: Schema, format_version: int) -> Schema:
    """Return the columns of a rewritten file: the table's, and from version 3 on the lineage.

    Shape: without columns of the type unknown, which no file stores.
    Raises: Unsupported, for columns that can't be carried over.
    """
    stored = []
    for item in schema.fields:
        if item.type == _UNKNOWN:
            continue
        if any(type_ in (_UNKNOWN, StructType(())) for type_ in _below(item.type)):
            raise Unsupported(
                f"the column `{item.name}` has a struct or field that files can't store"
            )
        stored.append(item)
    fields = tuple(stored)
    lineage = LINEAGE if format_version >= 3 else ()
    written = Schema(schema.schema_id, (*fields, *lineage), schema.identifier_field_ids)
    arrow_schema(written)
    return written


def _below(type_: Type) -> Iterator[Type]:
    """Yield a type and all types inside of it."""
    yield type_
    for child in children(type_):
        yield from _below(child.type)


def open_source(
    file: IO[bytes],
    source: SourceFile,
    schema: Schema,
    name_mapping: NameMapping,
    shredding: Shredding = MappingProxyType({}),
    *,
    is_read_whole: bool = False,
) -> "RowSource":
    """Open a data file to read its rows with the columns of a schema, as open_own does.

    Variants have the types of `shredding`; others are not shredded.
    Raises: Unsupported, for a column that can't be carried over faithfully, before any row is read;
    CorruptTable R-063, R-095, R-180. Errors of the file pass.
    """
    opened = open_own(file, source, schema, name_mapping, is_read_whole=is_read_whole)
    if source.split is not None:
        if not isinstance(opened, ParquetDataFile):
            raise Unsupported(f"{source.location} can't be read in parts")
        start, stop = source.split
        if stop == source.size_bytes:  # the file may be longer than its entry says
            stop = max(stop, file.seek(0, SEEK_END))
        opened = replace(opened, split=(start, stop))
    return _source_of(opened, source, schema, shredding)


def _source_of(
    opened: DataFile, source: SourceFile, schema: Schema, shredding: Shredding
) -> "RowSource":
    """Return the rows of an open file, projected. Raises: as open_source."""
    ids = [*chain.from_iterable(ids_by_place(opened.schema))]
    if len(opened.schema) and not ids:
        raise Unsupported(
            f"{source.location} has no field ids, and the table has no name mapping for its "
            "columns",
            hint="set `schema.name-mapping.default` with the engine that owns the table",
        )
    if len(set(ids)) < len(ids):
        raise Unsupported(
            f"{source.location} has two columns with one field id, and readers disagree on "
            "which to read",
            hint="rewrite the file with the engine that owns the table",
        )
    projection = projected(source, opened.schema, schema, shredding)
    return RowSource(projection.file, projection.schema, projection.columns, opened)


def may_be_together(files: Sequence[SourceFile]) -> bool:
    """Return whether open_together may take files, by their entries: few bytes, and one partition.

    Rows of files that give them an identity (R-100) are read file by file.
    """
    return len(files) > 1 and all(
        file.file_format.lower() == "parquet"
        and file.split is None
        and file.first_row_id is None
        and 0 < (file.size_bytes or 0) <= _SHORT_BYTES
        and file.constants == files[0].constants
        for file in files
    )


def open_together(
    small_files: Sequence[SmallFile],
    sources: Sequence[SourceFile],
    schema: Schema,
    name_mapping: NameMapping,
    shredding: Shredding,
) -> "RowSource | None":
    """Open files as open_own_together does, to read rows as open_source does.

    Raises: as open_source, but may name another of them.
    """
    opened = open_own_together(small_files, sources, schema, name_mapping)
    return None if opened is None else _source_of(opened, sources[0], schema, shredding)


def open_own_together(
    small_files: Sequence[SmallFile],
    sources: Sequence[SourceFile],
    schema: Schema,
    name_mapping: NameMapping = (),
) -> ParquetDataFile | None:
    """Open files that are alike, and may be together, as one with the rows of all in order.

    None where they are too many, or where a look at one by itself has to show whether it is that of
    its entry.
    Raises: as open_alike.
    """
    together = open_alike(small_files, name_mapping)
    if together is None:
        return None
    footers = zip(sources, small_files, together.facts, together.split_offsets, strict=True)
    for source, file, facts, split_offsets in footers:
        of_file = len(file.content), facts, split_offsets
        is_own = file.row_count == source.record_count
        if not is_own or not _is_just_as_stated(source, schema, *of_file):
            return None
    return together.opened


def open_own(
    file: IO[bytes],
    source: SourceFile,
    schema: Schema,
    name_mapping: NameMapping = (),
    *,
    is_read_whole: bool = False,
) -> DataFile:
    """Open a data or delete file if it may be that of its entry; only its footer is read.

    Of one of whose rows all columns will be read (`is_read_whole`) that takes all bytes, if they
    are few.

    Raises: CorruptTable R-063, R-099; Unsupported. Errors of the file pass.
    """
    size_bytes = file.seek(0, 2)
    file.seek(0)
    if is_read_whole and size_bytes <= _SHORT_BYTES and source.split is None:
        file = BytesIO(file.read())
    opened = open_data_file(file, source.file_format, name_mapping)
    if opened.record_count != source.record_count:
        message = (
            f"{source.location} has {opened.record_count:,} rows, "
            f"the manifest says {source.record_count:,}"
        )
        raise OtherFile(message, rule="R-063", hint=RESTORE_IT)
    is_other_size = source.size_bytes not in (None, size_bytes)
    is_checked = not isinstance(opened, AvroDataFile) and (
        source.stated is not None or is_other_size
    )
    if not is_checked:
        return opened
    if isinstance(opened, ParquetDataFile):
        facts = opened.facts()
        of_file = size_bytes, facts or {}, opened.split_offsets
        if facts is not None and _is_just_as_stated(source, schema, *of_file):
            return opened
    stated, columns = _stated(source, schema)
    metrics = opened.metrics(Schema(0, tuple(columns.values())), only=True)
    signs = _mismatched_partition(source, columns, metrics)
    check_own_file(source.location, stated, size_bytes, metrics, signs)
    return opened


def _stated(source: SourceFile, schema: Schema) -> tuple[StatedFile, Mapping[int, NestedField]]:
    """Return what is stated of a file, and the columns to compare, those of its partition too."""
    bare = StatedFile(source.size_bytes or 0, FileMetrics(source.record_count))
    stated = source.stated or bare
    columns = {item.id: item for item in stated.columns}
    for id_ in source.constants:
        column = schema.field(id_)
        if column is not None:
            columns[id_] = column
    return stated, columns


def _is_just_as_stated(
    source: SourceFile,
    schema: Schema,
    size_bytes: int,
    facts: OnlyChunks,
    split_offsets: tuple[int, ...],
) -> bool:
    """Return whether a footer differs in nothing from the entry, at a glance."""
    stated, columns = _stated(source, schema)
    return _has_one_value(source, columns, facts) and is_just_as_stated(
        stated, size_bytes, facts, split_offsets
    )


def _has_one_value(
    source: SourceFile, columns: Mapping[int, NestedField], facts: OnlyChunks
) -> bool:
    """Return whether a footer shows the partition's value alone, as bytes, where it has columns."""
    for id_, value in source.constants.items():
        found = facts.get(id_)
        if found is None or id_ not in columns:
            continue
        bounds = found[1].lower, found[1].upper
        if value is None or bounds != (single_value.encode(columns[id_].type, value),) * 2:
            return False
    return True


def _mismatched_partition(
    source: SourceFile, columns: Mapping[int, NestedField], metrics: FileMetrics
) -> list[str]:
    """Return a sign that rows are of another partition than the file, if there is one."""
    for id_, value in source.constants.items():
        bounds = [of.get(id_) for of in (metrics.lower_bounds, metrics.upper_bounds)]
        known_bounds = [bound for bound in bounds if bound is not None]
        if id_ not in columns or len(known_bounds) < 2:
            continue
        column = columns[id_]
        least, greatest = (
            sort_key(single_value.decode(column.type, bound)) for bound in known_bounds
        )
        if value is None or not least <= sort_key(value) <= greatest:
            return [f"it has values of another partition in `{column.name}`"]
    return []


def projected(
    source: SourceFile,
    stored: pa.Schema,
    schema: Schema,
    shredding: Shredding = MappingProxyType({}),
) -> "Projection":
    """Return the projection of rows with the columns `stored` to a schema, as open_source does.

    Raises: Unsupported, for a column that can't be carried over; CorruptTable R-095, R-180.
    """
    arrow, kept = _kept(stored, schema, shredding)
    if len(kept) < len(arrow):
        places, maker = places_by_id(list(stored)), _Projection(source, shredding)
        kept = tuple(maker.column(item, places) for item in schema.fields)
    return Projection(source, arrow, kept)


@remembered
def _kept(
    stored: pa.Schema, schema: Schema, shredding: Shredding
) -> tuple[pa.Schema, tuple["_Column", ...]]:
    """Return the Arrow schema of a schema, and the columns that are stored just like that."""
    arrow, places = arrow_schema(schema, shredding), places_by_id(list(stored))
    columns = []
    for item, written in zip(schema.fields, arrow, strict=True):
        place, kind = places.get(item.id, (None, None))
        if kind is not None and is_same_type(kind, written.type) and not _has_required(item.type):
            columns.append(_Column(item, place, _unchanged))
    return arrow, tuple(columns)


def _unchanged(column: pa.Array | int) -> pa.Array:
    return column


@dataclass(frozen=True, slots=True)
class _Column:
    """The source of a column: a stored one, or else a value that every row has."""

    field: NestedField
    place: int | None
    make: Callable[[pa.Array | int], pa.Array]
    """Makes it of the stored column, or of the number of rows."""


@dataclass(frozen=True, slots=True)
class Projection:
    """The conversion of stored rows to rows with the columns of a schema."""

    file: SourceFile
    schema: pa.Schema
    columns: Sequence[_Column]

    def project(self, stored: pa.RecordBatch, positions: Positions) -> pa.RecordBatch:
        """Return stored rows in the schema; `positions` are theirs in the file.

        Shape: the schema's columns, one row per stored row, in their order.
        Raises: Unsupported, if a value does not fit its column's type; CorruptTable R-095.
        """
        places = _places(stored.schema)
        columns = []
        for column in self.columns:
            try:
                place = None if column.place is None else places[column.field.id][0]
                with naming(self.file.location):
                    values = column.make(len(positions) if place is None else stored.column(place))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise _not_carried(self.file, column.field, str(error)) from error
            if column.field.id in (ROW_ID, LAST_UPDATED):
                first = self.file.first_row_id
                # null in files that the table had before version 3
                if first is not None and values.null_count and column.field.id == ROW_ID:
                    values = pc.coalesce(values, pa.array(positions + first))
                elif first is not None and values.null_count:
                    values = pc.fill_null(values, self.file.sequence_number)
            elif column.field.required and values.null_count:
                raise _null_where_required(self.file.location, column.field.name)
            columns.append(values)
        if columns:
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        rows = pa.Array.from_buffers(pa.struct([]), len(positions), [None])
        return pa.RecordBatch.from_struct_array(rows)


@dataclass(frozen=True, slots=True)
class RowSource(Projection):
    """An open data file, and the projection of its rows."""

    opened: DataFile

    def stored(self, more: Collection[int] = ()) -> Iterator[FileRows]:
        """Yield the rows as stored, with the columns for `project` and those with more ids.

        Order: of the file.
        Raises: CorruptTable R-099; Unsupported.
        """
        needed = {column.field.id for column in self.columns} | set(more)
        # Values of columns that the file lacks are added to each row.
        absent = (column for column in self.columns if column.place is None)
        added_bytes = sum(column.make(1).nbytes for column in absent)
        most = max(1, LARGEST_BATCH_BYTES // max(added_bytes, 1))
        may_be_late = isinstance(self.opened, OrcDataFile) and bool(self.file.constants)
        for rows in self.opened.batches(needed):
            batch = self._with_lost_seconds(rows.batch, more) if may_be_late else rows.batch
            for start in range(0, batch.num_rows, most):
                yield FileRows(rows.first_row + start, batch.slice(start, most))

    def _with_lost_seconds(
        self, stored: pa.RecordBatch, compared: Collection[int]
    ) -> pa.RecordBatch:
        """Return rows of an ORC file, with lost seconds before 1970 restored.

        Raises: Unsupported, if equality deletes compare such an instant: readers apply them by
        bounds, which are those of the late instants.
        """
        if not stored.num_columns:
            return stored
        columns = []
        for column, field_ in zip(stored.columns, stored.schema, strict=True):
            repaired = with_lost_seconds(column, field_, self.file.constants)
            compared_ids = self.file.constants.keys() & ids_of(field_) & set(compared)
            if compared_ids and not repaired.equals(column):
                raise Unsupported(
                    f"equality deletes compare `{field_.name}` of {self.file.location}, where ORC "
                    "has lost a second before 1970: readers disagree on what is deleted",
                    hint="rewrite this partition with the engine that owns the table",
                )
            columns.append(repaired)
        return pa.RecordBatch.from_arrays(columns, schema=stored.schema)

    def values(self, stored: pa.RecordBatch, line: Sequence[NestedField]) -> pa.Array:
        """Return the values of one column without fields, at any depth of structs.

        `line` are the structs around it and, last, the column. `stored` must have them if the file
        does. A column that the file lacks has its default if the struct around it is not null.
        Order: kept.
        Raises: as project.
        """
        column = line[-1]
        path = path_to(stored.schema, column.id)
        if path is None:
            return self._absent(stored, line)
        values = inside(stored.column(path[0]), path[1:])
        convert = conversion(values.type, column.type)
        if convert is None:
            raise _not_carried(self.file, column, f"it is stored as {values.type}")
        try:
            return convert(values)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _not_carried(self.file, column, str(error)) from error

    def _absent(self, stored: pa.RecordBatch, line: Sequence[NestedField]) -> pa.Array:
        column = line[-1]
        if column.id in self.file.constants or len(line) == 1:
            constant = _constant(self.file, column, arrow_type(column.type))
            return pa.repeat(constant, stored.num_rows)
        paths = [path for item in line if (path := path_to(stored.schema, item.id)) is not None]
        # The defaults of missing structs come before those of their fields.
        outermost, *inner = line[len(paths) :]
        value = _default_value(outermost)
        for item in inner:
            value = None if value is None else value.get(item.id, _default_value(item))
        constant = pa.scalar(_plain(column.type, value), arrow_type(column.type))
        single = pa.repeat(constant, 1)
        if not paths:
            return single.take(pa.repeat(0, stored.num_rows))
        around = inside(stored.column(paths[-1][0]), paths[-1][1:])
        return single.take(pc.if_else(around.is_valid(), 0, pa.scalar(None, pa.int64())))


@dataclass(frozen=True, slots=True)
class _Projection:
    """Makes the columns of a schema out of those of a file."""

    source: SourceFile
    shredding: Shredding

    def column(self, item: NestedField, places: Places) -> _Column:
        if item.id in places:
            place, kind = places[item.id]
            return _Column(item, place, self._converted(kind, item))
        kind = self._kind(item)
        constant = _constant(self.source, item, kind)
        if not _has_required(item.type):
            return _Column(item, None, lambda row_count: pa.repeat(constant, row_count))
        convert = self._converted(kind, item)
        return _Column(item, None, lambda row_count: convert(pa.repeat(constant, row_count)))

    def _converted(self, stored: pa.DataType, item: NestedField) -> Convert:
        type_, kind = item.type, self._kind(item)
        if type_ == _VARIANT and arrow_types.is_struct(stored):
            unfit = unfit_type(stored)
            if unfit is not None:
                why = f"it has a column of type {unfit}, which variants lack"
                raise _not_carried(self.source, item, why)
            is_kept = is_same_type(as_parquet(stored), kind)
            return shredded_variants if is_kept else whole_variants
        is_same = is_same_type(stored, kind)
        if is_same and not _has_required(type_):
            return _unchanged
        convert: Convert | None = None
        match type_:
            case StructType() if arrow_types.is_struct(stored):
                convert = self._struct(stored, type_, kind)
            case ListType() if is_any_list(stored):
                convert = self._list(stored, type_, kind)
            case MapType() if arrow_types.is_map(stored):
                convert = self._map(stored, type_, kind)
            case _ if not is_nested(type_):
                convert = conversion(stored, type_)
        if convert is None:
            raise _not_carried(self.source, item, f"it is stored as {stored}")
        if not is_same:
            return convert
        # Values of the same type are converted only if they have nulls at required fields.
        return lambda column: convert(column) if hides_nulls(column) else column

    def _kind(self, item: NestedField) -> pa.DataType:
        return self.shredding.get(item.id) or arrow_type(item.type, self.shredding)

    def _struct(self, stored: pa.DataType, type_: StructType, kind: pa.DataType) -> Convert:
        places = places_by_id(child_fields(stored))
        columns = [self.column(item, places) for item in type_.fields]

        def convert(struct: pa.Array) -> pa.Array:
            mask = mask_of(struct)
            fields = []
            for column in columns:
                # A field is null below a null struct, and so are structs inside of it.
                place = column.place
                values = column.make(len(struct) if place is None else inside(struct, (place,)))
                if column.field.required and values.null_count:
                    self._check_nulls(values, mask, column.field.name)
                    values = without_nulls(values)
                fields.append(values)
            return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)

        return convert

    def _list(self, stored: pa.DataType, type_: ListType, kind: pa.DataType) -> Convert:
        (element,) = children(type_)
        make = self._inner(element, child_fields(stored)[0])

        def convert(column: pa.Array) -> pa.Array:
            if not arrow_types.is_list(column.type):
                column = column.cast(pa.list_(column.type.value_field))
            offsets, mask = offsets_of(column), mask_of(column)
            values = self._inner_values(
                make(used_of(column, column.values)), element, offsets, mask
            )
            return pa.ListArray.from_arrays(offsets, values, kind, mask=mask)

        return convert

    def _map(self, stored: pa.DataType, type_: MapType, kind: pa.DataType) -> Convert:
        key, value = children(type_)
        pairs = zip((key, value), child_fields(stored), strict=True)
        make_key, make_value = (self._inner(*pair) for pair in pairs)

        def convert(column: pa.Array) -> pa.Array:
            offsets, mask = offsets_of(column), mask_of(column)
            keys = make_key(used_of(column, column.keys))
            values = self._inner_values(
                make_value(used_of(column, column.items)), value, offsets, mask
            )
            return pa.MapArray.from_arrays(offsets, keys, values, kind, mask=mask)

        return convert

    def _inner_values(
        self, values: pa.Array, item: NestedField, offsets: pa.Array, mask: pa.Array | None
    ) -> pa.Array:
        """Return the values in lists or maps, without nulls if they are required."""
        if not item.required or not values.null_count:
            return values
        used = pa.ListArray.from_arrays(offsets, values, mask=mask).flatten()
        self._check_nulls(used, None, item.name)
        return without_nulls(values)

    def _inner(self, item: NestedField, stored: pa.Field) -> Convert:
        if field_id(stored) != item.id:
            raise _not_carried(self.source, item, f"its field id is {field_id(stored)}")
        return self._converted(stored.type, item)

    def _check_nulls(self, values: pa.Array, allowed: pa.Array | None, name: str) -> None:
        missing = values.is_null()
        if allowed is not None:
            missing = pc.and_not(missing, allowed)
        if pc.any(missing).as_py():
            raise _null_where_required(self.source.location, name)


def _constant(source: SourceFile, item: NestedField, kind: pa.DataType) -> pa.Scalar:
    """Return the value of a column that a file lacks (R-180).

    Raises: CorruptTable R-180, if a required column has no default.
    """
    if item.id in source.constants:  # a partition value precedes a default, even null
        value = _plain(item.type, source.constants[item.id])
    else:
        value = _default(item)
    if value is None and item.required:
        message = f"{source.location} lacks the required column `{item.name}`, without a default"
        raise CorruptTable(message, rule="R-180")
    if not arrow_types.is_nested(kind):
        return pa.scalar(value, kind)
    # Arrow makes no scalars, not even null ones, of types with a UUID inside.
    return retype_array(pa.array([value], without_extensions(kind)), kind)[0]


def _default(item: NestedField) -> Any:
    """Return the initial default as a value of pyarrow (R-182, R-183)."""
    return _plain(item.type, _default_value(item))


def _default_value(item: NestedField) -> Value:
    try:
        return single_value.from_json(item.type, item.initial_default)
    except ValueError as error:
        message = f"the initial default of the column `{item.name}` is none: {error}"
        raise CorruptTable(message, rule="R-182") from error


def _plain(type_: Type, value: Value) -> Any:
    if value is None:
        return None
    match type_:
        case StructType(fields):
            return {
                item.name: _plain(item.type, value[item.id]) if item.id in value else _default(item)
                for item in fields
            }
        case ListType():
            return [_plain(type_.element, item) for item in value]
        case MapType():
            pairs = value.items()
            return [(_plain(type_.key, key), _plain(type_.value, item)) for key, item in pairs]
        case PrimitiveType("uuid"):
            return value.bytes
        case _:
            return value


def _has_required(type_: Type) -> bool:
    """Return whether a type has required parts, as variants do."""
    return type_ == _VARIANT or any(
        child.required or _has_required(child.type) for child in children(type_)
    )


def _not_carried(source: SourceFile, item: NestedField, why: str) -> Unsupported:
    return Unsupported(
        f"the column `{item.name}` of {source.location} can't be carried over as "
        f"{type_text(item.type)}: {why.partition(chr(10))[0].removesuffix('.')}"
    )


def _null_where_required(location: str, name: str) -> CorruptTable:
    return CorruptTable(f"{location} has nulls in the required column `{name}`", rule="R-095")
