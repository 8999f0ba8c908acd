"""Rows of `icectl inspect` against the metadata tables of PyIceberg, on the same tables."""

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from icectl.cli.app import main
from tests.builders.table_builder import TableBuilder

IDS = {"snapshot_id", "parent_id", "added_snapshot_id", "reference_snapshot_id",
       "latest_snapshot_id", "last_updated_snapshot_id"}  # fmt: skip
MAPS = {
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
    "upper_bounds",
}  # fmt: skip

Rows = list[dict[str, Any]]


def ours(capsys: pytest.CaptureFixture[str], table: TableBuilder, *arguments: str) -> Rows:
    """Rows of a view, snapshot ids as numbers again."""
    assert main(["inspect", table.location, *arguments, "--json"]) == 0
    rows: Rows = json.loads(capsys.readouterr().out)["result"]["rows"]
    return [
        {
            name: int(value) if name in IDS and value is not None else value
            for name, value in row.items()
        }
        for row in rows
    ]


def theirs(found: Any) -> Rows:
    """Rows of one of PyIceberg's tables, in the forms that JSON has."""
    rows: Rows = found.to_pylist()
    return [{name: _moment(name, value) for name, value in row.items()} for row in rows]


def _moment(name: str, value: Any) -> Any:
    """Instants of the table are in UTC, though their Arrow type does not say so."""
    if isinstance(value, datetime):
        text = value.isoformat(timespec="milliseconds")
        return text.removesuffix("+00:00").removesuffix(".000") + "Z"
    return _plain(name, value)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _plain(key, each) for key, each in value.items()}
    if isinstance(value, list) and (name in MAPS or name == "summary"):
        return {str(key): _plain("", each) for key, each in value}
    if isinstance(value, list):
        return [_plain("", each) for each in value]
    return value


def shared(mine: Rows, other: Rows) -> Rows:
    """Our rows with the columns that the other has."""
    return [{name: row[name] for name in other[0]} for row in mine]


@pytest.fixture(params=["none", "identity", "day", "bucket"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableBuilder:
    """A table with history, a rewrite, deletes of both kinds and a tag."""
    built = TableBuilder(tmp_path / "t", partitioning=request.param)
    first = built.append(range(40), files=2)
    built.append(range(40, 60))
    built.delete_rows([1, 2, 41])
    built.delete_rows([5], kind="equality")
    built.replace_data_files(2)
    built.ref("first", snapshot_id=first, max_ref_age_ms=86_400_000)
    return built


@pytest.fixture
def peer(table: TableBuilder) -> Any:
    return StaticTable.from_metadata(table.metadata_location).inspect


def test_snapshots_agree(capsys, table, peer):
    other = theirs(peer.snapshots())
    for row in other:
        row["operation"] = row["operation"].removeprefix("Operation.").lower()
    assert shared(ours(capsys, table, "snapshots"), other) == other


@pytest.mark.parametrize("view", ["history", "refs"])
def test_views_of_the_metadata_file_agree(capsys, table, peer, view):
    other = theirs(getattr(peer, view)())
    assert shared(ours(capsys, table, view), other) == other


def test_metadata_log_agrees(capsys, table, peer):
    other = theirs(peer.metadata_log_entries())
    assert ours(capsys, table, "metadata-log") == other


def test_manifests_agree(capsys, table, peer):
    other = theirs(peer.manifests())
    assert shared(ours(capsys, table, "manifests"), other) == other
    everything = theirs(peer.all_manifests())
    assert shared(ours(capsys, table, "manifests", "--all-snapshots"), everything) == everything


def test_files_agree(capsys, table, peer):
    for content, found in (
        (None, peer.files()),
        ("data", peer.data_files()),
        ("deletes", peer.delete_files()),
    ):
        other = theirs(found)
        choice = ("--content", content) if content else ()
        assert shared(ours(capsys, table, "files", *choice), other) == other


def test_entries_agree(capsys, table, peer):
    other = theirs(peer.entries())
    mine = shared(ours(capsys, table, "entries"), other)
    for row, known in zip(mine, other, strict=True):
        row["data_file"] = {name: row["data_file"][name] for name in known["data_file"]}
    assert mine == other


def test_partitions_agree(capsys, table, peer):
    other = theirs(peer.partitions())
    mine = shared(ours(capsys, table, "partitions"), other)
    assert sorted(mine, key=repr) == sorted(other, key=repr)
