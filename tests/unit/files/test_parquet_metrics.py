import datetime as dt
import io
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet import footer
from icectl.files.parquet.metrics import FileMetrics, read_metrics
from icectl.files.parquet.schema import FIELD_ID
from icectl.format.schema import Schema, schema_from_json


def schema_of(*types: object) -> Schema:
    """Fields a, b, … with ids 1, 2, …"""
    return schema_from_json(
        {
            "schema-id": 0,
            "type": "struct",
            "fields": [
                {"id": number, "name": chr(96 + number), "required": False, "type": type_}
                for number, type_ in enumerate(types, 1)
            ],
        }
    )


def with_ids(*types: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            pa.field(chr(96 + number), type_, metadata={FIELD_ID: str(number)})
            for number, type_ in enumerate(types, 1)
        ]
    )


def file_of(schema: pa.Schema, *columns: list[Any], **options: Any) -> io.BytesIO:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), file, **options)
    return file


def bounds_of(iceberg: object, arrow: pa.DataType, values: list[Any], **options: Any) -> Any:
    metrics = read_metrics(file_of(with_ids(arrow), values, **options), schema_of(iceberg))
    return metrics.lower_bounds.get(1), metrics.upper_bounds.get(1)


def le(code: str, *numbers: float) -> tuple[bytes, ...]:
    return tuple(struct.pack(f"<{code}", number) for number in numbers)


UTC = dt.UTC
NOON = dt.datetime(2020, 1, 1, 12, tzinfo=UTC)
NOON_US = 1_577_880_000_000_000


@pytest.mark.parametrize(
    ("iceberg", "arrow", "values", "expected"),
    [
        ("boolean", pa.bool_(), [True, None, False], (b"\x00", b"\x01")),
        ("int", pa.int32(), [5, -2, None], le("i", -2, 5)),
        ("long", pa.int64(), [5, -(1 << 40)], le("q", -(1 << 40), 5)),
        ("float", pa.float32(), [1.5, -2.5], le("f", -2.5, 1.5)),
        ("double", pa.float64(), [1.5, -2.5], le("d", -2.5, 1.5)),
        ("date", pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 2)], le("i", -1, 1)),
        ("time", pa.time64("us"), [1, 86_399_999_999], le("q", 1, 86_399_999_999)),
        ("timestamp", pa.timestamp("us"), [-1, 1], le("q", -1, 1)),
        ("timestamptz", pa.timestamp("us", "UTC"), [NOON], le("q", NOON_US, NOON_US)),
        ("timestamp_ns", pa.timestamp("ns"), [-1, 1_000_000_001], le("q", -1, 1_000_000_001)),
        ("timestamptz_ns", pa.timestamp("ns", "UTC"), [7], le("q", 7, 7)),
        ("string", pa.string(), ["b", "é", "a"], (b"a", "é".encode())),
        ("binary", pa.binary(), [b"\xff", b"\x00"], (b"\x00", b"\xff")),
        ("fixed[2]", pa.binary(2), [b"\xff\x00", b"\x00\x01"], (b"\x00\x01", b"\xff\x00")),
        ("uuid", pa.binary(16), [b"\x80" * 16, b"\x01" * 16], (b"\x01" * 16, b"\x80" * 16)),
    ],
)
def test_r091_bounds_are_the_single_values_of_their_type(iceberg, arrow, values, expected):
    assert bounds_of(iceberg, arrow, values) == expected


@pytest.mark.parametrize(("unit", "is_exact"), [("ns", False), ("us", True), ("ms", True)])
def test_bounds_that_were_rounded_to_the_units_of_their_column_are_not_exact(unit, is_exact):
    file = file_of(with_ids(pa.timestamp(unit)), [1_000, 2_001])
    assert read_metrics(file, schema_of("timestamp")).exact_bounds == ({1} if is_exact else set())


@pytest.mark.parametrize("as_integer", [True, False])
@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ((9, 2), ["-0.01", "1.28"], (b"\xff", b"\x00\x80")),
        ((18, 3), ["-8388.608", "0.000"], (b"\x80\x00\x00", b"\x00")),
        (
            (38, 2),
            ["-123456789012345678901234567890123456.78", "1.00"],
            ((-12345678901234567890123456789012345678).to_bytes(16, "big", signed=True), b"\x64"),
        ),
    ],
)
def test_r091_decimals_have_the_fewest_bytes_however_they_are_stored(
    type_, values, expected, as_integer
):
    numbers = [Decimal(value) for value in values]
    precision, scale = type_
    found = bounds_of(
        f"decimal({precision}, {scale})",
        pa.decimal128(precision, scale),
        numbers,
        store_decimal_as_integer=as_integer,
    )
    assert found == expected


@pytest.mark.parametrize(
    ("iceberg", "arrow", "values", "expected"),
    [
        ("long", pa.int32(), [-3, 4], le("q", -3, 4)),
        ("double", pa.float32(), [0.5, 0.25], le("d", 0.25, 0.5)),
        ("timestamp", pa.date32(), [dt.date(1970, 1, 3)], le("q", *[2 * 86_400_000_000] * 2)),
        ("timestamp_ns", pa.date32(), [dt.date(1970, 1, 2)], le("q", *[86_400 * 10**9] * 2)),
        ("timestamp", pa.timestamp("ms"), [-1, 2], le("q", -1000, 2000)),
        ("timestamp", pa.timestamp("ns"), [-1, 2_500], le("q", -1, 2)),
        ("timestamp_ns", pa.timestamp("us"), [3], le("q", 3000, 3000)),
        ("time", pa.time32("ms"), [3], le("q", 3000, 3000)),
        ("time", pa.time64("ns"), [3999], le("q", 3, 3)),
    ],
)
def test_r097_bounds_of_narrower_columns_and_other_units_are_those_of_the_schema(
    iceberg, arrow, values, expected
):
    assert bounds_of(iceberg, arrow, values) == expected


def test_r092_zero_bounds_allow_for_either_zero():
    assert bounds_of("double", pa.float64(), [0.0, -0.0]) == le("d", -0.0, 0.0)
    assert bounds_of("float", pa.float32(), [0.0, 1.0]) == le("f", -0.0, 1.0)
    assert bounds_of("float", pa.float32(), [-1.0, -0.0]) == le("f", -1.0, 0.0)


def test_r092_nan_is_no_bound():
    nan = float("nan")
    assert bounds_of("double", pa.float64(), [nan, nan]) == (None, None)
    assert bounds_of("double", pa.float64(), [nan, 2.0, 1.0]) == le("d", 1.0, 2.0)


@pytest.mark.parametrize("stored", [pa.uint32(), pa.uint64()])
def test_numbers_without_a_sign_have_no_bounds_which_pyarrow_takes_for_signed_ones(stored):
    assert bounds_of("long", stored, [1, 2**31]) == (None, None)
    assert bounds_of("int", pa.uint16(), [1, 2**16 - 1]) == le("i", 1, 2**16 - 1)


def test_values_beyond_the_type_of_the_schema_have_no_bounds():
    last = dt.date(9999, 12, 31)
    assert bounds_of("timestamp_ns", pa.date32(), [last]) == (None, None)
    assert bounds_of("fixed[2]", pa.binary(3), [b"abc"]) == (None, None)


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize(
    ("iceberg", "arrow", "value"),
    [("fixed[100]", pa.binary(100), b"A" * 100), ("long", pa.int64(), 0x4141_4141_4141_4141)],
)
def test_bounds_that_are_shorter_than_values_are_none(
    iceberg, arrow, value, is_compiled, monkeypatch
):
    """Writers in Rust cut bounds after 64 bytes, and pyarrow ends the process where one is cut."""
    if not is_compiled:
        monkeypatch.setattr(footer, "loops", lambda: None)
    stored = with_ids(pa.int32(), arrow, pa.string())
    columns = [[1, 2, 3], [value, None, value], ["b", "a", None]]
    content = file_of(stored, *columns, row_group_size=2).getvalue()
    width = 100 if isinstance(value, bytes) else 8
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    whole, cut = (bytes([size]) + b"A" * size for size in (width, 7))
    shorter = content[start:-8].replace(whole, cut)
    assert len(shorter) < len(content) - 8 - start
    file = io.BytesIO(content[:start] + shorter + len(shorter).to_bytes(4, "little") + b"PAR1")
    metrics = read_metrics(file, schema_of("int", iceberg, "string"))
    assert metrics.null_value_counts == {1: 0, 2: 1, 3: 1}
    assert metrics.lower_bounds == {1: le("i", 1)[0], 3: b"a"}
    assert metrics.upper_bounds == {1: le("i", 3)[0], 3: b"b"}


def test_bounds_span_all_row_groups_but_those_of_nulls():
    found = bounds_of("int", pa.int32(), [3, 4, None, None, 1, 2], row_group_size=2)
    assert found == le("i", 1, 4)


def test_a_column_of_nulls_has_counts_and_no_bounds():
    metrics = read_metrics(file_of(with_ids(pa.int32()), [None, None]), schema_of("int"))
    assert metrics.record_count == 2
    assert metrics.value_counts == {1: 2}
    assert metrics.null_value_counts == {1: 2}
    assert metrics.lower_bounds == metrics.upper_bounds == {}


def test_r130_what_a_footer_does_not_state_is_unknown():
    file = file_of(with_ids(pa.int32()), [1, 2], write_statistics=False)
    metrics = read_metrics(file, schema_of("int"))
    assert metrics.value_counts == {1: 2}
    assert metrics.null_value_counts == {}
    assert metrics.nan_value_counts == {}
    assert metrics.lower_bounds == {}


def test_a_file_without_rows_has_counts_of_zero():
    assert read_metrics(file_of(with_ids(pa.int32()), []), schema_of("int")) == FileMetrics(
        record_count=0, column_sizes={1: 0}, value_counts={1: 0}, null_value_counts={1: 0}
    )


NESTED = schema_of(
    {"type": "struct", "fields": [{"id": 10, "name": "x", "required": False, "type": "int"}]},
    {"type": "list", "element-id": 11, "element-required": False, "element": "int"},
    {
        "type": "map", "key-id": 12, "key": "string", "value-id": 13, "value-required": False,
        "value": "double",
    },
)  # fmt: skip


def nested_file() -> io.BytesIO:
    def ids(name: str, type_: pa.DataType, number: int, **options: Any) -> pa.Field:
        return pa.field(name, type_, metadata={FIELD_ID: str(number)}, **options)

    key = ids("key", pa.string(), 12, nullable=False)
    schema = with_ids(
        pa.struct([ids("x", pa.int32(), 10)]),
        pa.list_(ids("element", pa.int32(), 11)),
        pa.map_(key, ids("value", pa.float64(), 13)),
    )
    return file_of(
        schema, [{"x": 7}, None, {"x": 5}], [[1, 2, None], [], None], [[("k", 0.5)], [], None]
    )


def test_structs_have_bounds_and_lists_and_maps_have_counts_only():
    metrics = read_metrics(nested_file(), NESTED)
    assert metrics.value_counts == {10: 3, 11: 5, 12: 3, 13: 3}
    assert metrics.null_value_counts == {10: 1, 11: 3, 12: 2, 13: 2}
    assert metrics.lower_bounds == {10: struct.pack("<i", 5)}
    assert metrics.upper_bounds == {10: struct.pack("<i", 7)}


def test_column_sizes_and_split_offsets_are_those_of_the_file():
    file = file_of(with_ids(pa.int64(), pa.string()), [*range(100)], ["x"] * 100, row_group_size=50)
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(number) for number in range(2)]
    metrics = read_metrics(file, schema_of("long", "string"))
    assert metrics.column_sizes == {
        place + 1: sum(group.column(place).total_compressed_size for group in groups)
        for place in range(2)
    }
    # The first row group starts behind the magic bytes, the second behind the first's columns.
    first_size = sum(groups[0].column(place).total_compressed_size for place in range(2))
    assert metrics.split_offsets == (4, 4 + first_size)


def test_r067_a_file_without_dictionaries_splits_at_its_first_page():
    file = file_of(with_ids(pa.int64()), [1, 2], use_dictionary=False)
    assert read_metrics(file, schema_of("long")).split_offsets == (4,)


def test_columns_that_the_schema_lacks_have_counts_and_no_bounds():
    metrics = read_metrics(file_of(with_ids(pa.int32(), pa.int32()), [1], [2]), schema_of("int"))
    assert metrics.value_counts == {1: 1, 2: 1}
    assert metrics.lower_bounds == {1: struct.pack("<i", 1)}


def test_columns_without_an_id_are_left_out():
    schema = pa.schema([*with_ids(pa.int32()), pa.field("other", pa.int32())])
    assert read_metrics(file_of(schema, [1], [2]), schema_of("int")).value_counts == {1: 1}


def test_r181_a_file_without_ids_has_those_of_the_name_mapping():
    file = file_of(pa.schema([("old name", pa.int32()), ("unmapped", pa.int32())]), [1], [2])
    mapping = [{"field-id": 1, "names": ["a", "old name"]}]
    assert read_metrics(file, schema_of("int"), mapping).lower_bounds == {1: struct.pack("<i", 1)}
    assert read_metrics(file, schema_of("int")) == FileMetrics(record_count=1, split_offsets=(4,))


@pytest.mark.parametrize(
    ("iceberg", "arrow", "values"),
    [
        ("int", pa.string(), ["1"]), ("string", pa.int32(), [1]),
        ("uuid", pa.binary(8), [b"12345678"]), ("int", pa.int64(), [1 << 40]),
        ("timestamp", pa.float64(), [1.0]), ("unknown", pa.int32(), [1]),
        ("variant", pa.binary(), [b"1"]),
    ],
)  # fmt: skip
def test_r095_a_column_stored_as_another_type_has_no_bounds(iceberg, arrow, values):
    assert bounds_of(iceberg, arrow, values) == (None, None)


def test_a_bound_that_is_no_utf8_is_unknown():
    assert bounds_of("string", with_ids(pa.binary()).field(0).type, [b"\xff"]) == (None, None)


GOOD = file_of(with_ids(pa.int32()), [1]).getvalue()


@pytest.mark.parametrize("content", [b"", b"PAR1", GOOD[:-1], GOOD[-30:], b"ORC" * 10])
def test_what_is_no_parquet_file_is_corrupt(content):
    with pytest.raises(CorruptTable, match="the Parquet file is damaged") as caught:
        read_metrics(io.BytesIO(content), schema_of("int"))
    assert caught.value.rule == "R-099"


def test_a_damaged_footer_is_corrupt():
    size = int.from_bytes(GOOD[-8:-4], "little")
    damaged = GOOD[: -8 - size] + b"\xff" * size + GOOD[-8:]
    with pytest.raises(CorruptTable, match="damaged"):
        read_metrics(io.BytesIO(damaged), schema_of("int"))


class FailingFile(io.BytesIO):
    """A file whose reads end in an error."""

    def __init__(self, error: OSError) -> None:
        super().__init__(GOOD)
        self.error = error

    def read(self, size: int | None = -1, /) -> bytes:
        raise self.error


def test_a_footer_with_what_pyarrow_lacks_is_unsupported():
    file = FailingFile(OSError("Logical type Null cannot be applied to group node"))
    with pytest.raises(Unsupported, match="Logical type Null"):
        read_metrics(file, schema_of("int"))


def test_an_error_of_the_system_is_not_the_files_fault():
    with pytest.raises(PermissionError):
        read_metrics(FailingFile(PermissionError(13, "no")), schema_of("int"))
