"""Hints of what is whole: a metadata file, a snapshot, and the command with the table named."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic
from uuid import UUID

import pytest

from icectl.cli import session
from icectl.storage.local.store import LocalStore
from icectl.table import recovery
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.cli.conftest import Run, checked_document
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import WrappedStore

COMPACT = ["--rewrite-all", "--engine", "local", "--yes"]


@pytest.fixture
def run(prepared: Callable[..., Run]) -> Run:
    return prepared("inspect", FixedEnv(START_MS + 10**11))


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return filled_table(tmp_path / "t", *(range(start, start + 4) for start in range(0, 12, 4)))


def newest_manifest(table: TableBuilder) -> Path:
    return max(Path(table.location, "metadata").glob("*-m0.avro"))


def going_back(table: TableBuilder) -> str:
    """What is said of the snapshot before the current one, which added four rows."""
    before = table.metadata.snapshots[-2].snapshot_id
    return f"`icectl repair {table.location} --to-snapshot {before}` drops 1 snapshot with 4 rows"


def dropping(table: TableBuilder) -> str:
    """What is said where just the files of the current snapshot are gone."""
    return f"`icectl repair {table.location} --drop-missing` loses at most 4 rows; {others(table)}"


def rebuilding(table: TableBuilder) -> str:
    """What is said first where a manifest list may be proved, or a manifest."""
    return f"`icectl repair {table.location} --dry-run` shows whether it can be rebuilt; else "


def others(table: TableBuilder) -> str:
    return f"`icectl repair {table.location} --dry-run` compares the options"


def test_a_truncated_manifest_names_the_repair_that_loses_least(table, run):
    broken = newest_manifest(table)
    broken.write_bytes(broken.read_bytes()[:100])
    ended = run(table.location, *COMPACT, command="compact")
    assert ended.code == 15
    assert f"hint: {dropping(table)}\n" in ended.err
    assert "rewrite-manifests" not in ended.err


def lost_everywhere(run: Run, table: TableBuilder) -> list[str]:
    """The commands of the hints about files of any snapshot; each says the same way."""
    ended = run(table.location, "--all-snapshots", "--json", command="validate")
    hints = {one["hint"] for one in checked_document(ended)["result"]["findings"]}
    commands: list[str] = re.findall("`(icectl [^`]*)`", hints.pop()) if hints else []
    assert not hints
    return commands


@pytest.mark.parametrize("tags", [(), ("eoy 2025",), ("one", "two")])
@pytest.mark.parametrize("is_list", [False, True])
def test_what_only_old_snapshots_need_goes_with_them_and_their_tags(table, run, tags, is_list):
    """Young ones too: retention by age would keep them."""
    table.remove_data_files(12)  # no later snapshot has the manifests of the first ones
    table.append([20])
    third = table.metadata.snapshots[2]
    for tag in tags:
        table.ref(tag, "tag", snapshot_id=third.snapshot_id)
    manifest = sorted(Path(table.location, "metadata").glob("*-m0.avro"))[2]
    (Path(third.manifest_list or "") if is_list else manifest).unlink()
    expiry = f"icectl expire-snapshots {table.location} --snapshot-id {third.snapshot_id}"
    drop = f"icectl refs {table.location} drop {shlex.join(tags)}"
    hinted = lost_everywhere(run, table)
    assert hinted == ([drop, expiry] if tags else [expiry])
    for line in hinted:
        _, command, *words = shlex.split(line)
        assert (ended := run(*words, "--yes", command=command)).code == 0, ended.err
    assert lost_everywhere(run, table) == []


def test_what_the_head_of_a_branch_needs_is_repaired_there_first(table, run):
    table.ref("audit", "branch")
    table.append([20], branch="audit")
    newest_manifest(table).unlink()
    repair = f"icectl repair {table.location} --branch audit --drop-missing"
    (hinted, other) = lost_everywhere(run, table)
    assert (hinted, other) == (repair, f"icectl repair {table.location} --branch audit --dry-run")
    for _ in range(2):  # the repair of the branch, then the expiry of its old head
        _, command, *words = shlex.split(lost_everywhere(run, table)[0])
        assert (ended := run(*words, "--yes", command=command)).code == 0, ended.err
    assert lost_everywhere(run, table) == []


def test_a_manifest_that_many_commits_share_costs_less_than_they_do(table, run):
    """Four rows are lost with it, and going back behind it would drop twelve."""
    min(Path(table.location, "metadata").glob("*-m0.avro")).unlink()
    ended = run(table.location, command="validate")
    assert f"icectl repair {table.location} --drop-missing` loses at most 4 rows\n" in " ".join(
        ended.out.replace("\n    ", " ").splitlines(keepends=True)
    )


def test_a_missing_manifest_list_names_the_newest_whole_snapshot(table, run):
    current = table.metadata.current_snapshot
    assert current is not None
    Path(current.manifest_list or "").unlink()
    ended = run(table.location, "--yes", command="rewrite-manifests")
    assert ended.code == 15
    assert f"hint: {rebuilding(table)}{going_back(table)}\n" in ended.err


def test_where_no_snapshot_is_whole_that_is_told(table, run):
    for manifest in Path(table.location, "metadata").glob("*-m0.avro"):
        manifest.write_bytes(b"")
    ended = run(table.location, *COMPACT, command="compact")
    assert ended.err.endswith(
        f"hint: `icectl repair {table.location} --dry-run` shows what can be rebuilt: "
        "no snapshot of branch main is complete\n"
    )


def test_validate_names_the_repair_that_loses_least_at_its_level(table, run):
    max(Path(table.location, "data").rglob("*.parquet"), key=lambda one: one.name).unlink()
    ended = run(table.location, "--level", "files", "--json", command="validate")
    assert ended.code == 4
    (found,) = [
        one for one in checked_document(ended)["result"]["findings"] if one["severity"] == "error"
    ]
    assert found["rule"] == "R-034"
    assert found["hint"] == dropping(table)


def test_what_reads_a_moved_table_names_relocate(table, run):
    moved = Path(table.location).with_name("moved")
    Path(table.location).rename(moved)
    way_out = (
        f"`icectl relocate {moved}` writes metadata for the files there; add `--new-uuid` for a "
        "copy next to the original"
    )
    assert run(str(moved), "files", command="inspect").err.endswith(f"hint: {way_out}\n")
    found = checked_document(run(str(moved), "--json", command="validate"))["result"]["findings"]
    assert {one["rule"]: one["hint"] for one in found} == {"R-024": way_out, "R-034": way_out}


@pytest.mark.parametrize("level", ["footers", "data"])
def test_a_snapshot_with_a_file_that_is_destroyed_is_not_called_whole(table, run, level):
    def hint() -> str:
        """Tell what is to be done about a file that has no footer any more."""
        ended = run(table.location, "--level", level, "--json", command="validate")
        found = checked_document(ended)["result"]["findings"]
        return str(next(one["hint"] for one in found if one["rule"] == "R-099"))

    oldest, *_, newest = sorted(Path(table.location, "data").rglob("*.parquet"))
    newest.write_bytes(bytes(newest.stat().st_size))
    assert hint() == (
        f"restore `{newest}` from a copy; else move it away, and `icectl repair {table.location} "
        "--drop-missing` loses at most 4 rows"
    )
    words = ("--to-snapshot", "latest-complete", "--level", "footers", "--yes")
    assert run(table.location, *words, "--dry-run", command="repair").code == 0
    former = ("whole" if word == "latest-complete" else word for word in words)  # its former name
    assert run(table.location, *former, "--dry-run", command="repair").code == 0
    oldest.write_bytes(bytes(oldest.stat().st_size))
    assert hint() == (
        f"restore the 2 damaged files from a copy; else move them away, and `icectl repair "
        f"{table.location} --drop-missing` loses at most 8 rows"
    )
    assert run(table.location, *words, command="repair").code == 5


@pytest.mark.parametrize("command", ["inspect", "validate", "compact"])
def test_a_truncated_metadata_file_names_the_whole_one_before_it(table, run, command):
    files = sorted(
        Path(table.location, "metadata").glob("v*.metadata.json"),
        key=lambda one: int(one.name[1:].split(".")[0]),
    )
    files[-1].write_text(files[-1].read_text()[:500])
    files[-2].write_text("{}")
    ended = run(table.location, *(COMPACT if command == "compact" else []), command=command)
    assert ended.code == 15
    assert ended.err.endswith(
        f"hint: the newest complete metadata file before {files[-1].name} is `{files[-3]}`: "
        f"`icectl inspect {files[-3]}` shows it, and `icectl repair {table.location}` rolls "
        "back to it if that is safe\n"
    )
    assert run(str(files[-3])).code == 0


def test_repair_is_no_way_out_of_metadata_that_say_something_wrong(table, run):
    """It goes back only from what is cut off: these may be right for others."""
    newest = Path(table.metadata_location)
    newest.write_text(newest.read_text().replace('"last-column-id"', '"last-id"'))
    ended = run(table.location, "--yes", command="repair")
    assert ended.code == 15
    assert "v3.metadata.json` shows it; restore v4.metadata.json from a copy, or" in ended.err
    assert "icectl repair" not in ended.err


def test_commands_of_hints_name_the_table(table, run):
    ended = run(table.location, "files", "--snapshot", "5")
    assert ended.err.endswith(f"hint: `icectl inspect {table.location} snapshots` lists them\n")


def test_what_goes_wrong_in_looking_is_not_told(table, run, monkeypatch):
    newest_manifest(table).write_bytes(b"")
    monkeypatch.setattr(recovery, "WholeSnapshots", None)
    ended = run(table.location, *COMPACT, command="compact")
    assert ended.code == 15
    assert ended.err.count("hint: ") == 1
    assert "Traceback" not in ended.err


class StuckStore(WrappedStore):
    """Does not answer a second time for one file, until it is let go."""

    def __init__(self, location: str) -> None:
        super().__init__(LocalStore())
        self.location = location
        self.times = 0
        self.let_go = Event()

    def read(self, location: str) -> bytes:
        if location == self.location:
            self.times += 1
            if self.times > 1:
                self.let_go.wait(60)
        return super().read(location)


def test_a_store_that_does_not_answer_holds_up_no_run_that_has_failed(table, run, monkeypatch):
    broken = newest_manifest(table)
    broken.write_bytes(b"")
    stuck = StuckStore(str(broken))
    monkeypatch.setattr(session, "open_store", lambda *_: stuck)
    monkeypatch.setattr(recovery, "_MOST_SECONDS", 0.2)
    began = monotonic()
    try:
        ended = run(table.location, *COMPACT, command="compact")
    finally:
        stuck.let_go.set()
    assert monotonic() - began < 50
    assert stuck.times == 2
    assert ended.code == 15
    assert "hint: " in ended.err
    assert "--to-snapshot" not in ended.err


@pytest.mark.parametrize("of_catalog", [False, True])
def test_the_repair_of_a_table_that_one_metadata_file_names_works(table, run, of_catalog):
    max(Path(table.location, "data").rglob("*.parquet"), key=lambda one: one.name).unlink()
    metadata = Path(table.location, "metadata")
    file = max(metadata.glob("v*.metadata.json"))
    if of_catalog:
        file = file.rename(metadata / f"00003-{UUID(int=5)}.metadata.json")
        for older in metadata.glob("v*.metadata.json"):
            older.unlink()
    findings = checked_document(run(str(file), "--json", command="validate"))["result"]["findings"]
    (hint,) = [one["hint"] for one in findings if one["severity"] == "error"]
    program, command, *words = shlex.split(hint.split("`")[1])
    assert (program, command, words[-1]) == ("icectl", "repair", "--drop-missing")
    assert run(*words, "--dry-run" if of_catalog else "--yes", command=command).code == 0


MALFORMED = {
    "history.expire.max-ref-age-ms": "-5",
    "history.expire.max-snapshot-age-ms": "5d",
    "history.expire.min-snapshots-to-keep": "abc",
    "gc.enabled": "maybe",
    "commit.retry.num-retries": "many",
    "write.metadata.previous-versions-max": "-1",
    "write.metadata.metrics.column.id": "all",
    "write.format.default": "lance",
}


def test_malformed_properties_are_found_and_their_hints_end_them(run, tmp_path):
    table = filled_table(tmp_path / "t", [1], properties=MALFORMED)
    ended = run(table.location, command="validate")
    assert (ended.code, "no errors, 8 warnings" in ended.out) == (0, True)
    health = "".join(run(table.location, "health", command="inspect").out.split())  # it wraps
    assert f"hint:`icectlproperties{table.location}unsetgc.enabled`" in health
    assert "TABLE" not in health
    shown = checked_document(run(table.location, "health", "--json"))["result"]
    assert shown["snapshot_debt"]["hint"].startswith(f"`icectl properties {table.location} unset ")
    ended = run(table.location, "--json", command="validate")
    for found in checked_document(ended)["result"]["findings"]:
        _, command, *words = shlex.split(found["hint"].split("`")[1])
        assert found["severity"] == "warning"
        assert run(*words, "--yes", command=command).code == 0
    assert "no problems found" in run(table.location, command="validate").out
