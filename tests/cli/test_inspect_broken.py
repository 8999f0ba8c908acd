"""`icectl inspect` shows what can be read of a broken table; what changes a table refuses it."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from icectl.files.avro.container import Block, read_blocks, read_header, write_file
from icectl.storage.local.store import LocalStore
from tests.builders.folders import contents_of
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.cli.conftest import Ended, Run, checked_document
from tests.fault.changing import run as run_with
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import WrappedStore

CHANGING = {
    "compact": ["--rewrite-all", "--engine", "local", "--yes"],
    "rewrite-manifests": ["--yes"],
    "expire-snapshots": ["--retain-last", "1", "--older-than", "0s", "--yes"],
    "remove-orphans": ["--yes"],
    "upgrade-to-v4": ["--layout=sfc-1", "--yes"],
}
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def run(prepared: Callable[..., Run]) -> Run:
    return prepared("inspect", FixedEnv(START_MS + 10**11))


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    made = TableBuilder(tmp_path / "t", format_version=3)
    for start in range(0, 12, 4):
        made.append(range(start, start + 4))
    return made


def result(ended: Ended) -> dict[str, Any]:
    """The result of a run that may have warned."""
    found: dict[str, Any] = checked_document(ended)["result"]
    return found


def metadata_file(directory: Path) -> Path:
    return max(
        directory.glob("metadata/v*.metadata.json"), key=lambda one: int(one.name[1:].split(".")[0])
    )


def edit(table: TableBuilder, change: Edit) -> None:
    file = metadata_file(Path(table.location))
    members = json.loads(file.read_text())
    change(members)
    file.write_text(json.dumps(members))


def current_list(table: TableBuilder) -> Path:
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    return Path(snapshot.manifest_list)


def with_one_id_twice(listed: Path) -> None:
    """Give a further field of a manifest list the id of the manifests' lengths."""
    file = read_header(listed.read_bytes())
    schema = json.loads(file.metadata["avro.schema"])
    (key,) = [one for one in schema["fields"] if one["name"] == "added_snapshot_id"]
    key["field-id"] = 501
    blocks = [Block(one.record_count, one.content) for one in read_blocks(file)]
    kept = {name: value for name, value in file.metadata.items() if not name.startswith("avro.")}
    listed.write_bytes(write_file(schema, kept, blocks, codec="null", sync_marker=b"\1" * 16))


def drop_next_row_id(members: dict[str, Any]) -> None:
    del members["next-row-id"]


def large_id(members: dict[str, Any]) -> None:
    members["snapshots"][0]["snapshot-id"] = 2**63


def odd_summary(members: dict[str, Any]) -> None:
    members["snapshots"][0]["summary"] = 5


def odd_ref(members: dict[str, Any]) -> None:
    members["refs"]["old"] = {"snapshot-id": None, "type": "tag"}


def odd_log(members: dict[str, Any]) -> None:
    members["snapshot-log"].insert(0, {"timestamp-ms": 1})


def lost_current(members: dict[str, Any]) -> None:
    members["current-snapshot-id"] = 5


def odd_schema(members: dict[str, Any]) -> None:
    old = copy.deepcopy(members["schemas"][0])
    members["schemas"].append({**old, "schema-id": 9, "fields": [{"id": 1}]})


@pytest.mark.parametrize(
    ("change", "rule", "codes"),
    [
        (drop_next_row_id, "R-013", {"summary": 0, "snapshots": 0, "files": 0}),
        (large_id, "R-030", {"summary": 3, "snapshots": 3, "files": 0, "tree": 3}),
        (odd_summary, "R-030", {"summary": 3, "snapshots": 3, "files": 0}),
        (odd_ref, "R-027", {"summary": 3, "refs": 3, "snapshots": 3, "entries": 0}),
        (odd_log, "R-025", {"summary": 3, "history": 3, "snapshots": 0, "files": 0}),
        (lost_current, "R-015", {"summary": 0, "files": 0}),
        (odd_schema, "R-184", {"summary": 3, "schemas": 3, "partitions": 3, "refs": 0}),
    ],
)
def test_one_oddity_is_named_once_and_all_else_is_shown(table, run, change, rule, codes):
    sound = {view: result(run(table.location, view, "--json")) for view in codes}
    edit(table, change)
    for view, code in codes.items():
        ended = run(table.location, view, "--json")
        assert (view, ended.code) == (view, code)
        assert [rule in one for one in ended.document["warnings"]] == [True]
        assert ended.err.count(f"({rule})") == 1
        assert ended.document["status"] == ("incomplete" if code else "done")
        found = result(ended)
        if code == 0:
            assert found == sound[view]
        text = run(table.location, view)
        assert (text.code, bool(text.out)) == (code, True)
        assert text.err.count(f"({rule})") == 1


@pytest.mark.parametrize("command", CHANGING)
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (drop_next_row_id, "R-013"), (large_id, "R-030"), (odd_summary, "R-030"),
        (odd_ref, "R-027"), (odd_log, "R-025"), (lost_current, "R-015"), (odd_schema, "R-184"),
    ],
)  # fmt: skip
def test_what_inspect_lets_pass_no_command_changes(table, run, command, change, rule):
    edit(table, change)
    before = contents_of(Path(table.location))
    ended = run(table.location, *CHANGING[command], command=command)
    assert ended.code == 15
    assert f"({rule})" in ended.err
    assert "hint: " in ended.err
    assert contents_of(Path(table.location)) == before


def test_validate_tells_of_every_oddity_and_checks_the_rest(table, run):
    edit(table, drop_next_row_id)
    edit(table, odd_ref)
    ended = run(table.location, "--json", command="validate")
    assert ended.code == 4
    found = result(ended)
    told = {(one["rule"], one["severity"]) for one in found["findings"]}
    assert told >= {("R-013", "error"), ("R-027", "error")}
    assert found["snapshots_checked"] == 1


def test_r008_a_list_with_one_id_twice_is_shown_and_refused(table, run):
    sound = result(run(table.location, "files", "--json"))
    with_one_id_twice(current_list(table))
    ended = run(table.location, "files", "--json")
    assert ended.code == 0
    assert result(ended) == sound
    assert ["(R-008)" in one for one in ended.document["warnings"]] == [True]
    before = contents_of(Path(table.location))
    for command, words in CHANGING.items():
        refused = run(table.location, *words, command=command)
        assert (command, refused.code) in ((command, 15), ("upgrade-to-v4", 5))
        assert "(R-008)" in refused.err
        assert contents_of(Path(table.location)) == before


def test_without_the_manifest_list_only_the_table_is_shown(table, run):
    current_list(table).unlink()
    ended = run(table.location, "--json")
    assert ended.code == 3
    assert (result(ended)["snapshot_count"], result(ended)["data_file_count"]) == (3, None)
    text = run(table.location)
    assert text.code == 3
    assert "unknown: what it lists cannot be read" in text.out
    nothing: Ended = run(table.location, "files")
    assert (nothing.code, nothing.out) == (15, "")
    assert nothing.err.count("(R-034)") == 1


@pytest.mark.parametrize("view", ["files", "entries", "summary", "health", "tree", "partitions"])
def test_a_manifest_that_is_none_is_left_out(table, run, view):
    paths = [row["path"] for row in result(run(table.location, "manifests", "--json"))["rows"]]
    assert len(paths) == 3
    Path(paths[1]).write_text("no manifest")
    ended = run(table.location, view, "--json")
    assert ended.code == 3
    told = [one for one in ended.document["warnings"] if one.startswith(f"`{paths[1]}`: ")]
    assert len(told) == 1
    if view == "files":
        assert sum(row["record_count"] for row in result(ended)["rows"]) == 8
    if view == "summary":
        assert result(ended)["record_count"] == 8
    for path in paths:
        Path(path).write_text("no manifest")
    assert run(table.location, view).code == (3 if view in ("summary", "health", "tree") else 15)


def test_changes_are_not_shown_where_one_side_cannot_be_read(table, run):
    paths = [row["path"] for row in result(run(table.location, "manifests", "--json"))["rows"]]
    Path(paths[0]).unlink()
    ended = run(table.location, "changes", "--json")
    assert (ended.code, ended.document["result"]) == (15, None)


def test_r163_a_hint_ahead_of_the_files_is_told_alike_everywhere(table, run):
    newest = int(metadata_file(Path(table.location)).name[1:].split(".")[0])
    hint = Path(table.location, "metadata/version-hint.text")
    hint.write_text(str(newest + 2))
    told = (
        f"version-hint.text says version {newest + 2}, the newest metadata file has version "
        f"{newest}: newer ones are missing"
    )
    advice = (
        f"bring them back; if version {newest} is meant, `icectl repair {table.location}` "
        "corrects version-hint.text"
    )
    refused = run(table.location, "--yes", "--engine", "local", command="compact")
    assert refused.code == 5
    assert f"error: {told}\nhint: {advice}\n" in refused.err
    checked = run(table.location, "--level", "files", "--json", command="validate")
    found = [one for one in result(checked)["findings"] if one["rule"] == "R-163"]
    assert [(one["severity"], one["message"], one["hint"]) for one in found] == [
        ("warning", told, advice)
    ]
    shown = run(table.location, "--json")
    assert (shown.code, shown.document["warnings"]) == (0, [f"{told} (R-163); {advice}"])
    hint.write_text(str(newest - 1))
    assert run(table.location, "--json").document["warnings"] == []


class CommittingStore(WrappedStore):
    """Another writer commits while the first manifest list is read."""

    def __init__(self, table: TableBuilder) -> None:
        super().__init__(LocalStore())
        self.table: TableBuilder | None = table

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        table, self.table = (None, self.table) if "snap-" not in location else (self.table, None)
        if table is not None:
            table.set_properties({"meanwhile": "yes"})
        return action()


@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_r163_a_version_that_comes_meanwhile_is_not_missing(tmp_path, command):
    table = filled_table(tmp_path / "t", range(4))
    code, document = run_with([command, table.location, "--json"], CommittingStore(table))
    assert (code, document["warnings"]) == (0, [])
    assert document["result"].get("findings", []) == []


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each member of each object."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(value, dict):
            yield (*at, key)
        if isinstance(item, dict | list):
            yield from places(item, (*at, key))


DROPPED = object()


@pytest.mark.parametrize("wrong", [DROPPED, None, [5]], ids=["dropped", "null", "list"])
@pytest.mark.parametrize("command", ["inspect", "validate"])
def test_no_member_of_the_metadata_can_end_it_with_a_bug(tmp_path, run, command, wrong):
    table = filled_table(tmp_path / "t", range(2), format_version=3)
    file = metadata_file(tmp_path / "t")
    text = file.read_text()
    for place in places(json.loads(text)):
        members = json.loads(text)
        inner = members
        for key in place[:-1]:
            inner = inner[key]
        if wrong is DROPPED:
            del inner[place[-1]]
        else:
            inner[place[-1]] = wrong
        file.write_text(json.dumps(members))
        words = ["--level", "metadata"] if command == "validate" else []
        ended = run(table.location, *words, command=command)
        assert ended.code in (0, 3, 4, 15), (place, ended.err)
        assert bool(ended.err) >= (ended.code in (3, 15)), place
        assert "Traceback" not in ended.err


@pytest.mark.parametrize("wanted", ["text", "json", "github", "junit", "sarif"])
def test_the_health_of_a_table_that_is_not_whole_is_never_green(run, table, wanted, tmp_path):
    max(Path(table.location).glob("metadata/*-snap-*")).unlink()
    metrics = str(tmp_path / "m.prom")
    words = ("health", "--check", "--format", wanted, "--metrics-file", metrics)
    ended = run(table.location, *words)
    assert ended.code == 3
    shown = {
        "text": "small files: unknown",
        "json": '"verdict": "unknown"',
        "github": "::error title=incomplete",
        "junit": 'tests="1" failures="0" errors="1"',
        "sarif": '"executionSuccessful": false',
    }
    assert shown[wanted] in ended.out
    assert ": ok" not in ended.out
    assert "icectl_last_run_success" in (text := Path(metrics).read_text())
    assert re.search(r'icectl_health_verdict{command="inspect".*check="all"} 3\n', text)


def test_small_files_do_not_hide_that_part_of_a_table_is_missing(run, table, tmp_path):
    """Nor does health ask for what `compact` would refuse: it ends with 15 here."""
    min(Path(table.location).glob("metadata/*-m0.avro")).unlink()
    metrics = tmp_path / "m.prom"
    ended = run(table.location, "health", "--json", "--check", "--metrics-file", str(metrics))
    found = ended.document["result"]
    assert (ended.code, found["verdict"]) == (3, "unknown")
    assert (found["small_files"]["verdict"], found["small_files"]["command"]) == ("unknown", None)
    assert "is missing" in found["small_files"]["withheld"]
    assert re.search(r'check="all"} 3\n', metrics.read_text())
    assert run(table.location, "--check", command="compact").code == 15
