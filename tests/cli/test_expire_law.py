"""The law of maintenance: rows stay, what is left is what is needed, a second run idles."""

import json
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app, session
from icectl.storage.local.store import LocalStore
from tests.builders.expiry import NOW_MS, reachable
from tests.builders.rows import rows_by_snapshot
from tests.builders.table_builder import PARTITIONINGS, TableBuilder
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import ReadOnlyStore

FULL = pytest.mark.full
METADATA = ("v", "version-hint.text")


def build(
    directory: Path, format_version: int, partitioning: str, kind: str, merge: int
) -> TableBuilder:
    """Appends, deletes, a branch, a tag, a rewrite, on all of it a retention of its own."""
    table = TableBuilder(
        directory, format_version=format_version, partitioning=partitioning,
        merge_manifests_above=merge, compressed_metadata=merge == 1,
        codec="null" if merge == 1 else "deflate",
    )  # fmt: skip
    table.append(range(12), files=2)
    table.append(range(12, 24))
    if format_version > 1:
        table.delete_rows([1, 2, 13], kind=kind)
    table.ref("eoy", "tag")
    table.ref("audit", "branch", min_snapshots_to_keep=2)
    table.append(range(100, 106), branch="audit")
    table.replace_data_files(2)
    table.ref("old", "tag", max_ref_age_ms=1)
    table.remove_data_files(1)
    if format_version > 1:
        table.delete_rows([4, 15, 16], kind=kind)
    table.append(range(24, 30))
    return table


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = app.main(["expire-snapshots", *arguments, "--json"], env=FixedEnv(NOW_MS))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def contents(directory: Path) -> set[str]:
    """Files but metadata files."""
    every = (path for path in directory.rglob("*") if path.is_file())
    return {
        str(path.relative_to(directory)) for path in every if not path.name.startswith(METADATA)
    }


KINDS = [(1, "none"), (2, "position"), (2, "equality"), (3, "position")]


@pytest.mark.parametrize(
    ("format_version", "kind", "partitioning", "merge"),
    [
        pytest.param(*kind, name, merge, marks=() if (at + of + (merge > 1)) % 2 else FULL)
        for at, kind in enumerate(KINDS)
        for of, name in enumerate(PARTITIONINGS)
        for merge in (100, 1)
    ],
)
def test_expiry_keeps_the_law(
    tmp_path, capsys, monkeypatch, format_version, kind, partitioning, merge
):
    directory = tmp_path / "t"
    table = build(directory, format_version, partitioning, kind, merge)
    policy = [table.location, "--older-than", "1m", "--retain-last", "2"]
    before, orphans = rows_by_snapshot(directory), contents(directory) - reachable(directory)

    with monkeypatch.context() as patch:
        patch.setattr(session, "open_store", lambda *_: ReadOnlyStore(LocalStore()))
        code, planned = run(capsys, *policy, "--dry-run")
    assert (code, planned["status"]) == (0, "planned")

    code, done = run(capsys, *policy, "--yes")
    assert (code, done["status"], done["warnings"]) == (0, "done", [])
    assert done["result"] == planned["result"]
    expired = {int(item["snapshot_id"]) for item in done["result"]["expired"]}
    assert len(expired) == (2 if format_version == 1 else 4)
    assert [ref["name"] for ref in done["result"]["refs_removed"]] == ["old"]
    assert {item["path"] for item in done["result"]["files"]}.isdisjoint(contents(directory))

    after = rows_by_snapshot(directory)
    assert after == {id_: rows for id_, rows in before.items() if id_ not in expired}
    assert contents(directory) - orphans == reachable(directory)

    code, again = run(capsys, *policy, "--check")
    assert (code, again["status"], again["result"]["expired"]) == (0, "nothing-to-do", [])
