"""Compactions on Spark: the rows of the engine without it, each once, whatever becomes of tasks."""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.builders.compactions import build, lineage
from tests.builders.rows import current_metadata, head, live_entries, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.test_compact_repartition import build as with_wrong_partitions
from tests.cli.test_compact_repartition import rules_found
from tests.conftest import ROOT
from tests.peers.spark_compact import CASES, MERGED, PIECE_BYTES, compact
from tests.spark.engine import command, environment, on_spark, skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-runs")]

SMALL = ("--target-file-size", "1MiB", "--min-input-files", "2")
WORKING = [name for name in CASES if name != "wrong"]
PUT_TOGETHER = ("put-together", "put-together-with-ids")
TRACED = ("vectors", "put-together-with-ids", "sorted", "large-sorted")
STARTS_WITHIN_SECONDS = 240


@dataclass(frozen=True)
class Told:
    """Tables before and after Spark, their twins after the engine without it, and what was said."""

    folder: Path
    twins: Path
    before: dict[str, list[Any]]
    lineage_before: dict[str, dict[int, tuple[int, int]]]
    said: dict[str, dict[str, Any]]
    was_killed: bool


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Build every table twice and compact one without Spark and the other on it."""
    skip_without_spark()
    folder, twins = (tmp_path_factory.mktemp(name) for name in ("spark", "twins"))
    for name in CASES:
        make(folder, name)
        make(twins, name)
        if name != "wrong":
            compact(twins / name, CASES[name])
    before = {name: rows(folder / name) for name in WORKING}
    lineage_before = {name: lineage(folder / name) for name in TRACED}
    script = str(ROOT / "tests/peers/spark_compact.py")
    wishes = tmp_path_factory.mktemp("at-link")
    done = on_spark(script, str(folder), at_link=wishes)
    assert done.returncode == 0, done.stderr[-4000:]
    said = {line.pop("name"): line for line in map(json.loads, done.stdout.splitlines())}
    return Told(folder, twins, before, lineage_before, said, (wishes / "met").exists())


REPARTITIONED = ("repartitioned", "repartitioned-days")
KEEPING = (*MERGED, "overlapping")
"""Tables some of whose data files stay."""

LARGE, SKEWED = ("large-sorted", "large-z-ordered", "large-packed"), "skewed"
LARGE_ROWS = 2_000


@dataclass
class Unsplit(TableBuilder):
    """A table of files of many row groups, of which no entry says where they begin."""

    row_group_rows: int | None = 40

    def _write_parquet(self, *given: Any, **more: Any) -> dict[str, Any]:
        return super()._write_parquet(*given, **more) | {"split_offsets": None}


def large(directory: Path, format_version: int) -> None:
    """One large file, whose rows are deleted here and there."""
    table = Unsplit(directory, format_version=format_version)
    table.append(range(LARGE_ROWS))
    table.delete_rows([1, 41, 1_000, 1_999])
    table.delete_rows(range(600, 700))
    if format_version == 2:
        table.delete_rows([40, 1_500], kind="equality")


def skewed(directory: Path) -> None:
    """Rows that come to three partitions: a hundred to one of them for each to another."""
    table = TableBuilder(directory)
    table.append([*range(0, 6_000, 3), *range(1, 60, 3), *range(2, 60, 3)], files=2)
    table.respec("identity")


def make(folder: Path, name: str) -> None:
    case = CASES[name]
    if name == "overlapping":
        table = filled_table(folder / name, range(0, 1_200, 2), files=6)
        table.append(range(301, 701, 4), files=2)
        return
    if name in LARGE:
        large(folder / name, case.format_version)
        return
    if name == SKEWED:
        skewed(folder / name)
        return
    if name in REPARTITIONED:
        with_wrong_partitions(folder / name, case.partitioning, case.format_version)
        return
    table = build(folder / name, case.format_version, case.partitioning)
    if name == "respecced":
        table.respec("identity")
    if name == "wrong":
        path = max(live_files(folder / name))
        content = bytearray(path.read_bytes())
        content[40:80] = b"\xff" * 40
        path.write_bytes(bytes(content))


def rows(directory: Path) -> list[Any]:
    return read_rows(read_metadata(current_metadata(directory)))


def data_files(directory: Path) -> set[Path]:
    return set((directory / "data").rglob("*.parquet"))


def live_files(directory: Path) -> list[Path]:
    entries = [entry["data_file"] for entry in live_entries(head(directory))]
    return [Path(entry["file_path"]) for entry in entries if not entry["content"]]


def new_files(directory: Path) -> set[Path]:
    """Data files that icectl has written; those of the builder have a number for a name."""
    return set(filter(is_new, data_files(directory)))


def is_new(path: Path) -> bool:
    return len(path.stem) > 40


@pytest.mark.parametrize("name", WORKING)
def test_rows_are_those_that_were_there_and_those_of_the_other_engine(told, name):
    assert told.said[name]["groups"] >= 1
    assert rows(told.folder / name) == told.before[name] == rows(told.twins / name)


@pytest.mark.parametrize("name", REPARTITIONED)
def test_r072_to_r074_rows_move_to_the_partitions_of_their_values(told, name):
    assert rules_found(told.folder / name) == set()


@pytest.mark.parametrize("name", TRACED)
def test_r105_row_ids_stay_what_they_were(told, name):
    assert lineage(told.folder / name) == told.lineage_before[name]


@pytest.mark.parametrize("name", [name for name in WORKING if name not in KEEPING])
def test_files_that_are_written_are_those_of_the_table(told, name):
    live = live_files(told.folder / name)
    new = {path for path in new_files(told.folder / name) if not path.stem.endswith("-deletes")}
    assert new == set(live)
    assert len(live) == len(set(live))
    assert not list((told.folder / name / "metadata").glob("icectl-*"))


@pytest.mark.parametrize("name", MERGED)
def test_deletes_are_merged_into_the_same_files_as_without_spark(told, name):
    files, twins = (merged(directory / name) for directory in (told.folder, told.twins))
    assert files.keys() == twins.keys()
    assert {key: len(of_key) for key, of_key in files.items()} == {
        key: len(of_key) for key, of_key in twins.items()
    }
    live = {path for of_key in files.values() for path in of_key}
    written = (told.folder / name / "data").rglob("0*-*-*-deletes.p*")
    assert set(filter(is_new, written)) == live
    assert len(live) >= 1
    assert not list((told.folder / name / "metadata").glob("icectl-*"))


def merged(directory: Path) -> dict[tuple[str, int], list[Path]]:
    """New files of deletes by position, by the data file they are about and how many they have."""
    found: dict[tuple[str, int], list[Path]] = {}
    for entry in (entry["data_file"] for entry in live_entries(head(directory))):
        if entry["content"] == 1 and is_new(Path(entry["file_path"])):
            about = str(Path(entry["referenced_data_file"]).relative_to(directory))
            key = (about, entry["record_count"])
            found.setdefault(key, []).append(Path(entry["file_path"]))
    return found


@pytest.mark.parametrize("name", PUT_TOGETHER)
def test_groups_are_put_together_to_the_same_bytes_as_without_spark(told, name):
    assert told.said[name]["methods"] == ["merge"]
    files, twins = (
        sorted(path.read_bytes() for path in live_files(directory / name))
        for directory in (told.folder, told.twins)
    )
    assert files == twins


def keys(path: Path, key: Callable[[dict[str, Any]], Any]) -> list[Any]:
    return [key(row) for row in pq.read_table(path, partitioning=None).to_pylist()]


def test_rows_of_a_sorted_group_are_in_order_across_its_files(told):
    def key(row: dict[str, Any]) -> tuple[int, int]:
        return -ord(row["category"][1]), row["id"]

    files = sorted((keys(path, key) for path in live_files(told.folder / "sorted")), key=min)
    assert len(files) > 2
    joined = [one for file in files for one in file]
    assert joined == sorted(joined)


def test_only_files_that_overlap_are_sorted_and_as_without_spark(told):
    for folder in (told.folder / "overlapping", told.twins / "overlapping"):
        files = {path: keys(path, itemgetter("id")) for path in live_files(folder)}
        written = sorted(filter(is_new, files), key=lambda path: files[path])
        assert [ids[0] for path, ids in files.items() if path not in written] == [0, 800, 1_000]
        sorted_ids = sorted([*range(200, 800, 2), *range(301, 701, 4)])
        assert [one for path in written for one in files[path]] == sorted_ids


def test_tasks_are_counted_through_all_of_a_run(told):
    counts = [told.said[name]["tasks"] for name in WORKING]
    assert counts[0] >= 1
    assert all(low < high for low, high in pairwise(counts))


def tasks_of(told: Told, name: str) -> int:
    """How many tasks were run for one table."""
    before = WORKING[WORKING.index(name) - 1]
    return int(told.said[name]["tasks"] - told.said[before]["tasks"])


@pytest.mark.parametrize("name", LARGE[:2])
def test_one_large_file_that_is_sorted_is_sampled_and_dealt_out_by_many_tasks(told, name):
    large_file = (told.folder / name / "data" / "00001.parquet").stat().st_size
    pieces = large_file // PIECE_BYTES
    assert pieces >= 5
    assert tasks_of(told, name) == 2 * pieces + len(live_files(told.folder / name)) + 1


def test_one_large_file_of_which_no_row_group_is_known_is_rewritten_by_many_tasks(told):
    counts = [len(keys(path, id)) for path in live_files(told.folder / "large-packed")]
    assert min(tasks_of(told, "large-packed"), len(counts)) >= 4
    assert max(counts) < LARGE_ROWS / 2


def test_a_partition_with_a_hundred_times_the_rows_is_split_among_tasks(told):
    """The second part of a file's name is the attempt of a task that wrote it."""
    written: dict[str, Counter[str]] = {}
    for path in live_files(told.folder / SKEWED):
        by_task = written.setdefault(path.parent.name, Counter())
        by_task[path.name.split("-")[1]] += len(keys(path, id))
    assert {place: sum(counts.values()) for place, counts in written.items()} == {
        "category=c0": LARGE_ROWS, "category=c1": 20, "category=c2": 20
    }  # fmt: skip
    of_large = written["category=c0"].values()
    assert len(of_large) >= 4
    assert max(of_large) < 1.5 * LARGE_ROWS / len(of_large)


def test_rows_of_another_spec_are_in_the_files_of_their_partitions(told):
    files = live_files(told.folder / "respecced")
    found = {path.parent.name: set(keys(path, lambda row: row["category"])) for path in files}
    assert found == {f"category=c{number}": {f"c{number}"} for number in range(3)}


def test_z_ordered_rows_stay_in_their_partitions(told):
    def places(directory: Path) -> dict[int, str]:
        files = live_files(directory)
        return {id_: path.parent.name for path in files for id_ in keys(path, lambda r: r["id"])}

    assert places(told.folder / "z-ordered") == places(told.twins / "z-ordered")


def test_a_worker_that_is_killed_leaves_nothing_and_its_task_is_tried_again(told):
    assert told.was_killed
    assert told.said["retried"]["groups"] > 1
    assert told.said["respecced"]["repeats"] == 0 < told.said["retried"]["repeats"]
    assert new_files(told.folder / "retried") == set(live_files(told.folder / "retried"))


def test_a_task_that_fails_leaves_the_table_and_no_file_of_the_others(told):
    directory = told.folder / "wrong"
    assert told.said["wrong"]["error"] == "CorruptTable"
    assert head(directory)["summary"]["operation"] == "delete"
    assert new_files(directory) == set()
    assert not list((directory / "metadata").glob("icectl-*"))


def test_a_killed_driver_leaves_a_journal_by_which_the_next_run_cleans_up(tmp_path):
    skip_without_spark()
    directory, wishes = tmp_path / "t", tmp_path / "wishes"
    build(directory, 2, "identity")
    before, metadata = rows(directory), current_metadata(directory)
    wishes.mkdir()
    (wishes / "hold").touch()
    run = ["-m", "icectl", "compact", str(directory), *SMALL]
    process = subprocess.Popen(
        command(*run, "--master", "local[1]"), cwd=tmp_path, env=environment(wishes)
    )
    try:
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while not (wishes / "met").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert current_metadata(directory) == metadata
    (journal,) = (directory / "metadata").glob("icectl-compact-*.json")
    left = new_files(directory)  # the file and the temporary one that it was
    assert left
    assert all(journal.stem[-36:] in path.name for path in left)

    done = on_spark(*run, "--engine", "local")

    assert done.returncode == 0, done.stderr
    assert rows(directory) == before
    assert new_files(directory) == set(live_files(directory))
    assert not journal.exists()
