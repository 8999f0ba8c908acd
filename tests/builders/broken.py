"""Tables with one thing wrong: a damage for every rule that `validate` reports.

A damage takes a healthy table on disk and changes one thing in it, through fastavro, JSON and
Parquet rather than icectl's own writers, and keeps everything else consistent: lengths, counts and
sizes are made to fit again where they are not what is damaged.
"""

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.avro import other_schema
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import TableBuilder

Members = dict[str, Any]
Record = dict[str, Any]

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
EXISTING, ADDED, DELETED = 0, 1, 2


def is_live(entry: Record) -> bool:
    """Whether an entry is read."""
    return bool(entry["status"] != DELETED)


@dataclass(frozen=True)
class Broken:
    """A table in a directory, and the means to damage it."""

    directory: Path

    # -- metadata JSON --------------------------------------------------------------------------

    def members(self) -> Members:
        """The current metadata."""
        return read_metadata(current_metadata(self.directory))

    def edit(self, change: Callable[[Members], None]) -> None:
        """Change the current metadata file in place."""
        members = self.members()
        change(members)
        current_metadata(self.directory).write_text(json.dumps(members))

    def head(self) -> Members:
        """The current snapshot."""
        members = self.members()
        wanted = members["current-snapshot-id"]
        found: Members = next(s for s in members["snapshots"] if s["snapshot-id"] == wanted)
        return found

    def edit_head(self, change: Callable[[Members], None]) -> None:
        """Change the current snapshot's members."""
        wanted = self.members()["current-snapshot-id"]

        def change_one(members: Members) -> None:
            change(next(s for s in members["snapshots"] if s["snapshot-id"] == wanted))

        self.edit(change_one)

    # -- Avro files -----------------------------------------------------------------------------

    def lists(self) -> list[Path]:
        """The manifest lists of all snapshots."""
        return [Path(s["manifest-list"]) for s in self.members()["snapshots"]]

    def edit_lists(self, change: Callable[[Record], None]) -> None:
        """Change every row of every manifest list."""
        for path in self.lists():
            rewrite_avro(path, lambda records: [_changed(one, change) for one in records])

    def edit_everywhere(self, path: Path, change: Callable[[Record], None]) -> None:
        """Change the entries of a file in all manifests of all snapshots."""
        for manifest in {row["manifest_path"] for one in self.lists() for row in read_records(one)}:
            entries = read_records(Path(manifest))
            if not any(entry["data_file"]["file_path"] == str(path) for entry in entries):
                continue
            rewrite_avro(
                Path(manifest),
                lambda found: (
                    [change(e) for e in found if e["data_file"]["file_path"] == str(path)] and None
                ),
            )
            size = Path(manifest).stat().st_size
            self.edit_lists(
                lambda row, manifest=manifest, size=size: (
                    row.update({"manifest_length": size})
                    if row["manifest_path"] == manifest
                    else None
                )
            )

    def edit_head_list(self, change: Callable[[list[Record]], list[Record] | None]) -> None:
        """Change the rows of the current manifest list."""
        rewrite_avro(Path(self.head()["manifest-list"]), change)

    def manifests(self, content: int = 0) -> list[Record]:
        """Rows of the current manifest list with a content: 0 data, 1 deletes."""
        rows = read_records(Path(self.head()["manifest-list"]))
        return [row for row in rows if row.get("content", 0) == content]

    def edit_manifest(
        self,
        change: Callable[[list[Record]], list[Record] | None],
        *,
        content: int = 0,
        holding: Callable[[Record], bool] = is_live,
        schema: Callable[[Any], None] | None = None,
        header: Callable[[dict[str, str]], None] | None = None,
        keep_counts: bool = False,
    ) -> str:
        """Change the first current manifest with an entry that `holding` accepts; returns it.

        Its rows in all manifest lists get its new length and, unless kept, new counts.
        """
        for row in self.manifests(content):
            path = Path(row["manifest_path"])
            if any(holding(entry) for entry in read_records(path)):
                break
        else:
            raise LookupError(content)
        rewrite_avro(path, change, schema=schema, header=header)
        entries = read_records(path)

        def refit(listed: Record) -> None:
            if listed["manifest_path"] != str(path):
                return
            listed["manifest_length"] = path.stat().st_size
            if keep_counts:
                return
            for status, name in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
                chosen = [entry for entry in entries if entry["status"] == status]
                listed[f"{name}_files_count"] = len(chosen)
                listed[f"{name}_rows_count"] = sum(e["data_file"]["record_count"] for e in chosen)

        self.edit_lists(refit)
        return str(path)

    def entries(self, content: int = 0) -> list[Record]:
        """Live entries of the current snapshot."""
        return [
            entry
            for row in self.manifests(content)
            for entry in read_records(Path(row["manifest_path"]))
            if entry["status"] != DELETED
        ]


def _changed(record: Record, change: Callable[[Record], None]) -> Record:
    change(record)
    return record


def read_records(path: Path) -> list[Record]:
    """The records of an Avro file."""
    with path.open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


def rewrite_avro(
    path: Path,
    change: Callable[[list[Record]], list[Record] | None],
    *,
    schema: Callable[[Any], None] | None = None,
    header: Callable[[dict[str, str]], None] | None = None,
) -> None:
    """Write an Avro file anew with other records, and another schema or header on demand."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records: list[Record] = list(reader)  # type: ignore[arg-type]
        metadata = dict(reader.metadata)
    stored = json.loads(metadata.pop("avro.schema"))
    metadata.pop("avro.codec", None)
    if schema is not None:
        schema(stored)
    if header is not None:
        header(metadata)
    changed = change(records)
    with path.open("wb") as file:
        fastavro.writer(
            file, stored, records if changed is None else changed, codec="deflate",
            metadata=metadata,
        )  # fmt: skip


def optional(name: str) -> Callable[[Any], None]:
    """A change of a schema: a field of the record, or of its data file, may be null."""

    def change(stored: Any) -> None:
        for one in stored["fields"]:
            if one["name"] == name and not isinstance(one["type"], list):
                one["type"] = ["null", one["type"]]
            if one["name"] == "data_file":
                change(one["type"])

    return change


def in_first(change: Callable[[Record], None], *, status: int | None = None) -> Any:
    """A change of the first live entry, or the first of a status."""

    def change_all(entries: list[Record]) -> None:
        change(next(e for e in entries if is_live(e) and status in (None, e["status"])))

    return change_all


def in_first_file(**members: Any) -> Any:
    """A change of members of the first entry's file."""
    return in_first(lambda entry: entry["data_file"].update(members))


@dataclass(frozen=True)
class Damage:
    """One thing wrong.

    `table` names the healthy table of TABLES; `level` is the lowest that sees the damage;
    `explained` are further rules that it breaks by its nature.
    """

    rule: str
    table: str
    level: str
    apply: Callable[[Broken], None]
    explained: frozenset[str] = field(default_factory=frozenset)

    @property
    def name(self) -> str:
        """The name of the function that does the damage."""
        return self.apply.__name__


DAMAGES: list[Damage] = []


def registering(damages: list[Damage], rule_of: Callable[[str], str]) -> Any:
    """What registers damages, whose names begin with the rule, as in r066_a_file_live_twice."""

    def damage(
        table: str, explained: str = "", *, level: str = "metadata", by: Any = None, **how: Any
    ) -> Any:
        """Register a damage or, with a way to edit a table, what changes there."""

        def register(change: Any) -> Callable[[Broken], None]:
            def edited(broken: Broken) -> None:
                by(broken, change, **how)

            edited.__name__ = change.__name__
            apply = edited if by else change
            rule = rule_of(apply.__name__)
            damages.append(Damage(rule, table, level, apply, frozenset(explained.split())))
            return apply

        return register

    return damage


damage = registering(DAMAGES, lambda name: f"R-{name[1:4]}")


def damages_by(edit: Callable[..., object], home: str, damage: Any = damage) -> Callable[..., None]:
    """What registers a damage by its name: one change, by a way to edit a table."""

    def register(
        name: str,
        change: Any,
        explained: str = "",
        *,
        table: str = home,
        level: str = "metadata",
        **how: Any,
    ) -> None:
        def apply(broken: Broken) -> None:
            edit(broken, change, **how)

        apply.__name__ = name
        damage(table, explained, level=level)(apply)

    return register


in_metadata = damages_by(Broken.edit, "v2")
in_head = damages_by(Broken.edit_head, "v2")
in_list = damages_by(Broken.edit_head_list, "v2")
in_manifest = damages_by(Broken.edit_manifest, "v2")


# -- healthy tables -----------------------------------------------------------------------------


def _build(directory: Path, version: int, partitioning: str) -> TableBuilder:
    table = TableBuilder(directory, format_version=version, partitioning=partitioning)
    table.append(range(12), files=2)
    table.append(range(12, 24))
    table.ref("eoy", "tag")
    table.remove_data_files(1)
    if version > 1:
        table.delete_rows([13, 14, 20])
    if version == 2:
        table.delete_rows([15, 16], kind="equality")
    return table


TABLES: Mapping[str, Callable[[Path], TableBuilder]] = {
    "v1": lambda directory: _build(directory, 1, "identity"),
    "v2": lambda directory: _build(directory, 2, "identity"),
    "v3": lambda directory: _build(directory, 3, "identity"),
    "v2-bucket": lambda directory: _build(directory, 2, "bucket"),
    "v2-day": lambda directory: _build(directory, 2, "day"),
    "v2-truncate": lambda directory: _build(directory, 2, "truncate"),
    "v3-empty": lambda directory: TableBuilder(directory, format_version=3),
}


# -- the metadata file --------------------------------------------------------------------------


@damage("v2", level="files")
def r002_metadata_of_another_table(broken: Broken) -> None:
    members = broken.members() | {"table-uuid": "11111111-2222-4333-8444-555555555555"}
    (broken.directory / "metadata" / "00000-ab.metadata.json").write_text(json.dumps(members))


@damage("v2", by=Broken.edit)
def r007_an_unknown_transform(members: Members) -> None:
    members["partition-specs"].append(
        {
            "spec-id": 1,
            "fields": [{"source-id": 1, "field-id": 1001, "name": "x", "transform": "curve[3]"}],
        }
    )
    members["last-partition-id"] = 1001


in_metadata("r011_no_last_partition_id", lambda m: m.pop("last-partition-id"))
in_metadata("r012_no_partition_spec", lambda m: m.pop("partition-spec"), table="v1")
in_metadata("r014_a_column_id_above_the_last", lambda m: m.update({"last-column-id": 3}))


@damage("v2", by=Broken.edit)
def r015_main_elsewhere_than_the_current_snapshot(members: Members) -> None:
    members["refs"]["main"]["snapshot-id"] = members["snapshots"][0]["snapshot-id"]


in_metadata(
    "r016_no_snapshot_as_minus_one",
    lambda m: m.update({"current-snapshot-id": -1}),
    table="v3-empty",
)
in_metadata("r017_updated_before_the_newest_snapshot", lambda m: m.update({"last-updated-ms": 1}))


@damage("v2", by=Broken.edit)
def r019_a_reserved_field_id(members: Members) -> None:
    extra = {"id": 2147483646, "name": "_file", "type": "string", "required": False}
    members["schemas"][0]["fields"].append(extra)
    members["last-column-id"] = 2147483646


in_metadata("r022_a_ref_to_a_lost_snapshot", lambda m: m["refs"]["eoy"].update({"snapshot-id": 5}))


@damage("v2", level="files")
def r024_a_logged_file_that_is_gone(broken: Broken) -> None:
    Path(broken.members()["metadata-log"][0]["metadata-file"]).unlink()


in_metadata(
    "r025_a_snapshot_log_out_of_order",
    lambda m: m["snapshot-log"][0].update({"timestamp-ms": 9_999_999_999_999}),
)
in_metadata(
    "r026_a_gap_in_the_snapshot_log", lambda m: m["snapshot-log"][1].update({"snapshot-id": 5})
)
in_metadata(
    "r027_a_tag_with_the_retention_of_a_branch",
    lambda m: m["refs"]["eoy"].update({"min-snapshots-to-keep": 2}),
)
in_head(
    "r030_a_snapshot_that_is_its_own_parent",
    lambda head: head.update({"parent-snapshot-id": head["snapshot-id"]}),
)
in_head(
    "r031_totals_that_are_not_those_of_the_manifests",
    lambda head: head["summary"].update({"total-records": "5"}),
)


@damage("v1")
def r033_a_negative_snapshot_id(broken: Broken) -> None:
    def change(members: Members) -> None:
        old = members["snapshots"][1]["snapshot-id"]
        members["snapshots"][1]["snapshot-id"] = -7
        for snapshot in members["snapshots"]:
            if snapshot.get("parent-snapshot-id") == old:
                snapshot["parent-snapshot-id"] = -7
        for entry in [*members["snapshot-log"], *members["refs"].values()]:
            if entry["snapshot-id"] == old:
                entry["snapshot-id"] = -7

    broken.edit(change)
    for path in broken.lists():
        rewrite_avro(path, lambda _: None, header=lambda metadata: metadata.clear())


@damage("v1")
def r035_a_sequence_number_in_version_1(broken: Broken) -> None:
    broken.edit_head(lambda head: head.update({"sequence-number": 4}))
    broken.edit(lambda members: members.update({"last-sequence-number": 4}))


@damage("v2")
def r040_two_snapshots_of_one_sequence_number(broken: Broken) -> None:
    first = broken.members()["snapshots"][0]

    def change(members: Members) -> None:
        twin = first | {"snapshot-id": 77, "timestamp-ms": first["timestamp-ms"] + 1}
        members["snapshots"].append(twin)

    broken.edit(change)
    for path in {*broken.lists()}:
        rewrite_avro(path, lambda _: None, header=lambda metadata: metadata.clear())


@damage("v1", by=Broken.edit)
def r055_embedded_manifests_after_version_1(members: Members) -> None:
    for snapshot in members["snapshots"]:
        rows = read_records(Path(snapshot.pop("manifest-list")))
        snapshot["manifests"] = [row["manifest_path"] for row in rows]
    members["format-version"] = 2
    members["last-sequence-number"] = 0


@damage("v2", by=Broken.edit)
def r077_a_partition_field_name_used_twice(members: Members) -> None:
    again = {"source-id": 1, "field-id": 1001, "name": "a", "transform": "identity"}
    more = again | {"field-id": 1002, "source-id": 3}
    members["partition-specs"].append({"spec-id": 1, "fields": [again, more]})
    members["last-partition-id"] = 1002


@damage("v2", by=Broken.edit)
def r080_a_source_column_that_is_in_no_schema(members: Members) -> None:
    members["partition-specs"].append(
        {
            "spec-id": 1,
            "fields": [{"source-id": 99, "field-id": 1001, "name": "x", "transform": "identity"}],
        }
    )
    members["last-partition-id"] = 1001
    members["default-spec-id"] = 1


in_metadata(
    "r084_a_default_sort_order_that_is_absent", lambda m: m.update({"default-sort-order-id": 3})
)


@damage("v2", by=Broken.edit)
def r097_a_column_that_became_another_type(members: Members) -> None:
    schema = json.loads(json.dumps(members["schemas"][0])) | {"schema-id": 1}
    schema["fields"][4]["type"] = "date"
    members["schemas"].append(schema)


in_head(
    "r101_row_ids_below_those_of_the_parent",
    lambda head: head.update({"first-row-id": 0}),
    table="v3",
)
in_metadata(
    "r104_row_ids_above_the_next", lambda m: m.update({"next-row-id": 13}), "R-102", table="v3"
)


@damage("v2")
def r141_statistics_of_a_lost_snapshot(broken: Broken) -> None:
    entry = {
        "snapshot-id": 5, "statistics-path": "/nowhere.stats", "file-size-in-bytes": 9,
        "file-footer-size-in-bytes": 5, "blob-metadata": [],
    }  # fmt: skip
    broken.edit(lambda members: members.update({"statistics": [entry]}))


@damage("v2", level="files")
def r140_a_statistics_file_of_another_size(broken: Broken) -> None:
    path = broken.directory / "metadata" / "some.stats"
    path.write_bytes(b"PFA1PFA1{}")
    entry = {
        "snapshot-id": broken.head()["snapshot-id"], "statistics-path": str(path),
        "file-size-in-bytes": 99, "file-footer-size-in-bytes": 5, "blob-metadata": [],
    }  # fmt: skip
    broken.edit(lambda members: members.update({"statistics": [entry]}))


@damage("v2")
def r142_two_partition_statistics_of_a_snapshot(broken: Broken) -> None:
    entry = {
        "snapshot-id": broken.head()["snapshot-id"], "statistics-path": "/a",
        "file-size-in-bytes": 9,
    }  # fmt: skip
    both = [entry, entry | {"statistics-path": "/b"}]
    broken.edit(lambda members: members.update({"partition-statistics": both}))


@damage("v2", level="files")
def r162_a_version_written_twice(broken: Broken) -> None:
    current = current_metadata(broken.directory)
    name = current.name.replace(".metadata.json", ".gz.metadata.json")
    current.with_name(name).write_bytes(current.read_bytes())


@damage("v2")
def r163_a_version_hint_that_is_behind(broken: Broken) -> None:
    (broken.directory / "metadata" / "version-hint.text").write_text("1")


in_manifest("r164_a_relative_location_of_a_file", in_first_file(file_path="data/relative.parquet"))


@damage("v2", by=Broken.edit)
def r177_a_type_of_a_later_version(members: Members) -> None:
    extra = {"id": 6, "name": "late", "type": "timestamp_ns", "required": False}
    members["schemas"][0]["fields"].append(extra)
    members["last-column-id"] = 6


in_metadata(
    "r181_a_name_mapping_that_is_no_list",
    lambda m: m["properties"].update({"schema.name-mapping.default": "{}"}),
)
in_metadata(
    "r182_a_default_before_version_3",
    lambda m: m["schemas"][0]["fields"][4].update({"initial-default": "x"}),
)


def _add_column(members: Members, kind: str, **more: Any) -> int:
    """An optional column, which no data file has; its id."""
    id_ = members["last-column-id"] + 1
    column = {"id": id_, "name": f"c{id_}", "type": kind, "required": False} | more
    for schema in members["schemas"]:
        schema["fields"].append(column)
    members["last-column-id"] = id_
    return id_


in_metadata(
    "r182_a_default_of_a_shape",
    lambda m: _add_column(m, "geometry", **{"write-default": "POINT (1 2)"}),
    table="v3",
)


def _partition_by(kind: str) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        field_id = members["last-partition-id"] + 1
        source = {"source-id": _add_column(members, kind), "field-id": field_id}
        fields = [source | {"name": "x", "transform": "identity"}]
        members["partition-specs"].append({"spec-id": 9, "fields": fields})
        members["last-partition-id"] = field_id

    return change


in_metadata("r208_a_partition_by_shapes", _partition_by("geography(OGC:CRS84, karney)"), table="v3")


@damage("v3", by=Broken.edit)
def r208_a_sort_order_by_variants(members: Members) -> None:
    key = {"source-id": _add_column(members, "variant"), "transform": "identity"}
    key |= {"direction": "asc", "null-order": "nulls-first"}
    members["sort-orders"].append({"order-id": 9, "fields": [key]})


in_metadata(
    "r184_an_optional_identifier_field",
    lambda m: m["schemas"][0].update({"identifier-field-ids": [2]}),
)
in_head("r185_a_snapshot_of_a_lost_schema", lambda head: head.update({"schema-id": 9}))


# -- manifest lists -----------------------------------------------------------------------------


@damage("v2")
def r034_a_manifest_that_is_missing(broken: Broken) -> None:
    Path(broken.manifests(1)[0]["manifest_path"]).unlink()


@damage("v2", level="files")
def r034_a_data_file_that_is_missing(broken: Broken) -> None:
    Path(broken.entries()[0]["data_file"]["file_path"]).unlink()


@damage("v2", "R-044", by=Broken.edit_head_list)
def r041_a_manifest_numbered_above_its_snapshot(rows: list[Record]) -> None:
    rows[0]["sequence_number"] += 1


@damage("v2", by=Broken.edit_head_list)
def r047_a_least_sequence_number_above_that_of_an_entry(rows: list[Record]) -> None:
    row = next(r for r in rows if r["existing_files_count"])
    row["min_sequence_number"] = row["sequence_number"]


@damage("v2")
def r050_a_length_that_is_not_the_file_s(broken: Broken) -> None:
    broken.edit_head_list(lambda rows: rows[0].update({"manifest_length": 5}))


in_list("r050_a_manifest_that_is_listed_twice", lambda rows: [*rows, rows[-1]], "R-066")


@damage("v2")
def r051_a_count_that_is_not_that_of_the_entries(broken: Broken) -> None:
    broken.edit_head_list(lambda rows: rows[0].update({"added_rows_count": 99}))


@damage("v2")
def r052_a_spec_that_is_not_in_the_table(broken: Broken) -> None:
    def change(rows: list[Record]) -> None:
        rows[0]["partition_spec_id"] = 9

    path = broken.manifests(1)[0]["manifest_path"]
    broken.edit_manifest(
        lambda _: None,
        content=1,
        holding=lambda _: True,
        header=lambda metadata: metadata.update({"partition-spec-id": "9"}),
    )
    broken.edit_lists(
        lambda row: row.update({"partition_spec_id": 9}) if row["manifest_path"] == path else None
    )


@damage("v2", by=Broken.edit_head_list)
def r053_a_summary_that_excludes_a_partition(rows: list[Record]) -> None:
    row = next(r for r in rows if r["content"] == 0 and r["existing_files_count"])
    row["partitions"][0]["upper_bound"] = b"a"


@damage("v2")
def r054_a_list_header_of_another_snapshot(broken: Broken) -> None:
    path = Path(broken.head()["manifest-list"])
    rewrite_avro(path, lambda _: None, header=lambda m: m.update({"snapshot-id": "5"}))


@damage("v3", by=Broken.edit_head_list)
def r102_a_data_manifest_without_row_ids(rows: list[Record]) -> None:
    next(r for r in rows if r["content"] == 0)["first_row_id"] = None


@damage("v2")
def r171_a_row_without_counts(broken: Broken) -> None:
    path = Path(broken.head()["manifest-list"])
    rewrite_avro(
        path,
        lambda rows: rows[0].update({"added_files_count": None}),
        schema=optional("added_files_count"),
    )


# -- manifests ----------------------------------------------------------------------------------


@damage("v2")
def r042_an_entry_without_any_snapshot_id(broken: Broken) -> None:
    path = broken.edit_manifest(
        in_first(lambda entry: entry.update({"snapshot_id": None})), schema=optional("snapshot_id")
    )
    for listed in broken.lists():
        rewrite_avro(
            listed,
            lambda rows: [
                row | ({"added_snapshot_id": None} if row["manifest_path"] == path else {})
                for row in rows
            ],
            schema=optional("added_snapshot_id"),
        )


in_manifest(
    "r043_an_existing_entry_without_a_sequence_number",
    in_first(lambda entry: entry.update({"sequence_number": None}), status=EXISTING),
    holding=lambda entry: entry["status"] == EXISTING,
)
in_manifest(
    "r044_a_sequence_number_above_the_manifest_s",
    in_first(lambda entry: entry.update({"sequence_number": 99}), status=EXISTING),
    holding=lambda entry: entry["status"] == EXISTING,
)


@damage("v1")
def r048_sequence_numbers_in_version_1(broken: Broken) -> None:
    def add(stored: Any) -> None:
        number = {"name": "sequence_number", "type": ["null", "long"], "field-id": 3}
        stored["fields"].insert(2, number)

    broken.edit_manifest(in_first(lambda e: e.update({"sequence_number": 1})), schema=add)


@damage("v2")
def r056_a_manifest_of_nothing_but_deleted_entries(broken: Broken) -> None:
    row = dict(broken.manifests()[0])
    oldest = broken.members()["snapshots"][0]
    number, old = oldest["sequence-number"], oldest["snapshot-id"]
    path = Path(row["manifest_path"]).with_name("left-over.avro")
    path.write_bytes(Path(row["manifest_path"]).read_bytes())
    gone = {"status": DELETED, "snapshot_id": old}
    numbers = {"sequence_number": number, "file_sequence_number": number}
    rewrite_avro(path, lambda entries: [entry | gone | numbers for entry in entries])
    entries = read_records(path)
    left_over = row | {
        "manifest_path": str(path),
        "manifest_length": path.stat().st_size,
        "added_snapshot_id": old,
        "sequence_number": number,
        "min_sequence_number": number,
        "added_files_count": 0,
        "added_rows_count": 0,
        "existing_files_count": 0,
        "existing_rows_count": 0,
        "deleted_files_count": len(entries),
        "deleted_rows_count": sum(entry["data_file"]["record_count"] for entry in entries),
    }
    broken.edit_head_list(lambda rows: [*rows, left_over])


in_manifest(
    "r060_a_header_without_a_schema", lambda _: None, header=lambda metadata: metadata.pop("schema")
)
in_manifest(
    "r061_a_header_of_the_other_content",
    lambda _: None,
    header=lambda m: m.update({"content": "deletes"}),
)
in_manifest(
    "r062_an_entry_without_a_snapshot_in_version_1",
    in_first(lambda entry: entry.update({"snapshot_id": None})),
    table="v1",
    schema=optional("snapshot_id"),
)
in_manifest("r063_an_unknown_file_format", in_first_file(file_format="LANCE"))


@damage("v2")
def r212_a_length_before_each_fixed_partition_value(broken: Broken) -> None:
    def of_type_fixed(members: Members) -> None:
        for schema in members["schemas"]:
            schema["fields"][1]["type"] = "fixed[2]"

    def copy_fixed(header: dict[str, str]) -> None:
        copied = json.loads(header["schema"])
        copied["fields"][1]["type"] = "fixed[2]"
        header["schema"] = json.dumps(copied)

    def say_fixed(schema: Any) -> None:
        file = next(one["type"] for one in schema["fields"] if one["name"] == "data_file")
        partition = next(one["type"] for one in file["fields"] if one["name"] == "partition")
        partition["fields"][0]["type"] = ["null", {"type": "fixed", "name": "fixed_2", "size": 2}]

    broken.edit(of_type_fixed)  # of the column `category`, by which the table is partitioned
    listed = {row["manifest_path"] for one in broken.lists() for row in read_records(one)}
    for path in map(Path, listed):
        rewrite_avro(path, lambda _: None, header=copy_fixed)
        # A text has its length before it too: nothing but the schema changes.
        path.write_bytes(other_schema(path.read_bytes(), say_fixed))
    sizes = {path: Path(path).stat().st_size for path in listed}
    broken.edit_lists(lambda row: row.update({"manifest_length": sizes[row["manifest_path"]]}))


@damage("v2", level="files")
def r063_a_file_of_another_size(broken: Broken) -> None:
    def change(entry: Record) -> None:
        entry["data_file"]["file_size_in_bytes"] += 1

    broken.edit_manifest(in_first(change))
    _refit_summaries(broken)


def _refit_summaries(broken: Broken) -> None:
    """Take totals that no longer hold out of the summaries."""

    def change(members: Members) -> None:
        for snapshot in members["snapshots"]:
            summary = snapshot["summary"]
            snapshot["summary"] = {
                key: value for key, value in summary.items() if not key.startswith("total-")
            }

    broken.edit(change)


@damage("v2", level="footers")
def r063_a_record_count_that_is_not_the_file_s(broken: Broken) -> None:
    def change(entry: Record) -> None:
        entry["data_file"]["record_count"] += 1

    broken.edit_manifest(in_first(change))
    _refit_summaries(broken)


@damage("v2")
def r066_a_file_live_twice(broken: Broken) -> None:
    broken.edit_manifest(lambda entries: [*entries, next(filter(is_live, entries))])
    _refit_summaries(broken)


in_manifest(
    "r064_an_added_entry_of_another_snapshot",
    in_first(lambda entry: entry.update({"snapshot_id": 7}), status=ADDED),
    holding=lambda entry: entry["status"] == ADDED,
)


@damage("v2")
def r067_split_offsets_that_do_not_ascend(broken: Broken) -> None:
    broken.edit_manifest(in_first_file(split_offsets=[9, 4]))


@damage("v2")
def r068_partitions_with_the_ids_of_another_spec(broken: Broken) -> None:
    def renumber(stored: Any) -> None:
        data_file = next(field for field in stored["fields"] if field["name"] == "data_file")
        partition = next(f for f in data_file["type"]["fields"] if f["name"] == "partition")
        partition["type"]["fields"][0]["field-id"] = 1999

    broken.edit_manifest(lambda _: None, schema=renumber)


@damage("v2-bucket")
def r071_a_partition_value_of_another_type(broken: Broken) -> None:
    def as_text(stored: Any) -> None:
        data_file = next(f for f in stored["fields"] if f["name"] == "data_file")["type"]
        partition = next(f for f in data_file["fields"] if f["name"] == "partition")["type"]
        partition["fields"][0]["type"] = ["null", "bytes"]

    def change(entries: list[Record]) -> None:
        for entry in entries:
            entry["data_file"]["partition"] = {"id_bucket": b"x"}

    broken.edit_manifest(change, schema=as_text)


@damage("v2")
def r091_a_bound_of_no_length_of_its_type(broken: Broken) -> None:
    def change(entry: Record) -> None:
        bounds = entry["data_file"]["lower_bounds"]
        entry["data_file"]["lower_bounds"] = [
            bound | ({"value": b"\x01\x02\x03"} if bound["key"] == 1 else {}) for bound in bounds
        ]

    broken.edit_manifest(in_first(change))


@damage("v2")
def r092_a_lower_bound_above_the_upper(broken: Broken) -> None:
    def change(entry: Record) -> None:
        for bound in entry["data_file"]["lower_bounds"]:
            if bound["key"] == 1:
                bound["value"] = struct.pack("<q", 10**6)

    broken.edit_manifest(in_first(change))


@damage("v3")
def r093_a_bound_of_shapes_without_y(broken: Broken) -> None:
    id_: list[int] = []
    broken.edit(lambda members: id_.append(_add_column(members, "geometry(srid:0)")))

    def change(entry: Record) -> None:
        entry["data_file"]["lower_bounds"].append(
            {"key": id_[0], "value": struct.pack("<2d", 1, float("nan"))}
        )

    broken.edit_manifest(in_first(change))


@damage("v2", level="footers")
def r092_bounds_that_exclude_rows(broken: Broken) -> None:
    def change(entry: Record) -> None:
        file = entry["data_file"]
        upper = next(b["value"] for b in file["upper_bounds"] if b["key"] == 1)
        for bound in file["lower_bounds"]:
            if bound["key"] == 1:
                bound["value"] = upper

    broken.edit_manifest(
        in_first(change),
        holding=lambda entry: is_live(entry) and entry["data_file"]["record_count"] > 1,
    )


@damage("v3")
def r103_row_ids_that_two_files_have(broken: Broken) -> None:
    def change(entries: list[Record]) -> None:
        for entry in entries:
            entry["data_file"]["first_row_id"] = 3
            entry["status"] = EXISTING
            entry["snapshot_id"] = entry["snapshot_id"] or 7
            entry["sequence_number"] = entry["sequence_number"] or 1
            entry["file_sequence_number"] = entry["file_sequence_number"] or 1

    path = broken.edit_manifest(change)

    def least(row: Record) -> None:
        if row["manifest_path"] == path:
            row["min_sequence_number"] = min(row["min_sequence_number"], 1)

    broken.edit_lists(least)


@damage("v2")
def r130_more_nulls_than_values(broken: Broken) -> None:
    def change(entry: Record) -> None:
        for count in entry["data_file"]["null_value_counts"]:
            count["value"] = 99

    broken.edit_manifest(in_first(change))


@damage("v2", level="footers")
def r130_a_null_count_that_is_not_the_file_s(broken: Broken) -> None:
    def change(entry: Record) -> None:
        for count in entry["data_file"]["null_value_counts"]:
            if count["key"] == 5:
                count["value"] = 1 if count["value"] == 0 else 0

    broken.edit_manifest(in_first(change))


@damage("v2")
def r134_a_value_count_that_is_not_the_count_of_rows(broken: Broken) -> None:
    def change(entry: Record) -> None:
        for count in entry["data_file"]["value_counts"]:
            count["value"] += 1

    broken.edit_manifest(in_first(change))


in_manifest("r133_column_sizes_of_an_avro_file", in_first_file(file_format="AVRO"), "R-095")
in_manifest("r161_a_file_outside_of_the_table", in_first_file(file_path="/elsewhere/a.parquet"))


# -- deletes ------------------------------------------------------------------------------------


@damage("v2", "R-177", by=Broken.edit)
def r120_deletes_in_version_1(members: Members) -> None:
    members["format-version"] = 1
    members["schema"] = members["schemas"][0]
    members["partition-spec"] = members["partition-specs"][0]["fields"]
    for snapshot in members["snapshots"]:
        snapshot["sequence-number"] = 0


@damage("v3")
def r122_a_new_position_delete_file_in_version_3(broken: Broken) -> None:
    def change(entry: Record) -> None:
        entry["data_file"].update(
            file_format="PARQUET", content_offset=None, content_size_in_bytes=None
        )

    broken.edit_manifest(in_first(change), content=1)
    _refit_summaries(broken)


@damage(
    "v2",
    by=Broken.edit_manifest,
    content=1,
    holding=lambda e: e["data_file"]["content"] == EQUALITY_DELETES,
)
def r123_an_equality_delete_of_an_unknown_column(entries: list[Record]) -> None:
    for entry in entries:
        entry["data_file"]["equality_ids"] = [99]


@damage(
    "v2",
    level="footers",
    by=Broken.edit_manifest,
    content=1,
    holding=lambda e: e["data_file"]["content"] == EQUALITY_DELETES,
)
def r123_an_equality_delete_without_its_column(entries: list[Record]) -> None:
    for entry in entries:
        entry["data_file"]["equality_ids"] = [2]


@damage("v3", "R-211", by=Broken.edit_manifest, content=1)
def r114_two_vectors_for_a_file(entries: list[Record]) -> None:
    entries[1]["data_file"]["referenced_data_file"] = entries[0]["data_file"][
        "referenced_data_file"
    ]


@damage("v3")
def r116_a_vector_without_its_data_file(broken: Broken) -> None:
    broken.edit_manifest(
        in_first_file(referenced_data_file=f"{broken.directory}/data/gone.parquet"), content=1
    )


@damage("v3")
def r118_a_vector_without_its_place(broken: Broken) -> None:
    broken.edit_manifest(in_first_file(content_size_in_bytes=None), content=1)
    _refit_summaries(broken)


@damage("v3", level="footers")
def r118_a_cardinality_that_is_not_the_vector_s(broken: Broken) -> None:
    def change(entry: Record) -> None:
        entry["data_file"]["record_count"] += 1

    broken.edit_manifest(in_first(change), content=1)
    _refit_summaries(broken)


@damage("v3", level="footers")
def r119_a_vector_with_a_wrong_checksum(broken: Broken) -> None:
    file = broken.entries(1)[0]["data_file"]
    path = Path(file["file_path"])
    content = bytearray(path.read_bytes())
    content[file["content_offset"] + file["content_size_in_bytes"] - 1] ^= 1
    path.write_bytes(content)


@damage("v3")
def r211_a_vector_of_another_partition(broken: Broken) -> None:
    def change(entry: Record) -> None:
        entry["data_file"]["partition"] = {"category": "c9"}

    path = broken.edit_manifest(in_first(change), content=1)

    def widen(row: Record) -> None:
        if row["manifest_path"] == path:
            row["partitions"][0]["upper_bound"] = b"c9"

    broken.edit_lists(widen)


def _refit_size(entry: Record, path: Path) -> None:
    entry["data_file"]["file_size_in_bytes"] = path.stat().st_size
    entry["data_file"]["split_offsets"] = None


def _rewrite_deletes(broken: Broken, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write the rows of the position delete file with the most of them anew."""
    chosen = max(
        (e for e in broken.entries(1) if e["data_file"]["content"] == POSITION_DELETES),
        key=lambda entry: entry["data_file"]["record_count"],
    )
    path = Path(chosen["data_file"]["file_path"])
    pq.write_table(change(pq.read_table(path)), path)

    broken.edit_everywhere(path, lambda entry: _refit_size(entry, path))
    _refit_summaries(broken)


@damage("v2", level="footers")
def r099_a_footer_that_crashes_its_reader(broken: Broken) -> None:
    """A column called required whose histogram knows nulls: pyarrow 26 aborts its process."""
    entry = next(
        e
        for row in broken.manifests()
        for e in read_records(Path(row["manifest_path"]))
        if is_live(e)
    )
    path = Path(entry["data_file"]["file_path"])
    optional, required = b"\x25\x02\x18", b"\x25\x00\x18"
    content = path.read_bytes()
    assert optional in content
    path.write_bytes(content.replace(optional, required, 1))


@damage("v2", level="footers")
def r121_positions_behind_the_end_of_the_file(broken: Broken) -> None:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("pos")
        moved = pa.array([value.as_py() + 1000 for value in table["pos"]], pa.int64())
        return table.set_column(at, table.schema.field(at), moved)

    _rewrite_deletes(broken, change)


@damage("v2", level="footers")
def r111_deletes_that_name_no_live_file(broken: Broken) -> None:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("file_path")
        gone = pa.array(["/elsewhere/gone.parquet"] * len(table), pa.string())
        return table.set_column(at, table.schema.field(at), gone)

    _rewrite_deletes(broken, change)


# -- rows ---------------------------------------------------------------------------------------


def _another_partition(broken: Broken, name: str, values: tuple[Any, Any]) -> None:
    """Give a data file without deletes one of two other partition values, and widen summaries."""
    deleted = [one["data_file"]["partition"] for one in broken.entries(1)]
    files = [one["data_file"] for one in broken.entries()]
    chosen = next(one for one in files if one["partition"] not in deleted)
    value = next(one for one in values if one != chosen["partition"][name])

    def is_chosen(entry: Record) -> bool:
        return is_live(entry) and bool(entry["data_file"]["file_path"] == chosen["file_path"])

    def change(entries: list[Record]) -> None:
        for entry in filter(is_chosen, entries):
            entry["data_file"]["partition"] = {name: value}

    path = broken.edit_manifest(change, holding=is_chosen)

    def widen(row: Record) -> None:
        if row["manifest_path"] == path:
            found = [e["data_file"]["partition"][name] for e in read_records(Path(path))]
            known = sorted(one for one in found if one is not None)
            known = [one.toordinal() - 719163 if isinstance(one, date) else one for one in known]
            lower, upper = (
                one.encode() if isinstance(one, str) else struct.pack("<i", one)
                for one in (known[0], known[-1])
            )
            row["partitions"][0].update(lower_bound=lower, upper_bound=upper)

    broken.edit_lists(widen)


@damage("v2")
def r071_an_identity_partition_of_other_rows(broken: Broken) -> None:
    _another_partition(broken, "category", ("c9", "c8"))


@damage("v2-day")
def r072_a_day_partition_of_other_rows(broken: Broken) -> None:
    _another_partition(broken, "at_day", (date(1970, 1, 4), date(1970, 1, 5)))


@damage("v2-bucket", level="footers")
def r073_a_bucket_of_other_rows(broken: Broken) -> None:
    _another_partition(broken, "id_bucket", (2, 3))


@damage("v2-truncate")
def r074_a_truncation_of_other_rows(broken: Broken) -> None:
    _another_partition(broken, "note_prefix", ("other", "others"))


@damage("v2", level="footers")
def r099_a_data_file_that_is_no_parquet_file(broken: Broken) -> None:
    path = Path(broken.entries()[0]["data_file"]["file_path"])
    path.write_bytes(b"x" * path.stat().st_size)


@damage("v2", level="data")
def r099_pages_of_zeros_before_a_footer(broken: Broken) -> None:
    """Every page of a data file is zeroed; what its footer says still proves its entry."""
    path = Path(broken.entries()[0]["data_file"]["file_path"])
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    pages = bytes(len(content) - footer - 4)
    path.write_bytes(content[:4] + pages + content[-footer:])


@damage("v2", level="data")
def r099_pages_of_zeros_before_the_footer_of_deletes(broken: Broken) -> None:
    entry = next(
        e for e in broken.entries(content=1) if e["data_file"]["content"] == EQUALITY_DELETES
    )
    path = Path(entry["data_file"]["file_path"])
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(content[:4] + bytes(len(content) - footer - 4) + content[-footer:])


def _with_row_ids(broken: Broken, ids: list[int], numbers: list[int]) -> None:
    """Store row ids, and when rows were updated, in the first data file of two rows or more."""
    chosen = next(e for e in broken.entries() if e["data_file"]["record_count"] > 1)
    path = Path(chosen["data_file"]["file_path"])
    table = pq.read_table(path)
    count = table.num_rows
    for name, id_, values in (
        ("_row_id", 2147483540, ids),
        ("_last_updated_sequence_number", 2147483539, numbers),
    ):
        column = pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(id_)})
        table = table.append_column(column, pa.array((values * count)[:count], pa.int64()))
    pq.write_table(table, path)

    broken.edit_everywhere(path, lambda entry: _refit_size(entry, path))
    _refit_summaries(broken)


@damage("v2", level="footers")
def r095_a_column_of_another_type(broken: Broken) -> None:
    path = Path(broken.entries()[0]["data_file"]["file_path"])
    table = pq.read_table(path)
    stored = table.schema.field(0)
    text = pa.field(stored.name, pa.string(), metadata=stored.metadata)
    pq.write_table(table.set_column(0, text, table.column(0).cast(pa.string())), path)
    broken.edit_everywhere(path, lambda entry: _refit_size(entry, path))


@damage("v3", level="footers")
def r100_a_row_id_stored_twice(broken: Broken) -> None:
    _with_row_ids(broken, [3, 3], [1])


@damage("v3", level="footers")
def r105_a_row_updated_after_its_file(broken: Broken) -> None:
    _with_row_ids(broken, [0, 1, 2, 3, 4, 5, 6, 7], [99])
