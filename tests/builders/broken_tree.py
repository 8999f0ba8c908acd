"""Version 4 tables with one thing wrong: a damage for every rule of version 4.

As in broken.py a damage changes one thing in a healthy table, through JSON, Parquet and Roaring
libraries rather than icectl's own writers, and makes sizes and counts fit again.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from tests.builders.broken import (
    ADDED,
    DELETED,
    EXISTING,
    Broken,
    Damage,
    Members,
    Record,
    damages_by,
    registering,
)
from tests.builders.commits import set_properties
from tests.builders.rows import local
from tests.builders.table_builder import START_MS, EntryRow, TableBuilder
from tests.builders.tree_table import add_files, data_files, remove_data_files, upgrade
from tests.stores.fixed_env import FixedEnv

DATA, VECTOR, EQUALITY, DATA_LEAF, DELETE_LEAF, BITMAP = range(6)
FIELD_ID = b"PARQUET:field_id"


class BrokenTree(Broken):
    """A version 4 table in a directory, and the means to damage it."""

    def root(self) -> Path:
        """The root of the current snapshot."""
        return local(self.head()["root-manifest"])

    def roots(self) -> list[Path]:
        """The roots of all snapshots that have one."""
        snapshots = self.members()["snapshots"]
        return [local(s["root-manifest"]) for s in snapshots if "root-manifest" in s]

    def rows(self) -> list[Record]:
        """The rows of the current root."""
        found: list[Record] = pq.read_table(self.root()).to_pylist()
        return found

    def edit_root(self, change: "Change", **forms: Any) -> None:
        """Change the rows of the current root."""
        rewrite_parquet(self.root(), change, **forms)

    def edit_leaf(
        self,
        change: "Change",
        content: int = DATA_LEAF,
        status: int | None = None,
        *,
        path: Path | None = None,
        keep: bool = False,
        **forms: Any,
    ) -> None:
        """Change the rows of a leaf; roots get its new size and, unless kept, its new counts."""
        path = path or local(of(self.rows(), content, status)["location"])
        rewrite_parquet(path, change, **forms)
        rows = pq.read_table(path).to_pylist()

        def refit(listed: list[Record]) -> None:
            for row in listed:
                if row["location"] and local(row["location"]) == path:
                    row["file_size_in_bytes"] = path.stat().st_size
                    if not keep:
                        row["record_count"] = len(rows)
                        row["manifest_stats"].update(counts(rows))

        for root in self.roots():
            rewrite_parquet(root, refit)


Change = Callable[[list[Record]], list[Record] | None]


def counts(rows: Sequence[Record]) -> dict[str, int]:
    """The counts of a leaf's rows by status."""
    found = {}
    for status, name in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
        chosen = [row for row in rows if row["tracking_info"]["status"] == status]
        found[f"{name}_files_count"] = len(chosen)
        found[f"{name}_rows_count"] = sum(row["record_count"] for row in chosen)
    return found


def rewrite_parquet(
    path: Path,
    change: Change,
    *,
    footer: Mapping[str, str] | None = None,
    schema: Callable[[pa.Schema], pa.Schema] | None = None,
) -> None:
    """Write a manifest anew with other rows, and another schema or footer on demand."""
    table = pq.read_table(path)
    stored = pq.ParquetFile(path).metadata.metadata
    rows = table.to_pylist()
    changed = change(rows)
    made = schema(table.schema) if schema is not None else table.schema
    with pq.ParquetWriter(path, made, store_schema=False, store_decimal_as_integer=True) as writer:
        writer.write_table(pa.Table.from_pylist(rows if changed is None else changed, schema=made))
        kept = {k.decode(): v.decode() for k, v in stored.items() if k != b"ARROW:schema"}
        writer.add_key_value_metadata({**kept, **(footer or {})})


def nothing(_: list[Record]) -> None:
    """Leave the rows as they are."""


def of(rows: Sequence[Record], content: int, status: int | None = None) -> Record:
    """The first row of a content, or of a content and status."""
    return next(
        row
        for row in rows
        if row["content_type"] == content and status in (None, row["tracking_info"]["status"])
    )


def in_row(content: int, status: int | None = None, /, **members: Any) -> Change:
    """A change of members of the first row of a content; None of tracking stands below it."""

    def change(rows: list[Record]) -> None:
        row = of(rows, content, status)
        for name, value in members.items():
            holder = row["tracking_info"] if name in row["tracking_info"] else row
            assert name in holder
            holder[name] = value

    return change


def bitmap(*positions: int) -> bytes:
    """Positions as an inline bitmap."""
    found = BitMap(positions)
    found.run_optimize()
    content: bytes = found.serialize()
    return content


def with_bitmap(
    positions: Callable[[list[int]], list[int]],
    write: Callable[[list[int]], bytes] = lambda found: bitmap(*found),
    status: int = ADDED,
) -> Change:
    """A change of the positions of a delete vector over a leaf, or of how they are written."""

    def change(rows: list[Record]) -> None:
        row = of(rows, BITMAP, status)
        found = positions(list(BitMap.deserialize(row["deletion_vector"]["inline_content"])))
        row["deletion_vector"]["inline_content"] = write(found)
        row["record_count"] = len(found)

    return change


def in_runs(positions: list[int]) -> bytes:
    """Positions below 65,536 as a bitmap of runs, each of one position."""
    head = struct.pack("<IBHHH", 12347, 1, 0, len(positions) - 1, len(positions))
    return head + b"".join(struct.pack("<HH", position, 0) for position in positions)


def with_column(name: str, number: int) -> Callable[[pa.Schema], pa.Schema]:
    """A schema with one column more."""
    return lambda schema: schema.append(
        pa.field(name, pa.int64(), metadata={FIELD_ID: str(number)})
    )


TREE_DAMAGES: list[Damage] = []


damage = registering(TREE_DAMAGES, lambda name: f"V4-{name[3:6]}")
in_metadata = damages_by(BrokenTree.edit, "grown", damage)
in_head = damages_by(BrokenTree.edit_head, "grown", damage)
in_root = damages_by(BrokenTree.edit_root, "grown", damage)
in_leaf = damages_by(BrokenTree.edit_leaf, "grown", damage)


# -- healthy tables -----------------------------------------------------------------------------


def _builder(directory: Path, version: int = 3, partitioning: str = "identity") -> TableBuilder:
    table = TableBuilder(directory, format_version=version, partitioning=partitioning)
    table.append(range(12), files=2)
    table.append(range(12, 24))
    table.ref("eoy", "tag")
    return table


def _grown(directory: Path, partitioning: str = "identity", **properties: str) -> None:
    """Leaves of version 4, with files and vectors of the root beside them, and dead rows."""
    table = _builder(directory, partitioning=partitioning)
    table.delete_rows([1, 2, 13])
    env = FixedEnv(START_MS + 10**8)
    upgrade(directory, env, "--eager")
    if properties:
        set_properties(directory, env, properties)
    parts = [range(24, 36)] if table.spec.fields else [range(at, at + 4) for at in (24, 28, 32)]
    new = [row for part in parts for row in table.loose_data_files(part)]
    add_files(directory, env, new)
    add_files(directory, env, _vectors(table, new[:2]))
    old = data_files(directory)
    remove_data_files(directory, env, [old[0]])
    remove_data_files(directory, env, [old[1], new[2]["location"]])


def _carried(directory: Path) -> None:
    """One append more, so that everything before it is EXISTING."""
    _grown(directory)
    add_files(directory, _later(), _more(directory).loose_data_files([90]))


def _more(directory: Path) -> TableBuilder:
    """Writes further files of a table."""
    return TableBuilder(directory / "more", format_version=3, partitioning="identity")


def _later() -> FixedEnv:
    """A later time, with ids that no snapshot has."""
    return FixedEnv(START_MS + 10**9, uuids=1_000, snapshot_ids=1_000)


def _leaves(directory: Path) -> None:
    """Everything in leaves: the last commits add a data leaf and an affiliated delete leaf."""
    table = _builder(directory)
    env = FixedEnv(START_MS + 10**8)
    upgrade(directory, env, "--eager")
    limits = "icectl.v4.root.max-data-files", "icectl.v4.root.max-delete-entries"
    set_properties(directory, env, dict.fromkeys(limits, "0"))
    new = table.loose_data_files(range(24, 36))
    add_files(directory, env, new)
    add_files(directory, env, [*_vectors(table, new[:2]), *table.loose_data_files(range(36, 48))])


def _vectors(table: TableBuilder, data_files: Sequence[EntryRow]) -> list[EntryRow]:
    """Vectors over two rows of each data file, in its partition."""
    vectors = table.loose_vectors({row["location"]: [0, 2] for row in data_files})
    named = ("partition_values", "partition_key")
    return [
        vector | {name: row[name] for name in named}
        for vector, row in zip(vectors, data_files, strict=True)
    ]


def _equality(directory: Path) -> None:
    """Equality deletes in a delete leaf of version 4."""
    _builder(directory, 2).delete_rows([3, 13], kind="equality")
    upgrade(directory, FixedEnv(START_MS + 10**8), "--eager")


def _positions(directory: Path) -> None:
    """Position delete files in a manifest of version 2."""
    _builder(directory, 2).delete_rows([3, 13])
    upgrade(directory, FixedEnv(START_MS + 10**8))


def _upgraded(directory: Path, version: int, partitioning: str, *words: str) -> None:
    _builder(directory, version, partitioning)
    upgrade(directory, FixedEnv(START_MS + 10**8), *words)


def _empty(directory: Path) -> None:
    TableBuilder(directory, format_version=3)
    upgrade(directory, FixedEnv(START_MS + 10**8))


TREE_TABLES: Mapping[str, Callable[[Path], None]] = {
    "grown": _grown,
    "whole": lambda directory: _grown(directory, "none"),
    "carried": _carried,
    "puffin": lambda directory: _grown(directory, **{"icectl.v4.mdv.inline-max-bytes": "0"}),
    "leaves": _leaves,
    "equality": _equality,
    "positions": _positions,
    "plain": lambda directory: _upgraded(directory, 3, "none"),
    "listed": lambda directory: _upgraded(directory, 3, "identity"),
    "eager": lambda directory: _upgraded(directory, 3, "identity", "--eager"),
    "day": lambda directory: _upgraded(directory, 3, "day", "--eager"),
    "empty": _empty,
}


# -- the metadata file --------------------------------------------------------------------------


in_metadata(
    "v4_001_roots_in_an_older_version",
    lambda m: m.update({"format-version": 3}),
    "R-077",
    table="plain",
)
in_metadata("v4_002_a_uuid_that_is_none", lambda m: m.update({"table-uuid": "my-table"}))
in_metadata("v4_003_no_last_partition_id", lambda m: m.pop("last-partition-id"))
in_metadata("v4_004_a_relative_location", lambda m: m.update({"location": "wh/t"}))
in_metadata("v4_005_a_schema_beside_schemas", lambda m: m.update({"schema": m["schemas"][0]}))


@damage("grown")
def v4_006_a_field_id_used_twice(broken: BrokenTree) -> None:
    twin = {"id": 5, "name": "twin", "type": "string", "required": False}
    broken.edit(lambda members: members["schemas"][0]["fields"].append(twin))


in_metadata(
    "v4_007_a_spec_id_used_twice", lambda m: m["partition-specs"].append(m["partition-specs"][0])
)


def _expression(number: int, source: int, transform: str, **members: Any) -> Members:
    expr = {"source-id": source, "transform": transform, "name": f"e{number}"}
    return {"expr-id": number, "expr": expr, **members}


in_metadata(
    "v4_008_an_expression_with_the_id_of_a_column",
    lambda m: m["expressions"].append(_expression(5, 5, "identity")),
)
in_metadata("v4_009_an_expression_above_the_last_id", lambda m: m.update({"last-column-id": 5}))


@damage("grown")
def v4_010_a_spec_that_links_to_a_column(broken: BrokenTree) -> None:
    spec = {"spec-id": 1, "fields": [{"expr-id": 1}]}
    broken.edit(lambda members: members["partition-specs"].append(spec))


in_metadata(
    "v4_012_a_type_that_does_not_follow", lambda m: m["expressions"][0].update({"type": "int"})
)
in_metadata(
    "v4_013_a_partition_field_id_above_the_last", lambda m: m.update({"last-partition-id": 999})
)


@damage("grown", by=BrokenTree.edit)
def v4_014_a_partition_column_beyond_statistics(members: Members) -> None:
    far = {"id": 1_000_000, "name": "far", "type": "string", "required": False}
    members["schemas"][0]["fields"].append(far)
    one = _expression(1_000_001, 1_000_000, "identity", **{"partition-field-id": 1001})
    members["expressions"].append(one)
    members["partition-specs"].append({"spec-id": 1, "fields": [{"expr-id": 1_000_001}]})
    members.update({"last-column-id": 1_000_001, "last-partition-id": 1001})


@damage("grown", by=BrokenTree.edit)
def v4_015_a_default_spec_that_cannot_be_computed(members: Members) -> None:
    one = _expression(7, 1, "curve[3]", **{"partition-field-id": 1001})
    members["expressions"].append(one)
    members["partition-specs"].append({"spec-id": 1, "fields": [{"expr-id": 7}]})
    members.update({"last-column-id": 7, "last-partition-id": 1001, "default-spec-id": 1})


in_metadata(
    "v4_016_a_default_sort_order_that_is_absent", lambda m: m.update({"default-sort-order-id": 3})
)
in_metadata(
    "v4_017_a_sequence_number_above_the_last", lambda m: m.update({"last-sequence-number": 2})
)
in_metadata(
    "v4_018_row_ids_above_the_next", lambda m: m.update({"next-row-id": 13}), "V4-067 R-102 R-104"
)
in_metadata(
    "v4_019_a_ref_to_a_lost_snapshot", lambda m: m["refs"]["eoy"].update({"snapshot-id": 5})
)
in_metadata(
    "v4_020_a_gap_in_the_snapshot_log", lambda m: m["snapshot-log"][1].update({"snapshot-id": 5})
)
in_metadata(
    "v4_021_no_snapshot_as_minus_one",
    lambda m: m.update({"current-snapshot-id": -1}),
    table="empty",
)


@damage("grown")
def v4_022_a_metadata_log_that_is_too_long(broken: BrokenTree) -> None:
    name = "write.metadata.previous-versions-max"
    broken.edit(lambda members: members["properties"].update({name: "1"}))


@damage("grown")
def v4_023_statistics_of_a_lost_snapshot(broken: BrokenTree) -> None:
    entry = {
        "snapshot-id": 5, "statistics-path": "file:///nowhere.stats", "file-size-in-bytes": 9,
        "file-footer-size-in-bytes": 5, "blob-metadata": [],
    }  # fmt: skip
    broken.edit(lambda members: members.update({"statistics": [entry]}))


# -- snapshots ----------------------------------------------------------------------------------


@damage("grown")
def v4_030_a_root_and_a_manifest_list(broken: BrokenTree) -> None:
    listed = broken.members()["snapshots"][0]["manifest-list"]
    broken.edit_head(lambda head: head.update({"manifest-list": listed}))


in_head("v4_031_no_schema_id", lambda head: head.pop("schema-id"))


def _twin(broken: BrokenTree, **members: Any) -> None:
    """A snapshot more that has the files of the first one."""
    first = broken.members()["snapshots"][0]
    twin = first | {"snapshot-id": 77, "timestamp-ms": first["timestamp-ms"] + 1}
    twin |= {name.replace("_", "-"): value for name, value in members.items()}
    broken.edit(lambda metadata: metadata["snapshots"].append(twin))


@damage("grown", "R-054")
def v4_032_two_snapshots_of_one_sequence_number(broken: BrokenTree) -> None:
    _twin(broken)


@damage("grown", "R-054 R-101 R-102")
def v4_033_a_manifest_list_after_a_root(broken: BrokenTree) -> None:
    _twin(broken, parent_snapshot_id=broken.head()["snapshot-id"], sequence_number=99)
    broken.edit(lambda metadata: metadata.update({"last-sequence-number": 99}))


in_head(
    "v4_034_an_operation_that_there_is_not",
    lambda head: head["summary"].update({"operation": "upsert"}),
)


@damage("grown")
def v4_035_a_manifest_list_that_is_a_root(broken: BrokenTree) -> None:
    root = broken.head()["root-manifest"]
    broken.edit(lambda members: members["snapshots"][0].update({"manifest-list": root}))


in_head(
    "v4_036_an_append_that_removes_files",
    lambda head: head["summary"].update({"operation": "append"}),
    "R-031",
)
in_head(
    "v4_037_a_replace_that_loses_rows",
    lambda head: head["summary"].update({"operation": "replace"}),
)
in_head(
    "v4_038_totals_that_are_not_those_of_the_files",
    lambda head: head["summary"].update({"total-records": "5"}),
)


# -- the file of a root -------------------------------------------------------------------------


in_root("v4_040_a_root_that_says_it_is_a_leaf", nothing, footer={"content": "data"})
in_root(
    "v4_041_a_root_without_record_counts",
    nothing,
    schema=lambda schema: schema.remove(schema.get_field_index("record_count")),
)
in_root("v4_042_a_column_that_nobody_knows", nothing, schema=with_column("new", 999))
in_root("v4_043_a_root_of_the_upstream_draft", nothing, schema=with_column("format_version", 157))
in_root("v4_044_a_content_type_that_there_is_not", in_row(DATA, content_type=9))
in_root("v4_045_a_footer_of_another_snapshot", nothing, footer={"snapshot-id": "5"})
in_root("v4_046_rows_in_another_order", lambda rows: rows[::-1])
in_root("v4_047_another_layout", nothing, footer={"icectl.layout": "sfc-9"})


# -- rows of a root -----------------------------------------------------------------------------


in_root("v4_050_a_status_of_the_upstream_draft", in_row(DATA, status=3))
in_root(
    "v4_051_a_location_of_an_inline_bitmap", in_row(BITMAP, location="file:///x.puffin"), "V4-057"
)


@damage("grown")
def v4_051_a_location_without_a_scheme(broken: BrokenTree) -> None:
    place = str(local(of(broken.rows(), DATA)["location"]))
    broken.edit_root(in_row(DATA, location=place))


in_root("v4_052_rows_in_a_puffin_file", in_row(DATA, file_format="puffin"))
in_root("v4_053_a_vector_without_its_place", in_row(VECTOR, deletion_vector=None), "V4-160")
in_root("v4_054_a_spec_that_there_is_not", in_row(DATA, partition_spec_id=7))
in_root("v4_055_a_sort_order_of_a_vector", in_row(VECTOR, sort_order_id=0))
in_root("v4_056_a_negative_record_count", in_row(DATA, record_count=-1), "V4-145 V4-123")
in_root("v4_057_a_file_without_a_size", in_row(DATA, DELETED, file_size_in_bytes=None))


@damage("grown")
def v4_058_counts_of_a_data_file(broken: BrokenTree) -> None:
    stats = of(broken.rows(), DATA_LEAF)["manifest_stats"]
    broken.edit_root(in_row(DATA, manifest_stats=stats))


in_root(
    "v4_059_a_data_file_that_refers_to_another", in_row(DATA, referenced_file="file:///x.parquet")
)
in_root("v4_060_a_data_file_with_columns_to_compare", in_row(DATA, equality_ids=[1]))
in_root("v4_061_split_offsets_that_fall", in_row(DATA, split_offsets=[9, 4]))
in_root("v4_062_an_old_file_without_a_snapshot_id", in_row(DATA, EXISTING, snapshot_id=None))
in_root("v4_063_a_leaf_with_two_sequence_numbers", in_row(DATA_LEAF, sequence_number=3))
in_root(
    "v4_064_a_file_of_the_future",
    in_row(DATA, EXISTING, sequence_number=99),
    "V4-162 V4-163 V4-124",
)
in_root("v4_065_a_removal_by_another_snapshot", in_row(DATA, DELETED, snapshot_id=1002))


@damage("grown", "V4-162")
def v4_066_an_old_file_as_if_it_were_new(broken: BrokenTree) -> None:
    head = broken.head()["snapshot-id"]
    broken.edit_root(in_row(DATA, EXISTING, snapshot_id=head))


in_root("v4_067_a_data_file_without_row_ids", in_row(DATA, EXISTING, first_row_id=None), "V4-162")
in_root("v4_067_row_ids_of_two_files", in_row(DATA, EXISTING, first_row_id=1), "V4-162")
in_root(
    "v4_068_a_leaf_listed_as_deleted",
    in_row(DATA_LEAF, status=DELETED),
    "R-031 V4-065 V4-161 V4-081 V4-114 V4-122 V4-160",
)
in_head("v4_069_a_removal_without_a_parent", lambda head: head.pop("parent-snapshot-id"))
in_root("v4_070_key_metadata", in_row(DATA, key_metadata=b"key"))


# -- delete vectors over leaves -----------------------------------------------------------------


@damage("grown", "V4-087", by=BrokenTree.edit_root)
def v4_080_two_vectors_of_a_leaf(rows: list[Record]) -> None:
    of(rows, BITMAP, DELETED)["tracking_info"]["status"] = EXISTING


in_root(
    "v4_081_a_vector_of_an_unknown_leaf",
    in_row(BITMAP, ADDED, referenced_file="file:///x.parquet"),
    "R-031 V4-086 V4-087 V4-120 V4-121 V4-122 V4-160",
)
in_root("v4_082_bytes_behind_a_bitmap", with_bitmap(list, lambda found: bitmap(*found) + b"\0"))
in_root(
    "v4_083_a_position_behind_the_leaf",
    with_bitmap(lambda found: [*found, 99]),
    "R-031 V4-160 V4-038",
)


@damage("grown", "R-031 V4-160 V4-161 V4-106 V4-146")
def v4_084_a_vector_over_a_removed_row(broken: BrokenTree) -> None:
    (first, *_) = BitMap.deserialize(
        of(broken.rows(), BITMAP, DELETED)["deletion_vector"]["inline_content"]
    )

    def change(rows: list[Record]) -> None:
        rows[first]["tracking_info"]["status"] = DELETED

    broken.edit_leaf(change)


@damage("grown", "R-031 V4-087 V4-160 V4-085 V4-122 V4-114")
def v4_085_a_vector_that_holds_less(broken: BrokenTree) -> None:
    old = of(broken.rows(), BITMAP, DELETED)["deletion_vector"]["inline_content"]
    broken.edit_root(
        with_bitmap(lambda found: [n for n in found if n not in BitMap.deserialize(old)])
    )


@damage("grown", "R-031 V4-087 V4-160 V4-120 V4-121 V4-122", by=BrokenTree.edit_root)
def v4_086_a_replaced_vector_without_another(rows: list[Record]) -> list[Record]:
    return [r for r in rows if r is not of(rows, BITMAP, ADDED)]


@damage("grown", by=BrokenTree.edit_root)
def v4_087_a_new_vector_without_the_old_one(rows: list[Record]) -> list[Record]:
    return [r for r in rows if r is not of(rows, BITMAP, DELETED)]


in_root("v4_088_a_vector_in_another_form", with_bitmap(list, in_runs, EXISTING), table="carried")


@damage("puffin")
def v4_090_a_blob_of_another_cardinality(broken: BrokenTree) -> None:
    path = local(of(broken.rows(), BITMAP, ADDED)["location"])
    content = path.read_bytes()
    assert b'"cardinality":"2"' in content
    path.write_bytes(content.replace(b'"cardinality":"2"', b'"cardinality":"3"'))


@damage("leaves", "R-031 V4-160 V4-106", by=BrokenTree.edit_root)
def v4_091_a_vector_over_a_new_leaf(rows: list[Record]) -> list[Record]:
    leaf = of(rows, DATA_LEAF, ADDED)
    vector = dict.fromkeys(rows[0]) | {
        "content_type": BITMAP, "file_format": "puffin", "partition_spec_id": 0,
        "record_count": 1, "tracking_info": leaf["tracking_info"] | {"first_row_id": None},
        "deletion_vector": {"inline_content": bitmap(0)}, "referenced_file": leaf["location"],
    }  # fmt: skip
    return [vector, *rows]


in_leaf(
    "v4_092_a_bitmap_in_a_leaf",
    in_row(DATA, content_type=BITMAP),
    "V4-051 V4-052 V4-053 V4-057 V4-059 V4-067 V4-141 V4-055 V4-061 V4-148 V4-160 V4-161",
)


# -- leaves -------------------------------------------------------------------------------------


in_leaf("v4_100_a_leaf_of_another_version", nothing, footer={"format-version": "5"})
in_leaf(
    "v4_101_a_vector_in_a_data_leaf",
    in_row(DATA, content_type=VECTOR),
    "V4-052 V4-053 V4-059 V4-067 V4-055 V4-061 V4-160 V4-161",
)
in_leaf(
    "v4_102_a_leaf_in_a_leaf",
    in_row(DATA, content_type=DATA_LEAF),
    "V4-058 V4-067 V4-160 V4-120 V4-122 V4-114 V4-055 V4-061 V4-161 V4-162",
)
in_root("v4_103_a_leaf_of_another_size", in_row(DATA_LEAF, file_size_in_bytes=9))


@damage("grown", by=BrokenTree.edit_root)
def v4_104_another_lowest_sequence_number(rows: list[Record]) -> None:
    of(rows, DATA_LEAF)["manifest_stats"]["min_sequence_number"] = 0


in_leaf("v4_105_an_old_row_without_a_number", in_row(DATA, sequence_number=None))
in_leaf(
    "v4_106_a_new_row_in_a_leaf_that_is_not",
    in_row(DATA, status=ADDED),
    "V4-160 V4-064 V4-162",
    table="eager",
)


@damage("leaves", "V4-160 V4-162 V4-067")
def v4_107_an_old_row_among_new_ones(broken: BrokenTree) -> None:
    numbers = of(broken.rows(), DATA_LEAF, ADDED)["tracking_info"]
    number = numbers["sequence_number"]
    own = {"snapshot_id": numbers["snapshot_id"], "first_row_id": numbers["first_row_id"]}
    change = in_row(
        DATA, status=EXISTING, sequence_number=number, file_sequence_number=number, **own
    )
    broken.edit_leaf(change, status=ADDED)


in_leaf(
    "v4_108_a_removed_row_in_a_leaf",
    in_row(DATA, status=DELETED),
    "R-031 V4-160 V4-036 V4-105",
    table="leaves",
    status=ADDED,
)


@damage("leaves", "V4-160")
def v4_109_a_new_leaf_with_nothing_new(broken: BrokenTree) -> None:
    def change(rows: list[Record]) -> None:
        leaf = of(broken.rows(), DATA_LEAF, ADDED)["tracking_info"]
        first = leaf["first_row_id"]
        for row in rows:
            row["tracking_info"] = {**leaf, "status": EXISTING, "first_row_id": first}
            first += row["record_count"]

    broken.edit_leaf(change, status=ADDED)


@damage("grown", "R-031 V4-160 V4-083 V4-121 V4-122 V4-104 V4-161")
def v4_110_a_leaf_without_rows(broken: BrokenTree) -> None:
    broken.edit_leaf(lambda _: [], DELETE_LEAF)


in_root(
    "v4_111_a_manifest_of_data_as_one_of_deletes",
    in_row(DATA_LEAF, content_type=DELETE_LEAF, first_row_id=None),
    "R-031 R-061 V4-160 V4-161 V4-067 V4-162",
    table="listed",
)


@damage("grown")
def v4_112_a_delete_leaf_by_its_older_name(broken: BrokenTree) -> None:
    broken.edit_leaf(nothing, DELETE_LEAF, footer={"content": "deletes"})


in_root(
    "v4_113_a_new_leaf_of_an_older_version",
    in_row(DATA_LEAF, status=ADDED),
    "V4-065 V4-036 V4-160 V4-162",
    table="listed",
)
in_root(
    "v4_114_a_delete_leaf_of_no_data_leaf", in_row(DELETE_LEAF, referenced_file="file:///x.parquet")
)


@damage("leaves")
def v4_114_vectors_of_files_elsewhere(broken: BrokenTree) -> None:
    other = [r["location"] for r in broken.rows() if r["content_type"] == DATA_LEAF]
    here = of(broken.rows(), DELETE_LEAF)["referenced_file"]
    named = next(place for place in other if place != here)
    broken.edit_root(in_row(DELETE_LEAF, referenced_file=named))


in_root(
    "v4_116_a_leaf_listed_twice",
    lambda rows: [*rows, of(rows, DATA_LEAF)],
    "R-031 V4-120 V4-160 V4-067 V4-162",
)


@damage("grown")
def v4_116_a_dead_leaf_listed_twice(broken: BrokenTree) -> None:
    leaf = local(of(broken.rows(), DATA_LEAF)["location"])
    inside = {row["location"] for row in pq.read_table(leaf).to_pylist()}
    live = [name for name in data_files(broken.directory) if name in inside]
    remove_data_files(broken.directory, _later(), live)
    broken.edit_root(lambda rows: [*rows, of(rows, DATA_LEAF)])


# -- across entries -----------------------------------------------------------------------------


in_root(
    "v4_120_a_file_live_twice",
    lambda rows: [*rows, of(rows, DATA, EXISTING)],
    "R-031 V4-162 V4-067 V4-160",
)


@damage("grown", "V4-160")
def v4_121_two_vectors_of_a_file(broken: BrokenTree) -> None:
    names = [r["location"] for r in broken.rows() if r["content_type"] == DATA]

    def change(rows: list[Record]) -> None:
        for row in rows:
            if row["content_type"] == VECTOR:
                row["referenced_file"] = names[0]

    broken.edit_root(change)


@damage("grown")
def v4_122_a_vector_of_a_lost_file(broken: BrokenTree) -> None:
    broken.edit_root(in_row(VECTOR, referenced_file="file:///x.parquet"))


in_root("v4_123_more_rows_than_the_file_has", in_row(VECTOR, record_count=99), "V4-145")


@damage("grown", "V4-145 R-063", level="footers")
def v4_123_a_position_behind_the_file(broken: BrokenTree) -> None:
    home = of(broken.rows(), VECTOR)["referenced_file"]

    def change(rows: list[Record]) -> None:
        next(row for row in rows if row["location"] == home)["record_count"] = 2

    broken.edit_root(change)


in_root("v4_124_a_vector_older_than_its_file", in_row(VECTOR, sequence_number=1), "V4-162")


@damage("grown", "V4-054")
def v4_125_a_vector_of_another_spec(broken: BrokenTree) -> None:
    broken.edit(lambda m: m["partition-specs"].append({"spec-id": 1, "fields": []}))
    broken.edit_root(in_row(VECTOR, partition_spec_id=1))


def _no_partition(rows: list[Record]) -> None:
    """Forget the partition value of the first data file or equality delete."""
    row = next(row for row in rows if row["content_type"] in (DATA, EQUALITY))
    row["content_stats"]["s2"] = None


in_leaf("v4_126_a_partition_that_deletes_need", _no_partition, "V4-141 V4-146", table="equality")


@damage("grown", "R-031 V4-160", by=BrokenTree.edit_root)
def v4_127_a_file_live_and_removed(rows: list[Record]) -> list[Record]:
    gone = of(rows, DATA, DELETED)
    number = gone["tracking_info"] | {"status": EXISTING, "snapshot_id": 1003}
    return [*rows, gone | {"tracking_info": number}]


@damage("positions")
def v4_128_position_deletes_beside_a_vector(broken: BrokenTree) -> None:
    vectors = {name: [0] for name in data_files(broken.directory)}
    add_files(broken.directory, _later(), _more(broken.directory).loose_vectors(vectors))


# -- statistics ---------------------------------------------------------------------------------


def in_stats(group: str, content: int = DATA, /, **members: Any) -> Change:
    """A change of members of a column's statistics, in the first live row of a content."""

    def change(rows: list[Record]) -> None:
        row = of(rows, content, EXISTING)
        row["content_stats"][group] = row["content_stats"][group] | members

    return change


def _moved_member(schema: pa.Schema) -> pa.Schema:
    """Give the lower bound of the first column the id of a member that there is not."""
    at = schema.get_field_index("content_stats")
    stats = schema.field(at)
    groups = list(stats.type)
    members = list(groups[0].type)
    members[0] = members[0].with_metadata({FIELD_ID: b"99999"})
    groups[0] = pa.field("s1", pa.struct(members), metadata=groups[0].metadata)
    return schema.set(at, pa.field("content_stats", pa.struct(groups), metadata=stats.metadata))


in_root("v4_140_a_member_with_another_id", nothing, "V4-147", schema=_moved_member)
in_root("v4_141_a_file_without_its_partition", _no_partition)
in_root("v4_142_a_partition_of_two_values", in_stats("s2", upper_bound="zz"), "V4-144")
in_root("v4_142_a_partition_without_an_upper_bound", in_stats("s2", upper_bound=None))
in_root("v4_143_a_partition_with_loose_bounds", in_stats("s2", tight_bounds=False))
in_root("v4_144_bounds_that_cross", in_stats("s1", lower_bound=10**9))
in_root("v4_145_more_nulls_than_values", in_stats("s5", null_count=99))
in_root(
    "v4_146_a_leaf_with_bounds_too_narrow",
    in_stats("s1", DATA_LEAF, lower_bound=10**6, upper_bound=10**6),
)
in_root(
    "v4_146_a_manifest_with_bounds_too_narrow",
    in_stats("s2", DATA_LEAF, lower_bound="c1", upper_bound="c1"),
    table="listed",
)
in_root(
    "v4_146_a_manifest_with_bounds_of_a_column_too_narrow",
    in_stats("s1", DATA_LEAF, lower_bound=10**6, upper_bound=10**6),
    table="listed",
)
in_root("v4_147_a_leaf_without_statistics", in_row(DATA_LEAF, content_stats=None))


@damage("grown")
def v4_148_statistics_of_a_bitmap(broken: BrokenTree) -> None:
    stats = of(broken.rows(), DATA_LEAF)["content_stats"]
    broken.edit_root(in_row(BITMAP, content_stats=stats))


@damage("day", "V4-146", by=BrokenTree.edit_leaf)
def v4_149_a_day_that_does_not_follow(rows: list[Record]) -> None:
    stats = of(rows, DATA)["content_stats"]["s4"]
    stats.update(upper_bound=stats["lower_bound"], tight_bounds=True)
    day = of(rows, DATA)["content_stats"]["s6"]
    day.update(lower_bound=date(1999, 1, 1), upper_bound=date(1999, 1, 1))


# -- across snapshots ---------------------------------------------------------------------------


@damage("grown", by=BrokenTree.edit_root)
def v4_160_a_file_gone_without_a_word(rows: list[Record]) -> list[Record]:
    return [row for row in rows if row is not of(rows, DATA, DELETED)]


@damage("grown", "R-031 V4-081 V4-114 V4-122", by=BrokenTree.edit_root)
def v4_161_a_leaf_gone_with_its_files(rows: list[Record]) -> list[Record]:
    return [row for row in rows if row["content_type"] != DATA_LEAF]


in_root(
    "v4_162_a_file_with_another_sequence_number",
    in_row(DATA, EXISTING, sequence_number=1),
    "V4-163",
)


@damage("carried")
def v4_163_a_number_that_changed_long_ago(broken: BrokenTree) -> None:
    snapshots = broken.members()["snapshots"]
    lost = snapshots[-2]["snapshot-id"]
    broken.edit(lambda m: m.update(snapshots=[s for s in snapshots if s["snapshot-id"] != lost]))
    broken.edit(
        lambda m: m.update(
            {"snapshot-log": [e for e in m["snapshot-log"] if e["snapshot-id"] != lost]}
        )
    )
    broken.edit_root(in_row(DATA, EXISTING, sequence_number=1))


@damage("grown", level="footers")
def v4_164_a_new_vector_with_fewer_rows(broken: BrokenTree) -> None:
    home = of(broken.rows(), VECTOR)["referenced_file"]
    add_files(broken.directory, _later(), _more(broken.directory).loose_vectors({home: [0]}))


@damage("carried", "R-031 V4-160")
def v4_165_a_vector_gone_without_another(broken: BrokenTree) -> None:
    def change(rows: list[Record]) -> None:
        row = of(rows, VECTOR)["tracking_info"]
        row.update(status=DELETED, snapshot_id=broken.head()["snapshot-id"])

    broken.edit_root(change)
    broken.edit_head(lambda head: head["summary"].update({"operation": "overwrite"}))


@damage("grown")
def v4_166_a_file_that_comes_back(broken: BrokenTree) -> None:
    new = _more(broken.directory).loose_data_files([90])
    env = _later()
    add_files(broken.directory, env, new)
    remove_data_files(broken.directory, env, [new[0]["location"]])
    add_files(broken.directory, env, new)


# -- files and sizes ----------------------------------------------------------------------------


@damage("grown")
def v4_180_a_root_that_is_gone(broken: BrokenTree) -> None:
    broken.root().unlink()


@damage("grown")
def v4_181_a_leaf_that_is_gone(broken: BrokenTree) -> None:
    local(of(broken.rows(), DATA_LEAF)["location"]).unlink()


@damage("grown", level="files")
def v4_182_a_data_file_that_is_gone(broken: BrokenTree) -> None:
    local(of(broken.rows(), DATA, EXISTING)["location"]).unlink()


@damage("puffin")
def v4_182_a_file_of_bitmaps_that_is_gone(broken: BrokenTree) -> None:
    local(of(broken.rows(), BITMAP, ADDED)["location"]).unlink()


@damage("grown", level="files")
def v4_183_a_removed_file_that_is_gone(broken: BrokenTree) -> None:
    gone = of(broken.rows(), DATA, DELETED)["location"]
    head = broken.members()["current-snapshot-id"]
    broken.edit(
        lambda m: m.update(snapshots=[s for s in m["snapshots"] if s["snapshot-id"] == head])
    )
    broken.edit(lambda m: m.update(refs={"main": m["refs"]["main"]}))
    broken.edit(
        lambda m: m.update(
            {"snapshot-log": [e for e in m["snapshot-log"] if e["snapshot-id"] == head]}
        )
    )
    local(gone).unlink()
