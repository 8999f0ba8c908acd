"""Live entries that would change the meaning of rows are found, and nothing else is."""

import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from icectl.checks.live_entries import LARGEST_FILE, LiveRows
from icectl.checks.rule import Finding
from icectl.checks.rules import RULES
from icectl.entries.rows import Entries, part
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.sfc1.checks.live import PlannedTree
from icectl.sfc1.rules import SFC1_RULES
from icectl.table.live_parts import LiveParts
from tests.builders.checked import snapshot, table

SNAPSHOT = snapshot(sequence_number=7)
V2, V3 = table(2), table(3, next_row_id=100)
DELETES = ManifestFile("m.avro", 1, 0, ManifestContent.DELETES, 1, 1, 1)
V4 = replace(V3, format_version=4)
SCHEMA = pa.schema(
    {
        "manifest": pa.int32(), "content": pa.int8(), "status": pa.int8(), "file_format": pa.int8(),
        "location": pa.string(), "referenced_data_file": pa.string(), "record_count": pa.int64(),
        "sequence_number": pa.int64(), "first_row_id": pa.int64(),
        "file_size_in_bytes": pa.int64(),
    }
)  # fmt: skip


def data(location: str, first_row_id: int | None = None, **members: Any) -> dict[str, Any]:
    return {
        "manifest": 0, "content": Content.DATA, "status": Status.EXISTING,
        "file_format": FileFormat.PARQUET, "location": location, "record_count": 10,
        "sequence_number": 5, "first_row_id": first_row_id, "file_size_in_bytes": 1000, **members,
    }  # fmt: skip


def vector(of: str, **members: Any) -> dict[str, Any]:
    kind = {"content": Content.POSITION_DELETES, "file_format": FileFormat.PUFFIN}
    return data("p.puffin", referenced_data_file=of, **{"record_count": 3, **kind, **members})


def entries(*rows: dict[str, Any]) -> Entries:
    return Entries(pa.Table.from_pylist([dict.fromkeys(SCHEMA.names) | r for r in rows], SCHEMA))


def tree_risks(
    rows: Entries, affiliated: dict[int, int] | None = None
) -> list[tuple[str, int, str]]:
    """Rule, number and first file of findings of sfc-1 on live rows."""
    tree = PlannedTree(rows, V4, SNAPSHOT, affiliated=affiliated)
    return [told(one) for one in SFC1_RULES.findings(tree)]


def told(one: Finding) -> tuple[str, int, str]:
    place, what = re.fullmatch(r"`(.*?)` (.*)", one.message).groups()
    more = re.search(r", and (\d+) more$", what)
    return one.rule, 1 + int(more[1]) if more else 1, place


def row_risks(rows: Entries, metadata: TableMetadata) -> list[tuple[str, str]]:
    """Rule and message of findings on the live rows."""
    if metadata is V4:
        found = SFC1_RULES.findings(PlannedTree(rows, metadata, SNAPSHOT))
    else:
        found = list(RULES.findings(LiveRows(rows, metadata, SNAPSHOT)))
        assert is_doubtful_by_row(rows, metadata) is bool(found)
    return [(one.rule, one.message) for one in found]


def is_doubtful_by_row(rows: Entries, metadata: TableMetadata) -> bool:
    """Whether entries that are checked one by one are doubtful."""
    of_deletes = [one for one in rows.table["content"].to_pylist() if one != Content.DATA]
    vectors = rows.table["file_format"].to_pylist().count(FileFormat.PUFFIN)
    listed = [DELETES] if len(of_deletes) > vectors else []
    parts = LiveParts(metadata, SNAPSHOT, listed)
    for at in range(len(rows)):
        parts.add(part(rows, at, at + 1))
    return parts.is_doubtful


def test_files_that_differ_in_one_byte_of_long_names_are_no_repetition():
    tail = "x" * 100
    assert tree_risks(entries(*[data(f"s3://b/{letter}/{tail}.parquet") for letter in "abc"])) == []


def test_v4_120_r066_a_file_in_two_spellings_is_live_twice():
    rows = entries(data("file:/t/a"), data("/t/b"), data("file:///t/b"), data("/t/a"), data("/t/c"))
    assert tree_risks(rows) == [("V4-120", 2, "file:///t/b")]
    assert row_risks(rows, V2) == [("R-066", "`file:///t/b` is live again, and 1 more")]


def test_r063_no_store_has_a_file_of_more_bytes():
    rows = [data(f"/t/{size}", file_size_in_bytes=LARGEST_FILE + size) for size in (0, 1)]
    assert row_risks(entries(*rows), V2) == [("R-063", "`/t/1` has a size that no file has")]


APPENDED, REWRITTEN = 1, 2


@pytest.mark.parametrize("has_deletes", [True, False])
@pytest.mark.parametrize(
    ("members", "is_right"),
    [
        ({}, True),
        ({"sequence_number": 6}, False),
        ({"sequence_number": 6, "snapshot_id": REWRITTEN}, False),
        ({"sequence_number": 6, "file_sequence_number": None}, True),
        ({"sequence_number": 6, "status": Status.DELETED}, True),
        ({"sequence_number": 1, "file_sequence_number": 0}, False),
        ({"sequence_number": 4}, False),
        ({"sequence_number": 4, "snapshot_id": REWRITTEN}, True),
        ({"sequence_number": 4, "file_sequence_number": None}, True),
        ({"sequence_number": 4, "status": Status.DELETED}, True),
    ],
)
def test_r044_only_rewritten_files_are_older_than_their_commit(members, is_right, has_deletes):
    schema = pa.schema(
        [*SCHEMA, pa.field("snapshot_id", pa.int64()), pa.field("file_sequence_number", pa.int64())]
    )
    own = {"snapshot_id": APPENDED, "file_sequence_number": 5}
    deletes = data("e", content=Content.EQUALITY_DELETES, **own)
    deletes |= {} if has_deletes else {"status": Status.DELETED}
    rows = [dict.fromkeys(schema.names) | one for one in (data("a", **own | members), deletes)]
    known = [
        snapshot(snapshot_id=id_, summary={"operation": operation})
        for id_, operation in ((APPENDED, "append"), (REWRITTEN, "replace"))
    ]

    def found(version: int, rows: list[dict[str, Any]], **how: bool) -> list[str]:
        metadata = table(version, snapshots=tuple(known))
        live = LiveRows(Entries(pa.Table.from_pylist(rows, schema)), metadata, SNAPSHOT, **how)
        return [one.rule for one in RULES.findings(live, only=("R-044",))]

    wrong = [] if is_right else ["R-044"]
    assert found(2, rows) == (wrong if has_deletes else [])
    assert found(2, rows, beside_deletes=True) == wrong
    assert found(1, rows, beside_deletes=True) == []
    older = {"sequence_number": 4, "snapshot_id": REWRITTEN}
    assert found(2, [deletes | older | {"status": Status.EXISTING}]) == ["R-044"]


@pytest.mark.parametrize(
    ("members", "is_whole"),
    [
        ({}, True),
        ({"content_offset": 990}, True),
        ({"content_offset": 991}, False),
        ({"content_offset": -1}, False),
        ({"content_offset": None}, False),
        ({"content_size_in_bytes": 0}, True),
        ({"content_size_in_bytes": -1}, False),
        ({"content_size_in_bytes": None}, False),
        ({"referenced_data_file": None}, False),
        ({"content_offset": None, "status": Status.DELETED}, True),
        ({"content_offset": None, "file_format": FileFormat.PARQUET}, True),
    ],
)
def test_r118_a_vector_lies_in_its_file_and_names_its_data_file(members, is_whole):
    places = {"content_offset": 4, "content_size_in_bytes": 10}
    schema = pa.schema([*SCHEMA, *(pa.field(name, pa.int64()) for name in places)])
    row = dict.fromkeys(schema.names) | vector("a", **places) | members
    live = LiveRows(Entries(pa.Table.from_pylist([row], schema)), V3, SNAPSHOT)
    assert [one.rule for one in RULES.findings(live)] == ([] if is_whole else ["R-118"])


@pytest.mark.parametrize("members", [{"file_size_in_bytes": 0}, {"file_format": FileFormat.UNKNOWN},
                                     {"file_format": FileFormat.PUFFIN}])  # fmt: skip
def test_r063_live_files_have_bytes_and_a_format_with_rows(members):
    assert [rule for rule, _ in row_risks(entries(data("a", **members)), V2)] == ["R-063"]
    gone = data("a", status=Status.DELETED, **members)
    assert row_risks(entries(gone, data("b", file_size_in_bytes=1)), V2) == []


def test_what_is_deleted_counts_for_nothing():
    gone = data("a", 0, status=Status.DELETED, sequence_number=99)
    assert row_risks(entries(data("a", 0), gone), V4) == []
    assert tree_risks(entries(data("a", 0), gone)) == []


def test_vectors_of_one_puffin_file_are_no_repetition():
    assert tree_risks(entries(data("a", 0), data("b", 10), vector("a"), vector("b"))) == []


def test_r044_v4_064_numbers_up_to_that_of_the_snapshot_are_right():
    rows = entries(data("a", sequence_number=7), data("b", sequence_number=8))
    message = "`b` has a sequence number above that of its snapshot, 7"
    assert row_risks(rows, V2) == [("R-044", message)]
    assert row_risks(rows, V4) == [("V4-064", message)]


def test_r104_v4_067_row_ids_end_at_the_next_one():
    rows = entries(data("b", 91))
    message = "`b` has row ids above `next-row-id`, 100"
    assert row_risks(entries(data("a", 90)), V4) == []
    assert row_risks(rows, V4) == [("V4-067", message)]
    assert row_risks(rows, V3) == [("R-104", message)]


def test_v4_067_row_ids_may_lie_in_any_order_but_not_upon_each_other():
    assert tree_risks(entries(data("a", 20), data("b", 0), data("c", 10))) == []
    over = entries(data("a", 20), data("b", 11), data("c", 0), data("d", None))
    assert tree_risks(over) == [("V4-067", 1, "a")]


def test_v4_121_v4_123_v4_124_vectors_agree_with_their_data_files():
    twice = entries(data("/t/a", 0), vector("/t/a"), vector("file:/t/a"))
    assert tree_risks(twice) == [("V4-121", 1, "file:/t/a")]
    more = entries(data("a", 0), vector("a", record_count=11))
    assert tree_risks(more) == [("V4-123", 1, "p.puffin")]
    older = entries(data("a", 0), vector("a", sequence_number=4))
    assert tree_risks(older) == [("V4-124", 1, "p.puffin")]
    assert tree_risks(entries(data("a", 0), vector("a", record_count=10))) == []


def test_v4_122_a_vector_has_a_live_data_file():
    assert tree_risks(entries(data("a", 0), vector("b"))) == [("V4-122", 1, "p.puffin")]


def test_v4_114_an_affiliated_leaf_has_vectors_of_its_data_leaf_alone():
    rows = [data("a", 0), data("b", 10, manifest=1), vector("a", manifest=2)]
    equality = data("e", content=Content.EQUALITY_DELETES, manifest=2)
    assert tree_risks(entries(*rows), {2: 0}) == []
    assert tree_risks(entries(*rows), {2: 1}) == [("V4-114", 1, "p.puffin")]
    assert tree_risks(entries(*rows, equality), {2: 0}) == [("V4-114", 1, "e")]


def test_nothing_is_wrong_with_nothing():
    assert row_risks(entries(), V4) == []
    assert tree_risks(entries()) == []
    assert tree_risks(entries(), {0: 1}) == []


def test_r120_version_1_has_no_deletes_and_several_are_one_finding():
    rows = entries(data("a"), vector("a"), data("e", content=Content.EQUALITY_DELETES))
    message = "`p.puffin` is a delete file in a table of version 1, whose readers know none"
    assert row_risks(rows, table(1)) == [("R-120", f"{message}, and 1 more")]
    assert row_risks(entries(data("a")), table(1)) == []


def test_columns_that_were_not_loaded_are_not_looked_at():
    rows = entries(data("a", 0), vector("a"), vector("a"))
    names = [name for name in SCHEMA.names if name != "referenced_data_file"]
    assert tree_risks(Entries(rows.table.select(names))) == []
    assert "V4-121" in {rule for rule, _, _ in tree_risks(rows)}
