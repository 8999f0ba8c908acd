"""What entries state of files, read for some of the live ones."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from icectl.commands.rows.delete import delete, where
from icectl.commands.rows.write import append
from icectl.entries.conditions import parse_where
from icectl.entries.rows import Entries, by_row, data_files, delete_files, live, take
from icectl.errors import CorruptTable
from icectl.files.metadata_file import read_metadata
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.types import NestedField, PrimitiveType, StructType, Type
from icectl.storage.local.store import LocalStore
from icectl.table.live_files import (
    LiveFiles,
    every_column,
    load_live_files,
    load_since,
    load_stated,
    name_mapping,
    with_stated,
)
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from icectl.table.rewrite_tasks import DeleteFile, InputFile, MergeDeletesTask
from tests.builders.broken import Broken, in_first
from tests.builders.expiry import context_of
from tests.builders.inline_rows import InlineFinder, InlineFrame, rows_of, tree, way_to
from tests.builders.rows import current_metadata
from tests.builders.table_builder import SCHEMA, TableBuilder, filled_table
from tests.builders.tree_table import upgrade
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore

POSITION_OF_ROW = 2_147_483_545


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Three data files and two delete files, in a manifest each; a fourth file is removed."""
    table = TableBuilder(tmp_path / "t", partitioning="none")
    for start in (0, 10, 20, 30):
        table.append(range(start, start + 10))
    table.delete_rows([11])
    table.delete_rows([22], kind="equality")
    table.remove_data_files(1)
    return table


def loaded(table: TableBuilder) -> tuple[TableMetadata, tuple[ManifestFile, ...], Entries]:
    metadata = read_metadata(Path(table.metadata_location).read_bytes())
    assert metadata.current_snapshot is not None
    store = LocalStore()
    manifests = read_snapshot_manifests(store, metadata, metadata.current_snapshot)
    columns = frozenset({"location", "content", "status", "manifest"})
    entries = load_entries(context_of(store=store), metadata, manifests, columns)
    return metadata, manifests, live(entries)


def test_what_entries_state_is_read_of_files_that_are_wanted(table):
    metadata, manifests, entries = loaded(table)
    store = CountingStore(LocalStore())
    wanted = [take(data_files(entries), [0, 2]), delete_files(entries)]
    stated = load_stated(context_of(store=store), metadata, manifests, wanted)
    rows = {row["location"]: row for row in table.live()}
    locations = [place for one in wanted for place in one.table["location"].to_pylist()]
    assert sorted(stated) == sorted(locations)
    assert sum(store.counts.values()) == len(locations)  # a manifest each
    for location, one in stated.items():
        row = rows[location]
        assert one.size_bytes == row["file_size_in_bytes"]
        assert one.metrics.record_count == row["record_count"]
        assert one.has_deletes is (row["content"] != Content.DATA)
        columns = [column.id for column in one.columns]
        by_position = row["content"] == Content.POSITION_DELETES
        expected = [POSITION_OF_ROW] if by_position else [field.id for field in SCHEMA.fields]
        assert columns == expected
        for name in ("lower_bounds", "value_counts", "column_sizes"):
            own = {id_: value for id_, value in dict(row[name] or {}).items() if id_ in columns}
            assert getattr(one.metrics, name) == own


def test_tasks_know_what_is_stated_of_their_files(table):
    metadata, manifests, entries = loaded(table)
    stated = load_stated(context_of(), metadata, manifests, [entries])
    data, deletes = (
        part.table["location"].to_pylist() for part in (data_files(entries), delete_files(entries))
    )
    inputs = [InputFile(at, FileFormat.PARQUET, 1, 1, 0, b"", 1) for at in (data[0], "other")]
    file = DeleteFile(deletes[0], FileFormat.PARQUET, 1, 1, 1, 0, b"")
    task = MergeDeletesTask("0", 0, tuple(inputs), (file,), "positions")
    (told,) = with_stated([task], stated)
    assert told == task
    assert [one.stated for one in told.inputs] == [stated[data[0]], None]
    assert [one.stated for one in told.delete_files] == [stated[deletes[0]]]


def live_files(
    table: TableBuilder, store: CountingStore, earlier: LiveFiles | None = None
) -> LiveFiles:
    metadata = read_metadata(Path(table.metadata_location).read_bytes())
    context, snapshot = context_of(store=store), metadata.current_snapshot
    if earlier is None:
        return load_live_files(context, metadata, snapshot, {}, no_names)
    return load_since(context, metadata, snapshot, no_names, earlier)


def told(files: LiveFiles) -> set[tuple[object, ...]]:
    """What entries say, with the manifest that each is of."""
    names = sorted(set(files.entries.table.column_names) - {"manifest", "split_offsets"})
    return {
        (files.manifests[manifest].manifest_path, *map(str, row))
        for manifest, *row in by_row(files.entries, "manifest", *names)
    }


def places(files: LiveFiles) -> list[tuple[int, int]]:
    return list(by_row(files.entries, "manifest", "manifest_pos"))


def test_of_a_later_snapshot_only_other_manifests_are_read(table):
    earlier = live_files(table, CountingStore(LocalStore()))
    table.append(range(40, 50))
    table.delete_rows([31])
    table.remove_data_files(1)
    store = CountingStore(LocalStore())
    later, anew = live_files(table, store, earlier), live_files(table, CountingStore(LocalStore()))

    assert told(later) == told(anew)
    assert places(later) == sorted(places(later))
    known = {one.manifest_path for one in earlier.manifests}
    listed = {one.manifest_path for one in later.manifests}
    assert listed == {one.manifest_path for one in anew.manifests}
    read = {location for _, location in store.calls}
    assert known & listed
    assert listed - known
    assert listed & read == listed - known

    table.append(range(50, 60))
    again = live_files(table, CountingStore(LocalStore()), later)
    assert told(again) == told(live_files(table, CountingStore(LocalStore())))
    kept = [one for one in later.manifests if one in again.manifests]
    assert list(again.manifests) == [*kept, again.manifests[-1]]


def test_a_delete_file_that_came_is_of_the_data_file_that_its_bounds_name(tmp_path):
    table = filled_table(tmp_path / "t", range(10), partitioning="none")
    earlier = live_files(table, CountingStore(LocalStore()))
    table.delete_rows([3])
    later = live_files(table, CountingStore(LocalStore()), earlier)
    named = later.deletes.table["referenced_data_file"].to_pylist()
    assert named == earlier.data.table["location"].to_pylist()


def test_of_the_same_snapshot_no_manifest_is_read(table):
    earlier = live_files(table, CountingStore(LocalStore()))
    store = CountingStore(LocalStore())
    same = live_files(table, store, earlier)
    assert told(same) == told(earlier)
    assert not {one.manifest_path for one in same.manifests} & {place for _, place in store.calls}


def test_a_manifest_that_is_listed_in_another_way_is_read_again(table):
    earlier = live_files(table, CountingStore(LocalStore()))
    first, *others = earlier.manifests
    other = replace(earlier, manifests=(replace(first, first_row_id=7), *others))
    store = CountingStore(LocalStore())
    found = live_files(table, store, other)
    assert told(found) == told(earlier)
    read = {location for _, location in store.calls}
    assert {one.manifest_path for one in found.manifests} & read == {first.manifest_path}


def test_no_snapshot_has_no_files(table):
    found = load_live_files(context_of(), table.metadata, None, {}, lambda *_: {})
    assert (found.manifests, len(found.data), len(found.deletes)) == ((), 0, 0)


def test_r044_entries_that_are_newer_than_their_snapshot_are_not_taken(table):
    Broken(table.directory).edit_manifest(in_first(lambda entry: entry.update(sequence_number=99)))
    with pytest.raises(CorruptTable, match="R-044"):
        live_files(table, CountingStore(LocalStore()))


@pytest.mark.parametrize("text", [None, "id < 5"])
def test_a_delete_file_that_bounds_one_path_is_of_that_data_file(tmp_path, text):
    table = filled_table(tmp_path / "t", range(10), range(10, 20), partitioning="none")
    table.delete_rows([3])
    within = None if text is None else parse_where(text, table.metadata)
    snapshot = table.metadata.current_snapshot
    found = load_live_files(context_of(), table.metadata, snapshot, {}, no_names, within=within)
    first, _ = sorted(found.data.table["location"].to_pylist())
    assert found.deletes.table["referenced_data_file"].to_pylist() == [first]


def no_names(deletes: Entries, _: object) -> Mapping[str, Mapping[str, int]]:
    return {place: {} for (place,) in by_row(deletes, "location")}


def test_of_position_deletes_only_those_that_were_not_read_are(table):
    asked: list[str] = []

    def names(deletes: Entries, _: object) -> Mapping[str, Mapping[str, int]]:
        asked.extend(place for (place,) in by_row(deletes, "location"))
        return {place: {"/t/a": 2} for place in asked}

    def load(known: Mapping[str, Mapping[str, int]]) -> Mapping[str, Mapping[str, int]]:
        snapshot = table.metadata.current_snapshot
        return load_live_files(context_of(), table.metadata, snapshot, known, names).named_files

    table.delete_rows([1, 12])
    table.delete_rows([2, 13])
    first, second = load({})
    assert asked == [first, second]
    asked.clear()
    assert load({first: {"/t/b": 1}}) == {first: {"/t/b": 1}, second: {"/t/a": 2}}
    assert asked == [second]


def test_l2_older_position_deletes_of_version_4_name_files_with_a_scheme(tmp_path):
    table = filled_table(tmp_path / "t", range(10), files=2, partitioning="none")
    table.delete_rows([1, 8])
    upgrade(table.directory, FixedEnv(), "--lazy")
    metadata = read_metadata(current_metadata(table.directory).read_bytes())

    def names(deletes: Entries, _: object) -> Mapping[str, Mapping[str, int]]:
        (place,) = (place for (place,) in by_row(deletes, "location"))
        return {place: {"/t/a": 2, "file:/t/a": 1, "/t/b": 5}}

    found = load_live_files(context_of(), metadata, metadata.current_snapshot, {}, names)
    (named,) = found.named_files.values()
    assert named == {"file:/t/a": 3, "file:/t/b": 5}


def test_a_condition_leaves_out_leaves_with_their_files(tmp_path):
    one_each = {"icectl__v4__root__max_data_files": "0", "icectl__v4__leaf__max_entries": "1"}
    directory = tree(tmp_path / "t", **one_each)
    for start in (0, 10):
        append(
            way_to(directory), InlineFrame(rows_of(range(start, start + 10)), LocalStore()), "main"
        )
    for id_ in (1, 11):
        delete(way_to(directory), InlineFinder(LocalStore()), where(f"id = {id_}"), "main")
    context = way_to(directory)
    metadata = context.catalog.load().metadata

    def load(text: str | None) -> tuple[int, list[str], int, int]:
        within = None if text is None else parse_where(text, metadata)
        snapshot = metadata.current_snapshot
        found = load_live_files(context, metadata, snapshot, {}, no_names, within=within)
        return (
            sum(one.content is ManifestContent.DATA for one in found.manifests),
            found.data.table["location"].to_pylist(),
            found.unread_file_count,
            len(found.dangling),
        )

    leaves, data, *rest = load(None)
    assert (leaves, len(data), *rest) == (2, 2, 0, 0)
    assert load("id < 100") == (2, data, 0, 0)
    (one,) = load("id < 10")[1]
    assert one in data
    assert load("id < 10") == (1, [one], 1, 0)
    assert load("id > 100") == (0, [], 2, 0)


def nested(*names: str) -> StructType:
    text = PrimitiveType("string")
    ids = {"a": 11, "b": 12, "c": 13}
    return StructType(tuple(NestedField(ids[name], name, text, required=False) for name in names))


def with_schemas(*columns: dict[str, Type]) -> TableMetadata:
    """Metadata with these columns in schema after schema; the last is the current one."""
    ids = {"x": 1, "s": 2, "y": 3}
    schemas = tuple(
        Schema(
            at,
            tuple(NestedField(ids[name], name, one, required=False) for name, one in part.items()),
        )
        for at, part in enumerate(columns)
    )
    spec = PartitionSpec(0, ())
    return TableMetadata(2, None, "/t", 9, 0, 13, schemas, len(schemas) - 1, (spec,), 0, 999, (), 0)


def test_columns_that_only_older_schemas_have_come_behind_the_current_ones():
    long, text = PrimitiveType("long"), PrimitiveType("string")
    metadata = with_schemas(
        {"x": long, "s": nested("a", "b"), "y": text},
        {"s": nested("b", "c"), "x": long},
        {"s": nested("c"), "x": long},
    )
    columns = every_column(metadata)
    assert [item.name for item in columns.fields] == ["s", "x", "y"]
    assert columns.fields[0].type == nested("c", "b", "a")
    assert columns.schema_id == 2


@pytest.mark.parametrize("types", [("string", nested("a")), (nested("a"), "string")])
def test_a_column_that_was_no_struct_before_stays_as_it_is(types):
    before, now = (PrimitiveType(one) if isinstance(one, str) else one for one in types)
    assert [item.type for item in every_column(with_schemas({"s": before}, {"s": now})).fields] == [
        now
    ]


MAPPED = [{"field-id": 1, "names": ["x", "old"]}]


@pytest.mark.parametrize(
    ("text", "mapping"),
    [
        (None, ()), ("", ()), (json.dumps(MAPPED), MAPPED), ("{", ()), ("7", ()),
        (json.dumps(MAPPED * 2), ()), ("[" * 100_000, ()),
    ],
)  # fmt: skip
def test_r181_a_mapping_of_names_is_that_of_the_table_where_it_is_valid(text, mapping):
    metadata = with_schemas({"x": PrimitiveType("long")})
    properties = {} if text is None else {"schema.name-mapping.default": text}
    assert name_mapping(replace(metadata, properties=properties)) == mapping
