"""Manifests of the draft: field ids, what rows inherit, statistics and partitions, and damage."""

import io
import random
import struct
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.codec.draft_16025.manifest import read_draft, write_draft
from icectl.codec.draft_16025.mumbling import write_mumbling
from icectl.codec.draft_16025.partitions import union_of
from icectl.codec.draft_16025.stats import draft_stats
from icectl.codec.parquet.schema import FIELD_ID, child_fields
from icectl.entries.draft_16025.rows import DRAFT_ROWS, PARTITION, STATS, Inherited, inherit
from icectl.entries.partition.key import encode_key
from icectl.entries.rows import entries_from
from icectl.errors import CorruptTable, Unsupported
from icectl.spec.manifest import Content, FileFormat
from icectl.spec.metadata_json import parse_metadata
from tests.builders.plain_metadata import plain_members

FOOTER = {"format-version": "4", "content": "root"}


def row(**members):
    """A data file's row; what is not given is null."""
    return (
        dict.fromkeys(DRAFT_ROWS.names)
        | {
            "status": 1,
            "content": Content.DATA,
            "format_version": 4,
            "location": "data/a.parquet",
            "file_format": FileFormat.PARQUET,
            "record_count": 10,
            "file_size_in_bytes": 1000,
        }
        | members
    )


LEAF = {
    "content": Content.DATA_MANIFEST,
    "location": "metadata/leaf.parquet",
    "status": 4,
    "snapshot_id": 7,
    "sequence_number": 3,
    "file_sequence_number": 3,
    "added_files_count": 1, "existing_files_count": 2, "deleted_files_count": 3,
    "replaced_files_count": 4, "added_rows_count": 5, "existing_rows_count": 6,
    "deleted_rows_count": 7, "replaced_rows_count": 8, "min_sequence_number": 2,
    "dead_positions": write_mumbling([1, 2]),
    "deleted_positions": write_mumbling([1]),
    "replaced_positions": write_mumbling([2]),
}  # fmt: skip
VECTOR = {
    "dv_location": "data/v.puffin", "dv_offset": 4, "dv_size_in_bytes": 40, "dv_cardinality": 3,
    "dv_snapshot_id": 9,
}  # fmt: skip


def table(*rows):
    return pa.Table.from_pylist(list(rows), schema=DRAFT_ROWS)


def ids(fields, prefix=""):
    """Field ids by path."""
    found = {}
    for one in fields:
        path = prefix + one.name
        found[path] = int(one.metadata[FIELD_ID])
        found |= ids(child_fields(one.type), f"{path}.")
    return found


def test_a_manifest_has_the_field_ids_of_the_draft():
    stored = write_draft(table(row(split_offsets=[4], equality_ids=[1])), FOOTER)
    schema = pq.read_schema(io.BytesIO(stored))
    assert ids(schema) == {
        "tracking": 147, "tracking.status": 0, "tracking.snapshot_id": 1,
        "tracking.sequence_number": 3, "tracking.file_sequence_number": 4,
        "tracking.dv_snapshot_id": 5, "tracking.first_row_id": 142,
        "tracking.deleted_positions": 6, "tracking.replaced_positions": 7,
        "content_type": 134, "format_version": 157, "location": 100, "file_format": 101,
        "record_count": 103, "file_size_in_bytes": 104, "spec_id": 141, "sort_order_id": 140,
        "deletion_vector": 148, "deletion_vector.location": 155, "deletion_vector.offset": 144,
        "deletion_vector.size_in_bytes": 145, "deletion_vector.cardinality": 156,
        "deletion_vector.key_metadata": 149,
        "manifest_info": 150, "manifest_info.added_files_count": 504,
        "manifest_info.existing_files_count": 505, "manifest_info.deleted_files_count": 506,
        "manifest_info.replaced_files_count": 520, "manifest_info.added_rows_count": 512,
        "manifest_info.existing_rows_count": 513, "manifest_info.deleted_rows_count": 514,
        "manifest_info.replaced_rows_count": 521, "manifest_info.min_sequence_number": 516,
        "manifest_info.dv": 522,
        "key_metadata": 131, "split_offsets": 132, "split_offsets.element": 133,
        "equality_ids": 135, "equality_ids.element": 136,
    }  # fmt: skip


def test_rows_of_every_kind_are_read_as_they_were_written():
    rows = table(
        row(**VECTOR, split_offsets=[4, 500], key_metadata=b"k", sort_order_id=1, spec_id=2),
        *(row(status=status, location=f"s3://b/{status}") for status in range(5)),
        row(content=Content.EQUALITY_DELETES, equality_ids=[1, 2], file_format=FileFormat.ORC),
        row(**LEAF),
        row(**LEAF | {"content": Content.DELETE_MANIFEST, "dead_positions": None}),
    )
    found = read_draft(write_draft(rows, FOOTER))
    assert found.rows.to_pylist() == rows.to_pylist()
    assert found.footer["content"] == "root"
    some = read_draft(write_draft(rows, FOOTER), ["location", "dv_offset"]).rows
    assert some.to_pylist() == rows.select(some.column_names).to_pylist()
    assert sorted(some.column_names) == ["dv_offset", "location"]


def test_new_rows_inherit_their_numbers_and_row_ids():
    rows = inherit(
        table(
            row(record_count=5),
            row(status=0, snapshot_id=1, sequence_number=1, file_sequence_number=1),
            row(status=2, snapshot_id=9, sequence_number=1, file_sequence_number=1),
            row(first_row_id=700, record_count=100),
            row(content=Content.EQUALITY_DELETES),
            row(record_count=1),
        ),
        Inherited(snapshot_id=9, sequence_number=4, first_row_id=50),
    )
    assert rows["snapshot_id"].to_pylist() == [9, 1, 9, 9, 9, 9]
    assert rows["sequence_number"].to_pylist() == [4, 1, 1, 4, 4, 4]
    assert rows["file_sequence_number"].to_pylist() == [4, 1, 1, 4, 4, 4]
    assert rows["first_row_id"].to_pylist() == [50, 55, None, 700, None, 65]


@pytest.mark.parametrize("status", [0, 2, 3, 4])
def test_v4_208_only_new_rows_inherit_sequence_numbers(status):
    rows = table(row(status=status, snapshot_id=1, file_sequence_number=1))
    with pytest.raises(CorruptTable, match="no sequence_number") as caught:
        inherit(rows, Inherited(snapshot_id=9, sequence_number=4))
    assert caught.value.rule == "V4-208"
    of_version_1 = inherit(rows, Inherited(snapshot_id=9, sequence_number=0))
    assert of_version_1["sequence_number"].to_pylist() == [0]


def with_column(stored, place, column, field):
    """The same file with another column, without checks."""
    whole = pq.read_table(io.BytesIO(stored))
    changed = whole.set_column(place, field, column)
    sink = io.BytesIO()
    pq.write_table(changed, sink)
    return sink.getvalue()


def test_v4_200_a_column_that_is_missing_null_or_of_another_type_is_told():
    stored = write_draft(table(row()), FOOTER)
    schema = pq.read_schema(io.BytesIO(stored))
    place = schema.get_field_index("record_count")
    field = schema.field(place)
    for column, changed, told in (
        (pa.array([1], pa.int64()), field.with_metadata({}), "no column 103"),
        (pa.array([1], pa.int32()), field.with_type(pa.int32()), "103 of a manifest is int32"),
        (pa.array([None], pa.int64()), field.with_nullable(True), "103 of a manifest has nulls"),
    ):
        with pytest.raises(CorruptTable, match=told) as caught:
            read_draft(with_column(stored, place, column, changed))
        assert caught.value.rule == "V4-200"


def test_v4_201_other_statuses_and_contents_are_refused():
    for members in ({"status": 5}, {"content": 1}, {"content": 5}):
        stored = write_draft(table(row(**members)), FOOTER)
        with pytest.raises(CorruptTable, match="which the draft does not know") as caught:
            read_draft(stored)
        assert caught.value.rule == "V4-201"


@pytest.mark.parametrize("seed", range(8))
def test_no_damage_ends_in_anything_but_an_error(seed):
    chance = random.Random(seed)
    stored = write_draft(table(row(**VECTOR), row(**LEAF), row()), FOOTER)
    for _ in range(25):
        damaged = bytearray(stored)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        end = chance.choice((len(damaged), chance.randrange(len(damaged))))
        with suppress(CorruptTable, Unsupported):
            inherit(read_draft(bytes(damaged[:end])).rows, Inherited(1, 1, 1))


SCHEMA = {
    "type": "struct", "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "int"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
        {"id": 3, "name": "part", "required": False, "type": {"type": "struct", "fields": [
            {"id": 4, "name": "ratio", "required": False, "type": "double"},
        ]}},
        {"id": 5, "name": "place", "required": False, "type": "geometry"},
        {"id": 6, "name": "tags", "required": False,
         "type": {"type": "list", "element-id": 7, "element": "int", "element-required": False}},
    ],
}  # fmt: skip
SPECS = [
    {"spec-id": 0, "fields": [
        {"source-id": 1, "field-id": 1000, "name": "old", "transform": "bucket[4]"},
    ]},
    {"spec-id": 1, "fields": [
        {"source-id": 1, "field-id": 1000, "name": "kept", "transform": "bucket[4]"},
        {"source-id": 2, "field-id": 1001, "name": "name", "transform": "identity"},
    ]},
]  # fmt: skip


@pytest.fixture
def metadata():
    return parse_metadata(
        plain_members(schemas=[SCHEMA], partition_specs=SPECS, last_column_id=7, format_version=3)
        | {"next-row-id": 0}
    )


def test_statistics_have_ids_that_follow_from_the_columns(metadata):
    kind = draft_stats(metadata).type
    assert ids(kind) == {
        "id": 10200, "id.lower_bound": 10201, "id.upper_bound": 10202, "id.tight_bounds": 10203,
        "id.value_count": 10204,
        "name": 10400, "name.lower_bound": 10401, "name.upper_bound": 10402,
        "name.tight_bounds": 10403, "name.value_count": 10404, "name.null_value_count": 10405,
        "name.avg_value_size_in_bytes": 10407,
        "part.ratio": 10800, "part.ratio.lower_bound": 10801, "part.ratio.upper_bound": 10802,
        "part.ratio.tight_bounds": 10803, "part.ratio.value_count": 10804,
        "part.ratio.null_value_count": 10805, "part.ratio.nan_value_count": 10806,
        "place": 11000, "place.lower_bound": 11001, "place.lower_bound.x": 11010,
        "place.lower_bound.y": 11011, "place.lower_bound.z": 11012, "place.lower_bound.m": 11013,
        "place.upper_bound": 11002, "place.upper_bound.x": 11014, "place.upper_bound.y": 11015,
        "place.upper_bound.z": 11016, "place.upper_bound.m": 11017,
        "place.value_count": 11004, "place.null_value_count": 11005,
        "place.avg_value_size_in_bytes": 11007,
    }  # fmt: skip


def test_statistics_are_made_of_the_maps_of_older_versions(metadata):
    nan = float("nan")
    entries = entries_from(
        [
            {
                "content": 0, "status": 1, "location": "a", "file_format": 3, "spec_id": 0,
                "partition_key": b"", "record_count": 3, "file_size_in_bytes": 1, "manifest": 0,
                "manifest_pos": place,
                "value_counts": {1: 3, 4: 3}, "null_value_counts": {1: 0, 4: 1},
                "nan_value_counts": {4: 1},
                "lower_bounds": {1: struct.pack("<i", low), 5: struct.pack("<2d", 1, 2)},
                "upper_bounds": {1: struct.pack("<i", low + 9),
                                 5: struct.pack("<4d", 3, 4, nan, 6)},
            }
            for place, low in enumerate((5, -2))
        ]
    )  # fmt: skip
    stats = draft_stats(metadata)
    first, second = stats.of(entries).to_pylist()
    assert first["id"] == {
        "lower_bound": 5, "upper_bound": 14, "tight_bounds": False, "value_count": 3,
    }  # fmt: skip
    assert second["id"]["lower_bound"] == -2
    assert first["name"] is None
    assert first["part.ratio"]["nan_value_count"] == 1
    assert first["place"]["lower_bound"] == {"x": 1, "y": 2, "z": None, "m": None}
    assert first["place"]["upper_bound"] == {"x": 3, "y": 4, "z": None, "m": 6}
    (total,) = stats.total(entries).to_pylist()
    assert total["id"] == {
        "lower_bound": -2, "upper_bound": 14, "tight_bounds": False, "value_count": 6,
    }  # fmt: skip
    rows = table(row(), row()).append_column(STATS, stats.of(entries))
    assert read_draft(write_draft(rows, FOOTER)).rows[STATS].to_pylist() == [first, second]


def test_a_partition_has_the_fields_of_all_specs(metadata):
    union = union_of(metadata)
    assert ids(union.type) == {"kept": 1000, "name": 1001}
    types = union.types[1]
    keys = [encode_key(types[:1], [3]), encode_key(types, [1, "x"]), encode_key(types, [None, "y"])]
    made = union.tuples([0, 1, 1], pa.array([*keys], pa.binary()))
    assert made.to_pylist() == [
        {"kept": 3, "name": None},
        {"kept": 1, "name": "x"},
        {"kept": None, "name": "y"},
    ]
    rows = table(row(), row(), row()).append_column(PARTITION, made)
    assert read_draft(write_draft(rows, FOOTER)).rows[PARTITION].to_pylist() == made.to_pylist()


def test_specs_that_differ_in_a_field_have_no_union(metadata):
    other = {"source-id": 2, "field-id": 1000, "name": "old", "transform": "identity"}
    members = plain_members(
        schemas=[SCHEMA],
        partition_specs=[SPECS[1], {"spec-id": 0, "fields": [other]}],
        last_column_id=7,
    )
    with pytest.raises(Unsupported, match="partition field 1000 is `kept` in one spec"):
        union_of(parse_metadata(members))
    void = other | {"transform": "void"}
    members["partition-specs"] = [SPECS[1], {"spec-id": 0, "fields": [void]}]
    assert ids(union_of(parse_metadata(members)).type) == {"kept": 1000, "name": 1001}


def test_fields_of_one_name_are_told_apart():
    other = {"source-id": 1, "field-id": 1002, "name": "name", "transform": "identity"}
    members = plain_members(
        schemas=[SCHEMA],
        partition_specs=[{"spec-id": 0, "fields": [other]}, SPECS[1]],
        last_column_id=7,
    )
    union = union_of(parse_metadata(members))
    assert ids(union.type) == {"kept": 1000, "name_1001": 1001, "name_1002": 1002}
