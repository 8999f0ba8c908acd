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

REFUSED = frozenset(
    {
        "r002_metadata_of_another_table",
        "r011_no_last_partition_id",
        "r014_a_column_id_above_the_last",
        "r015_main_elsewhere_than_the_current_snapshot",
        "r019_a_reserved_field_id",
        "r022_a_ref_to_a_lost_snapshot",
        "r030_a_snapshot_that_is_its_own_parent",
        "r034_a_data_file_that_is_missing",
        "r034_a_manifest_that_is_missing",
        "r040_two_snapshots_of_one_sequence_number",
        "r041_a_manifest_numbered_above_its_snapshot",
        "r042_an_entry_without_any_snapshot_id",
        "r043_an_existing_entry_without_a_sequence_number",
        "r044_a_sequence_number_above_the_manifest_s",
        "r052_a_spec_that_is_not_in_the_table",
        "r061_a_header_of_the_other_content",
        "r063_an_unknown_file_format",
        "r066_a_file_live_twice",
        "r068_partitions_with_the_ids_of_another_spec",
        "r071_a_partition_value_of_another_type",
        "r071_an_identity_partition_of_other_rows",
        "r072_a_day_partition_of_other_rows",
        "r073_a_bucket_of_other_rows",
        "r074_a_truncation_of_other_rows",
        "r077_a_partition_field_name_used_twice",
        "r080_a_source_column_that_is_in_no_schema",
        "r093_a_bound_of_shapes_without_y",
        "r095_a_column_of_another_type",
        "r097_a_column_that_became_another_type",
        "r099_a_data_file_that_is_no_parquet_file",
        "r099_a_footer_that_crashes_its_reader",
        "r100_a_row_id_stored_twice",
        "r101_row_ids_below_those_of_the_parent",
        "r102_a_data_manifest_without_row_ids",
        "r103_row_ids_that_two_files_have",
        "r104_row_ids_above_the_next",
        "r105_a_row_updated_after_its_file",
        "r114_two_vectors_for_a_file",
        "r118_a_cardinality_that_is_not_the_vector_s",
        "r118_a_vector_without_its_place",
        "r119_a_vector_with_a_wrong_checksum",
        "r120_deletes_in_version_1",
        "r121_positions_behind_the_end_of_the_file",
        "r123_an_equality_delete_of_an_unknown_column",
        "r123_an_equality_delete_without_its_column",
        "r162_a_version_written_twice",
        "r177_a_type_of_a_later_version",
        "r181_a_name_mapping_that_is_no_list",
        "r182_a_default_before_version_3",
        "r182_a_default_of_a_shape",
        "r184_an_optional_identifier_field",
        "r208_a_partition_by_shapes",
        "r208_a_sort_order_by_variants",
        "r211_a_vector_of_another_partition",
        "v4_002_a_uuid_that_is_none",
        "v4_003_no_last_partition_id",
        "v4_004_a_relative_location",
        "v4_006_a_field_id_used_twice",
        "v4_007_a_spec_id_used_twice",
        "v4_008_an_expression_with_the_id_of_a_column",
        "v4_009_an_expression_above_the_last_id",
        "v4_012_a_type_that_does_not_follow",
        "v4_013_a_partition_field_id_above_the_last",
        "v4_014_a_partition_column_beyond_statistics",
        "v4_016_a_default_sort_order_that_is_absent",
        "v4_017_a_sequence_number_above_the_last",
        "v4_018_row_ids_above_the_next",
        "v4_019_a_ref_to_a_lost_snapshot",
        "v4_020_a_gap_in_the_snapshot_log",
        "v4_030_a_root_and_a_manifest_list",
        "v4_031_no_schema_id",
        "v4_032_two_snapshots_of_one_sequence_number",
        "v4_033_a_manifest_list_after_a_root",
        "v4_034_an_operation_that_there_is_not",
        "v4_036_an_append_that_removes_files",
        "v4_040_a_root_that_says_it_is_a_leaf",
        "v4_041_a_root_without_record_counts",
        "v4_043_a_root_of_the_upstream_draft",
        "v4_044_a_content_type_that_there_is_not",
        "v4_045_a_footer_of_another_snapshot",
        "v4_050_a_status_of_the_upstream_draft",
        "v4_051_a_location_of_an_inline_bitmap",
        "v4_051_a_location_without_a_scheme",
        "v4_052_rows_in_a_puffin_file",
        "v4_053_a_vector_without_its_place",
        "v4_054_a_spec_that_there_is_not",
        "v4_055_a_sort_order_of_a_vector",
        "v4_056_a_negative_record_count",
        "v4_057_a_file_without_a_size",
        "v4_058_counts_of_a_data_file",
        "v4_059_a_data_file_that_refers_to_another",
        "v4_060_a_data_file_with_columns_to_compare",
        "v4_061_split_offsets_that_fall",
        "v4_062_an_old_file_without_a_snapshot_id",
        "v4_063_a_leaf_with_two_sequence_numbers",
        "v4_064_a_file_of_the_future",
        "v4_065_a_removal_by_another_snapshot",
        "v4_066_an_old_file_as_if_it_were_new",
        "v4_067_a_data_file_without_row_ids",
        "v4_067_row_ids_of_two_files",
        "v4_068_a_leaf_listed_as_deleted",
        "v4_069_a_removal_without_a_parent",
        "v4_080_two_vectors_of_a_leaf",
        "v4_081_a_vector_of_an_unknown_leaf",
        "v4_082_bytes_behind_a_bitmap",
        "v4_083_a_position_behind_the_leaf",
        "v4_084_a_vector_over_a_removed_row",
        "v4_085_a_vector_that_holds_less",
        "v4_086_a_replaced_vector_without_another",
        "v4_087_a_new_vector_without_the_old_one",
        "v4_090_a_blob_of_another_cardinality",
        "v4_092_a_bitmap_in_a_leaf",
        "v4_100_a_leaf_of_another_version",
        "v4_101_a_vector_in_a_data_leaf",
        "v4_102_a_leaf_in_a_leaf",
        "v4_103_a_leaf_of_another_size",
        "v4_104_another_lowest_sequence_number",
        "v4_105_an_old_row_without_a_number",
        "v4_106_a_new_row_in_a_leaf_that_is_not",
        "v4_107_an_old_row_among_new_ones",
        "v4_108_a_removed_row_in_a_leaf",
        "v4_109_a_new_leaf_with_nothing_new",
        "v4_110_a_leaf_without_rows",
        "v4_111_a_manifest_of_data_as_one_of_deletes",
        "v4_113_a_new_leaf_of_an_older_version",
        "v4_114_a_delete_leaf_of_no_data_leaf",
        "v4_114_vectors_of_files_elsewhere",
        "v4_116_a_dead_leaf_listed_twice",
        "v4_116_a_leaf_listed_twice",
        "v4_120_a_file_live_twice",
        "v4_121_two_vectors_of_a_file",
        "v4_122_a_vector_of_a_lost_file",
        "v4_123_a_position_behind_the_file",
        "v4_123_more_rows_than_the_file_has",
        "v4_124_a_vector_older_than_its_file",
        "v4_126_a_partition_that_deletes_need",
        "v4_127_a_file_live_and_removed",
        "v4_140_a_member_with_another_id",
        "v4_141_a_file_without_its_partition",
        "v4_142_a_partition_of_two_values",
        "v4_143_a_partition_with_loose_bounds",
        "v4_144_bounds_that_cross",
        "v4_145_more_nulls_than_values",
        "v4_146_a_leaf_with_bounds_too_narrow",
        "v4_146_a_manifest_with_bounds_of_a_column_too_narrow",
        "v4_146_a_manifest_with_bounds_too_narrow",
        "v4_148_statistics_of_a_bitmap",
        "v4_149_a_day_that_does_not_follow",
        "v4_160_a_file_gone_without_a_word",
        "v4_161_a_leaf_gone_with_its_files",
        "v4_162_a_file_with_another_sequence_number",
        "v4_164_a_new_vector_with_fewer_rows",
        "v4_180_a_root_that_is_gone",
        "v4_181_a_leaf_that_is_gone",
        "v4_182_a_data_file_that_is_gone",
        "v4_182_a_file_of_bitmaps_that_is_gone",
    }
)
"""Errors that nothing in the table proves a way out of: exit 5, each with its reason."""

LEFT = frozenset(
    {
        "r007_an_unknown_transform",
        "r012_no_partition_spec",
        "r016_no_snapshot_as_minus_one",
        "r017_updated_before_the_newest_snapshot",
        "r024_a_logged_file_that_is_gone",
        "r025_a_snapshot_log_out_of_order",
        "r026_a_gap_in_the_snapshot_log",
        "r027_a_tag_with_the_retention_of_a_branch",
        "r033_a_negative_snapshot_id",
        "r035_a_sequence_number_in_version_1",
        "r048_sequence_numbers_in_version_1",
        "r055_embedded_manifests_after_version_1",
        "r056_a_manifest_of_nothing_but_deleted_entries",
        "r060_a_header_without_a_schema",
        "r062_an_entry_without_a_snapshot_in_version_1",
        "r064_an_added_entry_of_another_snapshot",
        "r084_a_default_sort_order_that_is_absent",
        "r099_pages_of_zeros_before_a_footer",
        "r099_pages_of_zeros_before_the_footer_of_deletes",
        "r111_deletes_that_name_no_live_file",
        "r116_a_vector_without_its_data_file",
        "r122_a_new_position_delete_file_in_version_3",
        "r133_column_sizes_of_an_avro_file",
        "r161_a_file_outside_of_the_table",
        "r164_a_relative_location_of_a_file",
        "r185_a_snapshot_of_a_lost_schema",
        "r212_a_length_before_each_fixed_partition_value",
        "v4_005_a_schema_beside_schemas",
        "v4_010_a_spec_that_links_to_a_column",
        "v4_015_a_default_spec_that_cannot_be_computed",
        "v4_021_no_snapshot_as_minus_one",
        "v4_022_a_metadata_log_that_is_too_long",
        "v4_035_a_manifest_list_that_is_a_root",
        "v4_037_a_replace_that_loses_rows",
        "v4_038_totals_that_are_not_those_of_the_files",
        "v4_042_a_column_that_nobody_knows",
        "v4_046_rows_in_another_order",
        "v4_047_another_layout",
        "v4_070_key_metadata",
        "v4_088_a_vector_in_another_form",
        "v4_091_a_vector_over_a_new_leaf",
        "v4_112_a_delete_leaf_by_its_older_name",
        "v4_125_a_vector_of_another_spec",
        "v4_128_position_deletes_beside_a_vector",
        "v4_142_a_partition_without_an_upper_bound",
        "v4_147_a_leaf_without_statistics",
        "v4_163_a_number_that_changed_long_ago",
        "v4_165_a_vector_gone_without_another",
        "v4_166_a_file_that_comes_back",
        "v4_183_a_removed_file_that_is_gone",
    }
)
"""Damages that harm no row, or show at level `data` alone: nothing to do, and nothing done."""


UNREADABLE = frozenset({"v4_001_roots_in_an_older_version"})
"""Metadata that nothing can be told of but what is wrong with them: exit 15."""


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


def test_the_outcome_of_every_damage_is_written_down_once():
    names = [damage.name for damage in EVERY_DAMAGE]
    assert sorted([*REPAIRED, *REFUSED, *LEFT, *UNREADABLE]) == sorted(names)


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
    remaining = [one for one in document["result"]["remaining"] if one["severity"] != "info"]
    assert remaining == []
    assert rows(table) == before
    kept = contents_of(table)
    changed = {path.name for path in broken if kept.get(path) != broken[path]}
    assert changed <= {"version-hint.text"}
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
    refused = damage.name in REFUSED
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
