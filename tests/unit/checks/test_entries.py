import struct
from dataclasses import replace

import pytest

from icectl.checks.bound_types import types_of_bounds
from icectl.checks.rules import ALL_RULES
from icectl.commands.validate.lists import are_sound_together
from icectl.format.manifest import Content, FileFormat, ManifestContent, Status
from icectl.format.schema import Schema
from icectl.format.sort import SortOrder
from icectl.format.types import ListType, NestedField, PrimitiveType
from icectl.table.manifests import ManifestRead
from tests.builders.checked import SCHEMA, check_entries, header, manifest, stored, table, told
from tests.builders.entry_rows import data, equality, positions, vector

DELETES = ManifestContent.DELETES
NAN = struct.pack("<d", float("nan"))


def check(*files, version=2, of=None, content=ManifestContent.DATA, metadata=None, row=None):
    """What is found in a manifest; beside a sound one of its kind the same is known to be there."""
    metadata = metadata or table(version)
    row = row or manifest(content=content, sequence_number=5 if version > 1 else 0)
    of, rows = of or header(version), stored(*files)
    found = told(check_entries(metadata, row, of, rows))
    of_snapshot = row.added_snapshot_id and 71
    other = equality("s3://b/t/e", equality_ids=[1]) if row.content is DELETES else HEALTHY
    others = [
        ManifestRead(1, 9, of, stored(other | {"snapshot_id": 71})),
        ManifestRead(0, 9, of, rows),
    ]
    manifests = [row, replace(row, added_snapshot_id=of_snapshot)]
    types = types_of_bounds(metadata)
    if not told(check_entries(metadata, manifests[1], of, others[0].rows)):
        assert are_sound_together(metadata, manifests, others, types) is (not found)
    return found


def existing(location: str, **values):
    numbers = {"sequence_number": 3, "file_sequence_number": 3, "snapshot_id": 60}
    return data(location, **({"status": Status.EXISTING} | numbers | values))


HEALTHY = data(
    "s3://b/t/a",
    sort_order_id=0,
    split_offsets=[4, 500],
    column_sizes=[(1, 40)],
    value_counts=[(1, 10), (2, 10), (3, 10)],
    null_value_counts=[(1, 0), (2, 10), (3, 3)],
    nan_value_counts=[(3, 7)],
    lower_bounds=[(1, struct.pack("<q", -5)), (2, b"a"), (3, struct.pack("<d", -0.0))],
    upper_bounds=[(1, struct.pack("<q", 5)), (2, b"b"), (3, struct.pack("<d", 0.0))],
)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_healthy_entries_give_no_findings(version):
    gone = existing("s3://b/t/c", status=Status.DELETED, snapshot_id=70)
    old = existing("s3://b/t/b", first_row_id=40 if version > 2 else None)
    unnumbered = {"sequence_number": None, "file_sequence_number": None} if version == 1 else {}
    assert check(HEALTHY, old | unnumbered, gone | unnumbered, version=version) == []


@pytest.mark.parametrize(
    ("version", "file"),
    [
        (2, positions("s3://b/t/d")),
        (2, equality("s3://b/t/d", equality_ids=[1, 2], sort_order_id=0)),
        (3, vector("s3://b/t/d", "s3://b/t/a")),
        (3, existing("s3://b/t/d") | {"content": Content.POSITION_DELETES}),
    ],
)
def test_healthy_deletes_give_no_findings(version, file):
    assert check(file, version=version, content=DELETES) == []


def one(rule, severity, what, location="s3://b/t/a"):
    return [(rule, severity, f"{what} in the entry of `{location}`")]


def test_many_entries_with_one_fault_are_one_finding():
    files = [data(f"s3://b/t/{at}", file_format=FileFormat.UNKNOWN) for at in range(1200)]
    message = "an unknown file format in 1,200 entries; the first is that of `s3://b/t/0`"
    assert check(*files) == [("R-063", "error", message)]


def test_r061_a_manifest_has_either_data_or_deletes():
    found = check(data("s3://b/t/a"), positions("s3://b/t/d"))
    assert found == one("R-061", "error", "deletes in a manifest of data files", "s3://b/t/d")
    found = check(data("s3://b/t/a"), positions("s3://b/t/d"), content=DELETES)
    assert found == one("R-061", "error", "data files in a manifest of deletes")


def test_r048_r062_entries_of_version_1():
    found = check(data("s3://b/t/a", sequence_number=1), version=1)
    assert found == one("R-048", "warning", "a sequence number of version 2")
    found = check(data("s3://b/t/a", snapshot_id=None), version=1)
    assert found == one("R-062", "warning", "no snapshot id")
    assert check(data("s3://b/t/a", snapshot_id=None), version=2) == []


def test_r042_a_snapshot_id_is_stored_or_inherited():
    found = check(data("s3://b/t/a", snapshot_id=None), row=manifest(added_snapshot_id=None))
    assert found == one("R-042", "error", "no snapshot id, and none to inherit,")


@pytest.mark.parametrize("status", [Status.ADDED, Status.DELETED])
def test_r064_changes_are_those_of_the_manifest_s_snapshot(status):
    found = check(existing("s3://b/t/a", status=status))
    what = f"status {status.name} of another snapshot than the manifest's"
    assert found == one("R-064", "warning", what)
    assert check(existing("s3://b/t/a", status=status, snapshot_id=None)) == []
    assert check(existing("s3://b/t/a", status=status), row=manifest(added_snapshot_id=None)) == []


@pytest.mark.parametrize(
    ("changes", "severity", "what"),
    [
        ({"sequence_number": None}, "error", "status EXISTING without a data sequence number"),
        (
            {"sequence_number": None, "status": Status.DELETED, "snapshot_id": 70},
            "warning",
            "status DELETED without a data sequence number",
        ),
        ({"file_sequence_number": None}, "warning", "no file sequence number"),
    ],
)
def test_r043_only_added_entries_inherit_sequence_numbers(changes, severity, what):
    entry = existing("s3://b/t/a", **changes)
    assert check(entry) == one("R-043", severity, what)
    # Everything inherits 0 in a manifest of version 1.
    assert check(entry, row=manifest(sequence_number=0)) == []


@pytest.mark.parametrize(
    ("changes", "severity", "what"),
    [
        ({"record_count": -1}, "error", "a negative record count"),
        ({"file_size_in_bytes": 0}, "error", "a file size that no file has"),
        ({"file_format": FileFormat.PUFFIN}, "error", "rows in a Puffin file"),
        ({"equality_ids": [1]}, "warning", "equality ids on a file that is not an equality delete"),
        (
            {"content_offset": 4},
            "warning",
            "a content offset on a file that is not a deletion vector",
        ),
    ],
)
def test_r063_entries_of_files_make_sense(changes, severity, what):
    assert check(data("s3://b/t/a", **changes)) == one("R-063", severity, what)
    assert check(data("s3://b/t/a", record_count=0, equality_ids=[])) == []


@pytest.mark.parametrize("offsets", [[4, 4], [500, 4], [-1], [4, 1000]])
def test_r067_split_offsets_ascend_inside_of_the_file(offsets):
    what = "split offsets that do not ascend, or lie outside of the file,"
    found = check(HEALTHY, data("s3://b/t/b", split_offsets=offsets))
    assert found == one("R-067", "warning", what, "s3://b/t/b")


def test_r067_split_offsets_of_two_files_are_not_compared():
    assert check(HEALTHY, HEALTHY, data("s3://b/t/b"), data("s3://b/t/c", split_offsets=[])) == []


def test_r067_sort_orders_are_the_table_s_and_not_of_position_deletes():
    found = check(data("s3://b/t/a", sort_order_id=3))
    assert found == one("R-067", "info", "a sort order that the table does not have")
    known = table(sort_orders=(SortOrder(3, ()),))
    assert check(data("s3://b/t/a", sort_order_id=3), metadata=known) == []
    assert check(data("s3://b/t/a", sort_order_id=0), metadata=known) == []
    found = check(positions("s3://b/t/a", sort_order_id=0), content=DELETES)
    assert found == one("R-067", "info", "a sort order of position deletes")


def test_r164_locations_are_absolute_where_the_table_s_is():
    what = "a location that is neither a URI nor an absolute path"
    assert check(data("data/a")) == one("R-164", "warning", what, "data/a")
    assert check(data("/data/a"), data("file:/a"), data("s3a://b/a")) == []
    assert check(data("data/a"), metadata=table(location="warehouse/t")) == []


def test_r177_row_ids_and_vectors_are_of_version_3():
    found = check(data("s3://b/t/a", first_row_id=1))
    assert found == one("R-177", "warning", "a first row id before version 3")
    found = check(vector("s3://b/t/a", "s3://b/t/b"), content=DELETES)
    assert found == one("R-177", "error", "deletion vectors before version 3")


def test_r120_version_1_has_no_deletes():
    found = check(positions("s3://b/t/a"), version=1, content=DELETES)
    assert found == one("R-120", "error", "deletes before version 2")


def test_r122_version_3_adds_no_position_delete_files():
    found = check(positions("s3://b/t/a"), version=3, content=DELETES)
    assert found == one("R-122", "warning", "position delete files added in version 3")
    # A manifest from before the upgrade keeps what it has.
    assert check(positions("s3://b/t/a"), version=3, of=header(2), content=DELETES) == []


@pytest.mark.parametrize(
    "member", ["referenced_data_file", "content_offset", "content_size_in_bytes"]
)
def test_r118_a_vector_says_where_it_is_and_for_what(member):
    found = check(vector("s3://b/t/a", "s3://b/t/b") | {member: None}, version=3, content=DELETES)
    assert found == one("R-118", "error", "a deletion vector without its place or data file")


@pytest.mark.parametrize(("offset", "size"), [(-1, 40), (4, -1), (961, 40), (2**63 - 1, 2**63 - 1)])
def test_r118_a_vector_lies_inside_of_its_file(offset, size):
    place = {"content_offset": offset, "content_size_in_bytes": size}
    found = check(vector("s3://b/t/a", "s3://b/t/b", **place), version=3, content=DELETES)
    assert found == one("R-118", "error", "a deletion vector that lies outside of its file")
    place = {"content_offset": 960, "content_size_in_bytes": 40}
    assert check(vector("/a", "s3://b/t/b", **place), version=3, content=DELETES) == []


NESTED = Schema(
    1,
    (
        *SCHEMA.fields,
        NestedField(4, "tags", ListType(5, PrimitiveType("string"), False), required=False),
    ),
)


@pytest.mark.parametrize(
    ("ids", "severity", "what"),
    [
        (None, "error", "equality deletes without columns to compare"),
        ([], "error", "equality deletes without columns to compare"),
        ([1, 7], "error", "column 7 to compare, which no schema has,"),
        ([4], "error", "column 4 to compare, which is nested,"),
        ([3], "warning", "column 3 to compare, which is floating-point,"),
    ],
)
def test_r123_equality_deletes_name_columns_to_compare(ids, severity, what):
    metadata = table(schemas=(SCHEMA, NESTED))
    files = equality("s3://b/t/x", equality_ids=[1]), equality("s3://b/t/a", equality_ids=ids)
    assert check(*files, content=DELETES, metadata=metadata) == one("R-123", severity, what)


def test_r123_columns_that_were_dropped_still_count():
    metadata = table(schemas=(SCHEMA, Schema(1, SCHEMA.fields[:1])), current_schema_id=1)
    assert check(equality("s3://b/t/a", equality_ids=[2]), content=DELETES, metadata=metadata) == []


@pytest.mark.parametrize(
    "metrics",
    [
        {"value_counts": [(9, -1)]},
        {"null_value_counts": [(1, -1)]},
        {"value_counts": [(1, 10)], "null_value_counts": [(1, 11)]},
        {"value_counts": [(9, 5), (1, 10)], "nan_value_counts": [(1, 11), (3, 9)]},
    ],
)
def test_r130_counts_of_a_column_agree(metrics):
    what = "more nulls or NaN than values in a column, or a negative count,"
    assert check(HEALTHY, data("s3://b/t/b", record_count=10, **metrics)) == one(
        "R-130", "warning", what, "s3://b/t/b"
    )


def test_r130_missing_counts_are_unknown():
    metrics = {"value_counts": [(1, 1)], "null_value_counts": [(2, 9)]}
    assert check(data("s3://b/t/a", record_count=1, **metrics)) == []


def test_r134_a_column_has_a_value_for_each_row_and_one_of_a_list_any_number():
    counts = {"value_counts": [(1, 10), (9, 37)]}
    assert check(data("s3://b/t/a", record_count=10, **counts)) == []
    what = "a count of values of a column that is not the count of rows,"
    other = data("s3://b/t/b", record_count=11, **counts)
    assert check(HEALTHY, other) == one("R-134", "warning", what, "s3://b/t/b")
    assert "`icectl compact TABLE --rewrite-all`" in ALL_RULES["R-134"].fix


def test_r133_avro_files_have_no_column_sizes():
    found = check(data("s3://b/t/a", file_format=FileFormat.AVRO, column_sizes=[(1, 9)]))
    assert found == one("R-133", "info", "sizes of columns of an Avro file")
    assert check(data("s3://b/t/a", file_format=FileFormat.AVRO, column_sizes=[])) == []


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_r091_r092_bounds_decode_and_are_no_nan(side):
    found = check(data("s3://b/t/a", **{f"{side}_bounds": [(1, b"\x00")]}))
    article = {"lower": "a", "upper": "an"}[side]
    assert found == one("R-091", "error", f"{article} {side} bound that does not decode")
    found = check(data("s3://b/t/a", **{f"{side}_bounds": [(3, NAN)]}))
    assert found == one("R-092", "error", f"NaN as {article} {side} bound")


def test_r092_a_lower_bound_is_not_above_the_upper_one():
    found = check(data("s3://b/t/a", lower_bounds=[(2, b"b")], upper_bounds=[(2, b"a")]))
    assert found == one("R-092", "error", "a lower bound above the upper one")


def test_r096_bounds_of_a_promoted_column_have_the_type_of_write_time():
    bounds = {"lower_bounds": [(1, b"\x01\0\0\0")], "upper_bounds": [(1, b"\x07\0\0\0")]}
    assert check(data("s3://b/t/a", **bounds)) == []


def test_bounds_of_columns_that_no_schema_has_are_not_looked_at():
    bounds = {"lower_bounds": [(99, b"\xff")], "upper_bounds": [(99, b"")]}
    assert check(data("s3://b/t/a", **bounds)) == []


def test_bounds_of_position_deletes_are_paths_and_positions():
    path, position = 2147483546, 2147483545
    bounds = [(path, b"s3://b/t/a"), (position, struct.pack("<q", 7))]
    right = {"lower_bounds": bounds, "upper_bounds": bounds}
    assert check(positions("s3://b/t/d", **right), content=DELETES) == []
    wrong = {"lower_bounds": [(position, b"\x07")]}
    found = check(positions("s3://b/t/d", **wrong), content=DELETES)
    assert found == one("R-091", "error", "a lower bound that does not decode", "s3://b/t/d")


def test_each_entry_is_of_the_snapshot_that_added_its_own_manifest():
    added = [data(f"s3://b/t/{number}", snapshot_id=number) for number in (71, 72)]
    for of_snapshots, is_sound in (((71, 72), True), ((72, 71), False)):
        manifests = [manifest(added_snapshot_id=number) for number in of_snapshots]
        alike = [ManifestRead(at, 9, header(), stored(file)) for at, file in enumerate(added)]
        types = types_of_bounds(table())
        assert are_sound_together(table(), manifests, alike, types) is is_sound
