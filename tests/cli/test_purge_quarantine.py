"""Purging a quarantine: what this table's runs listed long ago goes, and nothing else does."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.commands.remove_orphans.purge import PurgePlan, RunFolder, quarantined_runs, tidy_lists
from icectl.env import Env
from icectl.storage.local.store import LocalStore
from icectl.storage.many_files import ManyFiles
from tests.builders.broken import Broken
from tests.builders.expiry import NOW_MS, Clock, context_of
from tests.builders.orphans import DAY_SECONDS, age, stray
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.conftest import Ended, Run, checked_document, result

LATER = Clock(NOW_MS + 40 * DAY_SECONDS * 1000)
OTHER_UUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def icectl(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl remove-orphans` forty days after the files were moved."""
    return prepared("remove-orphans", LATER)


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = filled_table(tmp_path / "wh" / "t", range(4))
    age(built.directory, 7)
    return built


@pytest.fixture
def away(icectl: Run, table: TableBuilder, tmp_path: Path) -> Path:
    """A quarantine with three files of the table, moved there forty days ago."""
    move(icectl, table, tmp_path / "away")
    return tmp_path / "away"


def move(icectl: Run, table: TableBuilder, away: Path, *, days: float = 0) -> Path:
    """Move three strays of a table away; return the folder of the run."""
    before = set(away.iterdir()) if away.exists() else set()
    for name in ("data/a.parquet", "data/k=1/b.parquet", "metadata/c-m0.avro"):
        stray(table.directory, name, days=7 - days)
    clock = Clock(NOW_MS + round(days * DAY_SECONDS * 1000))
    assert icectl(table.directory, "--quarantine", away, "--yes", env=clock).code == 0
    (run,) = set(away.iterdir()) - before
    for one in run.glob("*.jsonl"):
        age(one, -days)
    return run


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def purge(icectl: Run, table: TableBuilder, away: Path, *words: str) -> Ended:
    return icectl(table.directory, "--quarantine", away, "--purge-quarantine-after", "30d", *words)


def lists(away: Path) -> list[Path]:
    return sorted(away.rglob("copied-*.jsonl"))


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change each line of a list, and leave its age."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(change(line)) + "\n" for line in lines))
    age(path, 0)


def test_what_was_moved_long_ago_goes_with_its_lists(icectl, table, away):
    before = files(away)
    assert len(before) == 5
    planned = purge(icectl, table, away, "-n", "--json")
    found = result(planned)
    assert planned.document["status"] == "planned"
    assert len(found["purge"]["files"]) == 3
    assert (found["purge"]["bytes"], found["purged"], found["orphans"]) == (300, 0, [])
    assert files(away) == before
    assert purge(icectl, table, away, "--check").code == 4
    text = purge(icectl, table, away, "-n").out
    assert "3 files, 300 B, would be purged from the quarantine: moved there before " in text
    ended = purge(icectl, table, away, "--yes", "--json", "--deleted-list", str(away / "gone.txt"))
    found = result(ended)
    assert (found["purged"], found["purged_bytes"], found["removed"]) == (3, 300, 0)
    assert files(away) == {"gone.txt"}
    assert len((away / "gone.txt").read_text().splitlines()) == 3
    assert purge(icectl, table, away, "--yes", "--json").document["status"] == "nothing-to-do"


def test_r140_what_may_be_statistics_that_are_missing_is_not_purged(icectl, table, away):
    """An entry names no file, and copies are as large as it says."""
    for size, code, left in ((100, 15, 5), (99, 0, 0)):
        entry = {"snapshot-id": 1, "statistics-path": f"{table.location}/x", "blob-metadata": [],
                 "file-size-in-bytes": size, "file-footer-size-in-bytes": 9}  # fmt: skip
        Broken(table.directory).edit(lambda one, entry=entry: one.update(statistics=[entry]))
        ended = purge(icectl, table, away, "--yes")
        assert (ended.code, "R-140" in ended.err, len(files(away))) == (code, True, left)


def test_a_younger_run_stays_and_is_counted(icectl, table, away):
    young = move(icectl, table, away, days=20)
    found = result(purge(icectl, table, away, "--yes", "--json"))
    assert (found["purged"], found["purge"]["left_alone"]["young"]) == (3, 3)
    assert len(files(young)) == 5
    assert len(files(away)) == 5


def test_a_list_that_was_written_lately_makes_its_run_young(icectl, table, away):
    """Whatever the name of its folder says."""
    (one,) = lists(away)
    age(one, -15)
    assert result(purge(icectl, table, away, "--yes", "--json"))["purged"] == 0


def test_the_name_of_its_folder_makes_a_run_young(icectl, table, tmp_path):
    """Whatever the times of its lists say."""
    for one in move(icectl, table, tmp_path / "away", days=20).glob("*.jsonl"):
        age(one, 0)
    found = result(purge(icectl, table, tmp_path / "away", "--yes", "--json"))
    assert (found["purged"], found["purge"]["left_alone"]["young"]) == (0, 3)


def test_what_lies_in_no_folder_of_a_run_is_not_looked_at(icectl, table, away):
    others = ("notes.txt", "notes/n.txt", "u-20250616T150640Z-00000000/files/data/x.parquet",
              "t-20251316T150640Z-00000000/files/data/x.parquet")  # fmt: skip
    for name in others:
        stray(away, name, days=0)
    found = result(purge(icectl, table, away, "--yes", "--json"))
    assert (found["purged"], sum(found["purge"]["left_alone"].values())) == (3, 0)
    assert files(away) == set(others)


SPOILED: dict[str, Callable[[Path], object]] = {
    "of another table": lambda one: rewrite(one, lambda line: {**line, "table_uuid": OTHER_UUID}),
    "of no table": lambda one: rewrite(one, lambda line: {**line, "table_uuid": None}),
    "one line of another table": lambda one: one.write_text(
        one.read_text() + json.dumps({"path": "/x", "size_bytes": 1, "modified": None,
                                      "table_uuid": OTHER_UUID}) + "\n"
    ),
    "no list": lambda one: one.unlink(),
    "not JSON": lambda one: one.write_text("{"),
    "deep": lambda one: one.write_text("[" * 100_000),
    "another shape": lambda one: one.write_text("[]\n"),
    "sizes as text": lambda one: rewrite(one, lambda line: {**line, "size_bytes": "100"}),
    "odd times": lambda one: rewrite(one, lambda line: {**line, "modified": "then"}),
    "other files": lambda one: rewrite(one, lambda line: {**line, "path": line["path"] + "x"}),
    "no times": lambda one: rewrite(one, lambda line: {**line, "modified": None}),
    "too long": lambda one: one.write_text(" " * (17 << 20)),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_without_a_list_of_the_table_nothing_goes(icectl, table, away, name):
    (one,) = lists(away)
    SPOILED[name](one)
    if one.exists():
        age(one, 0)
    before = files(away)
    found = result(purge(icectl, table, away, "--yes", "--json"))
    assert (found["purged"], found["purge"]["left_alone"]["unlisted"]) == (0, 3)
    assert files(away) == before


def test_only_files_as_they_were_listed_go(icectl, table, away):
    (run,) = away.iterdir()
    larger, newer = run / "files/data/a.parquet", run / "files/data/k=1/b.parquet"
    modified = larger.stat().st_mtime
    larger.write_bytes(b"." * 101)
    os.utime(larger, (modified, modified))
    os.utime(newer, (modified + 2, modified + 2))
    (run / "files" / "mine.txt").write_text("put here by somebody")
    found = result(purge(icectl, table, away, "--yes", "--json"))
    assert found["purged"] == 1
    assert found["purge"]["left_alone"] == {
        "young": 0, "unlisted": 1, "changed": 2, "referenced": 0,
    }  # fmt: skip
    assert len(files(run)) == 5
    stay = {str(larger), str(newer)}  # files, and lines by which they can be restored
    assert {line["to"] for line in lines(run / "moved-00001.jsonl")} == stay
    assert {line["path"] for line in lines(run / "copied-00001.jsonl")} == stay


def test_lists_of_copies_name_the_table_as_long_as_other_files_are_there(icectl, table, away):
    (run,) = away.iterdir()
    (run / "files" / "mine.txt").write_text("put here by somebody")
    assert result(purge(icectl, table, away, "--yes", "--json"))["purged"] == 3
    assert files(run) == {"files/mine.txt", "copied-00001.jsonl"}
    (line,) = lines(run / "copied-00001.jsonl")
    assert (line["path"], line["table_uuid"]) == ("", uuid_of(table))


def test_lists_of_a_run_that_may_still_move_files_stay(icectl, table, away):
    """It has written down what it moves, and may copy it at any moment."""
    (run,) = away.iterdir()
    for days, name in ((-39.9, "moved-00002.jsonl"), (-38, "moved-00003.jsonl")):
        line = {"from": "/x", "to": str(run / "files/x"), "size_bytes": 1, "modified": None}
        (run / name).write_text(json.dumps(line) + "\n")
        age(run / name, days)
    plan = PurgePlan(0, ManyFiles(), tuple(runs_of(table, away)), {})
    gone = [str(path) for path in (run / "files").rglob("*") if path.is_file()]
    changed = tidy_lists(context_of(table.directory, env=LATER), plan, gone)
    assert [Path(one).name for one in changed] == [
        "moved-00001.jsonl", "moved-00003.jsonl", "copied-00001.jsonl",
    ]  # fmt: skip
    assert {path.name for path in run.glob("*.jsonl")} == {"moved-00002.jsonl"}


def test_a_list_that_cannot_be_read_stays(icectl, table, away):
    (run,) = away.iterdir()
    (run / "moved-00001.jsonl").write_text("{")
    age(run / "moved-00001.jsonl", 0)
    ended = purge(icectl, table, away, "--yes")
    assert (ended.code, "still names files that are gone" in ended.err) == (0, True)
    assert files(away) == {f"{run.name}/moved-00001.jsonl"}


def runs_of(table: TableBuilder, away: Path) -> list[RunFolder]:
    store, place = LocalStore(), FileSystemCatalog(LocalStore(), table.location, LATER)
    return list(quarantined_runs(store, str(away), place.load()))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_names_that_lead_elsewhere_delete_nothing_there(icectl, table, away, tmp_path):
    """A list names any file that somebody wants to be rid of."""
    (run,) = away.iterdir()
    victim = stray(tmp_path, "elsewhere/victim.parquet")
    inside = table.directory / "data"
    targets = [victim, run / "files" / ".." / ".." / ".." / "elsewhere" / "victim.parquet",
               *inside.rglob("*.parquet")]  # fmt: skip
    lines = []
    for target in targets:
        status = target.stat()
        lines.append({"path": str(target), "size_bytes": status.st_size, "modified":
                      "2025-06-09T15:06:40Z", "table_uuid": uuid_of(table)})  # fmt: skip
    (one,) = lists(away)
    one.write_text("".join(json.dumps(line) + "\n" for line in lines))
    age(one, 0)
    link = run / "files" / "data" / "link.parquet"
    link.symlink_to(victim)
    before = files(table.directory)
    assert result(purge(icectl, table, away, "--yes", "--json"))["purged"] == 0
    assert victim.exists()
    assert files(table.directory) == before


def test_a_folder_of_a_run_that_is_a_link_is_not_followed(icectl, table, away, tmp_path):
    (run,) = away.iterdir()
    run.rename(tmp_path / "elsewhere")
    run.symlink_to(tmp_path / "elsewhere")
    before = files(tmp_path / "elsewhere")
    assert result(purge(icectl, table, away, "--yes", "--json"))["purged"] == 0
    assert files(tmp_path / "elsewhere") == before


def uuid_of(table: TableBuilder) -> str:
    return str(json.loads(current_metadata(table.directory).read_text())["table-uuid"])


def test_of_a_table_without_a_uuid_nothing_goes(icectl, tmp_path):
    """Lists cannot prove whose copies theirs are then."""
    old = filled_table(tmp_path / "wh" / "t", [1], format_version=1)
    metadata = current_metadata(old.directory)
    read = json.loads(metadata.read_text())
    del read["table-uuid"]
    metadata.write_text(json.dumps(read))
    age(old.directory, 7)
    move(icectl, old, tmp_path / "away")
    (one,) = lists(tmp_path / "away")
    assert {json.loads(line)["table_uuid"] for line in one.read_text().splitlines()} == {None}
    found = result(purge(icectl, old, tmp_path / "away", "--yes", "--json"))
    assert (found["purged"], found["purge"]["left_alone"]["unlisted"]) == (0, 3)


def test_tables_share_a_quarantine_and_purge_their_own(icectl, table, away, tmp_path):
    twin = filled_table(tmp_path / "wh2" / "t", [1])
    metadata = current_metadata(twin.directory)
    metadata.write_text(metadata.read_text().replace(uuid_of(twin), OTHER_UUID))
    age(twin.directory, 7)
    kept = move(icectl, twin, away)
    found = result(purge(icectl, table, away, "--yes", "--json"))
    assert (found["purged"], found["purge"]["left_alone"]["unlisted"]) == (3, 3)
    assert len(files(kept)) == 5
    assert result(purge(icectl, twin, away, "--yes", "--json"))["purged"] == 3


def test_what_the_table_refers_to_by_now_stays(icectl, table, away):
    (run,) = away.iterdir()
    copy = run / "files/data/a.parquet"
    metadata = current_metadata(table.directory)
    read = json.loads(metadata.read_text())
    head = read["current-snapshot-id"]
    read["partition-statistics"] = [
        {"snapshot-id": head, "statistics-path": str(copy), "file-size-in-bytes": 100}
    ]
    metadata.write_text(json.dumps(read))
    age(metadata, 7)
    found = result(purge(icectl, table, away, "--yes", "--json"))
    assert (found["purged"], found["purge"]["left_alone"]["referenced"]) == (2, 1)
    assert copy.exists()


def test_files_that_were_put_back_are_no_matter(icectl, table, away):
    (run,) = away.iterdir()
    for line in (run / "moved-00001.jsonl").read_text().splitlines():
        moved = json.loads(line)
        shutil.move(moved["to"], moved["from"])
        age(Path(moved["from"]), -39.5)
    ended = purge(icectl, table, away, "--yes", "--json")
    assert (ended.code, result(ended)["purged"]) == (0, 0)
    assert (table.directory / "data" / "a.parquet").exists()


def test_a_purge_needs_a_quarantine_and_a_day(icectl, table, away):
    ended = icectl(table.directory, "--purge-quarantine-after", "30d")
    assert (ended.code, "`--purge-quarantine-after` needs a quarantine" in ended.err) == (2, True)
    ended = icectl(table.directory, "--quarantine", away, "--purge-quarantine-after", "1h")
    assert (ended.code, "`1h` is under a day" in ended.err) == (2, True)


def test_an_apply_purges_what_the_plan_names(icectl, table, away, tmp_path):
    plan = tmp_path / "plan.json"
    words = ("--quarantine", str(away), "--purge-quarantine-after", "30d")
    assert icectl(table.directory, *words, "-n", "--save-plan", plan).code == 0
    (run,) = away.iterdir()
    stray(run, "files/data/later.parquet", days=0)
    (one,) = lists(away)
    lines = one.read_text().splitlines()
    more = {**json.loads(lines[0]), "path": str(run / "files/data/later.parquet")}
    one.write_text("\n".join([*lines, json.dumps({**more, "modified": "2025-06-16T15:06:40Z"})]))
    age(one, 0)
    ended = icectl(plan, "--json", command="apply")
    assert (ended.code, checked_document(ended)["result"]["purged"]) == (0, 3)
    assert "files/data/later.parquet" in files(run)


def test_a_policy_purges_and_its_budget_counts(icectl, table, away, tmp_path):
    policy = tmp_path / "maintain.toml"
    text = f"""
        steps = ["remove-orphans"]
        [remove-orphans]
        quarantine = "{away}"
        purge-quarantine-after = "30d"
    """
    policy.write_text(f"budget.delete-files = 2\n{text}")
    ended = icectl(table.directory, "--policy", policy, "--json", command="maintain")
    (row,) = checked_document(ended)["result"]["tables"]
    assert (row["status"], row["exit"]) == ("refused", 5), row
    assert len(files(away)) == 5
    policy.write_text(text)
    ended = icectl(table.directory, "--policy", policy, "--json", command="maintain")
    (row,) = checked_document(ended)["result"]["tables"]
    (step,) = [step for step in row["steps"] if step["step"] == "remove-orphans"]
    assert (row["status"], step["figures"]["purged"]) == ("done", 3), row
    assert files(away) == set()
    policy.write_text("remove-orphans.purge-quarantine-after = '30d'\n")
    ended = icectl(table.directory, "--policy", policy, command="maintain")
    assert (ended.code, "needs a quarantine" in ended.err) == (2, True)
