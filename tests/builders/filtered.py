"""A table with columns of every type, and the values that readers' filters get wrong.

PyIceberg writes it, and a file-system table is made of what it wrote. Each column is there twice:
by itself and inside of a struct, which some rows don't have. Of the two data files one has the
values of a column in turns, the other all rows of one value before those of the next; some columns
are promoted between them.
"""

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.builders.broken import Record, rewrite_avro

ROWS = 48
"""Of each of the two files."""


@dataclass(frozen=True)
class Column:
    """A type, different values of it, and the type of the first file, if it is another."""

    type: Any
    values: Sequence[Any]
    first: Any = None


INF, NAN = float("inf"), float("nan")
INTS = [-(2**31), -1, 0, 1, 2**31 - 1]
REALS = [-INF, -1.5, -0.0, 2.25, 2.0**100, INF, NAN]
DAYS = [(1, 1, 1), (1582, 10, 4), (1969, 12, 31), (1970, 1, 1), (9999, 12, 31)]
MOMENTS = [
    dt.datetime.fromisoformat(text)
    for text in (
        "0001-01-01", "1582-10-04T12:00", "1969-12-31T23:59:59.000001",
        "1969-12-31T23:59:59.999999", "1970-01-01", "1970-01-01T00:00:00.000001", "2262-05-01",
    )
]  # fmt: skip
UUIDS = [
    UUID(int=0),
    UUID("00000000-0000-0000-8000-000000000000"),
    UUID("7fffffff-ffff-ffff-7fff-ffffffffffff"),
    UUID("7fffffff-ffff-ffff-ffff-ffffffffffff"),
    UUID("80000000-0000-0000-0000-000000000000"),
    UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    UUID(int=2**128 - 1),
]
TEXTS = [
    "", "a", "sixteen letters!", "sixteen letters!!", "sixteen letters! and more",
    "\uffff" * 18, "\uffff" * 17 + "a", "\U0010ffff" * 17, "\ud7ff" * 17, "\U0001f600", "\ue000",
]  # fmt: skip
BYTES = [
    b"", b"\x00", b"\x7f", b"\x80", b"\xff" * 16, b"\xff" * 17, b"\xff" * 16 + b"\x00", b"a" * 40,
]  # fmt: skip
FOUR = [b"\x00" * 4, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff" * 4]


def _decimals(digits: int, scale: int) -> list[Decimal]:
    numbers = (-(10**digits) + 1, -1, 0, 1, 10**digits - 1)
    return [Decimal(f"{number}E-{scale}") for number in numbers]


COLUMNS: Mapping[str, Column] = {
    "flag": Column(BooleanType(), [True, False]),
    "always": Column(BooleanType(), [True]),
    "small": Column(IntegerType(), INTS),
    "big": Column(LongType(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "float": Column(FloatType(), REALS),
    "double": Column(DoubleType(), REALS),
    "minus_zero": Column(DoubleType(), [-0.0]),
    "plus_zero": Column(DoubleType(), [0.0, 1.0]),
    "some_nan": Column(DoubleType(), [1.0, NAN]),
    "only_nan": Column(DoubleType(), [NAN]),
    "dec9": Column(DecimalType(9, 2), _decimals(9, 2)),
    "dec18": Column(DecimalType(18, 4), _decimals(18, 4)),
    "dec19": Column(DecimalType(19, 0), _decimals(19, 0)),
    "dec38": Column(DecimalType(38, 10), _decimals(28, 10)),
    "day": Column(DateType(), [dt.date(*day) for day in DAYS]),
    "moment": Column(TimestampType(), MOMENTS),
    "instant": Column(TimestamptzType(), [one.replace(tzinfo=dt.UTC) for one in MOMENTS]),
    "text": Column(StringType(), TEXTS),
    "last_text": Column(StringType(), ["\U0010ffff" * 17]),
    "uuid": Column(UUIDType(), UUIDS),
    "high_uuid": Column(UUIDType(), UUIDS[4:]),
    "bytes": Column(BinaryType(), BYTES),
    "fixed4": Column(FixedType(4), FOUR),
    "fixed16": Column(FixedType(16), [one.bytes for one in UUIDS]),
    "long_of_int": Column(LongType(), INTS, IntegerType()),
    "double_of_float": Column(DoubleType(), REALS, FloatType()),
    "dec38_of_9": Column(DecimalType(38, 2), _decimals(9, 2), DecimalType(9, 2)),
}
_NANOSECONDS = [-(2**63), -1, 0, 1, 2**63 - 1]
BEYOND_SPARK: Mapping[str, Column] = {
    "clock": Column(
        TimeType(), [dt.time(), dt.time(0, 0, 0, 1), dt.time(12), dt.time(23, 59, 59, 999_999)]
    ),
    "nanos": Column(TimestampNanoType(), _NANOSECONDS, LongType()),
    "nanos_utc": Column(TimestamptzNanoType(), _NANOSECONDS, LongType()),
}
"""Columns that Spark can't read; nanoseconds are numbers which the metadata calls so afterwards."""

_NANO_TYPES = (TimestampNanoType, TimestamptzNanoType)
ALL: Mapping[str, Column] = {**COLUMNS, **BEYOND_SPARK}

_HELD_BY, _FILE, _FILE_ID = "held", "file", 1_000
FILES = 8
"""Files that `spread` makes."""

LEAF_EACH = {"icectl.v4.root.max-data-files": "0", "icectl.v4.leaf.max-entries": "1"}
"""Properties by which a tree has a leaf for each file."""


def build(warehouse: Path, name: str, properties: Mapping[str, str], by: str | None = None) -> Path:
    """Make the table; the directory of a file-system table with one metadata file.

    Data files have row groups of 8 rows; properties are those of the table once they are written.
    `by` is a column that the table is partitioned by afterwards.
    """
    warehouse.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(name, uri="sqlite://", warehouse=f"file://{warehouse}")
    catalog.create_namespace_if_not_exists("db")
    small = {"write.parquet.row-group-limit": "8"}
    table = catalog.create_table(f"db.{name}", _schema(COLUMNS), properties=small)
    table.append(_rows(table, in_turns=True))
    _promote(table, COLUMNS)
    table.append(_rows(table, in_turns=False))
    if by is not None:
        table.update_spec().add_identity(by).commit()
    catalog.engine.dispose()
    return on_files(table, properties)


def spread(catalog: SqlCatalog, chosen: Sequence[str], properties: Mapping[str, str]) -> Path:
    """Make a table of some columns in files of two rows, each by a commit; its directory.

    A file has one value of a column twice, or once beside null, or two neighbours. Each column is
    there again in a struct, which is null in some rows; PyIceberg tells no bounds there. Half of
    the files are from before columns were promoted. Each is a partition: files are compacted alone.
    """
    columns = {name: ALL[name] for name in chosen}
    by_file = PartitionSpec(PartitionField(_FILE_ID, 1000, IdentityTransform(), _FILE))
    schema = Schema(NestedField(_FILE_ID, _FILE, IntegerType()), *_schema(columns).fields)
    table = catalog.create_table("db.t", schema, partition_spec=by_file)
    for file in range(FILES):
        if file == FILES // 2:
            _promote(table, columns)
        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        held = schema.field(_HELD_BY).type
        plain, inside = (
            [pa.array(_of_file(name, file), kinds.field(name).type) for name in columns]
            for kinds in (schema, held)
        )
        mask = pa.array([False, file in (2, 4)])
        struct = pa.StructArray.from_arrays(inside, fields=list(held), mask=mask)
        number = pa.array([file] * 2, pa.int32())
        table.append(pa.Table.from_arrays([number, *plain, struct], schema=schema))
    directory = on_files(table, properties)
    if any(isinstance(column.type, _NANO_TYPES) for column in columns.values()):
        _call_nanoseconds(directory / "metadata")
    return directory


def _of_file(name: str, file: int) -> list[Any]:
    values = ALL[name].values
    first, second = (values[at % len(values)] for at in (file, file + 1))
    found = [[first, first], [first, None], [first, second]][file % 3]
    if isinstance(ALL[name].type, UUIDType):
        return [None if one is None else one.bytes for one in found]
    return found


def _call_nanoseconds(metadata: Path) -> None:
    """Have all metadata of a table call numbers the timestamps in nanoseconds that they are."""

    def change(schema: Any) -> None:
        _, *plain, held = schema["fields"]
        for field in (*plain, *held["type"]["fields"]):
            if isinstance(ALL[field["name"]].type, _NANO_TYPES):
                field["type"] = str(ALL[field["name"]].type)

    def change_header(header: dict[str, str]) -> None:
        schema = json.loads(header["schema"])
        change(schema)
        header["schema"] = json.dumps(schema)

    def resize(rows: list[Record]) -> None:
        for row in rows:
            place = Path(row["manifest_path"].removeprefix("file://"))
            row["manifest_length"] = place.stat().st_size

    def change_files(entries: list[Record]) -> None:
        for file in (entry["data_file"] for entry in entries):
            path = Path(file["file_path"].removeprefix("file://"))
            rows = pq.read_table(path, partitioning=None)
            pq.write_table(rows.cast(pa.schema(map(_with_nanoseconds, rows.schema))), path)
            file["file_size_in_bytes"] = path.stat().st_size

    for path in metadata.glob("*-m0.avro"):
        rewrite_avro(path, change_files, header=change_header)
    for path in metadata.glob("snap-*.avro"):
        rewrite_avro(path, resize)
    current = metadata / "v1.metadata.json"
    document = json.loads(current.read_text())
    document |= {"format-version": 3, "next-row-id": 0}
    for schema in document["schemas"]:
        change(schema)
    current.write_text(json.dumps(document))


def _with_nanoseconds(field: pa.Field) -> pa.Field:
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct(map(_with_nanoseconds, field.type)))
    kind = ALL[field.name].type if field.name in BEYOND_SPARK else None
    if not isinstance(kind, _NANO_TYPES):
        return field
    zone = "UTC" if isinstance(kind, TimestamptzNanoType) else None
    return field.with_type(pa.timestamp("ns", zone))


def names(columns: Mapping[str, Column] = COLUMNS) -> dict[str, Column]:
    """All columns by the names that queries have for them."""
    return {**columns, **{f"{_HELD_BY}.{name}": column for name, column in columns.items()}}


def conditions(columns: Iterable[str], operators: Iterable[str]) -> list[str]:
    """Conditions in SQL: operators against each value of each column, lists, and nulls.

    Of numbers that aren't whole both zeros are among the values.
    """
    found, operators = [], list(operators)
    for name in columns:
        column = names()[name]
        is_real = isinstance(column.type, FloatType | DoubleType)
        values = [*column.values, *((0.0, -0.0) if is_real else ())]
        literals = list(dict.fromkeys(literal(column.type, value) for value in values))
        found += [f"{name} IS NULL", f"{name} IS NOT NULL"]
        found += [f"{name} {operator} {one}" for one in literals for operator in operators]
        found += [f"{name} IN ({one}, {literals[-1]})" for one in literals]
    return found


def literal(kind: Any, value: Any) -> str:
    """A value as Spark's SQL has it."""
    if isinstance(kind, DateType):
        return f"DATE '{value}'"
    if isinstance(kind, TimestampType | TimestamptzType):
        zone = "" if isinstance(kind, TimestamptzType) else "_NTZ"
        return f"TIMESTAMP{zone} '{value.isoformat(sep=' ')}'"
    if isinstance(kind, StringType | UUIDType):
        return f"'{value}'"
    if isinstance(kind, BinaryType | FixedType):
        return f"X'{value.hex()}'"
    names_in_sql = {"long": "bigint"}
    text = {INF: "Infinity", -INF: "-Infinity"}.get(value, str(value))
    return f"CAST('{text}' AS {names_in_sql.get(str(kind), str(kind))})"


def own_literal(kind: Any, value: Any) -> str:
    """A value as conditions of icectl have it."""
    if isinstance(kind, BinaryType | FixedType):
        return f"X'{value.hex()}'"
    if isinstance(kind, _NANO_TYPES):
        seconds, nanos = divmod(value, 10**9)
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
        zone = "Z" if isinstance(kind, TimestamptzNanoType) else ""
        return f"'{moment:%Y-%m-%dT%H:%M:%S}.{nanos:09}{zone}'"
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, float) or str(kind).startswith("decimal"):
        return f"{value:f}"
    if isinstance(kind, TimestamptzType):
        return f"'{value.isoformat()}'"
    return f"'{value.isoformat() if hasattr(value, 'isoformat') else value}'"


def _promote(table: Table, columns: Mapping[str, Column]) -> None:
    kinds = {name: one.type for name, one in columns.items() if one.first}
    with table.update_schema() as update:
        for name, kind in kinds.items():
            if not isinstance(kind, _NANO_TYPES):
                update.update_column(name, kind)
                update.update_column((_HELD_BY, name), kind)


def _schema(columns: Mapping[str, Column]) -> Schema:
    ids = count(1)
    first = {name: column.first or column.type for name, column in columns.items()}
    plain = [NestedField(next(ids), name, kind, required=False) for name, kind in first.items()]
    holder = next(ids)
    inside = [NestedField(next(ids), name, kind, required=False) for name, kind in first.items()]
    return Schema(*plain, NestedField(holder, _HELD_BY, StructType(*inside), required=False))


def _rows(table: Table, *, in_turns: bool) -> pa.Table:
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    held = schema.field(_HELD_BY).type
    plain = [_values(name, schema.field(name).type, in_turns) for name in COLUMNS]
    inside = [_values(name, held.field(name).type, in_turns) for name in COLUMNS]
    mask = pa.array([at % 11 == 10 for at in range(ROWS)])
    struct = pa.StructArray.from_arrays(inside, fields=list(held), mask=mask)
    return pa.Table.from_arrays([*plain, struct], schema=schema)


def _values(name: str, kind: pa.DataType, in_turns: bool) -> pa.Array:
    """The values of a column and null, in turns or one after the other."""
    values = [*COLUMNS[name].values, None]
    places = [at % len(values) if in_turns else at * len(values) // ROWS for at in range(ROWS)]
    found = [values[place] for place in places]
    if not isinstance(COLUMNS[name].type, UUIDType):
        return pa.array(found, kind)
    stored = pa.array([None if one is None else one.bytes for one in found], pa.binary(16))
    is_extension = isinstance(kind, pa.BaseExtensionType)
    return pa.ExtensionArray.from_storage(pa.uuid(), stored) if is_extension else stored


def on_files(table: Table, properties: Mapping[str, str]) -> Path:
    """Keep what the table says of itself as version 1 of a file-system table."""
    directory = Path(table.location().removeprefix("file://"))
    current = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(current.read_text())
    document |= {"location": str(directory), "metadata-log": []}
    document["properties"] = dict(properties)
    for path in current.parent.glob("*.metadata.json"):
        path.unlink()
    (current.parent / "v1.metadata.json").write_text(json.dumps(document))
    (current.parent / "version-hint.text").write_text("1")
    return directory
