"""Which snapshots stay: golden cases made by hand from the rules, and the reasons that are told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.errors import Refused, UsageError
from icectl.table.retention import AskedRetention, Retention, decide, decide_again
from tests.builders.history import history, ms

CASES = json.loads((Path(__file__).parents[2] / "golden/retention/cases.json").read_text())
NOW = ms("2026-03-15T12:00:00Z")
DAY = 24 * 3_600_000


def policy_of(case: dict[str, Any]) -> AskedRetention:
    asked = dict(case.get("policy", {}))
    if "older_than" in asked:
        asked["older_than_ms"] = ms(asked.pop("older_than"))
    if "expire_ids" in asked:
        asked["expire_ids"] = tuple(asked["expire_ids"])
    return AskedRetention(**asked)


def gone(retention: Retention) -> list[int]:
    return [decision.snapshot_id for decision in retention.expired]


def reasons(retention: Retention) -> dict[int, tuple[bool, str]]:
    return {item.snapshot_id: (item.kept, item.reason) for item in retention.decisions}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_r020_to_r023_snapshots_and_refs_go_as_in_the_golden_cases(case):
    metadata = history(case["snapshots"], case["refs"], case.get("properties"))
    retention = decide(metadata, policy_of(case), NOW)
    assert gone(retention) == case["expired"]
    assert {decision.snapshot_id for decision in retention.kept} == {
        id_ for id_, _, _ in case["snapshots"]
    } - {*case["expired"]}
    assert [ref.name for ref in retention.refs_removed] == case.get("refs_removed", [])
    every = [item.snapshot_id for item in retention.decisions]
    assert every == [id_ for id_, _, _ in case["snapshots"]]


@pytest.mark.parametrize("timestamp_ms", [1_700_000_000_000_000, 2**63 - 1, -(2**63)])
def test_an_instant_in_no_year_is_a_day_of_its_own(timestamp_ms):
    """Some writers count microseconds."""
    line = [(1, None, "2026-01-05T00:00:00Z"), (2, 1, "2026-03-14T00:00:00Z")]
    metadata = history(line, {"main": {"head": 2}})
    odd = replace(metadata.snapshots[0], timestamp_ms=timestamp_ms)
    metadata = replace(metadata, snapshots=(odd, metadata.snapshots[1]))
    policy = AskedRetention(keep_daily=2, keep_weekly=1, keep_monthly=1, older_than_ms=2**63)
    assert gone(decide(metadata, policy, NOW)) == []


def test_every_snapshot_comes_with_its_reason():
    metadata = history(
        [
            (1, None, "2026-01-05T00:00:00Z"),
            (2, 1, "2026-02-06T00:00:00Z"),
            (3, 2, "2026-03-07T00:00:00Z"),
            (4, 3, "2026-03-08T00:00:00Z"),
            (5, 4, "2026-03-14T00:00:00Z"),
            (6, 5, "2026-03-15T00:00:00Z"),
            (7, None, "2026-03-15T01:00:00Z"),
            (8, None, "2026-03-01T00:00:00Z"),
            (9, 1, "2026-03-01T00:00:00Z"),
            (10, None, "2026-03-15T01:00:00Z"),
        ],
        {
            "main": {"head": 6, "min_snapshots_to_keep": 3},
            "eoy": {"head": 9, "type": "tag"},
            "young": {"head": 10, "type": "tag"},
        },
    )
    assert reasons(decide(metadata, AskedRetention(keep_monthly=2), NOW)) == {
        1: (False, "eligible for expiration"),
        2: (True, "newest of 2026-02 on branch main"),
        3: (False, "eligible for expiration"),
        4: (True, "among the 3 newest snapshots of branch main"),
        5: (True, "among the 3 newest snapshots of branch main"),
        6: (True, "head of branch main"),
        7: (True, "in no branch, but not older than 2026-03-10T12:00:00Z"),
        8: (False, "in no branch or tag"),
        9: (True, "head of tag eoy"),
        10: (True, "head of tag young"),
    }


def test_a_young_snapshot_behind_an_old_one_is_told_why_it_goes():
    """As the format has it: the first that is too old ends the walk along a branch (R-020)."""
    metadata = history(
        [
            (1, None, "2026-03-14T00:00:00Z"),
            (2, 1, "2026-02-01T00:00:00Z"),
            (3, 2, "2026-03-13T00:00:00Z"),
            (4, 3, "2026-01-01T00:00:00Z"),
            (5, 4, "2026-03-15T00:00:00Z"),
        ],
        {"main": {"head": 5, "min_snapshots_to_keep": 2}},
    )
    behind = (
        "behind snapshot 2 on branch main, which is older than 2026-03-10T12:00:00Z: the times of "
        "the branch are out of order"
    )
    assert reasons(decide(metadata, AskedRetention(), NOW)) == {
        1: (False, behind),
        2: (False, "eligible for expiration"),
        3: (True, "not older than 2026-03-10T12:00:00Z on branch main"),
        4: (True, "among the 2 newest snapshots of branch main"),
        5: (True, "head of branch main"),
    }


def test_reasons_of_age_name_the_instant_and_the_branch():
    metadata = history(
        [(1, None, "2026-03-14T00:00:00Z"), (2, 1, "2026-03-15T00:00:00Z")],
        {"audit": {"head": 2, "max_snapshot_age_ms": 2 * DAY}},
    )
    assert reasons(decide(metadata, AskedRetention(), NOW))[1] == (
        True,
        "not older than 2026-03-13T12:00:00Z on branch audit",
    )


def test_an_age_beyond_all_time_names_no_number():
    """It said: not older than -9223370241521334459ms."""
    metadata = history(
        [(1, None, "2026-03-14T00:00:00Z"), (2, 1, "2026-03-15T00:00:00Z")],
        {"audit": {"head": 2, "max_snapshot_age_ms": 2**63 - 1}},
    )
    assert reasons(decide(metadata, AskedRetention(), NOW))[1] == (
        True,
        "not older than 0001-01-01T00:00:00Z on branch audit",
    )


def test_refs_that_go_come_with_their_reason():
    metadata = history(
        [(1, None, "2026-03-01T00:00:00Z"), (2, 1, "2026-03-15T00:00:00Z")],
        {
            "main": {"head": 2},
            "lost": {"head": 99, "type": "tag"},
            "old": {"head": 1, "type": "tag", "max_ref_age_ms": 7 * DAY},
        },
    )
    found = [
        (ref.name, ref.snapshot_id, ref.reason)
        for ref in decide(metadata, AskedRetention(), NOW).refs_removed
    ]
    assert found == [("lost", 99, "its snapshot is not in the table"), ("old", 1, "older than 7d")]


def test_r022_a_ref_to_a_lost_snapshot_goes_once_whatever_its_age():
    refs = {"lost": {"head": 99, "type": "tag", "max_ref_age_ms": DAY}}
    (found,) = decide(history([], refs), AskedRetention(), NOW).refs_removed
    assert (found.name, found.reason) == ("lost", "its snapshot is not in the table")


def test_r022_a_ref_without_an_age_stays_however_old_its_snapshot_is():
    metadata = history([(1, None, "2026-03-01T00:00:00Z")], {"v1": {"head": 1, "type": "tag"}})
    (snapshot,) = metadata.snapshots
    oldest = replace(metadata, snapshots=(replace(snapshot, timestamp_ms=-(2**63)),))
    assert decide(oldest, AskedRetention(), NOW).refs_removed == ()


@pytest.mark.parametrize(
    ("name", "kind", "told"), [("main", "branch", "branch main"), ("v1", "tag", "tag v1")]
)
def test_r028_a_snapshot_that_a_ref_names_is_not_expired_by_its_id(name, kind, told):
    metadata = history(
        [(1, None, "2026-03-01T00:00:00Z"), (2, 1, "2026-03-15T00:00:00Z")],
        {"main": {"head": 2}, name: {"head": 2 if name == "main" else 1, "type": kind}},
    )
    head = metadata.refs[name].snapshot_id
    with pytest.raises(Refused, match=f"^snapshot {head} is the head of {told}$") as raised:
        decide(metadata, AskedRetention(expire_ids=(head,)), NOW)
    assert raised.value.error_id == "snapshot-referenced"


def test_a_named_snapshot_that_is_not_there_is_wrong_usage():
    metadata = history([(1, None, "2026-03-01T00:00:00Z")], {"main": {"head": 1}})
    with pytest.raises(UsageError, match=r"^snapshot 5 is not in the table$"):
        decide(metadata, AskedRetention(expire_ids=(5,)), NOW)


def test_named_snapshots_have_reasons_too():
    metadata = history(
        [(1, None, "2026-03-01T00:00:00Z"), (2, 1, "2026-03-15T00:00:00Z")], {"main": {"head": 2}}
    )
    assert reasons(decide(metadata, AskedRetention(expire_ids=(1,)), NOW)) == {
        1: (False, "named"),
        2: (True, "not named"),
    }


def test_a_property_that_is_no_number_is_refused():
    metadata = history(
        [(1, None, "2026-03-01T00:00:00Z")],
        {"main": {"head": 1}},
        {"history.expire.max-snapshot-age-ms": "5 days"},
    )
    with pytest.raises(Refused, match=r"history\.expire\.max-snapshot-age-ms"):
        decide(metadata, AskedRetention(), NOW)
    assert gone(decide(metadata, AskedRetention(older_than_ms=NOW), NOW)) == []


LINE = [(id_, id_ - 1 or None, f"2026-03-0{id_}T00:00:00Z") for id_ in range(1, 6)]


def test_a_decision_made_again_lets_nothing_go_that_was_not_confirmed():
    policy = AskedRetention(older_than_ms=NOW, retain_last=2)
    confirmed = decide(history(LINE[:4], {"main": {"head": 4}}), policy, NOW)
    assert gone(confirmed) == [1, 2]
    newer = history(LINE, {"main": {"head": 5}})
    assert gone(decide(newer, policy, NOW)) == [1, 2, 3]
    again = decide_again(newer, policy, NOW, confirmed)
    assert gone(again) == [1, 2]
    assert reasons(again)[3] == (True, "not in the plan that was confirmed")


def test_a_decision_made_again_keeps_what_a_new_tag_names():
    policy = AskedRetention(older_than_ms=NOW)
    confirmed = decide(history(LINE, {"main": {"head": 5}}), policy, NOW)
    newer = history(LINE, {"main": {"head": 5}, "v1": {"head": 2, "type": "tag"}})
    assert gone(decide_again(newer, policy, NOW, confirmed)) == [1, 3, 4]


def test_a_decision_made_again_ages_no_ref_that_was_not_confirmed():
    policy = AskedRetention(older_than_ms=NOW)
    old = {"head": 1, "type": "tag", "max_ref_age_ms": DAY}
    confirmed = decide(history(LINE, {"main": {"head": 5}, "old": old}), policy, NOW)
    assert gone(confirmed) == [1, 2, 3, 4]
    assert [ref.name for ref in confirmed.refs_removed] == ["old"]
    moved = {"main": {"head": 5}, "old": old | {"head": 2}, "new": old | {"head": 3}}
    again = decide_again(history(LINE, moved), policy, NOW, confirmed)
    assert gone(again) == [1, 4]
    assert again.refs_removed == ()


def test_a_decision_made_again_passes_over_named_snapshots_that_are_gone():
    policy = AskedRetention(expire_ids=(1, 2))
    confirmed = decide(history(LINE, {"main": {"head": 5}}), policy, NOW)
    again = decide_again(history(LINE[1:], {"main": {"head": 5}}), policy, NOW, confirmed)
    assert gone(again) == [2]


def test_a_decision_made_again_refuses_a_named_snapshot_that_became_a_head():
    policy = AskedRetention(expire_ids=(2,))
    confirmed = decide(history(LINE, {"main": {"head": 5}}), policy, NOW)
    newer = history(LINE, {"main": {"head": 5}, "v1": {"head": 2, "type": "tag"}})
    with pytest.raises(Refused, match="head of tag v1"):
        decide_again(newer, policy, NOW, confirmed)


def test_a_decision_made_again_on_the_same_metadata_is_the_same():
    policy = AskedRetention(older_than_ms=NOW, keep_daily=2)
    metadata = history(LINE, {"main": {"head": 5}, "v1": {"head": 1, "type": "tag"}})
    confirmed = decide(metadata, policy, NOW)
    assert decide_again(metadata, policy, NOW, confirmed) == confirmed
