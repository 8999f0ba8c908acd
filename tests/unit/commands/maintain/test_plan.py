"""What maintaining many tables decides: patterns, windows, needs, whose turn it is."""

from dataclasses import replace
from typing import Any

import pytest

from icectl.cli.patterns import fixed_part, matches
from icectl.commands.bill import LOCAL_RATES, Bill, Work
from icectl.commands.maintain.plan import (
    VALIDATE,
    WORKER_ENDED,
    AssessedTable,
    Need,
    RunBudget,
    Schedule,
    StepEnd,
    TableRun,
    TableSize,
    needs,
)
from icectl.commands.maintain.policy import parse_window
from icectl.commands.outcomes import Status, exit_code_of
from icectl.commands.steps import Judgement, Measure
from icectl.errors import CorruptTable, Refused, UsageError

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("pattern", "name", "holds"),
    [
        ("prod.sales.*", "prod.sales.orders", True),
        ("prod.sales.*", "prod.sales.eu.orders", False),
        ("prod.**", "prod.sales.eu.orders", True),
        ("prod.**", "prod", True),
        ("prod.**", "test.sales", False),
        ("**", "prod.sales.orders", True),
        ("prod.**.orders", "prod.orders", True),
        ("prod.**.orders", "prod.a.b.orders", True),
        ("prod.**.orders", "prod.a.b.order", False),
        ("prod.*.o?d[ae]rs", "prod.sales.orders", True),
        ("prod.*.o?d[ae]rs", "prod.sales.ordirs", False),
        ("prod.Sales.*", "prod.sales.orders", False),
    ],
)
def test_a_star_is_within_one_name_and_two_are_any_number_of_names(pattern, name, holds):
    assert matches(pattern.split("."), name.split(".")) is holds


def test_what_is_in_front_of_a_pattern_is_fixed():
    assert fixed_part(("prod", "sales", "*", "x")) == ("prod", "sales")
    assert fixed_part(("prod",)) == ("prod",)


@pytest.mark.parametrize(
    ("text", "instant_ms", "left_minutes"),
    [
        # 2027-01-15T08:00:00Z, which is 09:00 in Berlin
        ("08:00-09:00", NOW_MS, 60),
        ("07:00-08:00", NOW_MS, None),
        ("22:00-08:30", NOW_MS, 30),
        ("22:00-06:00 Europe/Berlin", NOW_MS, None),
        ("22:00-06:00 Europe/Berlin", NOW_MS + 14 * 3_600_000, 7 * 60),
        ("08:30-10:00 Europe/Berlin", NOW_MS, 60),
        ("00:00-24:00", NOW_MS, 16 * 60),
    ],
)
def test_a_window_is_open_by_the_clock_of_its_zone(text, instant_ms, left_minutes):
    left = parse_window(text).left_ms(instant_ms)
    assert left == (None if left_minutes is None else left_minutes * 60_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("at night", "`at night` is not a time window"),
        ("25:00-06:00", "`25:00-06:00` is not a time window: there is no such time of day"),
        ("22:00-06:60", "`22:00-06:60` is not a time window: there is no such time of day"),
        ("22:00-06:00 Mars/Base", "this machine has no time zone `Mars/Base`"),
    ],
)
def test_what_is_no_window_is_refused(text, message):
    with pytest.raises(UsageError) as caught:
        parse_window(text)
    assert caught.value.message == message


FINE = TableSize(
    data_file_count=10, data_file_bytes=1_000_000, delete_file_count=0, delete_file_bytes=0,
    manifest_count=2, manifest_bytes=10_000, snapshot_count=3, expirable_snapshot_count=0,
    metadata_file_count=4,
)  # fmt: skip
LIMITS = {
    "compact": {"files-to-save": 5, "dangling-deletes": 1},
    "expire-snapshots": {"snapshots-past-retention": 0},
    "remove-orphans": {"every": 7 * DAY_MS, "untracked-metadata-files": 20},
}
ALL = tuple(LIMITS)
DAMAGE = CorruptTable("a file is damaged", rule="R-060")


def work(**measures: float) -> Judgement:
    """What a step would do, by its measures."""
    named = {name.replace("_", "-"): value for name, value in measures.items()}
    return Judgement(
        None, tuple(Measure(*item, f"{item[1]:g} {item[0]}") for item in named.items())
    )


def found(judged: dict[str, Judgement], *steps: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The steps that are needed with their reasons, and those withheld."""
    needed, withheld = needs(judged, LIMITS, steps or ALL, {})
    return [(need.step, need.reason) for need in needed], [one.step for one in withheld]


@pytest.mark.parametrize(
    ("judged", "needed"),
    [
        ({"compact": work()}, []),
        ({"compact": work(files_to_save=4)}, []),
        ({"compact": work(files_to_save=5)}, [("compact", "5 files-to-save")]),
        (
            {"compact": work(files_to_save=4, dangling_deletes=1)},
            [("compact", "1 dangling-deletes")],
        ),
        (
            {"expire-snapshots": work(snapshots_past_retention=1)},
            [("expire-snapshots", "1 snapshots-past-retention")],
        ),
        ({"remove-orphans": work(every=7 * DAY_MS - 1, untracked_metadata_files=19)}, []),
        (
            {"remove-orphans": work(every=7 * DAY_MS)},
            [("remove-orphans", "6.048e+08 every")],
        ),
    ],
)
def test_a_step_is_needed_if_it_has_work_that_reaches_a_threshold(judged, needed):
    assert found(judged) == (needed, [])


@pytest.mark.parametrize(
    ("step", "days", "most", "is_run"),
    [
        ("compact", 10.0, 9.9, False),
        ("compact", 10.0, 10.0, True),
        ("compact", 10.0, None, True),
        ("compact", None, 1.0, True),  # nobody knows when it pays back
        ("expire-rows", 10.0, 1.0, True),  # it is owed
    ],
)
def test_a_step_that_pays_back_too_late_is_withheld(step, days, most, is_run):
    limits = {**LIMITS, "expire-rows": {"expired-rows": 0}}
    judged = {step: work(files_to_save=9, expired_rows=1)}
    per_month = 0 if days is None else 365.25 / 12 / days  # at a price of 1
    bills = {step: Bill(Work(), 1, LOCAL_RATES, 1, 0, per_month)}
    needed, withheld = needs(judged, limits, [step], bills, most)
    assert ([need.step for need in needed] == [step], bool(withheld)) == (is_run, not is_run)
    if is_run:
        assert needed[0].bill == bills[step]
    else:
        assert withheld[0].reason == "payback takes 10.0 days, and `payback-max` is 9.9"


def priced(step: str, cost: float, per_month: float = 0, size: int = 0, benefit: int = 0) -> Need:
    """A step of a price, which frees storage for as much a month, and reads bytes."""
    work = Work(decoded_bytes=size)
    return Need(step, "", benefit, Bill(work, 1, LOCAL_RATES, cost, 0, per_month))


def in_budget(budget: RunBudget, *needs: Need) -> list[TableRun]:
    """Tables called a, b ... with a step each, that a budget is shared out to."""
    tables = [
        TableRun(name, AssessedTable(FINE, (need,)))
        for name, need in zip("abcd", needs, strict=False)
    ]
    for one in tables:
        one.begin(budget)
    budget.share_out(tables)
    return tables


def let_in(tables: list[TableRun]) -> str:
    return "".join(one.name for one in tables if one.left)


def test_a_budget_of_money_goes_to_the_steps_that_pay_back_first():
    needs_ = [
        priced("expire-snapshots", 4, 1),
        priced("analyze", 3, 3),
        priced("expire-rows", 2),  # it is owed
        priced("remove-orphans", 1),  # nobody knows when it pays back
    ]
    budget = RunBudget(price=6)
    tables = in_budget(budget, *needs_)
    assert let_in(tables) == "bcd"
    assert budget.reason(needs_[0]) == "the price is 4.00, and `--max-price` leaves 0.00"
    assert let_in(in_budget(RunBudget(price=1), *needs_)) == "c"
    assert let_in(in_budget(RunBudget(price=10), *needs_)) == "abcd"
    first = Schedule(tables).next()
    assert first is not None
    assert first.name == "b"


def test_a_compaction_gets_the_part_that_is_left_of_a_budget():
    both = [priced("compact", 8, 1, 800, benefit=9), priced("compact", 8, 2, 400)]
    one, other = in_budget(RunBudget(rewritten_bytes=600), *both)
    assert (one.most_bytes("compact"), other.most_bytes("compact")) == (200, None)
    bill = one.left[0].bill
    assert bill is not None
    assert (bill.cost, bill.work.decoded_bytes, bill.payback_days) == (2, 200, 8 * 365.25 / 12)
    one, other = in_budget(RunBudget(price=12), *both)
    assert (one.most_bytes("compact"), other.most_bytes("compact")) == (400, None)
    # Without money those that bring most for their bytes come first.
    plain = [replace(need, bill=replace(need.bill, cost=None)) for need in both if need.bill]
    assert let_in(in_budget(RunBudget(rewritten_bytes=800), *plain)) == "a"


def test_a_whole_compaction_may_use_what_is_free_and_no_more():
    both = [priced("compact", 8, 2, 400), priced("compact", 8, 1, 300)]
    budget = RunBudget(rewritten_bytes=1000)
    one, other = tables = in_budget(budget, *both)
    for table in tables:
        assert table.start(None) is None  # the validation
        ended(table, VALIDATE)
    # the first is lent what is free, so the other has its own bytes alone
    assert [table.start(None) for table in tables] == [400 + 300, 300]
    one.ended(StepEnd("compact", "done", figures={"rewritten_bytes": 500}), None)
    assert budget.rewritten_bytes == 200
    other.ended(StepEnd("compact", "done", figures={"rewritten_bytes": 300}), None)
    assert budget.rewritten_bytes == 200


def test_a_compaction_that_seems_to_rewrite_nothing_may_use_what_is_free_alone():
    budget = RunBudget(rewritten_bytes=500)
    tables = in_budget(budget, priced("compact", 0), priced("compact", 8, 1, 300))
    for table in tables:
        ended(table, VALIDATE)
    assert [table.start(None) for table in tables] == [200, 300]
    figures = {"rewritten_bytes": 50, "converted_bytes": 100}
    tables[0].ended(StepEnd("compact", "done", figures=figures), None)
    assert budget.rewritten_bytes == 50
    (one,) = in_budget(RunBudget(price=5), priced("compact", 1))  # at no price for bytes
    ended(one, VALIDATE)
    assert one.start(None) == 0


def test_a_budget_of_the_policy_that_is_less_is_the_one_that_is_told():
    (one,) = in_budget(RunBudget(rewritten_bytes=600), priced("compact", 8, 1, 800))
    ended(one, VALIDATE)
    assert one.start(599) is None
    (one,) = in_budget(RunBudget(rewritten_bytes=600), priced("compact", 8, 1, 800))
    ended(one, VALIDATE)
    assert one.start(601) == 600


def test_what_a_compaction_could_not_use_goes_to_others_and_damage_ends_waiting():
    budget = RunBudget(rewritten_bytes=300)
    both = [priced("compact", 8, 8, 800), priced("compact", 8, 1, 300)]
    one, other = tables = in_budget(budget, *both)
    assert (let_in(tables), list(other.waiting)) == ("a", ["compact"])
    ended(one, VALIDATE)
    ended(one, "compact", "nothing-to-do")
    budget.share_out(tables)
    assert (let_in(tables), other.most_bytes("compact")) == ("b", None)
    least = RunBudget(rewritten_bytes=0)
    again = in_budget(least, *both)[0]
    assert least.reason(both[0]) == "it rewrites 800 B, and `--max-rewrite` leaves 0 B"
    again.left = [priced("analyze", 1)]
    ended(again, VALIDATE, "failed", 15)
    assert ([item.step for item in again.withheld], again.waiting) == (["analyze", "compact"], {})


def test_what_is_given_back_lets_no_step_in_before_one_that_runs():
    budget = RunBudget(rewritten_bytes=800)
    compaction = priced("compact", 8, 8, 800)
    one, other = tables = in_budget(budget, compaction, priced("expire-snapshots", 1))
    other.waiting["compact"] = priced("compact", 8, 1, 500)
    for table in tables:
        ended(table, VALIDATE)
    assert [table.start(None) for table in tables] == [800, None]
    one.ended(StepEnd("compact", "done", figures={"rewritten_bytes": 100}), None)
    budget.share_out(tables)
    assert other.next_step == "expire-snapshots"  # it is still running
    ended(other, "expire-snapshots")
    budget.share_out(tables)
    assert ([need.step for need in other.left], budget.rewritten_bytes) == (["compact"], 200)


def test_steps_that_another_step_has_caused_ask_the_budget_too():
    budget = RunBudget(price=5)
    (one,) = in_budget(budget, priced("compact", 4, size=10))
    ended(one, VALIDATE)
    caused = (priced("compact", 4, size=10), priced("analyze", 3), priced("remove-orphans", 1))
    one.ended(StepEnd("compact", "done"), AssessedTable(FINE, caused))
    budget.share_out([one])
    assert [need.step for need in one.left] == ["remove-orphans"]
    assert list(one.waiting) == ["analyze"]


def test_steps_that_are_needed_no_more_wait_no_more_and_leave_their_budget_to_others():
    budget = RunBudget(price=5)
    one, other = tables = in_budget(budget, priced("compact", 1), priced("analyze", 9))
    one.waiting["expire-snapshots"] = priced("expire-snapshots", 7)
    one.let_in(one.waiting.setdefault("analyze", priced("analyze", 4)))
    budget.price = 0
    ended(one, VALIDATE)
    one.ended(StepEnd("compact", "done"), AssessedTable(FINE, ()))
    assert (one.left, one.waiting, one.status, budget.price) == ([], {}, "done", 4)
    other.waiting["analyze"] = priced("analyze", 4)
    budget.share_out(tables)
    ended(other, VALIDATE, "failed", 15)
    assert (other.left, budget.price) == ([], 4)


def test_only_steps_that_may_be_run_are_needed():
    judged = {"compact": work(files_to_save=9), "expire-snapshots": work(reclaimable=1)}
    assert [step for step, _ in found(judged)[0]] == ["compact", "expire-snapshots"]
    assert [step for step, _ in found(judged, "expire-snapshots")[0]] == ["expire-snapshots"]


def test_a_step_that_would_be_refused_is_withheld_and_damage_is_reported_by_its_run():
    judged = {
        "compact": replace(work(), error=DAMAGE),
        "expire-snapshots": replace(work(reclaimable=1), error=Refused("no")),
        "remove-orphans": replace(work(every=1), error=Refused("no")),
    }
    assert found(judged) == ([("compact", DAMAGE.message)], ["expire-snapshots"])


@pytest.mark.parametrize("code", [13, 14, 15])
def test_after_a_sign_of_damage_the_other_steps_are_withheld(code):
    one = table("a", "compact", "expire-snapshots", "remove-orphans")
    ended(one, VALIDATE)
    ended(one, "compact", "failed", code)
    assert (one.next_step, one.status, one.exit_code) == (None, "failed", code)
    assert [step.step for step in one.withheld] == ["expire-snapshots", "remove-orphans"]


def table(name: str, *steps: str, benefit: int = 1) -> TableRun:
    return TableRun(name, AssessedTable(FINE, tuple(Need(step, "", benefit) for step in steps)))


def ended(one: TableRun, step: str, status: Status = "done", code: int = 0, **more: Any) -> None:
    one.ended(StepEnd(step, status, code, **more), None)


def test_tables_with_most_to_gain_come_first():
    schedule = Schedule([table("a", "compact"), table("b", "compact", benefit=9), table("c")])
    first = schedule.next()
    assert first is not None
    assert (first.name, first.next_step) == ("b", VALIDATE)
    first.is_running = True
    second = schedule.next()
    assert second is not None
    assert second.name == "a"
    second.is_running = True
    assert schedule.next() is None


def test_a_step_that_lost_is_tried_again_once_when_the_others_had_their_turn():
    lost, other = table("a", "compact", "expire-snapshots", benefit=9), table("b", "compact")
    schedule = Schedule([lost, other])
    ended(lost, VALIDATE)
    ended(lost, "compact", "conflict", 11)
    assert schedule.next() is other
    ended(other, VALIDATE)
    ended(other, "compact")
    assert schedule.next() is lost
    assert lost.next_step == "compact"
    ended(lost, "compact", "conflict", 11)
    assert lost.next_step == "expire-snapshots"
    ended(lost, "expire-snapshots")
    assert (schedule.next(), lost.status, lost.exit_code) == (None, "conflict", 11)


@pytest.mark.parametrize(
    "first", [("conflict", 11, {}), ("incomplete", 3, {"failed": 2, "lost_groups": 2})]
)
def test_a_second_try_that_succeeds_is_what_counts(first):
    lost = table("a", "compact")
    status, code, figures = first
    ended(lost, VALIDATE)
    ended(lost, "compact", status, code, figures=figures)
    ended(lost, "compact")
    assert (lost.status, lost.exit_code, len(lost.ends)) == ("done", 0, 1)


def test_what_failed_for_another_reason_is_not_tried_again():
    one = table("a", "compact")
    ended(one, VALIDATE)
    ended(one, "compact", "incomplete", 3, figures={"failed": 2, "lost_groups": 1})
    assert (one.next_step, one.status, one.exit_code) == (None, "incomplete", 3)


def test_after_an_unknown_outcome_no_step_touches_the_table():
    one = table("a", "compact", "expire-snapshots")
    ended(one, VALIDATE)
    ended(one, "compact", "unknown", 12)
    assert (one.next_step, one.status, one.exit_code) == (None, "unknown", 12)


def test_a_refused_or_failed_step_does_not_keep_the_next_from_its_turn():
    one = table("a", "compact", "expire-snapshots")
    ended(one, VALIDATE)
    ended(one, "compact", "failed", 16)
    assert one.next_step == "expire-snapshots"
    ended(one, "expire-snapshots", "refused", 5)
    assert (one.next_step, one.status, one.exit_code) == (None, "failed", 16)


def test_after_a_step_whose_process_died_no_other_one_follows():
    one = table("a", "compact", "expire-snapshots")
    ended(one, VALIDATE)
    ended(one, "compact", "failed", 16, error_id=WORKER_ENDED)
    assert (one.next_step, one.status, one.exit_code) == (None, "failed", 16)


def test_an_unhealthy_table_is_skipped():
    one = table("a", "compact")
    ended(one, VALIDATE, "failed", 4, reason="bad")
    assert (one.next_step, one.status, one.exit_code) == (None, "failed", 4)


def test_what_was_not_reached_is_incomplete():
    one = table("a", "compact", "expire-snapshots")
    assert (one.status, one.exit_code) == ("incomplete", 3)
    ended(one, VALIDATE)
    ended(one, "compact")
    assert (one.status, one.exit_code) == ("incomplete", 3)
    ended(one, "expire-snapshots", "incomplete", 3, error_id="time-limit")
    assert (one.next_step, one.status) == (None, "incomplete")


def test_what_a_step_brings_about_is_dealt_with_in_the_same_run():
    one = table("a", "compact", "expire-snapshots")
    ended(one, VALIDATE)
    after = AssessedTable(FINE, (Need("compact", "", 1), Need("rewrite-manifests", "", 1)))
    one.ended(StepEnd("compact", "done"), after)
    assert [need.step for need in one.left] == ["rewrite-manifests"]


def test_of_steps_that_stand_alone_one_runs_at_a_time():
    tables = [table(name, "compact") for name in "abc"]
    for one in tables:
        ended(one, VALIDATE)
    schedule = Schedule(tables, alone=frozenset({("a", "compact"), ("b", "compact")}))
    first = schedule.next()
    assert first is tables[0]
    first.is_running = True
    assert schedule.next() is tables[2]


@pytest.mark.parametrize(
    ("codes", "check", "code"),
    [
        ([0, 0], False, 0), ([0, 5], False, 3), ([4, 0], False, 3), ([16, 12, 0], False, 12),
        ([4, 0], True, 4), ([4, 13], True, 4), ([13, 0], True, 3), ([4, 12], True, 12),
        ([], False, 0),
    ],
)  # fmt: skip
def test_the_exit_code_is_the_worst_of_all(codes, check, code):
    assert exit_code_of(codes, check=check) == code
