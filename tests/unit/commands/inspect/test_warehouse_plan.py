"""Many tables: how they grew together, and which needs maintenance most."""

from typing import Any

from icectl.commands.inspect.warehouse_page import periods
from icectl.commands.inspect.warehouse_plan import by_need, totals

DAY_MS = 86_400_000


def grown(*days: tuple[int, int, int | None], is_whole: bool = True) -> dict[str, Any]:
    """A history: days, the snapshots of each, and the bytes after it."""
    keys = ("day_ms", "snapshot_count", "total_bytes")
    return {
        "days": [dict(zip(keys, (day * DAY_MS, *rest), strict=True)) for day, *rest in days],
        "is_whole": is_whole,
    }


def test_tables_count_with_what_their_last_snapshot_says():
    found = periods([grown((10, 2, 100), (12, 1, 70)), grown((11, 4, 5), (13, 1, None))])
    assert [(one.from_ms // DAY_MS, one.snapshot_count, one.total_bytes) for one in found] == [
        (10, 2, 100), (11, 4, 105), (12, 1, 75), (13, 1, 75),
    ]  # fmt: skip


def test_a_table_whose_first_snapshots_have_expired_was_there_before():
    whole, cut = grown((0, 1, 10)), grown((2, 1, 30), is_whole=False)
    assert [one.total_bytes for one in periods([whole, cut])] == [40, 40, 40]
    assert [one.total_bytes for one in periods([whole, grown((2, 1, 30))])] == [10, 10, 40]


def test_a_long_time_is_told_in_sixty_periods_at_most():
    found = periods([grown((0, 1, 1), (60, 1, 2), (119, 1, 3), (120, 1, 4))])
    assert len(found) == 41
    assert {one.day_count for one in found} == {3}
    assert sum(one.snapshot_count for one in found) == 4
    assert [found[at].total_bytes for at in (0, 19, 20, 39, 40)] == [1, 1, 2, 3, 4]
    assert periods([]) == periods([{"days": [], "is_whole": False}]) == []


def test_what_cannot_be_read_comes_first_and_what_needs_nothing_last():
    rows = [
        {"table": name, "verdict": verdict, "benefit_bytes": benefit}
        for name, verdict, benefit in (
            ("well", "ok", 900), ("b", "attention", 5), ("a", "attention", 5),
            ("bad", "critical", 1), ("more", "attention", 6), ("lost", None, None),
        )
    ]  # fmt: skip
    assert [row["table"] for row in by_need(rows)] == ["lost", "bad", "more", "a", "b", "well"]


def test_of_tables_that_cannot_be_read_nothing_is_counted():
    known = dict.fromkeys(
        (
            "data_file_count", "data_file_bytes", "surplus_file_count", "delete_file_count",
            "delete_file_bytes", "manifest_count", "surplus_manifest_count", "snapshot_count",
            "expirable_snapshot_count", "reclaimable_bytes", "untracked_metadata_file_count",
        ),
        3,
    )  # fmt: skip
    found = totals([{"verdict": "ok", **known}, {"verdict": None, **dict.fromkeys(known)}])
    assert found["verdicts"] == {"ok": 1, "attention": 0, "critical": 0, "unread": 1}
    assert (found["table_count"], found["reclaimable_bytes"]) == (2, 3)
