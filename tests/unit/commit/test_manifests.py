"""Manifests that are written for a commit: compared with their entries before they are stored."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from icectl.commit.manifests import ManifestWriter, WrittenManifest
from icectl.entries.columns import with_location_hashes
from icectl.entries.rows import PLANNING, Entries, as_existing, concat, numbers
from icectl.errors import CorruptTable, SelfCheckFailed
from icectl.files.manifest.write import ManifestForm
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile
from icectl.storage.local.store import LocalStore
from icectl.table.manifest_groups import PLANNED_COLUMNS
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from tests.builders.entry_rows import named
from tests.builders.expiry import context_of
from tests.builders.rows import read_avro
from tests.builders.table_builder import TableBuilder
from tests.stores.fixed_env import FixedEnv

VALUES: dict[str, Any] = {
    "location": "s3://elsewhere/1.parquet", "content": 2, "partition_key": b"\x01\x02\0\0\0c9",
    "record_count": 9, "content_offset": 5, "content_size_in_bytes": 6,
}  # fmt: skip
"""A value that no entry of the table has, for each compared column that is copied as bytes."""


def of_version_3(directory: Path) -> TableBuilder:
    table = TableBuilder(directory, format_version=3, partitioning="identity")
    for start in (0, 6):
        table.append(range(start, start + 6))
    table.delete_rows([1, 2])
    table.delete_rows([8])
    return table


def sources(
    table: TableBuilder, content: ManifestContent
) -> tuple[tuple[ManifestFile, ...], Entries]:
    """The manifests of one content, and their entries as new manifests have them."""
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    listed = read_snapshot_manifests(LocalStore(), table.metadata, snapshot)
    found = tuple(item for item in listed if item.content is content)
    return found, as_existing(load_entries(context_of(), table.metadata, found, PLANNED_COLUMNS))


def changed(entries: Entries, column: str, value: Any) -> Entries:
    """The entries with another value in the column of the last one."""
    at, values = entries.table.schema.get_field_index(column), entries.table[column].to_pylist()
    field = PLANNING.field(column)
    new = pa.array([*values[:-1], value], field.type)
    return Entries(entries.table.set_column(at, field, new))


def write(
    table: TableBuilder,
    content: ManifestContent,
    entries: Entries,
    announced: list[str],
    concurrency: int = 1,
) -> list[WrittenManifest]:
    """Write entries into one manifest for each of the manifests they come from."""

    def new_location(_: FileFormat) -> str:
        announced.append(f"{table.location}/metadata/new-m{len(announced)}.avro")
        return announced[-1]

    writer = ManifestWriter(
        context=context_of(env=FixedEnv(), concurrency=concurrency),
        form=ManifestForm(table.metadata.current_schema, table.spec, 3, content),
        target_size_bytes=1,
        new_location=new_location,
    )
    pieces = np.asarray(numbers(entries, "manifest"), np.int64)
    return list(writer.write(sources(table, content)[0], entries, pieces))


@pytest.mark.parametrize("content", ManifestContent)
@pytest.mark.parametrize("column", VALUES)
def test_r069_rule_22_a_manifest_that_differs_from_its_entries_is_not_stored(
    tmp_path, content, column
):
    if (content, column) == (ManifestContent.DATA, "content"):
        pytest.skip("R-061 refuses it before it is written")
    table = of_version_3(tmp_path / "t")
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    _, entries = sources(table, content)
    announced: list[str] = []
    wrong = changed(entries, column, VALUES[column])
    with pytest.raises(SelfCheckFailed, match=f"does not match its entries in {column}") as caught:
        write(table, content, wrong, announced)
    assert caught.value.rule == "R-069"
    # The manifest before it holds what it should.
    first, wrong_one = map(Path, announced)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} - files == {first}
    assert not wrong_one.exists()


@pytest.mark.parametrize(
    ("content", "code"), [(ManifestContent.DATA, 1), (ManifestContent.DELETES, 0)]
)
def test_r061_data_and_deletes_never_come_into_one_manifest(tmp_path, content, code):
    """Readers would look for all of them among the deletes."""
    table = of_version_3(tmp_path / "t")
    listed, entries = sources(table, content)
    announced: list[str] = []
    with pytest.raises(CorruptTable, match="data and delete files in one manifest") as caught:
        write(table, content, changed(entries, "content", code), announced)
    assert caught.value.rule == "R-061"
    assert any(manifest.manifest_path in caught.value.message for manifest in listed)
    assert announced == []


@pytest.mark.parametrize("content", ManifestContent)
def test_r069_locations_are_compared_by_hashes_where_no_more_was_kept_of_them(tmp_path, content):
    table = of_version_3(tmp_path / "t")
    _, entries = sources(table, content)
    kept = Entries(with_location_hashes(entries.table))
    assert "location" not in kept.table.column_names
    announced: list[str] = []
    written = write(table, content, kept, announced)
    stored = [row for one in written for row in read_avro(one.manifest.manifest_path)]
    assert [row["data_file"]["file_path"] for row in stored] == named(entries)
    wrong = changed(entries, "location", f"{named(entries)[-1]}x")
    with pytest.raises(SelfCheckFailed, match="does not match its entries in location ") as caught:
        write(table, content, Entries(with_location_hashes(wrong.table)), announced)
    assert caught.value.rule == "R-069"
    assert not Path(announced[-1]).exists()


@pytest.mark.parametrize("content", ManifestContent)
def test_of_manifests_compared_side_by_side_only_equal_ones_are_stored(tmp_path, content):
    table = of_version_3(tmp_path / "t")
    _, entries = sources(table, content)
    announced: list[str] = []
    wrong = changed(entries, "record_count", VALUES["record_count"])
    with pytest.raises(SelfCheckFailed, match="does not match its entries in record_count"):
        write(table, content, wrong, announced, concurrency=4)
    assert len(announced) == 2
    assert not Path(announced[1]).exists()


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("content", ManifestContent)
def test_each_manifest_is_announced_and_holds_its_rows(tmp_path, content, concurrency):
    table = of_version_3(tmp_path / "t")
    _, entries = sources(table, content)
    announced: list[str] = []
    written = write(table, content, entries, announced, concurrency)
    assert [item.manifest.manifest_path for item in written] == announced
    assert concat(item.entries for item in written).table.equals(entries.table)
    assert sorted(place for item in written for place in named(item.entries)) == sorted(
        named(entries)
    )
    for item in written:
        stored = read_avro(item.manifest.manifest_path)
        assert [entry["data_file"]["file_path"] for entry in stored] == item.entries.table[
            "location"
        ].to_pylist()
        assert item.manifest.existing_files_count == len(stored)
        assert item.manifest.manifest_length == Path(item.manifest.manifest_path).stat().st_size
