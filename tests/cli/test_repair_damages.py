"""Every damage of the builders is put through repair: repaired, refused with the reason, or left.

Rows before the damage are rows after a repair, and a second run finds nothing to do.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.broken import DAMAGES, Damage
from tests.builders.broken_tree import TREE_DAMAGES, BrokenTree
from tests.builders.folders import contents_of
from tests.builders.rows import Row, current_metadata, read_metadata, read_rows
from tests.builders.table_builder import START_MS
from tests.stores.fixed_env import FixedEnv

EVERY_DAMAGE = [*DAMAGES, *TREE_DAMAGES]
FULL = pytest.mark.full

REPAIRED = {
    "r031_totals_that_are_not_those_of_the_manifests": "manifest-list",
    "r047_a_least_sequence_number_above_that_of_an_entry": "list-row",
    "r050_a_length_that_is_not_the_file_s": "list-row",
    "r050_a_manifest_that_is_listed_twice": "list-row",
    "r051_a_count_that_is_not_that_of_the_entries": "list-row",
    "r053_a_summary_that_excludes_a_partition": "list-row",
    "r054_a_list_header_of_another_snapshot": "manifest-list",
    "r063_a_file_of_another_size": "metrics",
    "r063_a_record_count_that_is_not_the_file_s": "metrics",
    "r067_split_offsets_that_do_not_ascend": "metrics",
    "r091_a_bound_of_no_length_of_its_type": "metrics",
    "r092_a_lower_bound_above_the_upper": "metrics",
    "r092_bounds_that_exclude_rows": "metrics",
    "r130_a_null_count_that_is_not_the_file_s": "metrics",
    "r130_more_nulls_than_values": "metrics",
    "r134_a_value_count_that_is_not_the_count_of_rows": "metrics",
    "r140_a_statistics_file_of_another_size": "statistics",
    "r141_statistics_of_a_lost_snapshot": "statistics",
    "r142_two_partition_statistics_of_a_snapshot": "statistics",
    "r163_a_version_hint_that_is_behind": "version-hint",
    "r171_a_row_without_counts": "list-row",
    "v4_023_statistics_of_a_lost_snapshot": "statistics",
}
"""The kind of repair by the damage, which it makes an end of."""

LEFT = frozenset(
    {
        "r007_an_unknown_transform", "r012_no_partition_spec", "r016_no_snapshot_as_minus_one",
        "r017_updated_before_the_newest_snapshot", "r024_a_logged_file_that_is_gone",
        "r025_a_snapshot_log_out_of_order", "r026_a_gap_in_the_snapshot_log",
        "r027_a_tag_with_the_retention_of_a_branch", "r033_a_negative_snapshot_id",
        "r035_a_sequence_number_in_version_1", "r048_sequence_numbers_in_version_1",
        "r055_embedded_manifests_after_version_1", "r056_a_manifest_of_nothing_but_deleted_entries",
        "r060_a_header_without_a_schema", "r062_an_entry_without_a_snapshot_in_version_1",
        "r064_an_added_entry_of_another_snapshot", "r084_a_default_sort_order_that_is_absent",
        "r099_pages_of_zeros_before_a_footer", "r099_pages_of_zeros_before_the_footer_of_deletes",
        "r111_deletes_that_name_no_live_file", "r116_a_vector_without_its_data_file",
        "r122_a_new_position_delete_file_in_version_3", "r133_column_sizes_of_an_avro_file",
        "r161_a_file_outside_of_the_table", "r164_a_relative_location_of_a_file",
        "r185_a_snapshot_of_a_lost_schema", "r212_a_length_before_each_fixed_partition_value",
        "v4_005_a_schema_beside_schemas", "v4_010_a_spec_that_links_to_a_column",
        "v4_015_a_default_spec_that_cannot_be_computed", "v4_021_no_snapshot_as_minus_one",
        "v4_022_a_metadata_log_that_is_too_long", "v4_035_a_manifest_list_that_is_a_root",
        "v4_037_a_replace_that_loses_rows", "v4_038_totals_that_are_not_those_of_the_files",
        "v4_042_a_column_that_nobody_knows", "v4_046_rows_in_another_order",
        "v4_047_another_layout", "v4_070_key_metadata", "v4_088_a_vector_in_another_form",
        "v4_112_a_delete_leaf_by_its_older_name", "v4_125_a_vector_of_another_spec",
        "v4_128_position_deletes_beside_a_vector", "v4_142_a_partition_without_an_upper_bound",
        "v4_147_a_leaf_without_statistics", "v4_163_a_number_that_changed_long_ago",
        "v4_166_a_file_that_comes_back", "v4_183_a_removed_file_that_is_gone",
    }
)  # fmt: skip
"""Damages that harm no row, or show at level `data` alone: nothing to do, and nothing done."""


UNREADABLE = frozenset({"v4_001_roots_in_an_older_version"})
"""Metadata that nothing can be told of but what is wrong with them: exit 15.

All other damages are errors that nothing in the table proves a way out of: exit 5, each with its
reason.
"""


@pytest.fixture
def repair(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Run `icectl repair` at a level; its document."""

    def run(table: Path, damage: Damage, *words: str) -> dict[str, Any]:
        level = "footers" if damage.level == "data" else damage.level
        env = FixedEnv(START_MS + 10**11, uuids=5_000, snapshot_ids=5_000)
        app.main(["repair", str(table), "--level", level, "--json", *words], env=env)
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run


def rows(table: Path) -> list[Row]:
    return read_rows(read_metadata(current_metadata(table)))


def test_outcomes_are_written_down_once_and_of_damages_that_there_are():
    written = [*REPAIRED, *LEFT, *UNREADABLE]
    assert len({*written}) == len(written)
    assert {*written} <= {damage.name for damage in EVERY_DAMAGE}


@pytest.mark.parametrize(
    "damage",
    [damage for damage in EVERY_DAMAGE if damage.name in REPAIRED],
    ids=lambda damage: damage.name,
)
def test_a_damage_is_repaired_and_every_row_is_as_before(healthy, repair, damage):
    table = healthy(damage.table)
    before = rows(table)
    damage.apply(BrokenTree(table))
    broken = contents_of(table)
    planned = repair(table, damage, "--dry-run")
    assert {one["kind"] for one in planned["result"]["repairs"]} == {REPAIRED[damage.name]}
    assert contents_of(table) == broken

    document = repair(table, damage, "--yes")
    assert (document["exit"], document["status"]) == (0, "done")
    assert [one for one in document["result"]["remaining"] if one["severity"] != "info"] == []
    assert rows(table) == before
    kept = contents_of(table)
    assert {path.name for path in broken if kept.get(path) != broken[path]} <= {"version-hint.text"}
    assert repair(table, damage, "--yes")["status"] == "nothing-to-do"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=damage.name, marks=[FULL] if damage in TREE_DAMAGES else [])
        for damage in EVERY_DAMAGE
        if damage.name not in REPAIRED
    ],
)
def test_what_is_not_repaired_is_told_with_its_reason_and_left_as_it_is(healthy, repair, damage):
    table = healthy(damage.table)
    damage.apply(BrokenTree(table))
    before = contents_of(table)
    document = repair(table, damage, "--yes")
    refused = damage.name not in LEFT | UNREADABLE
    expected = (5, "refused") if refused else (0, "nothing-to-do")
    if damage.name in UNREADABLE:
        expected = (15, "failed")
    assert (document["exit"], document["status"]) == expected
    if document["error"] is not None:
        assert document["error"]["hint"]
    else:
        assert all(one["reason"] for one in document["result"]["left"])
        assert refused == any(one["severity"] == "error" for one in document["result"]["left"])
    assert contents_of(table) == before
