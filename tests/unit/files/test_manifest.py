"""Reading manifests of unusual and broken shapes, by both ends."""

import pyarrow as pa
import pytest

from icectl.entries.rows import ALL_COLUMNS, PLANNING_COLUMNS
from icectl.errors import CorruptTable, Unsupported
from icectl.files.avro.container import in_parts, read_blocks, read_header
from icectl.files.manifest import manifest
from icectl.files.manifest import scan as manifest_scan
from icectl.files.manifest.manifest import read_manifest, read_manifests
from icectl.format.manifest import ManifestContent
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.transforms import parse_transform
from tests.builders import avro
from tests.builders.avro import (
    SYNC,
    entry,
    entry_schema,
    field,
    file,
    number,
    pairs,
    raw_file,
    text,
)

pytestmark = pytest.mark.usefixtures("end")


def spec(*field_ids: int, spec_id: int = 4) -> PartitionSpec:
    identity = parse_transform("identity")
    fields = tuple(PartitionField((1,), one, f"p{one}", identity) for one in field_ids)
    return PartitionSpec(spec_id, fields)


def read(content: bytes, columns: frozenset[str] = ALL_COLUMNS, of=None) -> pa.Table:
    return read_manifest(content, columns=columns, manifest=2, spec=of)[1].table


def rule(content: bytes, columns: frozenset[str] = ALL_COLUMNS, of=None) -> str:
    with pytest.raises(CorruptTable) as caught:
        read(content, columns, of)
    return caught.value.rule


KEY_OF_1 = b"\x01\x08\x00\x00\x00\x01" + bytes(7)


def key_of(value: int) -> bytes:
    return KEY_OF_1[:5] + bytes([value]) + bytes(7)


def test_columns_not_asked_for_are_absent():
    table = read(file(entry_schema(), [entry()]), frozenset({"location"}), spec(1000))
    assert table.to_pylist() == [
        {
            "content": 0, "status": 1, "location": "s3://b/1.parquet", "spec_id": 4,
            "manifest": 2, "manifest_pos": 0,
        }
    ]  # fmt: skip


def test_columns_that_inheritance_needs_are_read_along():
    table = read(file(entry_schema(), [entry()]), frozenset({"first_row_id"}))
    assert "record_count" in table.column_names
    table = read(file(entry_schema(), [entry()]), frozenset({"file_sequence_number"}))
    assert "sequence_number" in table.column_names


def test_r008_columns_are_found_by_id_whatever_their_names():
    schema = entry_schema()
    data_file = schema["fields"][-1]
    data_file["name"] = "payload"
    fields = data_file["type"]["fields"]
    fields[1]["name"], fields[4]["name"] = "record_count", "file_path"
    record = entry()
    stored = record.pop("data_file")
    stored["record_count"], stored["file_path"] = stored["file_path"], stored["record_count"]
    table = read(file(schema, [record | {"payload": stored}]))
    assert table["location"].to_pylist() == ["s3://b/1.parquet"]
    assert table["record_count"].to_pylist() == [1]


def test_files_without_field_ids_fall_back_to_names():
    def bare(schema):
        if isinstance(schema, dict):
            return {key: bare(value) for key, value in schema.items() if key != "field-id"}
        return [bare(item) for item in schema] if isinstance(schema, list) else schema

    table = read(file(bare(entry_schema()), [entry()]), of=spec(1000))
    assert table["location"].to_pylist() == ["s3://b/1.parquet"]
    assert table["partition_key"].to_pylist() == [KEY_OF_1]


def test_r004_version_1_entries_have_no_content_and_are_data():
    content = file(entry_schema(without=["content"]), [entry()], partition_spec_id="6")
    header, entries = read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=None)
    assert (header.format_version, header.content, header.spec_id) == (1, ManifestContent.DATA, 6)
    assert entries.table["content"].to_pylist() == [0]
    assert entries.table["spec_id"].to_pylist() == [6]
    assert entries.table["sequence_number"].to_pylist() == [None]


def test_manifests_of_any_form_are_read_into_one_table():
    usual, old = entry_schema(), entry_schema(without=["content"])
    apart = file(usual, [entry(3)], "deflate", partition_spec_id="7").replace(SYNC, b"o" * 16)
    contents = [
        file(usual, [entry(1), entry(2)]),
        file(usual, []),
        apart,
        apart.replace(b"o" * 16, SYNC),
        file(usual, [entry(4, content=1)], content="deletes"),
        file(entry_schema(without=["partition"]), [_without_partition(5)]),
        file(old, [entry(6)], partition_spec_id="9"),
    ]
    headers, entries = read_manifests(
        contents, columns=PLANNING_COLUMNS, manifests=[5, 6, 7, 8, 9, 11, 12], spec=None
    )
    names = ["location", "content", "spec_id", "manifest", "manifest_pos", "partition_key"]
    assert list(zip(*(entries.table[name].to_pylist() for name in names), strict=True)) == [
        ("s3://b/1.parquet", 0, 0, 5, 0, KEY_OF_1),
        ("s3://b/2.parquet", 0, 0, 5, 1, key_of(2)),
        ("s3://b/3.parquet", 0, 7, 7, 0, key_of(3)),
        ("s3://b/3.parquet", 0, 7, 8, 0, key_of(3)),
        ("s3://b/4.parquet", 1, 0, 9, 0, key_of(4)),
        ("s3://b/5.parquet", 0, 0, 11, 0, b""),
        ("s3://b/6.parquet", 0, 9, 12, 0, key_of(6)),
    ]
    assert [header.spec_id for header in headers] == [None, None, 7, 7, None, None, 9]
    assert [header.codec for header in headers] == ["null"] * 2 + ["deflate"] * 2 + ["null"] * 3


def test_manifests_of_two_forms_in_turn_are_decoded_as_two_and_come_in_their_order():
    schema = entry_schema()
    contents = [
        file(schema, [entry(at), entry(at + 50)])
        if at % 2
        else file(schema, [entry(at, content=2)], content="deletes")
        for at in range(20)
    ]
    headers, entries = read_manifests(
        contents, columns=PLANNING_COLUMNS, manifests=range(3, 23), spec=None
    )
    assert [header.content for header in headers] == [1, 0] * 10
    expected = [
        (at + 3, position, f"s3://b/{at + 50 * position}.parquet")
        for at in range(20)
        for position in range(1 + at % 2)
    ]
    names = ["manifest", "manifest_pos", "location"]
    assert list(zip(*(entries.table[name].to_pylist() for name in names), strict=True)) == expected
    assert entries.table["location"].num_chunks == 1


@pytest.mark.parametrize("kept", [1, 17])
def test_r008_a_header_like_the_one_before_is_checked_to_its_end(kept):
    whole = file(entry_schema(), [])
    with pytest.raises(CorruptTable) as caught:
        read_manifests(
            [whole, whole[:-kept]], columns=frozenset(), manifests=[0, 1], spec=spec(1000)
        )
    assert caught.value.rule == "R-008"


def test_r063_delete_manifests_must_say_what_their_files_hold():
    assert rule(file(entry_schema(without=["content"]), [entry()], content="deletes")) == "R-063"


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("status", "R-062"), ("data_file", "R-062"), ("file_path", "R-063"),
        ("file_format", "R-063"), ("record_count", "R-063"), ("file_size_in_bytes", "R-063"),
    ],
)  # fmt: skip
def test_r062_r063_missing_required_fields_are_named(missing, expected):
    assert rule(file(entry_schema(without=[missing]), [entry()])) == expected


def test_r063_a_null_in_a_required_field_is_corrupt():
    optional = field("file_path", "string", 100, optional=True)
    schema = entry_schema([optional], without=["file_path"])
    schema["fields"][-1]["type"]["fields"].append(optional)
    assert rule(file(schema, [entry(file_path=None)])) == "R-063"


@pytest.mark.parametrize(("status", "expected"), [(3, "R-064"), (-1, "R-064"), (300, "R-063")])
def test_r064_unknown_statuses_are_corrupt(status, expected):
    assert rule(file(entry_schema(), [entry(status=status)])) == expected


def test_r063_unknown_contents_are_corrupt():
    assert rule(file(entry_schema(), [entry(content=3)])) == "R-063"


def test_r063_a_sort_order_beyond_32_bits_is_corrupt():
    schema = entry_schema([field("sort_order_id", "long", 140)])
    assert rule(file(schema, [entry(sort_order_id=2**31)])) == "R-063"


def test_r063_a_field_of_another_type_is_corrupt():
    schema = entry_schema([field("file_path", "long", 100)], without=["file_path"])
    assert rule(file(schema, [entry(file_path=1)])) == "R-063"


def test_r060_a_header_that_is_no_json_is_corrupt():
    assert rule(file(entry_schema(), [], partition_spec="[{")) == "R-060"
    assert rule(file(entry_schema(), [], schema_id="one")) == "R-060"
    assert rule(file(entry_schema(), [], content="rows")) == "R-060"


def test_r060_the_header_says_what_the_manifest_says():
    content = file(
        entry_schema([field("surprise", "int", 999)]),
        [entry(surprise=1)],
        format_version="2",
        content="deletes",
        partition_spec_id="3",
        schema_id="5",
        schema='{"type":"struct"}',
        partition_spec='[{"name":"p","field-id":1000}]',
    )
    header, _ = read_manifest(content, columns=frozenset(), manifest=0, spec=None)
    assert (header.format_version, header.content) == (2, ManifestContent.DELETES)
    assert (header.spec_id, header.schema_id, header.codec) == (3, 5, "null")
    assert header.partition_fields == ({"name": "p", "field-id": 1000},)
    assert header.schema == {"type": "struct"}
    assert header.metadata["schema-id"] == "5"
    assert header.unknown_field_ids == (999,)


def test_r068_partition_fields_are_found_by_id_in_the_order_of_the_spec():
    partition = [field("a", "int", 1000), field("b", "string", 1001, optional=True)]
    content = file(entry_schema(partition=partition), [entry(partition={"a": 1, "b": None})])
    keys = read(content, of=spec(1001, 1000, 1002))["partition_key"].to_pylist()
    assert keys == [b"\x00" + KEY_OF_1 + b"\x00"]


def test_r068_partition_fields_of_version_1_may_count_by_position():
    partition = [field("a", "int", 1), field("b", "int", 2, optional=True)]
    content = file(entry_schema(partition=partition), [entry(partition={"a": 1, "b": None})])
    assert read(content, of=spec(1000, 1001))["partition_key"].to_pylist() == [KEY_OF_1 + b"\x00"]


def test_r068_a_partition_that_shares_nothing_with_its_spec_is_corrupt():
    assert rule(file(entry_schema(), [entry()]), of=spec(1005, 1006)) == "R-068"


def test_an_unpartitioned_manifest_has_the_empty_key():
    content = file(entry_schema(partition=[]), [entry(partition={}), entry(partition={})])
    assert read(content, of=spec())["partition_key"].to_pylist() == [b"", b""]


@pytest.mark.parametrize(
    ("type_", "value", "key"),
    [
        ({"type": "fixed", "name": "d", "size": 4, "logicalType": "decimal"}, b"\xff\xff\xff\x80",
         b"\x01\x00\x00\x00\x80"),
        ({"type": "bytes", "logicalType": "decimal"}, b"\x00\x00\x80", b"\x02\x00\x00\x00\x00\x80"),
        ("float", 1.5, b"\x08\x00\x00\x00" + bytes(6) + b"\xf8\x3f"),
        ("boolean", True, b"\x01\x00\x00\x00\x01"),
        ({"type": "string", "logicalType": "uuid"}, "00000000-0000-0000-0000-0000000000ff",
         b"\x10\x00\x00\x00" + bytes(15) + b"\xff"),
        ({"type": "fixed", "name": "u", "size": 2}, b"ab", b"\x02\x00\x00\x00ab"),
    ],
)  # fmt: skip
def test_partition_values_of_every_avro_type_become_canonical(type_, value, key):
    plain = type_
    if isinstance(type_, dict):
        plain = {name: part for name, part in type_.items() if name != "logicalType"}
    record = file(
        entry_schema(partition=[field("p", plain, 1000)]), [entry(partition={"p": value})]
    )
    content = raw_file(entry_schema(partition=[field("p", type_, 1000)]), [(1, block_of(record))])
    assert read(content, of=spec(1000))["partition_key"].to_pylist() == [b"\x01" + key]


def block_of(content: bytes) -> bytes:
    """The content of a file's only block, which holds one record."""
    counted = content.split(avro.SYNC)[1]
    return counted[3 if counted[1] >= 128 else 2 :]


METRICS = [
    field("column_sizes", pairs(117, 118, "long"), 108, optional=True),
    field("lower_bounds", pairs(126, 127, "bytes"), 125, optional=True),
    field("split_offsets", {"type": "array", "items": "long"}, 132, optional=True),
]


def with_metrics(sizes: bytes, bounds: bytes = b"\x00", offsets: bytes = b"\x00") -> bytes:
    """A manifest of one entry whose metrics are these encoded unions."""
    record = (
        number(1)
        + b"\x00"
        + number(0)
        + text(b"s3://b/1")
        + text(b"ORC")
        + b"\x00"
        + number(1)
        + number(2)
        + sizes
        + bounds
        + offsets
    )
    return raw_file(entry_schema(METRICS), [(1, record)])


def test_metrics_are_read_whatever_the_blocks_of_their_arrays():
    two = number(1) + number(10) + number(2) + number(20)
    sized = number(-2) + number(len(two)) + two
    sizes = b"\x02" + number(2) + two + sized + b"\x00"
    bounds = b"\x02" + number(1) + number(7) + text(b"xyz") + b"\x00"
    table = read(with_metrics(sizes, bounds, b"\x02\x00"))
    assert table["column_sizes"].to_pylist() == [[(1, 10), (2, 20), (1, 10), (2, 20)]]
    assert table["lower_bounds"].to_pylist() == [[(7, b"xyz")]]
    assert table["split_offsets"].to_pylist() == [[]]
    planned = read(with_metrics(sizes, bounds, b"\x02\x00"), PLANNING_COLUMNS)
    assert planned["file_size_in_bytes"].to_pylist() == [2]


@pytest.mark.parametrize("columns", [ALL_COLUMNS, PLANNING_COLUMNS], ids=["all", "planning"])
@pytest.mark.parametrize(
    "sizes",
    [
        b"\x02" + number(2**40) + b"\x02\x02", b"\x02" + number(-(2**63)) + number(4),
        b"\x02" + number(1) + b"\x02" + b"\xff" * 10 + b"\x01", b"\x02" + number(3) + b"\x02\x02",
        b"\x02" + number(40) + b"\x02" * 79, b"\x02" + number(40) + b"\x02" * 79 + b"\x00",
        b"\x02" + number(40) + b"\x02" * 81 + b"\x00", b"\x06" + number(1), b"\x01",
    ],
    ids=[
        "huge count", "smallest count", "long number", "cut off", "many, cut off", "one too few",
        "one too many", "branch 3", "branch -1",
    ],
)  # fmt: skip
def test_r008_damaged_arrays_end_in_an_error(sizes, columns):
    assert rule(with_metrics(sizes), columns) == "R-008"


@pytest.mark.parametrize("columns", [ALL_COLUMNS, PLANNING_COLUMNS], ids=["all", "planning"])
def test_r008_lengths_are_checked(columns):
    for length in (-1, -4, -64, -65, 2**62, 1000, 4, 5):
        bounds = b"\x02" + number(1) + number(7) + number(length) + b"abc\x00"
        assert rule(with_metrics(b"\x00", bounds), columns) == "R-008"


@pytest.mark.parametrize("length", [0, 1, 63, 64, 127, 128, 9000])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 15, 16, 17, 40])
def test_metrics_of_any_size_are_stepped_over(count, length):
    keys = [number(key) for key in (1, 63, 64, 8191, 8192, 2**31 - 1)]
    values = [number(value) for value in (0, -64, 64, -8193, 2**40, 2**63 - 1, -(2**63))]
    sizes, bounds = b"\x02" + number(count), b"\x02" + number(count)
    for at in range(count):
        sizes += keys[at % len(keys)] + values[at % len(values)]
        bounds += keys[at % len(keys)] + text(bytes(255 - at for _ in range(length)))
    end = b"\x00" if count else b""
    content = with_metrics(sizes + end, bounds + end)
    assert read(content, PLANNING_COLUMNS)["file_size_in_bytes"].to_pylist() == [2]
    table = read(content)
    assert [len(table[name][0]) for name in ("column_sizes", "lower_bounds")] == [count, count]


def test_r063_keys_of_metrics_are_32_bit(end):
    sizes = b"\x02" + number(1) + number(2**31) + number(1) + b"\x00"
    assert rule(with_metrics(sizes)) == ("R-008" if end == "compiled" else "R-063")


def test_r008_texts_are_utf8():
    record = (
        number(1)
        + b"\x00"
        + number(0)
        + text(b"s3://\xff")
        + text(b"ORC")
        + b"\x00"
        + number(1)
        + number(2)
    )
    assert rule(raw_file(entry_schema(), [(1, record)])) == "R-008"


def test_r008_blocks_hold_their_records_and_nothing_else():
    record = (
        number(1)
        + b"\x00"
        + number(0)
        + text(b"s3://b/1")
        + text(b"orc")
        + b"\x00"
        + number(1)
        + number(2)
    )
    schema = entry_schema()
    assert (
        read(raw_file(schema, [(1, record), (2, record * 2)]))["file_format"].to_pylist() == [2] * 3
    )
    for blocks in ([(1, record + b"\x00")], [(2, record)], [(0, record)], [(-1, record)],
                   [(2**40, record)], [(1, b"")]):  # fmt: skip
        assert rule(raw_file(schema, blocks)) == "R-008"
    assert len(read(raw_file(schema, [(0, b"")]))) == 0


def test_r008_headers_are_checked():
    whole = file(entry_schema(), [entry()])
    assert rule(b"") == "R-008"
    assert rule(b"PAR1" + whole) == "R-008"
    assert rule(whole[:-3] + b"abc") == "R-008"
    assert rule(whole.replace(b'"record"', b'"rekord"', 1)) == "R-008"
    with pytest.raises(Unsupported, match="unknown codec `lzo4`"):
        read(whole.replace(b"null", b"lzo4", 1))


def test_schemas_that_the_scan_does_not_know_are_read():
    union = {"name": "choice", "type": ["null", "int", "string"], "field-id": 998}
    reversed_pairs = {
        "type": "array",
        "items": {
            "type": "record",
            "name": "v118_k117",
            "fields": [field("value", "long", 118), field("key", "int", 117)],
        },
    }
    avro_map = {"type": "map", "values": "bytes"}
    schema = entry_schema(
        [union, field("column_sizes", reversed_pairs, 108), field("lower_bounds", avro_map, 125)]
    )
    record = entry(choice="x", column_sizes=[{"key": 3, "value": 30}], lower_bounds={"4": b"low"})
    table = read(file(schema, [record]))
    assert table["column_sizes"].to_pylist() == [[(3, 30)]]
    assert table["lower_bounds"].to_pylist() == [[(4, b"low")]]


def test_unknown_fields_of_every_type_are_stepped_over():
    nested = {
        "type": "array",
        "items": {"type": "record", "name": "pair", "fields": [
            {"name": "a", "type": {"type": "array", "items": ["null", "double"]}},
            {"name": "b", "type": {"type": "map", "values": "boolean"}},
            {"name": "c", "type": {"type": "enum", "name": "e", "symbols": ["x", "y"]}},
            {"name": "d", "type": "null"},
        ]},
    }  # fmt: skip
    schema = entry_schema(
        [field("nested", nested, 900), field("map", {"type": "map", "values": "long"}, 901)],
        entry=[field("four", {"type": "fixed", "name": "f4", "size": 4}, 902)],
    )
    values = [
        {"a": [None, 1.5], "b": {"k": True, "l": False}, "c": "y", "d": None},
        {"a": [], "b": {}, "c": "x", "d": None},
    ]
    records = [
        entry(at, nested=values * (at % 3), map={"m": at}) | {"four": b"abcd"} for at in range(9)
    ]
    table = read(file(schema, records))
    assert table["file_size_in_bytes"].to_pylist() == [10 * at for at in range(9)]


def test_entries_larger_than_the_room_of_the_scan_are_read(monkeypatch):
    monkeypatch.setattr(manifest_scan, "_ROWS", 4)
    monkeypatch.setattr(manifest_scan, "_ITEMS", 8)
    monkeypatch.setattr(manifest_scan, "_BATCH_BYTES", 256)
    records = [
        entry(
            at,
            file_path="x" * (at * 37 % 900),
            split_offsets=list(range(at % 40)),
            column_sizes=[{"key": one, "value": -one} for one in range(at % 23)],
            lower_bounds=[{"key": one, "value": b"y" * one} for one in range(at % 31)],
        )
        for at in range(200)
    ]
    table = read(file(entry_schema(METRICS), records, "deflate"))
    assert table["location"].to_pylist() == ["x" * (at * 37 % 900) for at in range(200)]
    assert table["split_offsets"].to_pylist() == [list(range(at % 40)) for at in range(200)]
    assert table["column_sizes"].to_pylist() == [
        [(one, -one) for one in range(at % 23)] for at in range(200)
    ]
    assert table["lower_bounds"].to_pylist() == [
        [(one, b"y" * one) for one in range(at % 31)] for at in range(200)
    ]
    assert table["manifest_pos"].to_pylist() == list(range(200))


def test_a_manifest_behind_a_small_one_is_one_chunk(end):
    schema = entry_schema()
    small, large = (file(schema, [entry(at) for at in range(count)]) for count in (2, 500))
    read(small)
    table = read(large)
    assert table["location"].num_chunks == 1
    assert table["manifest_pos"].to_pylist() == list(range(500))


def test_r195_encrypted_manifests_are_unsupported():
    with pytest.raises(Unsupported, match="encrypted"):
        read(b"AGS1" + bytes(60))


def test_a_whole_spec_in_the_header_is_read_as_its_fields():
    whole = '{"spec-id":3,"fields":[{"name":"p","field-id":1000}]}'
    content = file(entry_schema(), [entry()], partition_spec=whole)
    header, _ = read_manifest(content, columns=frozenset(), manifest=0, spec=None)
    assert header.partition_fields == ({"name": "p", "field-id": 1000},)


def test_r068_a_manifest_without_partitions_has_null_for_every_field():
    bare = file(entry_schema(without=["partition"]), [_without_partition()])
    assert read(bare, of=spec(1000, 1001))["partition_key"].to_pylist() == [b"\x00\x00"]
    assert read(bare)["partition_key"].to_pylist() == [b""]


def _without_partition(number: int = 1) -> dict[str, object]:
    made = entry(number)
    del made["data_file"]["partition"]
    return made


def test_r063_a_partition_that_is_no_record_is_corrupt():
    schema = entry_schema([field("partition", "int", 102)], without=["partition"])
    schema["fields"][-1]["type"]["fields"].append(field("partition", "int", 102))
    assert rule(file(schema, [entry(partition=1)])) == "R-063"


def record_of(*fields: dict[str, object]) -> dict[str, object]:
    return {"type": "array", "items": {"type": "record", "name": "item", "fields": list(fields)}}


KEY, VALUE = field("key", "int", 117), field("value", "long", 118)


@pytest.mark.parametrize(
    ("name", "type_", "field_id", "value"),
    [
        ("file_format", "long", 101, 1),
        ("record_count", "string", 103, "1"),
        ("split_offsets", {"type": "array", "items": "string"}, 132, []),
        ("column_sizes", "long", 108, 1),
        ("column_sizes", record_of(KEY), 108, []),
        ("column_sizes", record_of(field("key", "string", 117), VALUE), 108, []),
        ("column_sizes", record_of(KEY, field("value", "bytes", 118)), 108, []),
        ("column_sizes", {"type": "map", "values": "string"}, 108, {}),
    ],
)
def test_r063_fields_of_other_types_are_corrupt(name, type_, field_id, value):
    schema = entry_schema([field(name, type_, field_id)])
    fields = [one for one in schema["fields"][-1]["type"]["fields"] if one["name"] != name]
    schema["fields"][-1]["type"]["fields"] = [*fields, field(name, type_, field_id)]
    assert rule(file(schema, [entry(**{name: value})])) == "R-063"


def test_r063_keys_of_metrics_are_numbers():
    schema = entry_schema([field("column_sizes", {"type": "map", "values": "long"}, 108)])
    assert rule(file(schema, [entry(column_sizes={"one": 1})])) == "R-063"


def test_r063_equality_ids_are_32_bit():
    schema = entry_schema([field("equality_ids", {"type": "array", "items": "long"}, 135)])
    assert rule(file(schema, [entry(equality_ids=[2**31])])) == "R-063"


def test_r068_partition_values_that_are_none_of_their_type_are_corrupt():
    plain = file(
        entry_schema(partition=[field("p", "string", 1000)]), [entry(partition={"p": "x"})]
    )
    uuid = {"type": "string", "logicalType": "uuid"}
    content = raw_file(entry_schema(partition=[field("p", uuid, 1000)]), [(1, block_of(plain))])
    assert rule(content) == "R-068"


def test_r068_partition_fields_of_no_primitive_type_are_corrupt():
    nested = {"type": "array", "items": "int"}
    content = file(entry_schema(partition=[field("p", nested, 1000)]), [entry(partition={"p": []})])
    assert rule(content) == "R-068"


def test_partition_fields_that_are_always_null_are_read():
    content = file(
        entry_schema(partition=[field("p", "null", 1000)]), [entry(partition={"p": None})]
    )
    assert read(content)["partition_key"].to_pylist() == [b"\x00"]


def test_a_large_manifest_reads_the_same_by_several_threads(monkeypatch):
    monkeypatch.setattr(manifest, "_WORTH_THREADS", 1)
    schema = entry_schema(METRICS)
    whole = read_header(file(schema, [entry(at, file_path=f"f{at}") for at in range(90)]))
    (block,) = read_blocks(whole)
    blocks = [(one.record_count, one.content) for one in in_parts(whole.schema, block, 100)]
    assert len(blocks) > 9

    def tables(stored: list[tuple[int, bytes]]) -> list[pa.Table]:
        content = raw_file(schema, stored)
        return [
            read_manifests(
                [content], columns=ALL_COLUMNS, manifests=[3], spec=None, threads=threads
            )[1].table.combine_chunks()
            for threads in (1, 2, 4, 100)
        ]

    one, *others = tables(blocks)
    assert one["location"].to_pylist() == [f"f{at}" for at in range(90)]
    assert one["manifest_pos"].to_pylist() == list(range(90))
    assert all(other.equals(one) for other in others)
    count, last = blocks[-1]
    for threads in (1, 2):
        with pytest.raises(CorruptTable, match=r"a record cannot be decoded \(R-008\)"):
            read_manifests(
                [raw_file(schema, [*blocks[:-1], (count, last[:-1])])],
                columns=ALL_COLUMNS,
                manifests=[3],
                spec=None,
                threads=threads,
            )
