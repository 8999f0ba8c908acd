"""Rows split by the partition that a spec puts them into."""

import datetime as dt

import pyarrow as pa
import pytest

from icectl.entries.partition_key import encode_key
from icectl.errors import Unsupported
from icectl.files.parquet.schema import arrow_schema
from icectl.format.partition import spec_from_json
from icectl.format.types import PrimitiveType
from icectl.rows.partition_rows import Partition, partitioner
from tests.builders.data_files import schema

INNER = {"id": 5, "name": "x", "type": "long", "required": False}
COLUMNS = schema(
    (1, "id", "long"),
    (2, "at", "timestamp"),
    (3, "name", "string"),
    (4, "place", {"type": "struct", "fields": [INNER]}),
)
INT, STRING, DATE = (PrimitiveType(name) for name in ("int", "string", "date"))


def spec(*fields):
    described = [
        {"source-id": source, "field-id": 1000 + at, "name": name, "transform": transform}
        for at, (source, name, transform) in enumerate(fields)
    ]
    return spec_from_json({"spec-id": 3, "fields": described})


def split(rows, *fields):
    arrow = arrow_schema(COLUMNS)
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow)
    splitting = partitioner(spec(*fields), COLUMNS, arrow)
    found = splitting.split(batch, splitting.keys(batch))
    return [(partition, part.to_pylist()) for partition, part in found]


def rows(*values):
    names = ("id", "at", "name", "place")
    return [dict(zip(names, [*value, None, None, None, None], strict=False)) for value in values]


def test_rows_go_to_their_partitions_in_their_order():
    early, late = (dt.datetime.fromisoformat(f"2024-02-{day}T10:00") for day in ("28", "29"))
    given = rows((1, late, "b"), (2, early, "a"), (3, late, "b"), (4, None, None), (5, late, "a/b"))
    found = split(given, (2, "day", "day"), (3, "name", "identity"))
    expected = [
        ("day=2024-02-29/name=b", (19782, "b"), [0, 2]),
        ("day=2024-02-28/name=a", (19781, "a"), [1]),
        ("day=null/name=null", (None, None), [3]),
        ("day=2024-02-29/name=a%2Fb", (19782, "a/b"), [4]),
    ]
    assert found == [
        (Partition(encode_key([DATE, STRING], values), path), [given[at] for at in places])
        for path, values, places in expected
    ]


def test_transforms_see_the_values_of_their_source_inside_of_structs_too():
    given = [{"id": 1, "at": None, "name": None, "place": {"x": 34}}, *rows((2,))]
    found = split(given, (5, "bucket", "bucket[16]"))
    # The hash of 34 is 2017239379, by Appendix B of the format.
    assert [partition.path for partition, _ in found] == [
        f"bucket={2017239379 % 16}",
        "bucket=null",
    ]


def test_rows_of_one_partition_stay_as_they_are():
    batch = pa.RecordBatch.from_pylist(rows((1,), (1,)), schema=arrow_schema(COLUMNS))
    splitting = partitioner(spec((1, "id", "identity")), COLUMNS, batch.schema)
    ((partition, part),) = splitting.split(batch, splitting.keys(batch))
    assert part is batch
    assert partition.path == "id=1"


def test_without_fields_there_is_one_partition_without_a_path():
    assert split(rows((1,), (2,))) == [(Partition(b"", ""), rows((1,), (2,)))]


def test_r085_void_fields_alone_have_no_path_either_and_need_no_column():
    found = split(rows((1,), (2,)), (99, "gone", "void"))
    assert found == [(Partition(encode_key([INT], [None]), ""), rows((1,), (2,)))]
    ((partition, _), *_) = split(rows((1,)), (99, "gone", "void"), (1, "id", "identity"))
    assert partition.path == "gone=null/id=1"


def test_no_rows_have_no_partition():
    batch = arrow_schema(COLUMNS).empty_table().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=arrow_schema(COLUMNS))
    ]
    found = partitioner(spec((1, "id", "identity")), COLUMNS, arrow_schema(COLUMNS))
    assert list(found.split(batch[0], found.keys(batch[0]))) == []


@pytest.mark.parametrize(
    "field", [(1, "f", "shuffle[3]"), (99, "f", "identity"), (4, "f", "identity")]
)
def test_r007_specs_that_cannot_be_computed_are_refused(field):
    with pytest.raises(Unsupported, match="rows can't be partitioned by `f`"):
        split(rows((1,)), field)


@pytest.mark.parametrize("kind", ["variant", "geometry(srid:0)", "geography"])
@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[4]"])
def test_r208_variants_and_shapes_make_no_partitions(kind, transform):
    columns = schema((1, "v", kind))
    with pytest.raises(Unsupported, match=r"rows can't be partitioned by .* of `v`, of type"):
        partitioner(spec((1, "f", transform)), columns, arrow_schema(columns))
    partitioner(spec((1, "f", "void")), columns, arrow_schema(columns))


def test_fields_of_several_columns_are_refused():
    described = {"source-ids": [1, 2], "field-id": 1000, "name": "f", "transform": "bucket[4]"}
    found = spec_from_json({"spec-id": 3, "fields": [described]})
    with pytest.raises(Unsupported, match="rows can't be partitioned by `f`"):
        partitioner(found, COLUMNS, arrow_schema(COLUMNS))


def test_a_value_without_a_partition_is_refused():
    with pytest.raises(Unsupported, match="a row has no partition of spec 3") as raised:
        split(rows((-(2**63),)), (1, "id", "truncate[10]"))
    assert "--output-spec-id" in str(raised.value.hint)


def test_rows_of_a_partition_keep_no_others_in_memory():
    arrow = arrow_schema(COLUMNS)
    rows = [{"id": at, "name": "x" * 1000 if at else "y"} for at in range(100)]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow)
    splitting = partitioner(spec((3, "name", "identity")), COLUMNS, arrow)
    found = [part for _, part in splitting.split(batch, splitting.keys(batch))]
    assert [part.num_rows for part in found] == [1, 99]
    assert found[0].get_total_buffer_size() < 1000
