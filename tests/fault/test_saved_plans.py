"""Plans that are saved, reviewed and applied: exactly that or nothing, for every command."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from icectl.cli.document import Outcome, plan_schema
from icectl.cli.options import Invocation, Shell
from icectl.cli.plans import sealed_plan
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from tests.builders.orphans import age
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import COMPACT, EXPIRE, NAMES, STRAYS, Subject, run, subject_of
from tests.stores.wrapped import WRITES, WrappedStore

KILLED = ("expire-v2", "remove-orphans", "rewrite-manifests", "compact-v2")


@pytest.fixture(scope="module", params=[name for name in NAMES if name != "erase"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return subject_of(request.param, tmp_path_factory.mktemp("plans"))


def saved(subject: Subject) -> Path:
    """A plan of the table as it was built, which is left as it is."""
    subject.restore()
    before = subject.contents()
    place = subject.directory.parent / "plan.json"
    code, document = run([*subject.words, "--dry-run", "--save-plan", str(place)])
    assert (code, document["status"]) == (0, "planned")
    assert subject.contents() == before
    plan = read(place)
    assert plan["result"] == document["result"]
    Draft202012Validator(plan_schema(subject.words[0])).validate(plan)
    return place


@pytest.fixture(scope="module")
def plan(subject: Subject) -> Path:
    return saved(subject)


@pytest.fixture(scope="module")
def undisturbed(subject: Subject) -> tuple[dict[str, Any], set[str]]:
    """The result of the command itself, and the old files that it leaves."""
    subject.restore()
    code, document = subject.run()
    assert (code, document["status"]) == (0, "done")
    return document["result"], kept(subject)


def read(place: Path) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(place.read_text())
    return plan


def applied(place: Path, *options: str, store: Store | None = None) -> tuple[int, dict[str, Any]]:
    return run(["apply", str(place), "--json", "--concurrency", "1", *options], store)


def kept(subject: Subject) -> set[str]:
    """The files of the table as it was built that are still there."""
    built = {str(path.relative_to(subject.pristine)) for path in subject.pristine.rglob("*")}
    return subject.files() & built


def counts(result: dict[str, Any]) -> dict[str, Any]:
    """What a result counts, and the old files and snapshots that it names."""
    new = ("snapshot_id", "snapshot_ids", "manifests_added", "bytes", "quarantine", "_file")
    return {key: value for key, value in result.items() if not key.endswith(new)}


def test_a_plan_that_is_applied_does_what_the_command_would_have_done(subject, plan, undisturbed):
    result, left = undisturbed
    told = counts(result)
    subject.restore()
    code, document = applied(plan)
    assert (code, document["status"], document["command"]) == (0, "done", subject.words[0])
    assert document["table"]["metadata_location"] == read(plan)["base"]["metadata_location"]
    subject.check_whole()
    assert kept(subject) == left
    if "bytes_after" not in told and "groups" not in told:
        assert counts(document["result"]) == told
    if subject.changing.commits:
        after = subject.contents()
        code, document = applied(plan)
        assert (code, document["error"]["id"]) == (11, "plan-outdated")
        assert subject.contents() == after


def test_a_dry_run_of_a_plan_changes_nothing(subject, plan):
    subject.restore()
    before = subject.contents()
    code, document = applied(plan, "--dry-run")
    assert (code, document["status"]) == (0, "planned")
    assert document["result"] == read(plan)["result"]
    assert subject.contents() == before


def test_a_table_that_has_moved_on_is_left_as_it_is(subject, plan):
    subject.restore()
    subject.commit_meanwhile()
    before = subject.contents()
    code, document = applied(plan)
    assert (code, document["error"]["id"]) == (11, "plan-outdated"), document
    assert "--allow-newer" in document["error"]["hint"]
    assert subject.contents() == before


class CommitBeforeTheFirstWrite(WrappedStore):
    """Another writer commits when a run is about to write its first file."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(LocalStore())
        self.subject, self.is_done = subject, False

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method in WRITES and not self.is_done:
            self.is_done = True
            self.subject.commit_meanwhile()
        return super().call(method, location, action)


@pytest.mark.parametrize("name", ["expire-v2", "rewrite-manifests", "compact-v2", "migrate"])
def test_a_commit_between_plan_and_commit_leaves_nothing_done(name, tmp_path):
    subject = subject_of(name, tmp_path)
    place = saved(subject)
    built = kept(subject)
    store = CommitBeforeTheFirstWrite(subject)
    code, document = applied(place, store=store)
    assert store.is_done
    assert (code, document["error"]["id"]) == (11, "plan-outdated"), document
    subject.check_whole()
    assert kept(subject) == built
    base = int(Path(read(place)["base"]["metadata_location"]).name[1:].partition(".")[0])
    assert subject.current() == f"v{base + 1}.metadata.json"


def test_of_a_newer_table_goes_what_the_plan_names_and_no_more(subject, plan, undisturbed):
    subject.restore()
    subject.commit_meanwhile()
    code, document = applied(plan, "--allow-newer")
    assert (code, document["status"]) == (0, "done"), document
    subject.check_whole()
    assert kept(subject) == undisturbed[1]
    assert read_metadata(current_metadata(subject.directory))["properties"]["meanwhile"] == "yes"


def test_a_plan_that_was_changed_is_refused(tmp_path):
    subject = subject_of("expire-v2", tmp_path)
    place = saved(subject)
    before = subject.contents()
    text = place.read_text()
    forged = [
        text.replace('"plan": 1', '"plan": 1, "more": 2'),
        text.replace(f'"instant_ms": {read(place)["instant_ms"]}', '"instant_ms": 5'),
        text.replace(str(subject.directory), f"{subject.directory}x", 1),
        json.dumps(read(place) | {"result": {}}),
    ]
    for one in forged:
        assert one != text
        place.write_text(one)
        for options in ((), ("--allow-newer",), ("--dry-run",)):
            code, document = applied(place, *options)
            assert (code, document["error"]["id"]) == (5, "plan-changed")
    place.write_text(json.dumps(read_text(text)))  # white space and order say nothing
    assert applied(place, "--dry-run")[0] == 0
    assert subject.contents() == before


def read_text(text: str) -> dict[str, Any]:
    return dict(reversed(json.loads(text).items()))


@pytest.mark.parametrize("name", KILLED)
def test_a_plan_whose_run_was_killed_is_finished_by_another(name, tmp_path, processes):
    subject = subject_of(name, tmp_path)
    place = saved(subject)
    assert subject.run()[0] == 0
    left = kept(subject)
    line = ["apply", str(place), "--json", "--concurrency", "1"]
    subject.restore()
    (whole,) = processes.run([line], directory=subject.directory)
    assert (whole.code, whole.document["status"]) == (0, "done")
    for nth in sorted({1, whole.steps // 3, whole.steps // 2, whole.steps}):
        subject.restore()
        before = subject.current()
        (ended,) = processes.run([line], directory=subject.directory, end="kill", nth=nth)
        assert ended.code == -9
        subject.check_whole()
        (again,) = processes.run([line], directory=subject.directory)
        if again.code == 11:  # it had committed, or some of its files were gone
            assert subject.current() != before or name == "remove-orphans"
            (again,) = processes.run([[*line, "--allow-newer"]], directory=subject.directory)
        assert again.code == 0, again.document
        subject.check_whole()
        assert kept(subject) == left


def planned(table: TableBuilder, *words: str) -> Path:
    place = table.directory.parent / "plan.json"
    line = [words[0], str(table.directory), *words[1:], "--json", "-n", "--save-plan", str(place)]
    assert run(line)[0] == 0
    return place


def test_snapshots_that_are_not_in_the_plan_stay(tmp_path):
    table = TableBuilder(tmp_path / "t")
    ids = [table.append([number]) for number in range(3)]
    place = planned(table, *EXPIRE)
    table.append([3])  # whose parent could go now
    table.ref("v1", snapshot_id=ids[0])
    code, document = applied(place, "--allow-newer")
    assert (code, document["status"]) == (0, "done")
    assert [item["snapshot_id"] for item in document["result"]["expired"]] == [str(ids[1])]
    metadata = read_metadata(current_metadata(table.directory))
    assert [item["snapshot-id"] for item in metadata["snapshots"]][:2] == [ids[0], ids[2]]
    assert run([*EXPIRE[:1], str(table.directory), *EXPIRE[1:], "--check", "--json"])[0] == 4


def test_files_that_are_not_in_the_plan_are_not_rewritten(tmp_path):
    table = filled_table(tmp_path / "t", *([number] for number in range(3)))
    place = planned(table, *COMPACT)
    named = {file["path"] for group in read(place)["result"]["groups"] for file in group["files"]}
    assert len(named) == 3
    table.remove_data_files(1)
    table.append([3])
    table.append([4])
    code, document = applied(place, "--allow-newer")
    assert (code, document["status"]) == (0, "done")
    (group,) = document["result"]["groups"]
    assert len(group["files"]) == 2
    assert {file["path"] for file in group["files"]} < named
    rows = read_rows(read_metadata(current_metadata(table.directory)))
    assert sorted(dict(row)["id"] for row in rows) == sorted(table.ids())


def test_manifests_that_are_not_in_the_plan_stay(tmp_path):
    table = filled_table(tmp_path / "t", *([number] for number in range(3)))
    place = planned(table, "rewrite-manifests")
    named = read(place)["result"]["manifests_rewritten"]
    assert len(named) == 3
    table.append([3])
    table.append([4])
    code, document = applied(place, "--allow-newer")
    assert (code, document["status"]) == (0, "done")
    assert sorted(document["result"]["manifests_rewritten"]) == sorted(named)
    assert document["result"]["kept"] == 2


def test_orphans_that_are_not_in_the_plan_stay(tmp_path):
    subject = subject_of("remove-orphans", tmp_path)
    place = saved(subject)
    named = {Path(file["path"]).name for file in read(place)["result"]["orphans"]}
    later, again = subject.directory / "data/later.parquet", subject.directory / STRAYS[0]
    later.write_bytes(b"later")
    again.write_bytes(b"another file of the same name")
    for path in (later, again):
        age(path, 30)
    assert applied(place)[0] == 11
    code, document = applied(place, "--allow-newer")
    assert (code, document["status"]) == (0, "done")
    assert later.exists()
    assert again.exists()
    assert document["result"]["removed"] == len(named - {again.name, f".{again.name}.crc"})


def test_a_run_holds_no_more_of_a_plan_than_its_changes(tmp_path, monkeypatch):
    place = planned(filled_table(tmp_path / "t", *([number] for number in range(3))), *EXPIRE)
    plan = read(place)
    file = plan["result"]["files"][0]
    plan["result"]["files"] = [{**file, "path": f"{file['path']}-{at}"} for at in range(10_000)]
    del plan["hash"]
    place.write_text("".join(sealed_plan(plan)))
    del plan
    held, run_command = [], Invocation.run

    def measured(self: Invocation, shell: Shell) -> Outcome:
        held.append(tracemalloc.get_traced_memory()[0])
        return run_command(self, shell)

    monkeypatch.setattr(Invocation, "run", measured)
    tracemalloc.start()
    try:
        assert applied(place)[1]["error"]["id"] == "plan-outdated"  # no such files
    finally:
        tracemalloc.stop()
    apply, expire = held
    # With modules that are imported. Parsed, beside its text, the plan takes five times its size.
    assert expire - apply < 3 * place.stat().st_size


def test_a_plan_is_made_for_review_only(tmp_path):
    table = filled_table(tmp_path / "t", [1])
    where = str(tmp_path / "plan.json")
    line = ["expire-snapshots", str(table.directory), "--json"]
    code, document = run([*line, "--yes", "--save-plan", where])
    assert (code, document["error"]["hint"]) == (
        2,
        "add `--dry-run`; `icectl apply FILE` then runs the plan",
    )
    code, document = run([*line, "-n", "--save-plan", str(tmp_path / "no" / "plan.json")])
    assert (code, document["error"]["id"]) == (13, "storage")
    assert not Path(where).exists()
    assert run([*line, "-n", "--save-plan", where])[0] == 0  # nothing to do is a plan too
    assert applied(Path(where))[1]["status"] == "nothing-to-do"
    for name, text in {"a.json": "{}", "b.json": "[", "c.json": "[1]"}.items():
        (tmp_path / name).write_text(text)
        assert applied(tmp_path / name)[0] == 2
    assert applied(tmp_path / "none.json")[0] == 2


def test_the_settings_of_a_plan_go_with_it(tmp_path, monkeypatch):
    table = filled_table(tmp_path / "t", *([number] for number in range(4)))
    monkeypatch.setenv("ICECTL_EXPIRE_SNAPSHOTS_OLDER_THAN", "0s")
    monkeypatch.setenv("ICECTL_EXPIRE_SNAPSHOTS_RETAIN_LAST", "2")
    place = planned(table, "expire-snapshots")
    assert len(read(place)["result"]["expired"]) == 2
    monkeypatch.delenv("ICECTL_EXPIRE_SNAPSHOTS_OLDER_THAN")
    monkeypatch.setenv("ICECTL_EXPIRE_SNAPSHOTS_RETAIN_LAST", "1")
    code, document = applied(place)
    assert (code, len(document["result"]["expired"])) == (0, 2)
