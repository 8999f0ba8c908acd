"""Files of the size and shape that the table asks for, with the metrics that it asks for."""

import datetime as dt
import io
import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import Refused
from icectl.files.parquet.metrics import FileMetrics
from icectl.files.parquet.schema import arrow_schema
from icectl.format.metrics_modes import metrics_modes
from icectl.format.single_value import encode
from icectl.format.types import parse_type
from icectl.rows import write_data
from icectl.rows.write_data import DataWriter, with_joined_bounds, write_options
from tests.builders.data_files import MemoryFiles, schema
from tests.builders.shapes import line, point

IDS = schema((1, "id", "long"), (2, "text", "string"))


def batches(count, size=1000, width=20):
    chance = np.random.default_rng(1)
    arrow = arrow_schema(IDS)
    for start in range(0, count, size):
        text = chance.bytes(width * size).hex()
        texts = [text[at : at + 2 * width] for at in range(0, len(text), 2 * width)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(range(start, start + size)), texts], schema=arrow
        )


def written(columns, rows, properties=None, target=2**40, row_size=50.0):
    """The files that these batches become, and the store they are in."""
    files = MemoryFiles()
    properties = properties or {}
    options = write_options(properties, target, metrics_modes(properties, columns, ()))
    with DataWriter(columns, options, files.outputs(), row_size) as writer:
        for batch in rows:
            writer.write(batch, b"", "")
    return writer.written, files


def one(columns, rows, properties=None):
    """The one file that rows become, and its footer."""
    arrow = arrow_schema(columns)
    arrays = [pa.array(rows[item.name], item.type) for item in arrow]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow)
    (file,), files = written(columns, [batch], properties)
    return file, pq.ParquetFile(io.BytesIO(files.content[file.location])).metadata


@pytest.mark.parametrize("row_size", [0.0, 5.0, 47.0, 5000.0])
def test_files_have_the_target_size_whatever_rows_were_expected_to_take(row_size):
    files, store = written(
        IDS,
        batches(10_000),
        {"write.parquet.row-group-size-bytes": "100000"},
        target=90_000,
        row_size=row_size,
    )
    sizes = [file.file_size_in_bytes for file in files]
    assert sizes == [len(store.content[file.location]) for file in files]
    assert sum(file.metrics.record_count for file in files) == 10_000
    assert all(0.9 * 90_000 <= size <= 1.1 * 90_000 for size in sizes[:-1])
    assert sizes[-1] <= 1.1 * 90_000
    assert len(sizes) == 3
    assert [row["id"] for file in files for row in store.rows(file.location)] == list(range(10_000))


@pytest.mark.parametrize("threads", [1, 2])
def test_row_groups_have_the_size_that_the_table_says_however_many_rows_come_at_once(threads):
    files = MemoryFiles(threads=threads)
    options = write_options({"write.parquet.row-group-size-bytes": "65536"}, 2**40, {})
    with DataWriter(IDS, options, files.outputs(), 50.0) as writer:
        for batch in batches(10_000, size=5_000):
            writer.write(batch, b"", "")
    (file,) = writer.written
    footer = pq.ParquetFile(io.BytesIO(files.content[file.location])).metadata
    counts = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    assert sum(counts) == 10_000
    most = 65_536 // (8 + 4 + 40) + 1  # a number, an offset and 40 letters a row
    assert all(most <= count < most + 100 for count in counts[:-threads])
    assert [row["id"] for row in files.rows(file.location)] == list(range(10_000))


@pytest.mark.parametrize(
    ("rows", "last"),
    [(2_900, [2_000, 900]), (3_000, [500, 500]), (3_900, [633, 633, 634]), (4_000, [2_000])],
)
def test_several_threads_share_the_last_rows_of_a_file(rows, last):
    """No row group has less than a quarter of the usual rows, which are 2,000 here."""
    files = MemoryFiles(threads=3)
    options = write_options({"write.parquet.row-group-size-bytes": "100000"}, 2**40, {})
    with DataWriter(IDS, options, files.outputs(), 50.0) as writer:
        for batch in batches(rows, size=100):
            writer.write(batch, b"", "")
    (file,) = writer.written
    footer = pq.ParquetFile(io.BytesIO(files.content[file.location])).metadata
    counts = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    assert counts[-len(last) :] == last
    assert [row["id"] for row in files.rows(file.location)] == list(range(rows))


@pytest.mark.parametrize(
    ("rows", "expected", "threads", "counts"),
    [
        (5_000, 5_000, 2, [1_400, 1_400, 1_400, 800]),  # 1,313 each, in batches of 100 rows
        (5_000, 5_000, 1, [2_000, 2_000, 1_000]),
        (5_000, 0, 2, [2_000, 2_000, 500, 500]),  # not known
        (3_000, 3_000, 3, [1_100, 1_100, 800]),
        (1_000, 1_000, 2, [600, 400]),
        (18_000, 18_000, 2, [2_000] * 9),  # so many that the last ones do not matter
    ],
)
def test_threads_get_equal_shares_of_a_few_row_groups(rows, expected, threads, counts):
    files = MemoryFiles(threads=threads)
    options = write_options({"write.parquet.row-group-size-bytes": "100000"}, 2**40, {})
    of_rows = files.outputs(), 50.0, {}, expected
    with DataWriter(IDS, options, *of_rows) as writer:
        for batch in batches(rows, size=100):
            writer.write(batch, b"", "")
    (file,) = writer.written
    footer = pq.ParquetFile(io.BytesIO(files.content[file.location])).metadata
    assert [footer.row_group(at).num_rows for at in range(footer.num_row_groups)] == counts
    assert [row["id"] for row in files.rows(file.location)] == list(range(rows))


def test_threads_make_the_row_groups_that_one_makes_of_rows_thought_to_be_larger():
    found = []
    for threads in (1, 2):
        files = MemoryFiles(threads=threads)
        with DataWriter(IDS, write_options({}, 400_000, {}), files.outputs(), 200.0) as writer:
            for batch in batches(9_000, width=2):
                writer.write(batch, b"", "")
        (file,) = writer.written
        footer = pq.ParquetFile(io.BytesIO(files.content[file.location])).metadata
        found.append([footer.row_group(at).num_rows for at in range(footer.num_row_groups)])
    assert found == [[2_000, 7_000]] * 2


def test_row_groups_of_many_files_wait_for_threads_within_one_bound(monkeypatch):
    monkeypatch.setattr(write_data, "_WAITING_BYTES", 100_000)
    files = MemoryFiles(threads=2)
    options = write_options({"write.parquet.row-group-size-bytes": "100000"}, 2**40, {})
    most = 0
    with DataWriter(IDS, options, files.outputs(), 50.0) as writer:
        for number in range(6):
            for batch in batches(6_000):
                writer.write(batch, b"%d" % number, "")
                most = max(most, sum(new.waiting_bytes for new in writer._open.values()))
    assert 200_000 <= most < 320_000
    assert [file.metrics.record_count for file in writer.written] == [6_000] * 6


@pytest.mark.parametrize("threads", [1, 2])
def test_files_are_left_with_the_error_with_which_another_ends(threads):
    files = MemoryFiles(threads=threads)
    outputs = replace(files.outputs(), open=lambda location: files.content["none" + location])
    writer = DataWriter(IDS, write_options({}, 2**40, {}), outputs, 50.0)
    for number, batch in enumerate(batches(3_000)):
        writer.write(batch, b"%d" % number, "")
    with pytest.raises(KeyError), writer:
        pass
    assert len(files.left) == 2


def test_row_groups_take_what_the_table_says_in_memory():
    (file,), store = written(IDS, batches(20_000), {"write.parquet.row-group-size-bytes": "200000"})
    footer = pq.ParquetFile(io.BytesIO(store.content[file.location])).metadata
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups] == [3847] * 5 + [765]
    starts = [group.column(0).data_page_offset for group in groups]
    assert list(file.metrics.split_offsets) == starts


def test_files_are_named_below_their_partition_and_come_in_the_order_of_their_end():
    files = MemoryFiles()
    options = write_options({}, 2**40, {})
    first, second = batches(2000)
    with DataWriter(IDS, options, files.outputs(), 50.0) as writer:
        writer.write(first, b"b", "part=b")
        writer.write(second, b"a", "part=a")
        writer.write(first, b"b", "part=b")
    found = [
        (file.partition_key, file.location, file.metrics.record_count) for file in writer.written
    ]
    assert found == [
        (b"a", "out/part=a/00000-7-op-00002.parquet", 1000),
        (b"b", "out/part=b/00000-7-op-00001.parquet", 2000),
    ]


def test_many_partitions_together_keep_a_row_group_in_memory():
    files = MemoryFiles()
    options = write_options({"write.parquet.row-group-size-bytes": "200000"}, 2**40, {})
    most = 0
    with DataWriter(IDS, options, files.outputs(), 50.0) as writer:
        for number, batch in enumerate(batches(40_000)):
            writer.write(batch, bytes([number % 8]), f"part={number % 8}")
            most = max(most, sum(new.pending_bytes for new in writer._open.values()))
    assert most < 200_000
    assert [file.metrics.record_count for file in writer.written] == [5000] * 8


def test_no_rows_make_no_file():
    assert written(IDS, [])[0] == []
    assert written(IDS, [arrow_schema(IDS).empty_table().to_batches()][0])[0] == []


def test_files_that_are_open_are_abandoned_on_an_error():
    files = MemoryFiles()
    writing = DataWriter(IDS, write_options({}, 2**40, {}), files.outputs(), 50.0)
    with pytest.raises(KeyError), writing as writer:  # noqa: PT012
        for batch in batches(2000):
            writer.write(batch, b"", "")
        raise KeyError
    assert files.content == {}
    assert files.left == ["out/00000-7-op-00001.parquet"]


TYPED = schema(
    (1, "flag", "boolean"),
    (2, "int", "int"),
    (3, "long", "long"),
    (4, "float", "float"),
    (5, "double", "double"),
    (6, "date", "date"),
    (7, "time", "time"),
    (8, "at", "timestamp"),
    (9, "zoned", "timestamptz"),
    (10, "nanos", "timestamp_ns"),
    (11, "text", "string"),
    (12, "uuid", "uuid"),
    (13, "fixed", "fixed[3]"),
    (14, "bytes", "binary"),
    (15, "small", "decimal(9, 2)"),
    (16, "large", "decimal(38, 4)"),
)
VALUES = {
    "flag": [True, None, False],
    "int": [5, None, -7],
    "long": [2**40, None, -(2**40)],
    "float": [0.5, float("nan"), -1.5],
    "double": [float("nan"), None, float("nan")],
    "date": [dt.date(2024, 2, 29), None, dt.date(1969, 12, 31)],
    "time": [dt.time(1), None, dt.time(2)],
    "at": [1, None, -1],
    "zoned": [1, None, -1],
    "nanos": [1, None, -1],
    "text": ["b", None, "a"],
    "uuid": [b"\xff" * 16, None, bytes(16)],
    "fixed": [b"\xff\0\0", None, b"\0\0\1"],
    "bytes": [b"\xff", None, b""],
    "small": [Decimal("1.50"), None, Decimal("-1.50")],
    "large": [Decimal("9" * 34 + ".0001"), None, Decimal("-0.0001")],
}
BOUNDS = {
    1: ("boolean", False, True),
    2: ("int", -7, 5),
    3: ("long", -(2**40), 2**40),
    4: ("float", -1.5, 0.5),
    6: ("date", -1, 19782),
    7: ("time", 3_600_000_000, 7_200_000_000),
    8: ("timestamp", -1, 1),
    9: ("timestamptz", -1, 1),
    10: ("timestamp_ns", -1, 1),
    11: ("string", "a", "b"),
    13: ("fixed[3]", b"\0\0\1", b"\xff\0\0"),
    14: ("binary", b"", b"\xff"),
    15: ("decimal(9, 2)", Decimal("-1.50"), Decimal("1.50")),
    16: ("decimal(38, 4)", Decimal("-0.0001"), Decimal("9" * 34 + ".0001")),
}


def test_metrics_of_every_type_are_exact():
    file, footer = one(TYPED, VALUES)
    found = file.metrics
    assert found.record_count == 3
    assert found.value_counts == dict.fromkeys(range(1, 17), 3)
    assert found.null_value_counts == {**dict.fromkeys(range(1, 17), 1), 4: 0}
    assert found.nan_value_counts == {4: 1, 5: 2}
    expected = {
        id_: (encode(parse_type(t), a), encode(parse_type(t), b))
        for id_, (t, a, b) in BOUNDS.items()
    }
    assert found.lower_bounds == {id_: lower for id_, (lower, _) in expected.items()}
    without_nan = expected.keys() - {4}
    assert found.upper_bounds == {id_: expected[id_][1] for id_ in sorted(without_nan)}
    group = footer.row_group(0)
    sizes = {place + 1: group.column(place).total_compressed_size for place in range(16)}
    assert found.column_sizes == sizes
    assert file.file_size_in_bytes > sum(sizes.values())


def test_a_row_group_with_nan_has_no_bounds_and_others_have():
    columns = schema((1, "x", "double"))
    arrow = arrow_schema(columns)
    rows = [[1.0, 2.0], [3.0, float("nan")], [4.0, 5.0]]
    (file,), files = written(
        columns,
        [pa.RecordBatch.from_arrays([pa.array(values)], schema=arrow) for values in rows],
        {"write.parquet.row-group-size-bytes": "10"},
    )
    footer = pq.ParquetFile(io.BytesIO(files.content[file.location])).metadata
    told = [footer.row_group(number).column(0).statistics for number in range(3)]
    assert [(one.min, one.max) for one in told] == [(1.0, 2.0), (None, None), (4.0, 5.0)]
    assert [one.null_count for one in told] == [0, 0, 0]
    # Readers that take NaN for the greatest value skip pages by their bounds too.
    has_index = [footer.row_group(number).column(0).has_column_index for number in range(3)]
    assert has_index == [True, False, True]
    assert file.metrics.lower_bounds == {1: encode(parse_type("double"), 1.0)}
    assert file.metrics.upper_bounds == {}


def test_nan_is_not_counted_where_there_is_nothing_else():
    columns = schema((1, "all", "double"), (2, "some", "float"), (3, "null", "double"))
    nan = float("nan")
    file, _ = one(columns, {"all": [nan, nan], "some": [nan, 1.0], "null": [nan, None]})
    assert file.metrics.nan_value_counts == {2: 1, 3: 1}


def test_r095_columns_are_stored_as_the_format_says():
    _, footer = one(TYPED, VALUES)
    columns = [footer.schema.column(place) for place in range(16)]
    assert [column.physical_type for column in columns] == [
        "BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "INT32", "INT64", "INT64", "INT64", "INT64",
        "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY", "INT32",
        "FIXED_LEN_BYTE_ARRAY",
    ]  # fmt: skip
    logical = [json.loads(column.logical_type.to_json()) for column in columns]
    assert [one["Type"] for one in logical] == [
        "None", "None", "None", "None", "None", "Date", "Time", "Timestamp", "Timestamp",
        "Timestamp", "String", "UUID", "None", "None", "Decimal", "Decimal",
    ]  # fmt: skip
    adjusted = [(one["isAdjustedToUTC"], one["timeUnit"]) for one in logical[6:10]]
    us, ns = "microseconds", "nanoseconds"
    assert adjusted == [(False, us), (False, us), (True, us), (False, ns)]
    assert [column.path for column in columns] == list(VALUES)
    assert footer.metadata.keys() == {b"iceberg.schema"}
    stored = json.loads(footer.metadata[b"iceberg.schema"])
    assert [item["id"] for item in stored["fields"]] == list(range(1, 17))


def test_bounds_are_cut_to_the_length_that_the_mode_says():
    names = ["short", "full", "counted", "nothing", "usual", "last"]
    columns = schema(*((number, name, "string") for number, name in enumerate(names, 1)))
    text = "abcdefghijklmnopqrstuvwxyz"
    values = {item.name: [text, None] for item in columns.fields}
    values["last"] = ["\U0010ffff" * 17, None]
    properties = {
        "write.metadata.metrics.column.short": "truncate(2)",
        "write.metadata.metrics.column.full": "full",
        "write.metadata.metrics.column.counted": "counts",
        "write.metadata.metrics.column.nothing": "none",
    }
    file, _ = one(columns, values, properties)
    assert file.metrics.lower_bounds == {
        1: b"ab", 2: text.encode(), 5: text[:16].encode(), 6: ("\U0010ffff" * 16).encode(),
    }  # fmt: skip
    assert file.metrics.upper_bounds == {1: b"ac", 2: text.encode(), 5: b"abcdefghijklmnoq"}
    assert file.metrics.null_value_counts == dict.fromkeys((1, 2, 3, 5, 6), 1)
    assert file.metrics.column_sizes.keys() == {1, 2, 3, 5, 6}
    assert file.footer.null_value_counts == dict.fromkeys(range(1, 7), 1)


def test_columns_inside_of_structs_have_metrics_and_those_in_lists_and_maps_sizes_alone():
    place = {
        "type": "struct",
        "fields": [{"id": 4, "name": "x", "type": "double", "required": False}],
    }
    tags = {"type": "list", "element-id": 5, "element": "double", "element-required": False}
    counts = {"type": "map", "key-id": 6, "key": "string", "value-id": 7, "value": "long",
              "value-required": False}  # fmt: skip
    columns = schema((1, "place", place), (2, "tags", tags), (3, "counts", counts))
    values = {
        "place": [{"x": 1.0}, None, {"x": float("nan")}, {"x": None}],
        "tags": [[1.0, float("nan")], [], None, [None]],
        "counts": [[("a", 1)], [], None, [("b", None)]],
    }
    file, _ = one(columns, values)
    assert file.metrics.column_sizes.keys() == {4, 5, 6, 7}
    assert file.metrics.value_counts == {4: 4}
    assert file.metrics.null_value_counts == {4: 2}
    assert file.metrics.nan_value_counts == {4: 1}
    assert file.metrics.lower_bounds == {4: encode(parse_type("double"), 1.0)}


@pytest.mark.parametrize(
    ("properties", "compression"),
    [
        ({}, "ZSTD"),
        ({"write.parquet.compression-codec": "snappy"}, "SNAPPY"),
        (
            {"write.parquet.compression-codec": "GZIP", "write.parquet.compression-level": "9"},
            "GZIP",
        ),
        ({"write.parquet.compression-codec": "uncompressed"}, "UNCOMPRESSED"),
        ({"write.parquet.compression-codec": "brotli"}, "BROTLI"),
        ({"write.parquet.compression-codec": "lz4"}, "LZ4"),
    ],
)
def test_files_are_compressed_as_the_table_says(properties, compression):
    (file,), store = written(IDS, batches(1000), properties)
    footer = pq.ParquetFile(io.BytesIO(store.content[file.location])).metadata
    assert footer.row_group(0).column(0).compression == compression


@pytest.mark.parametrize(
    ("codec", "level", "written_as"),
    [
        ("snappy", "3", None), ("uncompressed", "3", None), ("gzip", "12", 9), ("gzip", "-1", 1),
        ("zstd", "9999999999", 22), ("brotli", "4", 4),
    ],
)  # fmt: skip
def test_a_level_that_a_codec_does_not_have_is_the_nearest_or_none(codec, level, written_as):
    properties = {
        "write.parquet.compression-codec": codec, "write.parquet.compression-level": level,
    }  # fmt: skip
    assert write_options(properties, 1, {}).parquet.compression_level == written_as
    assert one(IDS, {"id": [1], "text": ["a"]}, properties)[0].metrics.record_count == 1


@pytest.mark.parametrize(("codec", "level"), [("zstd", 3), ("gzip", 6), ("snappy", None)])
def test_a_codec_without_a_level_takes_that_of_other_writers(codec, level):
    options = write_options({"write.parquet.compression-codec": codec}, 1, {})
    assert options.parquet.compression_level == level


def test_a_higher_level_makes_smaller_files():
    rows = {"id": range(2000), "text": [f"row {n * 7919 % 977} of {n % 13}" for n in range(2000)]}
    sizes = [
        one(IDS, rows, {"write.parquet.compression-level": level})[0].file_size_in_bytes
        for level in ("-50", "15")
    ]
    assert sizes[1] < 0.8 * sizes[0]


def test_pages_and_dictionaries_have_the_size_that_the_table_says():
    def index(properties):
        (file,), store = written(IDS, batches(20_000), properties)
        return store.content[file.location]

    few, many = index({}), index({"write.parquet.page-row-limit": "100"})
    assert len(many) > len(few)
    rows = {"id": [7] * 20_000, "text": [str(number % 1000) for number in range(20_000)]}
    _, large = one(IDS, rows)
    _, small = one(IDS, rows, {"write.parquet.dict-size-bytes": "100"})
    sizes = [footer.row_group(0).column(1).total_uncompressed_size for footer in (large, small)]
    assert sizes[1] > 2 * sizes[0]


def test_pages_have_checksums_and_an_index():
    (file,), store = written(IDS, batches(1000))
    chunk = pq.ParquetFile(io.BytesIO(store.content[file.location])).metadata.row_group(0).column(0)
    assert chunk.has_column_index
    assert chunk.has_offset_index
    damaged = bytearray(store.content[file.location])
    damaged[chunk.data_page_offset + 60] ^= 1
    reader = pq.ParquetFile(io.BytesIO(bytes(damaged)), page_checksum_verification=True)
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        reader.read()


def test_a_property_that_is_no_value_is_refused():
    with pytest.raises(Refused, match=r"write\.parquet\.compression-codec"):
        write_options({"write.parquet.compression-codec": "lzo"}, 1, {})


SHAPES = schema((1, "plane", "geometry"), (2, "globe", "geography"))


def corners(*values: float) -> bytes:
    return np.array(values, "<f8").tobytes()


def test_r093_shapes_have_the_corners_of_their_box_and_edges_on_a_globe_none():
    rows = {"plane": [line((1, 9), (5, 2)), None], "globe": [point(179, 1), point(-179, 3)]}
    file, _ = one(SHAPES, rows)
    assert file.metrics.lower_bounds == {1: corners(1, 2), 2: corners(179, 1)}
    assert file.metrics.upper_bounds == {1: corners(5, 9), 2: corners(-179, 3)}
    assert one(SHAPES, rows | {"globe": [line((1, 1), (9, 1)), None]})[0].metrics.lower_bounds == {
        1: corners(1, 2)
    }
    none = {"write.metadata.metrics.column.plane": "counts"}
    assert one(SHAPES, rows, none)[0].metrics.lower_bounds == {2: corners(179, 1)}


def test_r093_boxes_of_row_groups_are_joined():
    arrow = arrow_schema(SHAPES)
    rows = [
        pa.RecordBatch.from_arrays(
            [pa.array([point(at, -at)] * 9, pa.binary()), pa.array([point(at, at / 9)] * 9)],
            schema=arrow,
        )
        for at in (-170, 5, 170)
    ]
    (file,), store = written(SHAPES, rows, {"write.parquet.row-group-size-bytes": "100"})
    metadata = pq.ParquetFile(io.BytesIO(store.content[file.location])).metadata
    assert metadata.num_row_groups == 3
    boxes = [metadata.row_group(at).column(0).geo_statistics for at in range(3)]
    assert [(one.xmin, one.xmax) for one in boxes] == [(-170, -170), (5, 5), (170, 170)]
    assert file.metrics.lower_bounds[1] == corners(-170, -170)
    assert file.metrics.upper_bounds[1] == corners(170, 170)
    assert (file.metrics.lower_bounds[2][:8], file.metrics.upper_bounds[2][:8]) == (
        corners(5), corners(-170),
    )  # fmt: skip


def stated(lower: bytes | None, upper: bytes | None, nulls: int = 0) -> FileMetrics:
    """What an entry states of the column of geography."""
    return FileMetrics(
        2,
        value_counts={2: 2},
        null_value_counts={2: nulls},
        lower_bounds={} if lower is None else {2: lower},
        upper_bounds={} if upper is None else {2: upper},
    )


EAST, WEST = (corners(170, 1), corners(175, 2)), (corners(-175, 0), corners(-170, 1))


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([stated(*EAST)], EAST),
        ([stated(*EAST), stated(*WEST)], (corners(170, 0), corners(-170, 2))),
        ([stated(*EAST), stated(None, None, nulls=2)], EAST),
        ([stated(*EAST), stated(None, None)], None),
        ([stated(*EAST), stated(EAST[0], None)], None),
        ([stated(*EAST), stated(b"x", b"y")], None),
        ([stated(*EAST), stated(corners(175, 0), corners(-175, 1))],
         (corners(170, 0), corners(-175, 2))),
        ([stated(*EAST), stated(corners(170, 1), corners(190, 2))], None),
        ([stated(*EAST), stated(corners(170, 2), corners(175, 1))], None),
        ([stated(corners(170, 0, 5), corners(175, 1, 6)), stated(*WEST)],
         (corners(170, 0, 5), corners(-170, 1, 6))),
        ([], None),
    ],
)  # fmt: skip
def test_boxes_that_a_file_does_not_tell_are_joined_of_those_of_its_inputs(sources, expected):
    file, _ = one(SHAPES, {"plane": [None, point(3, 4)], "globe": [line((171, 1), (174, 1)), None]})
    options = write_options({}, 2**40, metrics_modes({}, SHAPES, ()))
    joined = with_joined_bounds(file, sources, SHAPES, options).metrics
    ends = joined.lower_bounds.get(2), joined.upper_bounds.get(2)
    assert ends == (expected or (None, None))
    assert joined.lower_bounds[1] == corners(3, 4)
