"""Files of rows in memory, for kernels that read and write them."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from icectl.files.parquet.schema import child_fields, is_variant, with_children
from icectl.format.file_names import data_file_name
from icectl.format.schema import Schema, schema_from_json
from icectl.rows.read_data import SourceFile
from icectl.rows.write_data import FileOutputs


class Composed:
    """A file that storage makes of whole others, and of bytes behind them."""

    copies_whole = True

    def __init__(self, files: "MemoryFiles") -> None:
        self.files, self.written = files, io.BytesIO()

    def open(self, location: str) -> IO[bytes]:
        return self.files.open(location)

    def write(self, content: bytes | memoryview, /) -> int:
        return self.written.write(content)

    def copy(self, location: str, start: int, end: int) -> None:
        assert (start, end) == (0, len(self.files.content[location]))
        self.written.write(self.files.content[location])


class MemoryFiles:
    """Files by location; `left` are those whose writer was left with an error.

    Where this `composes`, it puts whole files together by itself. A kernel has so many `threads`.
    """

    def __init__(self, *, composes: bool = False, threads: int = 1) -> None:
        self.composes = composes
        self.threads = threads
        self.content: dict[str, bytes] = {}
        self.opened: list[str] = []
        self.left: list[str] = []
        self._count = 0

    def open(self, location: str) -> IO[bytes]:
        """A reader; which files were opened is remembered."""
        self.opened.append(location)
        return io.BytesIO(self.content[location])

    @contextmanager
    def create(self, location: str) -> Iterator[IO[bytes]]:
        """A writer whose content is there once it is left without an error."""
        assert location not in self.content
        file = io.BytesIO()
        try:
            yield file
        except BaseException:
            self.left.append(location)
            raise
        self.content[location] = file.getvalue()

    def next_location(self, path: str) -> str:
        """`out/<path>/<name>`."""
        self._count += 1
        name = data_file_name(0, 7, "op", self._count)
        return "/".join(part for part in ("out", path, name) if part)

    def outputs(self) -> FileOutputs:
        """These files as a kernel sees them."""
        return FileOutputs(
            self.next_location,
            self.create,
            self.open,
            self.assemble if self.composes else lambda _: None,
            self.threads,
        )

    @contextmanager
    def assemble(self, location: str) -> Iterator["Composed"]:
        """A file to compose of whole others."""
        made = Composed(self)
        yield made
        self.content[location] = made.written.getvalue()

    def add(
        self, location: str, table: pa.Table, file_format: str = "parquet", **source: Any
    ) -> SourceFile:
        """Store rows as a data file of sequence number 1, unless told otherwise."""
        self.content[location] = stored(table, file_format)
        return SourceFile(location, file_format, table.num_rows, **{"sequence_number": 1, **source})

    def rows(self, location: str) -> list[dict[str, Any]]:
        """The rows of a Parquet file as pyarrow reads them."""
        return list(pq.ParquetFile(io.BytesIO(self.content[location])).read().to_pylist())


def identified(name: str, kind: pa.DataType, number: int, *, required: bool = False) -> pa.Field:
    """An Arrow field with a field id."""
    return pa.field(name, kind, not required, {"PARQUET:field_id": str(number)})


def table(fields: Sequence[pa.Field], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows in the order of the fields."""
    columns = list(zip(*rows, strict=True)) or [() for _ in fields]
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(columns, fields, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def stored(rows: pa.Table, file_format: str) -> bytes:
    """A file of these rows."""
    file = io.BytesIO()
    if file_format == "parquet":
        pq.write_table(rows, file)
    elif file_format == "orc":
        orc.write_table(rows.cast(pa.schema([_orc_field(one) for one in rows.schema])), file)
    else:
        fastavro.writer(file, _avro_schema(rows.schema), rows.to_pylist(maps_as_pydicts="strict"))
    return file.getvalue()


def _id(field: pa.Field) -> str:
    return field.metadata[b"PARQUET:field_id"].decode()


def _orc_field(field: pa.Field) -> pa.Field:
    kind = field.type
    inner = [_orc_field(one) for one in child_fields(kind)]
    if pa.types.is_large_string(kind):
        kind = pa.string()
    number = {} if field.metadata is None else {"iceberg.id": _id(field)}  # parts of variants
    if is_variant(field):
        number["iceberg.struct-type"] = "VARIANT"
    return field.with_type(with_children(kind, inner)).with_metadata(number)


def _avro_schema(schema: pa.Schema) -> dict[str, Any]:
    return {"type": "record", "name": "rows", "fields": [_avro_field(one) for one in schema]}


def _avro_field(field: pa.Field) -> dict[str, Any]:
    number = {} if field.metadata is None else {"field-id": int(_id(field))}  # parts of variants
    return {"name": field.name, "type": _avro_union(field), **number}


def _avro_union(field: pa.Field) -> Any:
    kind = _avro_type(field.type, f"r{_id(field) if field.metadata else ''}")
    return ["null", kind] if field.nullable else kind


def _avro_type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_list(kind):
        element = kind.value_field
        return {"type": "array", "items": _avro_union(element), "element-id": int(_id(element))}
    if pa.types.is_struct(kind):
        return {"type": "record", "name": name, "fields": [_avro_field(one) for one in kind]}
    if pa.types.is_map(kind):
        ids = {"key-id": int(_id(kind.key_field)), "value-id": int(_id(kind.item_field))}
        return {"type": "map", "values": _avro_union(kind.item_field), **ids}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": name, "size": kind.byte_width}
    return {
        pa.int32(): "int", pa.int64(): "long", pa.string(): "string", pa.large_string(): "string",
        pa.float32(): "float", pa.float64(): "double", pa.binary(): "bytes",
    }[kind]  # fmt: skip


def schema(*fields: tuple[int, str, Any], **members: Any) -> Schema:
    """A schema of optional fields; a fourth item of a field holds more members of its JSON."""
    described = [
        {"id": id_, "name": name, "type": type_, "required": False, **(more[0] if more else {})}
        for id_, name, type_, *more in fields
    ]
    return schema_from_json({"type": "struct", "schema-id": 0, "fields": described, **members})
