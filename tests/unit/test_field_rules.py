"""Which test holds each rule of commits and deletes, and each incident of other tools, impossible.

Numbers are those of the survey of other tools that the project was founded on. Rules and incidents
of commands that do not exist yet join with them.
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

RULES = {
    "1: the base is the current metadata, and the condition is put to the test": [
        "unit/commit/test_attempt.py::test_r150_the_updates_are_committed_on_the_metadata_they_were_made_from",
        "s3/test_refused.py::test_rules_1_and_8_every_command_refuses_to_commit_where_conditions_are_ignored",
        "s3/test_commits.py::test_the_probe_is_made_once_for_a_bucket",
    ],
    "2: only a definite conflict is tried again, on fresh metadata": [
        "unit/commit/test_attempt.py::test_after_a_conflict_the_updates_are_made_anew_on_the_newest_metadata",
        "unit/commit/test_attempt.py::test_r156_an_unknown_outcome_is_not_tried_again",
    ],
    "3: after an unknown outcome nothing is deleted": [
        "fault/test_expire_writers.py::test_r156_an_unknown_outcome_deletes_nothing_and_is_finished_later",
        "unit/catalog/test_files.py::test_r156_a_commit_that_cannot_be_looked_up_is_unknown",
        "s3/test_faults.py::test_any_write_may_fail",
    ],
    "4: an own commit is recognised": [
        "unit/catalog/test_files.py::test_r156_an_own_commit_is_recognised",
        "unit/catalog/test_files.py::test_r156_a_commit_whose_answer_is_lost_is_looked_up",
    ],
    "5: files of a lost attempt go only where the commit is known not to have landed": [
        "fault/test_commands.py::test_any_store_call_may_fail",
        "fault/test_commands.py::test_any_store_call_may_be_interrupted",
    ],
    "6: a replace keeps exactly the live rows": [
        "cli/test_rewrite_manifests.py::test_r069_a_rewrite_keeps_the_law",
        "cli/test_laws.py::test_a_command_does_its_work_once_and_leaves_a_sound_table",
    ],
    "7: the highest version is current, never the hint": [
        "unit/catalog/test_files.py::test_r163_the_highest_version_is_current_whatever_the_hint",
        "unit/catalog/test_files.py::test_two_files_of_one_version_are_refused",
        "unit/catalog/test_files.py::test_a_hint_beyond_the_newest_version_is_refused",
    ],
    "8: a version is created, never renamed over; refused where that cannot be": [
        "conformance/test_stores.py::test_one_of_many_creators_wins",
        "unit/storage/test_local.py::test_a_file_system_without_hard_links_is_refused",
        "conformance/test_stores.py::test_other_object_storage_is_not_written_to",
    ],
    "27: gc.enabled=false is a hard stop": [
        "cli/test_expire_snapshots.py::test_r193_tables_that_share_files_are_refused",
    ],
    "28: the retention policy": [
        "unit/plan/test_retention.py::test_r020_to_r023_snapshots_and_refs_go_as_in_the_golden_cases",
        "unit/plan/test_retention.py::test_r028_a_snapshot_that_a_ref_names_is_not_expired_by_its_id",
    ],
    "29: a ref that came meanwhile protects": [
        "fault/test_expire_writers.py::test_a_tag_set_between_plan_and_commit_keeps_its_snapshot_and_files",
        "unit/plan/test_retention.py::test_a_decision_made_again_keeps_what_a_new_tag_names",
    ],
    "30: the plan of deletions is recorded before the commit": [
        "fault/test_command_processes.py::test_a_run_may_be_killed_between_any_two_steps",
        "unit/run/test_journal.py::test_a_journal_has_landed_when_every_snapshot_it_names_is_gone",
    ],
    "31: content goes before manifests, manifests before lists, lists before statistics": [
        "unit/run/test_cleanup.py::test_files_go_before_what_describes_them",
    ],
    "32: a file of what stays that cannot be read ends it before anything goes": [
        "fault/test_expire_writers.py::test_r192_an_unreadable_file_of_what_stays_ends_the_run_untouched",
        "fault/test_commands.py::test_a_manifest_that_cannot_be_read_ends_the_run_before_anything_changes",
    ],
    "33: reachability decides, never history": [
        "unit/plan/test_expire_snapshots.py::test_r191_deletable_is_what_goes_and_nothing_that_stays_reaches",
        "unit/table/test_reachable.py::test_files_that_only_deleted_entries_name_are_not_reached",
    ],
    "34: spellings of one file are one file": [
        "cli/test_expire_snapshots.py::test_any_spelling_that_matches_keeps_a_file",
    ],
    "35: deletions that fail are counted, told and kept for later": [
        "cli/test_expire_snapshots.py::test_what_cannot_be_deleted_ends_with_3_and_is_finished_later",
        "s3/test_commits.py::test_keys_that_the_answer_names_are_failures_and_throttled_ones_are_tried_again",
    ],
}

INCIDENTS = {
    "3: live files deleted because refs were fewer after": [
        "cli/test_expire_incidents.py::test_incident_3_branches_that_go_take_no_file_of_the_one_that_stays",
    ],
    "4: files of an older snapshot deleted with a middle one": [
        "cli/test_expire_incidents.py::test_incident_4_a_middle_snapshot_takes_no_file_of_an_older_one",
    ],
    "5: files deleted that were removed and came back": [
        "cli/test_expire_incidents.py::test_incident_5_a_file_that_was_removed_and_came_back_stays",
    ],
    "8: a commit that timed out had landed": [
        "s3/test_faults.py::test_any_write_may_fail",
        "fault/test_commands.py::test_any_store_call_may_fail",
    ],
    "9: an own retried commit taken for a lost one": [
        "unit/catalog/test_files.py::test_r156_an_own_commit_is_recognised",
    ],
    "12: storage that ignores the condition": [
        "s3/test_refused.py::test_incident_12_no_object_is_written_before_the_condition_has_held",
        "s3/test_commits.py::test_storage_that_ignores_conditions_is_refused_and_left_as_it_was",
    ],
    "13: of many writers several win one version": [
        "s3/test_commits.py::test_of_eight_committers_one_wins_each_version",
        "fault/test_command_processes.py::test_of_two_runs_at_once_one_wins",
    ],
    "15: statistics files taken for waste": [
        "cli/test_expire_snapshots.py::test_r141_statistics_of_expired_and_of_lost_snapshots_go",
        "unit/table/test_reachable.py::test_r141_statistics_are_those_of_the_snapshots_named",
    ],
    "17: a commit to the wrong table": [
        "unit/catalog/test_files.py::test_r002_another_table_in_the_place_is_refused",
        "unit/commit/test_attempt.py::test_r002_a_requirement_that_does_not_hold_commits_nothing",
    ],
    "19: success though every deletion failed": [
        "cli/test_expire_snapshots.py::test_what_cannot_be_deleted_ends_with_3_and_is_finished_later",
    ],
}


@pytest.mark.parametrize(
    "test",
    sorted({test for tests in (*RULES.values(), *INCIDENTS.values()) for test in tests}),
)
def test_what_holds_a_rule_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", (TESTS / file).read_text(), re.MULTILINE)
