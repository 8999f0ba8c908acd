"""Live deletes that readers who compare locations to the letter would not apply."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from icectl.checks.rule import Finding
from icectl.commands.upgrade_to_v4.delete_spelling import misspelt_deletes
from icectl.entries.rows import Entries
from icectl.rows.named_files import read_names
from icectl.storage.local.store import LocalStore
from icectl.storage.open import PathMapStore
from tests.builders.expiry import context_of
from tests.builders.respell import respell_data_files
from tests.builders.table_builder import TableBuilder

BUCKET = "s3://b/t"


@dataclass
class Search:
    """A search for misspelt deletes, and the delete files that it opened."""

    table: TableBuilder
    opened: list[str] = field(default_factory=list)
    reads_paths: bool = True

    def find(self) -> Finding | None:
        directory = str(self.table.directory)
        context = context_of(directory, PathMapStore(LocalStore(), ((BUCKET, directory),)))

        def read(deletes: Entries) -> Mapping[str, Mapping[str, int]]:
            self.opened += deletes.table["location"].to_pylist()
            return read_names(context, deletes) if self.reads_paths else {}

        return misspelt_deletes(context, self.table.metadata, read)


def built(directory: Path, location: str = "", version: int = 2) -> TableBuilder:
    table = TableBuilder(directory / "t", format_version=version, location=location)
    table.append(range(10))
    table.append(range(10, 20))
    return table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_v4_004_without_deletes_nothing_is_misspelt(tmp_path, version):
    search = Search(built(tmp_path, version=version))
    assert search.find() is None
    assert search.opened == []


def test_v4_004_equality_deletes_name_no_file(tmp_path):
    table = built(tmp_path)
    table.delete_rows([3], kind="equality")
    assert Search(table).find() is None


def test_v4_004_entries_of_vectors_get_a_scheme_too(tmp_path):
    table = built(tmp_path, version=3)
    table.delete_rows([3])
    assert Search(table).find() is None


def test_v4_004_a_delete_lacks_the_scheme_that_entries_get(tmp_path):
    table = built(tmp_path)
    before = {row["location"] for row in table.live()}
    table.append(range(20, 30))
    (data,) = {row["location"] for row in table.live()} - before
    table.delete_rows([23])
    finding = Search(table).find()
    assert finding is not None
    assert (finding.rule, finding.severity) == ("V4-004", "error")
    assert finding.subject == f"data file `file:{data}`"
    assert f"names it `{data}`, and manifests of version 4 `file:{data}`:" in finding.message
    assert "`icectl compact TABLE --rewrite-all`" in str(finding.hint)


def test_v4_004_deletes_of_older_snapshots_count_and_those_that_are_gone_do_not(tmp_path):
    table = built(tmp_path)
    table.delete_rows([3, 13])
    table.remove_data_files(2)
    assert Search(table).find() is not None
    head = table.metadata.current_snapshot
    assert head is not None
    table.metadata = replace(table.metadata, snapshots=(head,))
    assert Search(table).find() is None


def test_v4_004_what_entries_say_of_paths_is_compared(tmp_path):
    table = built(tmp_path)
    table.delete_rows([3])
    assert Search(table, reads_paths=False).find() is not None


@pytest.mark.parametrize("scheme", ["file:", "FILE:", "file://"])
def test_v4_004_whole_locations_match_to_the_letter(tmp_path, scheme):
    table = built(tmp_path, location=f"{scheme}{tmp_path / 't'}")
    table.delete_rows([3])
    search = Search(table)
    assert search.find() is None
    assert len(search.opened) == 1


def test_v4_004_the_paths_inside_of_a_delete_file_are_compared(tmp_path):
    table = built(tmp_path, location=f"file:{tmp_path / 't'}")
    table.delete_rows([3, 13])
    table.delete_rows([4])
    respell_data_files(table, f"file://{tmp_path / 't'}")
    search = Search(table)
    finding = search.find()
    assert finding is not None
    assert "names it `file:/" in finding.message
    assert "version 4 `file:///" in finding.message
    assert sorted(search.opened) == sorted(
        row["location"] for row in table.live() if row["location"].endswith("-deletes.parquet")
    )


def test_v4_004_locations_in_buckets_have_one_spelling(tmp_path):
    table = built(tmp_path, location=BUCKET)
    table.delete_rows([3])
    search = Search(table)
    assert search.find() is None
    assert search.opened == []


def test_v4_004_another_spelling_in_a_snapshot_without_the_delete_is_no_fault(tmp_path):
    table = built(tmp_path, location=f"file:{tmp_path / 't'}")
    before = table.metadata.snapshots
    respelt = f"file://{tmp_path / 't'}"
    table._row_of_id |= {
        location.replace(table.location, respelt): ids for location, ids in table._row_of_id.items()
    }
    respell_data_files(table, respelt)
    table.delete_rows([3])
    assert Search(table).find() is None  # of snapshots with `file:/` none has the delete
    assert table.metadata.snapshots[: len(before)] == before
