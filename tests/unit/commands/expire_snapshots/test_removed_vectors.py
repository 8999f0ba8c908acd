"""Puffin files that a snapshot names as DELETED: which of them expire with the snapshots before it.

A DELETED row is what change detection needs, and scans do not. The bits of a manifest delete vector
tell which files the snapshot removed, so that its file stays. A delete vector of a data file goes
with the last snapshot in which it was live, as each file does.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from icectl.cli import app
from icectl.commands.rows.delete import delete, where
from icectl.commands.rows.write import append
from icectl.storage.local.store import LocalStore
from tests.builders.inline_rows import InlineFinder, InlineFrame, rows_of, tree, way_to
from tests.builders.rows import absolute, head, ids_of, local

_DELETED = 2


def of_root(directory: Path, content_type: int) -> dict[int, list[str]]:
    """The files of a root's rows of one content, by status."""
    snapshot = head(directory)
    found: dict[int, list[str]] = {}
    for row in pq.read_table(local(snapshot["root-manifest"])).to_pylist():
        if row["content_type"] == content_type:
            place = absolute(snapshot.get("table-location", ""), row["location"])
            found.setdefault(row["tracking_info"]["status"], []).append(place)
    return found


def changed(directory: Path, *conditions: str, **properties: str) -> Path:
    """A table of two files of 4 rows, odd and even ids; rows were deleted time after time."""
    tree(directory, **properties)
    frame = InlineFrame(rows_of(range(8)), LocalStore(), tasks=2)
    append(way_to(directory), frame, "main")
    for condition in conditions:
        delete(way_to(directory), InlineFinder(LocalStore()), where(condition), "main")
    return directory


def expire(directory: Path) -> None:
    words = ("--older-than", "0s", "--retain-last", "1", "--yes", "--quiet")
    assert app.main(["expire-snapshots", str(directory), *words]) == 0


def said(capsys: Any, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert app.main([*words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document["result"]


def findings(capsys: Any, directory: Path) -> set[tuple[str, str]]:
    """Rules that `validate` names, with their severity; the parent of the head is always gone."""
    found = said(capsys, "validate", str(directory), "--level", "data")["findings"]
    return {(finding["rule"], finding["severity"]) for finding in found}


def test_v4_183_a_replaced_vector_of_a_data_file_expires_and_its_rows_are_not_counted(
    tmp_path, capsys
):
    directory = changed(tmp_path / "t", "id = 1", "id = 3")
    (replaced,) = of_root(directory, 1)[_DELETED]
    shown = said(capsys, "inspect", str(directory), "changes")
    assert shown["row_changes"] == {"added_rows": 0, "removed_rows": 1}
    expire(directory)
    assert not local(replaced).exists()
    assert ids_of(directory) == [0, 2, 4, 5, 6, 7]
    assert findings(capsys, directory) == {("R-030", "info"), ("V4-183", "info")}
    shown = said(capsys, "inspect", str(directory), "changes")
    assert shown["row_changes"] is None
    assert shown["added_position_deletes"] == 2


def test_a_replaced_manifest_delete_vector_stays_as_the_changes_follow_from_it(tmp_path, capsys):
    outside = {"icectl__v4__mdv__inline_max_bytes": "0", "icectl__v4__root__max_data_files": "0"}
    tree(directory := tmp_path / "t", **outside)
    frame = InlineFrame(rows_of(range(12)), LocalStore(), tasks=6)
    append(way_to(directory), frame, "main")
    for condition in ("id in (0, 6)", "id in (1, 7)"):
        delete(way_to(directory), InlineFinder(LocalStore()), where(condition), "main")
    (replaced,) = of_root(directory, 5)[_DELETED]
    before = said(capsys, "inspect", str(directory), "changes")
    expire(directory)
    assert local(replaced).exists()
    assert findings(capsys, directory) == {("R-030", "info"), ("V4-192", "info")}
    after = said(capsys, "inspect", str(directory), "changes")
    assert after["files"] == before["files"]
    assert len(after["files"]) == 1
    delete(way_to(directory), InlineFinder(LocalStore()), where("id in (2, 8)"), "main")
    expire(directory)
    assert not local(replaced).exists()
