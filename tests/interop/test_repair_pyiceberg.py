"""Repaired tables, read by PyIceberg: the rows are those from before the damage."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from tests.builders.broken import (
    Broken,
    r051_a_count_that_is_not_that_of_the_entries,
    r053_a_summary_that_excludes_a_partition,
    r063_a_record_count_that_is_not_the_file_s,
    r067_split_offsets_that_do_not_ascend,
    r091_a_bound_of_no_length_of_its_type,
    r092_bounds_that_exclude_rows,
    r130_more_nulls_than_values,
)
from tests.builders.rows import current_metadata
from tests.builders.table_builder import filled_table
from tests.fault.changing import run

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def lost_manifest(broken: Broken) -> None:
    assert run(["rewrite-manifests", str(broken.directory), "--yes", "--json"])[0] == 0
    Path(broken.manifests(0)[0]["manifest_path"]).unlink()


DAMAGES: list[Callable[[Broken], None]] = [
    r051_a_count_that_is_not_that_of_the_entries, r053_a_summary_that_excludes_a_partition,
    r063_a_record_count_that_is_not_the_file_s, r067_split_offsets_that_do_not_ascend,
    r091_a_bound_of_no_length_of_its_type, r092_bounds_that_exclude_rows,
    r130_more_nulls_than_values, lost_manifest,
]  # fmt: skip


def ids(directory: Path, row_filter: str = "id >= 0") -> list[int]:
    table = StaticTable.from_metadata(str(current_metadata(directory)))
    found: list[int] = table.scan(row_filter=row_filter).to_arrow()["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_pyiceberg_finds_every_row_of_a_repaired_table(damage, tmp_path):
    table = filled_table(tmp_path / "t", range(12), files=2, partitioning="identity")
    table.append(range(12, 24))
    table.remove_data_files(1)
    table.delete_rows([13, 14, 20])
    before = ids(table.directory)
    assert before == sorted(table.ids())
    damage(Broken(table.directory))
    code, document = run(["repair", str(table.directory), "--level", "footers", "--yes", "--json"])
    assert (code, document["status"]) == (0, "done")
    assert ids(table.directory) == before
    for one in before[::5]:
        assert ids(table.directory, f"id == {one}") == [one]
