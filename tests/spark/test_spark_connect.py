"""Compactions over Spark Connect, on a server whose workers have no icectl but what comes along."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from icectl.spark import ValidateOptions, validate
from tests.builders.compactions import build, lineage
from tests.builders.rows import current_metadata, live_entries, read_metadata, read_rows
from tests.conftest import ROOT
from tests.spark.clusters import connect_server, python_without_icectl
from tests.spark.engine import on_spark, why_skipped

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLES = {
    "packed": (2, "two"),
    "sorted": (3, "none"),
    "z-ordered": (2, "bucket"),
    "wrong": (2, "none"),
}
COMPACTED = ("packed", "sorted", "z-ordered")


@dataclass(frozen=True)
class Client:
    """What the client has told, and its tables before and after."""

    told: dict[str, Any]
    folder: Path
    checked: Any
    before: dict[str, list[Any]]
    lineage_before: dict[int, tuple[int, int]]


def rows(directory: Path) -> list[Any]:
    return sorted(read_rows(read_metadata(current_metadata(directory))), key=str)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Start a server, build tables, and compact them there."""
    skipped = why_skipped()
    if skipped:
        pytest.skip(skipped)
    if on_spark("-c", "import pyspark.sql.connect.session").returncode:
        pytest.skip("the Python of Spark has no pyspark[connect]")
    folder, server = (tmp_path_factory.mktemp(name) for name in ("connect", "server"))
    for name, (version, partitioning) in TABLES.items():
        build(folder / name, version, partitioning)
    damaged = max((folder / "wrong/data").rglob("*.parquet"))
    content = bytearray(damaged.read_bytes())
    content[40:80] = b"\xff" * 40
    damaged.write_bytes(bytes(content))
    deep = ValidateOptions(level="data")
    checked = validate(None, str(folder / "wrong"), deep).document
    before = {name: rows(folder / name) for name in COMPACTED}
    of_sorted = lineage(folder / "sorted")
    bare = python_without_icectl(server / "bare")
    with connect_server(server, PYSPARK_PYTHON=str(bare), PYTHONPATH="") as remote:
        done = on_spark(str(ROOT / "tests/peers/spark_connect.py"), remote, str(folder))
    assert done.returncode == 0, done.stderr[-4000:]
    told = {line.pop("name"): line for line in map(json.loads, done.stdout.splitlines())}
    return Client(told, folder, checked, before, of_sorted)


@pytest.mark.parametrize("name", COMPACTED)
def test_rows_are_whole(client: Client, name: str) -> None:
    assert client.told[name]["document"]["status"] == "done", client.told[name]
    assert rows(client.folder / name) == client.before[name]
    assert not unreferenced(client.folder / name)


def test_a_check_finds_what_is_found_without_spark(client: Client) -> None:
    assert client.told["checked"]["document"] == client.checked
    assert client.checked["exit"] == 4


def test_row_ids_stay_with_their_rows(client: Client) -> None:
    assert lineage(client.folder / "sorted") == client.lineage_before


def unreferenced(directory: Path) -> set[Path]:
    """Data files that no snapshot has."""
    metadata = read_metadata(current_metadata(directory))
    named = {
        Path(entry["data_file"]["file_path"].removeprefix("file:"))
        for snapshot in metadata["snapshots"]
        for entry in live_entries(snapshot)
    }
    return set((directory / "data").rglob("*.parquet")) - named


def test_a_damaged_file_ends_as_it_does_elsewhere(client: Client) -> None:
    assert client.told["wrong"]["error"] == "CorruptTable"
    assert not unreferenced(client.folder / "wrong")


def test_what_the_protocol_cannot_do_is_told_by_name(client: Client) -> None:
    told = client.told["orphans"]
    assert (told["error"], told["exit"]) == ("Unsupported", 14)
    assert told["message"].startswith("Spark Connect keeps no answers on the disks of workers")


def test_the_callers_session_is_as_it_was(client: Client) -> None:
    left = client.told["left"]
    assert (left["same"], left["alive"]) == (True, 5)
    assert "rewriting data files on Spark" in left["phases"]
