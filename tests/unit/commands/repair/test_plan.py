"""Choosing among repairs, and saying why the rest is left."""

from dataclasses import replace

import pytest

from icectl.checks.rule import Finding
from icectl.commands.repair.plan import Fix, Kind, RemainingFinding, RepairPlan, plan
from icectl.errors import UsageError
from icectl.table.recovery import Loss

LENGTH = Finding("R-050", "warning", "/t/m0.avro", "its length is 5", "hint")
LOST = Finding("R-034", "error", "/t/data/a.parquet", "the data file is missing", "hint")
HINT = Finding("R-163", "info", "version-hint.text", "it says 1", "hint")


def fix(kind: Kind, name: str | None = None, *answers: Finding) -> Fix:
    return Fix(kind, name, "subject", "what", "proof", answers=frozenset(answers))


ROW = fix("list-row", "m0.avro", LENGTH)


def planned(*skip: str, fixes: tuple[Fix, ...] = (ROW,)) -> RepairPlan:
    return plan("files", "main", fixes, (LENGTH, LOST, HINT), skip)


def test_findings_that_no_repair_answers_are_left_with_a_reason_but_for_infos():
    found = planned()
    assert [one.id for one in found.fixes] == ["list-row:m0.avro"]
    assert found.left == (
        RemainingFinding(LOST, "the file is gone, and nothing else says what was in it"),
    )
    assert (found.has_work, found.skipped) == (True, ())


def test_a_repair_takes_and_brings_back_no_row_unless_it_says_so():
    assert Loss() == ROW.loss


def test_what_all_repairs_lose_is_added_up():
    head, entry = (replace(ROW, loss=one) for one in (Loss(7, 1, snapshots=2), Loss(3, 0)))
    assert planned(fixes=(head, ROW, entry)).loss == Loss(10, 1, snapshots=2)


def test_a_repair_of_which_there_is_one_is_named_by_its_kind():
    assert (fix("version-hint").id, ROW.id) == ("version-hint", "list-row:m0.avro")


def test_repairs_of_some_kinds_are_told_in_their_order():
    one, two, three = fix("list-row", "b"), fix("metrics", "a"), fix("list-row", "a")
    found = planned(fixes=(one, two, three))
    assert found.of("list-row") == (one, three)
    assert found.of("metrics", "list-row") == (one, three, two)
    assert found.of("manifest") == ()


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("R-034", "the file is gone, and nothing else says what was in it"),
        ("R-063", "the footer of the file does not prove what the manifest should say"),
        ("R-066", "it is unknown which of the entries is right"),
        ("R-099", "the file can't be read: restore it, or move it away and use `--drop-missing`"),
        ("R-012", "nothing else in the table proves the right content"),
        ("V4-023", "nothing else in the table proves the right content"),
        ("V4-081", "roots and leaves of version 4 are not rebuilt"),
    ],
)
def test_what_stays_has_the_reason_of_its_rule(rule, reason):
    finding = Finding(rule, "error", "/t/a", "it is broken", "hint")
    assert plan("files", "main", (), (finding,), ()).left == (RemainingFinding(finding, reason),)


@pytest.mark.parametrize("skip", ["list-row", "list-row:m0.avro"])
def test_a_repair_is_skipped_by_its_kind_and_by_its_id(skip):
    found = planned(skip)
    assert (found.fixes, found.skipped) == ((), (ROW,))
    assert found.left[0] == RemainingFinding(LENGTH, "skipped as requested")
    assert not found.has_work
    assert found.errors_left == (LOST,)


def test_a_kind_that_has_nothing_to_do_may_be_skipped():
    assert planned("version-hint", "metrics:gone.avro").fixes == (ROW,)


def test_a_repair_that_there_is_not_cannot_be_skipped():
    with pytest.raises(UsageError, match="there is no repair `list-rw`") as raised:
        planned("list-rw")
    assert raised.value.hint == "did you mean `list-row`?"
    with pytest.raises(UsageError, match=r"there is no repair `list-rw:m0\.avro`") as raised:
        planned("list-rw:m0.avro")
    assert raised.value.hint == "did you mean `list-row:m0.avro`?"
    with pytest.raises(UsageError, match="there is no repair `xyz`") as raised:
        planned("xyz")
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("kinds are `metadata-file`, `version-hint`, ")


def test_what_leads_to_the_metadata_is_told_first():
    later = fix("lost-data", "a.parquet", LOST)
    found = planned(fixes=(later, ROW, fix("version-hint", None, HINT)))
    assert [one.kind for one in found.fixes] == ["version-hint", "list-row", "lost-data"]
    assert found.left == ()


def test_a_search_s_own_reason_is_told_before_the_usual_one():
    reason = RemainingFinding(LOST, "nothing else has its 4 rows")
    assert plan("files", "main", (), (LOST,), (), (reason,)).left == (reason,)


def test_warnings_alone_are_no_reason_to_refuse():
    found = plan("files", "main", (), (LENGTH,), ())
    assert (found.has_work, found.errors_left) == (False, ())
