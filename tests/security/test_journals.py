"""Journals are hints, not orders: whoever writes one into a table has nothing deleted by it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders.expiry import NOW_MS, aged_table
from tests.builders.folders import files_of
from tests.builders.orphans import OTHER_UUID, age, stray
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import run

RUN = "11111111-2222-4333-8444-555555555555"
DAY_MS = 24 * 3_600_000
COMMANDS = {
    "rewrite-manifests": ["--min-manifests", "1", "--yes"],
    "compact": ["--engine", "local", "--yes"],
    "expire-snapshots": ["--older-than", "0s", "--retain-last", "1", "--yes"],
    "remove-orphans": ["--older-than", "2d", "--max-fraction", "1", "--yes"],
}


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return filled_table(tmp_path / "wh" / "a", *(range(start, start + 4) for start in (0, 4)))


def journal(table: TableBuilder, command: str, **members: Any) -> Path:
    """A journal of outputs, of a run that is dead and lost against version 0."""
    content = {
        "icectl-journal": 1, "table-uuid": table.metadata.table_uuid, "created-ms": 1, "host": "x",
        "pid": 1, "folders": [], "trees": [], "abandoned": True, "newest-version": 0,
        "newest-location": None, "newest-sequence-number": 0,
    }  # fmt: skip
    path = table.directory / "metadata" / f"icectl-{command}-{RUN}.json"
    path.write_text(json.dumps(content | members))
    return path


def ended(table: TableBuilder, command: str, *words: str) -> dict[str, Any]:
    code, document = run([command, table.location, *COMMANDS[command], *words, "--json"])
    assert code == 0, document
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("member", ["folders", "trees"])
@pytest.mark.parametrize("command", ["rewrite-manifests", "compact"])
def test_a_journal_takes_no_file_of_others_along(table, tmp_path, command, member):
    folder = tmp_path / "wh" / "b" / "data"
    other = stray(folder, f"00000-0-{RUN}-00001.parquet")
    path = journal(table, command, **{member: [str(folder)]})
    document = ended(table, command)
    assert other.exists()
    [told] = [one for one in document["warnings"] if str(folder) in one]
    assert path.name in told


def test_a_journal_takes_no_file_along_that_lies_below_another_table(table):
    below = table.directory / "sub" / "b"
    other = stray(below / "data", f"00000-0-{RUN}-00001.parquet")
    stray(below / "metadata", "v1.metadata.json")
    path = journal(table, "rewrite-manifests", trees=[table.location])
    document = ended(table, "rewrite-manifests")
    assert (other.exists(), path.exists()) == (True, True)
    assert any("v1.metadata.json may be metadata of another table" in one
               for one in document["warnings"])  # fmt: skip


@pytest.mark.parametrize("uuid", [OTHER_UUID, None])
def test_a_journal_of_another_table_or_of_none_is_left_alone(table, uuid):
    lost = stray(table.directory / "data", f"00000-0-{RUN}-00001.parquet")
    listed = stray(table.directory / "metadata", f"{RUN}-m0.avro")
    path = journal(table, "rewrite-manifests", folders=[str(lost.parent)], **{"table-uuid": uuid})
    if uuid is None:  # as an older icectl has written it
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items()
                                    if k != "table-uuid"}))  # fmt: skip
    before = path.read_bytes()
    document = ended(table, "rewrite-manifests")
    assert (lost.exists(), listed.exists(), path.read_bytes()) == (True, True, before)
    assert [one for one in document["warnings"] if path.name in one and "is ignored" in one]


def test_what_a_killed_run_has_left_is_named_and_listed(table, tmp_path):
    lost = stray(table.directory / "data", f"00000-0-{RUN}-00001.parquet")
    manifest = stray(table.directory / "metadata", f"{RUN}-m0.avro")
    path = journal(table, "rewrite-manifests", folders=[str(lost.parent)])
    deleted = tmp_path / "deleted.txt"
    document = ended(table, "rewrite-manifests", "--deleted-list", str(deleted))
    assert not any(one.exists() for one in (lost, manifest, path))
    assert set(deleted.read_text().splitlines()) == {str(lost), str(manifest)}
    [told] = [one for one in document["warnings"] if "a killed run had left" in one]
    assert str(manifest) in told
    assert "1 more" in told


def test_what_a_killed_run_has_left_is_held_to_the_budget(table, tmp_path):
    lost = [stray(table.directory / "data", f"0000{at}-0-{RUN}-00001.parquet") for at in range(3)]
    path = journal(table, "rewrite-manifests", folders=[str(lost[0].parent)])
    policy = tmp_path / "policy.toml"
    policy.write_text(
        "steps = ['rewrite-manifests']\nbudget.delete-files = 2\n"
        "[rewrite-manifests]\nmanifests = 1\nmin-manifests = 1\n"
    )
    words = ["--policy", str(policy), "--yes", "--json"]
    code, document = run(["maintain", table.location, *words])
    assert code == 0, document
    assert "budget allows 2" in json.dumps(document)
    assert all(one.exists() for one in (*lost, path))


def deletion(table: TableBuilder, **members: Any) -> Path:
    """The record of an expiry that has landed and did not finish."""
    content = {"icectl-journal": 1, "table-uuid": table.metadata.table_uuid,
               "created-ms": NOW_MS, "snapshot-ids": [4711], "files": []}  # fmt: skip
    path = table.directory / "metadata" / f"icectl-expire-snapshots-{RUN}.json"
    path.write_text(json.dumps(content | members))
    return path


def test_the_record_of_a_deletion_names_no_file_of_others(table, tmp_path):
    other = stray(tmp_path / "wh" / "b" / "data", "x.parquet")
    below = stray(table.directory / "sub" / "data", "y.parquet")
    deletion(table, files=[[str(other), 0, 100]])
    document = ended(table, "expire-snapshots")
    assert other.exists()
    assert [item["path"] for item in document["result"]["outside"]] == [str(other)]
    stray(table.directory / "sub" / "metadata", "v1.metadata.json")
    deletion(table, files=[[str(below), 0, 100]])
    words = [*COMMANDS["expire-snapshots"], "--json"]
    code, document = run(["expire-snapshots", table.location, *words])
    assert (code, document["error"]["id"]) == (5, "other-table")
    assert below.exists()


def test_the_record_of_a_deletion_of_another_table_is_left_alone(table):
    lost = stray(table.directory / "data", "y.parquet")
    path = deletion(table, files=[[str(lost), 0, 100]], **{"table-uuid": OTHER_UUID})
    document = ended(table, "expire-snapshots")
    assert (lost.exists(), path.exists()) == (True, True)
    assert [one for one in document["warnings"] if path.name in one and "is ignored" in one]


DEEP = "[" * 200_000
ODD: dict[str, Callable[[dict[str, Any]], str]] = {
    "deep": lambda _: DEEP,
    "an infinite time": lambda good: json.dumps(good).replace('s": 1,', 's": 1e999,'),
    "a huge size": lambda good: json.dumps(good | {"files": [["/x", 0, 10**30]]}),
    "a huge process": lambda good: json.dumps(good | {"pid": 10**30}),
    "lists for ids": lambda good: json.dumps(good | {"snapshot-ids": [[1]]}),
    "numbers for folders": lambda good: json.dumps(good | {"folders": [5]}),
    "a text for trees": lambda good: json.dumps(good | {"trees": "/"}),
    "a number for a file": lambda good: json.dumps(good | {"files": [[5, 0, 1]]}),
    "a number for a table": lambda good: json.dumps(good | {"table-uuid": 5}),
    "a list": lambda _: "[1]",
    "a number": lambda _: "1",
    "nothing": lambda _: "",
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_journal_that_cannot_be_read_blocks_no_command(tmp_path, command, odd):
    table = aged_table(tmp_path).table
    age(table.directory, 9)
    members = {
        "icectl-journal": 1, "table-uuid": table.metadata.table_uuid, "created-ms": 1, "host": "x",
        "pid": 1, "folders": [], "trees": [], "abandoned": False, "newest-version": None,
        "snapshot-ids": [4711], "files": [],
    }  # fmt: skip
    content = ODD[odd](members)
    paths = [
        table.directory / "metadata" / f"icectl-{each}-{RUN}.json"
        for each in ("rewrite-manifests", "compact", "expire-snapshots")
    ]
    for path in paths:
        path.write_text(content)
    ended(table, command)
    if odd in ("deep", "a list", "a number", "nothing"):
        assert [path.read_text() for path in paths] == [content] * 3


def test_an_old_journal_of_another_table_is_no_word_on_this_one(table, tmp_path):
    """Two tables with one folder of metadata: the first does not finish what the other began."""
    other = filled_table(tmp_path / "wh" / "b", range(4))
    for path in (other.directory / "metadata").glob("*.metadata.json"):
        path.write_text(json.dumps(read_metadata(path) | {"table-uuid": OTHER_UUID}))
    left = stray(other.directory / "metadata", f"{RUN}-m0.avro")
    path = journal(table, "rewrite-manifests", **{"table-uuid": OTHER_UUID})
    before = files_of(other.directory)
    ended(table, "rewrite-manifests")
    assert (left.exists(), path.exists(), files_of(other.directory)) == (True, True, before)
    assert current_metadata(other.directory).exists()
