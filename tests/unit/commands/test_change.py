"""The order of a run that changes a table, whatever the command."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from icectl.cli.options import Change, RunLimits
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.errors import CommitConflict, Refused, StorageError

TABLE = SimpleNamespace(
    metadata=SimpleNamespace(location="/t", table_uuid="u", format_version=2),
    metadata_location="/t/metadata/v1.metadata.json",
)
AFTER = "/t/metadata/v2.metadata.json"
REFUSAL = Refused("too much", id="too-much")


@dataclass
class Watched:
    """A session, a console and a command at once, which notes what happens to it."""

    answer: bool = True
    deleted_files: int | None = None
    outdated: bool = False
    conflict: bool = False
    is_complete: bool = True
    happened: list[str] = field(default_factory=list)
    asks: bool = True

    @property
    def console(self) -> "Watched":
        return self

    @property
    def context(self) -> "Watched":
        return self

    @property
    def limits(self) -> RunLimits:
        return RunLimits(deleted_files=self.deleted_files)

    def approve(self, result) -> None:
        self.happened.append(f"approve {result()['report']}")
        if self.outdated:
            raise CommitConflict("another plan")

    def ask(self, question: str) -> bool:
        self.happened.append(question)
        return self.answer

    def show(self, _, report: str, whole: bool) -> None:
        self.happened.append(f"show {report}{' whole' if whole else ''}")

    def execute(self) -> Finished[str]:
        self.happened.append("execute")
        if self.conflict:
            raise CommitConflict("another writer was faster")
        return Finished("outcome", AFTER, self.is_complete, ["/t/a", "/t/b"])

    def run(self, change: Change, **more):
        planned = PlannedChange(
            command="tidy",
            loaded=TABLE,
            report="plan",
            result=lambda report: {"report": report},
            show=self.show,
            has_work=True,
            execute=self.execute,
            superseded=lambda: "superseded",
            clean_up=lambda: self.happened.append("clean up"),
            question="tidy?",
        )
        return carry_out(self, change, replace(planned, **more))


def ended(outcome) -> tuple[str, int, str, bool]:
    return outcome.status, outcome.exit_code, outcome.result["report"], outcome.dry_run


def test_a_plan_is_approved_shown_and_confirmed_before_it_is_executed():
    run = Watched()
    outcome = run.run(Change())
    assert run.happened == ["approve plan", "show plan", "tidy?", "execute"]
    assert ended(outcome) == ("done", 0, "outcome", False)
    assert outcome.table.metadata_location == TABLE.metadata_location
    assert outcome.table.metadata_location_after == AFTER


@pytest.mark.parametrize(
    ("change", "more"), [(Change(yes=True), {}), (Change(), {"question": None})]
)
def test_nobody_is_asked_where_that_is_not_wanted(change, more):
    run = Watched()
    run.run(change, **more)
    assert run.happened == ["approve plan", "execute"]


def test_a_no_changes_nothing():
    run = Watched(answer=False)
    with pytest.raises(Refused, match="nothing was changed"):
        run.run(Change())
    assert "execute" not in run.happened


@pytest.mark.parametrize(
    ("change", "more", "expected"),
    [
        (Change(dry_run=True), {}, ("planned", 0)),
        (Change(check=True), {}, ("planned", 4)),
        (Change(dry_run=True), {"errors_left": True}, ("planned", 4)),
        (Change(dry_run=True), {"refusal": REFUSAL}, ("refused", 5)),
        (Change(check=True), {"refusal": REFUSAL}, ("refused", 5)),
        (Change(dry_run=True), {"has_work": False}, ("nothing-to-do", 0)),
        (Change(check=True), {"has_work": False}, ("nothing-to-do", 0)),
        (Change(check=True), {"has_work": False, "errors_left": True}, ("refused", 5)),
    ],
)
def test_a_plan_alone_executes_nothing_and_cleans_nothing_up(change, more, expected):
    run = Watched()
    outcome = run.run(change, **more)
    assert ended(outcome) == (*expected, "plan", True)
    outcome.render(run)
    assert run.happened == ["approve plan", "show plan whole"]


def test_a_plan_that_may_not_be_executed_warns_and_is_refused_before_the_question():
    run = Watched()
    more = {"refusal": REFUSAL, "warnings": ["too much: refused"]}
    assert run.run(Change(dry_run=True), **more).warnings == ["too much: refused"]
    with pytest.raises(Refused, match="too much"):
        run.run(Change(), **more)
    assert run.happened == ["approve plan", "approve plan"]


@pytest.mark.parametrize(
    ("errors_left", "expected"), [(False, ("nothing-to-do", 0)), (True, ("refused", 5))]
)
def test_leftovers_are_removed_where_there_is_no_work(errors_left, expected):
    run = Watched()
    outcome = run.run(Change(), has_work=False, errors_left=errors_left)
    assert run.happened == ["approve plan", "clean up"]
    assert ended(outcome) == (*expected, "plan", False)


@pytest.mark.parametrize("has_work", [False, True])
def test_a_plan_other_than_the_reviewed_one_ends_the_run_at_once(has_work):
    run = Watched(outdated=True)
    with pytest.raises(CommitConflict, match="another plan"):
        run.run(Change(yes=True, skip_if_busy=True), has_work=has_work)
    assert run.happened == ["approve plan"]


def test_more_files_than_the_limit_are_refused_before_the_list_is_begun(tmp_path):
    run, list_ = Watched(deleted_files=1), tmp_path / "deleted"
    with pytest.raises(Refused) as refused:
        run.run(Change(yes=True, deleted_list=str(list_)), deleted_file_count=2)
    assert refused.value.error_id == "over-budget"
    assert (run.happened, list_.exists()) == (["approve plan"], False)


@pytest.mark.parametrize("conflict", [False, True])
def test_the_list_names_the_deleted_files_and_is_begun_before(tmp_path, conflict):
    run, list_ = Watched(conflict=conflict), tmp_path / "deleted"
    change = Change(yes=True, skip_if_busy=True, deleted_list=str(list_))
    run.run(change, deleted_file_count=2)
    assert list_.read_text() == ("" if conflict else "/t/a\n/t/b\n")


def test_a_list_that_cannot_be_written_ends_the_run_before_the_execution(tmp_path):
    run = Watched()
    with pytest.raises(StorageError, match="cannot write the list"):
        run.run(Change(yes=True, deleted_list=str(tmp_path)), deleted_file_count=2)
    assert "execute" not in run.happened


def test_another_writer_is_an_error_unless_the_run_gives_way():
    with pytest.raises(CommitConflict):
        Watched(conflict=True).run(Change(yes=True))
    outcome = Watched(conflict=True).run(Change(yes=True, skip_if_busy=True))
    assert ended(outcome) == ("nothing-to-do", 0, "superseded", False)
    assert outcome.table.metadata_location_after is None


def test_an_execution_that_left_something_undone_is_incomplete():
    outcome = Watched(is_complete=False).run(Change(yes=True))
    assert ended(outcome) == ("incomplete", 3, "outcome", False)
    assert outcome.table.metadata_location_after == AFTER
