"""`icectl refs` from the command line: branches and tags are listed, made, moved and dropped."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from icectl.catalog.files import FileSystemCatalog
from icectl.env import Env
from tests.builders.expiry import NOW_MS
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.conftest import Run, result
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def refs(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl refs`."""
    return prepared("refs", FixedEnv(NOW_MS))


@pytest.fixture(params=[1, 2, 3])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> TableBuilder:
    """A table of three snapshots, with a tag on the newest."""
    built = TableBuilder(tmp_path / "t", format_version=request.param)
    for start in range(0, 9, 3):
        built.append(range(start, start + 3))
    built.ref("eoy", "tag")
    return built


def ids(table: TableBuilder) -> list[int]:
    """The snapshots of main, oldest first, read from the file."""
    metadata = read_metadata(current_metadata(Path(table.location)))
    return [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]


def stored(table: TableBuilder) -> dict[str, Any]:
    """The refs as the metadata file has them."""
    found: dict[str, Any] = read_metadata(current_metadata(Path(table.location)))["refs"]
    return found


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--max-ref-age", "106751991168d", "too long for table metadata"),
        ("--max-snapshot-age", "999999999999999d", "too long for table metadata"),
        ("--min-snapshots-to-keep", str(2**31), "too large a number"),
    ],
)
def test_r_027_no_ref_gets_a_number_that_nobody_can_read(table, refs, option, value, message):
    """Metadata with it could be read by no engine: the table would be lost."""
    before = current_metadata(Path(table.location))
    ended = refs(table.location, "branch", "audit", option, value)
    assert (ended.code, message in ended.err) == (2, True)
    assert current_metadata(Path(table.location)) == before
    assert refs(table.location, "branch", "audit", "--max-ref-age", "106751991167d").code == 0
    assert refs(table.location, "branch", "b", "--min-snapshots-to-keep", str(2**31 - 1)).code == 0
    StaticTable.from_metadata(str(current_metadata(Path(table.location))))


def test_main_is_no_tag_and_is_not_to_be_dropped_for_one(table, refs):
    ended = refs(table.location, "tag", "main")
    assert (ended.code, "drop" in ended.err) == (5, False)


def test_refs_are_listed_without_a_verb(table, refs):
    before = current_metadata(Path(table.location))
    listed = result(refs(table.location, "--json"))
    assert [(one["name"], one["type"], one["snapshot_id"]) for one in listed["refs"]] == [
        ("main", "branch", str(ids(table)[-1])),
        ("eoy", "tag", str(ids(table)[-1])),
    ]
    assert listed["changes"] == []
    assert listed == result(refs(table.location, "list", "--json"))
    assert refs(table.location).out.splitlines()[1].split()[:2] == ["main", "branch"]
    assert current_metadata(Path(table.location)) == before


def test_a_verb_in_the_place_of_the_table_is_told(table, refs):
    ended = refs("tag", table.location, "eoy-2025")
    assert (ended.code, f"`icectl refs {table.location} tag`" in ended.err) == (2, True)


def test_a_tag_is_made_where_it_is_asked_for(table, refs):
    first, second, third = ids(table)
    for name, words, wanted in (
        ("head", (), third),
        ("by-id", ("--at", str(first)), first),
        ("by-name", ("--at", "by-id"), first),
    ):
        done = result(refs(table.location, "tag", name, *words, "--max-ref-age", "30d", "--json"))
        assert done["changes"][0]["before"] is None
        assert stored(table)[name] == {
            "snapshot-id": wanted, "type": "tag", "max-ref-age-ms": 30 * 86_400_000,
        }  # fmt: skip
    again = refs(table.location, "tag", "by-id", "--at", str(first), "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")
    elsewhere = refs(table.location, "tag", "by-id", "--at", str(second))
    assert (elsewhere.code, "--replace" in elsewhere.err) == (5, True)
    moved = refs(table.location, "tag", "by-id", "--at", str(second), "--replace", "--yes")
    assert (moved.code, stored(table)["by-id"]["snapshot-id"]) == (0, second)


def test_a_branch_has_its_own_retention(table, refs):
    words = ("--min-snapshots-to-keep", "3", "--max-snapshot-age", "7d")
    assert refs(table.location, "branch", "audit", *words).code == 0
    assert stored(table)["audit"] == {
        "snapshot-id": ids(table)[-1],
        "type": "branch",
        "min-snapshots-to-keep": 3,
        "max-snapshot-age-ms": 7 * 86_400_000,
    }
    assert refs(table.location, "branch", "eoy").code == 5  # a tag


def test_what_leaves_a_branch_is_told_apart_from_what_no_other_has(table, refs):
    first, second, _ = map(str, ids(table))
    back = ("rollback", "--to", first, "--dry-run")
    refs(table.location, "branch", "audit")
    for dropped, words, told in (
        (
            None,
            ("drop", "audit", "--dry-run"),
            "3 snapshots become unreachable from audit; other branches or tags still reach",
        ),
        (
            "audit",
            back,
            "2 snapshots become unreachable from main; other branches or tags still reach all",
        ),
        (
            "eoy",
            back,
            "2 snapshots become unreachable from main; they stay in the table until they expire",
        ),
    ):
        if dropped is not None:
            assert refs(table.location, "drop", dropped, "--yes").code == 0
        assert told in refs(table.location, *words).out
    refs(table.location, "tag", "between", "--at", second)
    told = "become unreachable from main; 1 in no other ref, in the table until they expire"
    assert told in refs(table.location, *back).out


def test_a_rollback_takes_main_back_and_leads_back(table, refs):
    first, second, third = ids(table)
    planned = refs(table.location, "rollback", "--to", str(first), "--dry-run", "--json")
    assert (planned.code, planned.document["status"]) == (0, "planned")
    assert stored(table)["main"]["snapshot-id"] == third
    done = refs(table.location, "rollback", "--to", str(first), "--yes", "--json")
    assert result(done) == result(planned)
    assert result(done)["changes"][0]["leaving_snapshots"] == [str(third), str(second)]
    metadata = read_metadata(current_metadata(Path(table.location)))
    assert metadata["current-snapshot-id"] == first
    assert metadata["snapshot-log"][-1]["snapshot-id"] == first
    assert metadata["refs"]["main"]["snapshot-id"] == first
    read = StaticTable.from_metadata(str(current_metadata(Path(table.location))))
    assert sorted(read.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]
    checked = refs(table.location, "--level", "data", command="validate")
    assert checked.code == 0, checked.out

    forward = refs(table.location, "fast-forward", "main", "--to", "eoy", "--json")
    assert forward.code == 0
    assert result(forward)["changes"][0]["leaving_snapshots"] == []
    assert stored(table)["main"]["snapshot-id"] == third


def test_a_rollback_to_a_time_in_the_future_says_so(table, refs):
    ended = refs(table.location, "rollback", "--to", "2050-01-01", "--dry-run")
    assert (ended.code, ended.err.splitlines()) == (
        2,
        [
            "error: `2050-01-01` is in the future",
            "hint: give a timestamp in the past",
        ],
    )


def test_a_rollback_to_an_instant_goes_by_the_branch(table, refs):
    second = read_metadata(current_metadata(Path(table.location)))["snapshots"][1]
    age_ms = NOW_MS - second["timestamp-ms"]
    assert refs(table.location, "rollback", "--to", f"{age_ms // 1000}s", "--yes").code == 0
    assert stored(table)["main"]["snapshot-id"] == second["snapshot-id"]
    too_old = refs(table.location, "rollback", "--to", "2000-01-01", "--yes")
    assert (too_old.code, "no snapshot of 2000-01-01" in too_old.err) == (2, True)


def test_a_rollback_needs_an_ancestor(table, refs):
    third = ids(table)[-1]
    assert refs(table.location, "branch", "audit", "--at", str(ids(table)[0])).code == 0
    refused = refs(table.location, "rollback", "audit", "--to", str(third), "--yes")
    assert (refused.code, f"--at {third} --replace" in refused.err) == (5, True)
    refused = refs(table.location, "fast-forward", "audit", "--to", str(third))
    assert (refused.code, stored(table)["audit"]["snapshot-id"]) == (0, third)
    assert refs(table.location, "rollback", "audit", "--to", str(ids(table)[1]), "-y").code == 0
    assert refs(table.location, "fast-forward", "eoy", "--to", "audit").code == 2  # a tag
    refused = refs(table.location, "fast-forward", "main", "--to", "audit")
    assert (refused.code, stored(table)["main"]["snapshot-id"]) == (5, third)


def test_refs_are_dropped_but_main(table, refs):
    assert refs(table.location, "branch", "audit").code == 0
    assert refs(table.location, "drop", "main", "--yes").code == 5
    assert set(stored(table)) == {"main", "eoy", "audit"}
    done = refs(table.location, "drop", "eoy", "audit", "ghost", "--yes")
    assert (done.code, "no branch or tag `ghost`" in done.err) == (0, True)
    assert set(stored(table)) == {"main"}
    again = refs(table.location, "drop", "eoy", "--yes", "--json")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


def test_what_takes_snapshots_from_a_branch_asks(table, refs, monkeypatch):
    first, _, third = ids(table)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))  # nobody to ask
    for words in (
        ("rollback", "--to", str(first)),
        ("drop", "eoy"),
        ("tag", "eoy", "--at", str(first), "--replace"),
        ("branch", "main", "--at", str(first), "--replace"),
    ):
        asked = refs(table.location, *words)
        assert (asked.code, "--yes" in asked.err) == (2, True), words
    assert {name: ref["snapshot-id"] for name, ref in stored(table).items()} == {
        "main": third, "eoy": third,
    }  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("paint",), ("tag",), ("tag", "a", "b"), ("drop",), ("rollback",), ("list", "x"),
        ("tag", "a", "--to", "1"), ("rollback", "--to", "1", "--at", "2"),
        ("drop", "a", "--replace"),
        ("tag", "a", "--at", "12"), ("tag", "a", "--at", "nowhere"), ("tag", "main"),
        ("rollback", "ghost", "--to", "1"), ("tag", "a", "--max-ref-age", "7"),
        ("branch", "a", "--min-snapshots-to-keep", "0"),
    ],
)  # fmt: skip
def test_wrong_words_change_nothing(tmp_path, refs, words):
    table = filled_table(tmp_path / "t", [1])
    before = current_metadata(tmp_path / "t")
    ended = refs(table.location, *words)
    assert ended.code == (5 if words == ("tag", "main") else 2), ended.err
    assert "error: " in ended.err
    assert current_metadata(tmp_path / "t") == before


def test_a_ref_that_moves_meanwhile_ends_the_run(table, refs, monkeypatch):
    """A rollback must not take away a commit that its plan did not know."""
    commit = FileSystemCatalog.commit
    first = ids(table)[0]

    def meanwhile(self: Any, *rest: Any) -> Any:
        monkeypatch.setattr(FileSystemCatalog, "commit", commit)
        table.append([100])
        return commit(self, *rest)

    monkeypatch.setattr(FileSystemCatalog, "commit", meanwhile)
    ended = refs(table.location, "rollback", "--to", str(first), "--yes")
    assert (ended.code, "another writer has changed `main`" in ended.err) == (11, True), ended.err
    assert len(ids(table)) == 4
    assert stored(table)["main"]["snapshot-id"] == ids(table)[-1]


def test_a_saved_plan_is_applied_once(table, refs, tmp_path):
    plan = tmp_path / "plan.json"
    first = ids(table)[0]
    words = ("rollback", "--to", str(first), "--dry-run", "--save-plan", str(plan))
    assert refs(table.location, *words).code == 0
    assert json.loads(plan.read_text())["command"] == "refs"
    applied = refs(str(plan), command="apply")
    assert (applied.code, stored(table)["main"]["snapshot-id"]) == (0, first), applied.err
    assert refs(str(plan), command="apply").code == 11
