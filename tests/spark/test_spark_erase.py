"""Rows are erased on Spark as they are without it: the same files, rows and reasons."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.byte_scanner import hits_below
from tests.builders.rows import rows_without_lineage
from tests.builders.table_builder import TableBuilder
from tests.spark.conftest import peer
from tests.spark.engine import on_spark, skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

GONE = 4712, 4714, 4716, 4720


def built(directory: Path, *, damaged: bool) -> None:
    """A table of two branches and deletes of both kinds with rows that are to go."""
    table = TableBuilder(directory, format_version=2, partitioning="identity")
    table.append([*range(10), GONE[0]])
    table.ref("audit", "branch")
    table.append([10, GONE[1]], branch="audit")
    table.delete_rows([3, GONE[0]], kind="equality")
    table.append([*range(20, 30), GONE[2]])
    table.delete_rows([21, GONE[2]])
    if damaged:
        known = {row["location"] for row in table.live()}
        table.append([4719])
        (place,) = {row["location"] for row in table.live()} - known
        content = Path(place).read_bytes()
        Path(place).write_bytes(content[:40] + b"\0" * (len(content) - 48) + content[-8:])


def erased(folder: Path, name: str, engine: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """What comes of an erasure; paths are below the table's folder."""
    keys, place = folder / "gone.csv", folder / name / "t"
    keys.write_text("\n".join(["note", *(f"note {id_}" for id_ in GONE)]) + "\n")
    words = ("--keys", str(keys), "--key-columns", "note", "--max-fraction", "1")
    line = ("erase", str(place), *words, "--expire-history", "--yes", "--json", *engine)
    ended = on_spark("-m", "icectl", *line)
    assert ended.stdout, ended.stderr
    assert ("engine: spark" in ended.stderr) == ("spark" in engine)
    document = json.loads(ended.stdout.replace(f"{place}/", ""))
    return document["exit"], document["result"]


@pytest.mark.parametrize("damaged", [False, pytest.param(True, marks=pytest.mark.full)])
def test_spark_erases_the_same_rows(tmp_path, damaged):
    skip_without_spark()
    engines = {"spark": ("--engine", "spark", "--master", "local[2]"),
               "local": ("--engine", "local")}  # fmt: skip
    codes, told, rows = {}, {}, {}
    for name, words in engines.items():
        built(tmp_path / name / "t", damaged=damaged)
        assert damaged or hits_below(tmp_path / name, [b"note 4712"])
        codes[name], result = erased(tmp_path, name, words)
        told[name] = [result[it] for it in ("erased_row_count", "branches", "is_proved")]
        told[name].append([[it["path"], it["matching_row_count"]] for it in result["files"]])
        told[name].append([[it["subject"], it["reason"]] for it in result["left"]])
        told[name].append(sorted(it["known_by"] for it in result["objects"]))
        assert "dictionary" in told[name][-1]
        if not damaged:
            assert hits_below(tmp_path / name, [f"note {id_}".encode() for id_ in GONE]) == []
            found = rows_without_lineage(tmp_path / name / "t")
            rows[name] = sorted(row["id"] for row in found)
    assert codes == dict.fromkeys(engines, 3 if damaged else 0)
    assert told["spark"] == told["local"]
    assert told["spark"][2] is not damaged
    if not damaged:
        kept = [*range(10), *range(20, 30)]
        assert rows == {name: [it for it in kept if it not in (3, 21)] for name in engines}


@pytest.mark.full
def test_spark_reads_all_other_rows_of_its_tables(tmp_path):
    skip_without_spark()
    printed = peer(str(tmp_path), script="spark_erasing").splitlines()
    told = [json.loads(line) for line in printed if line.startswith("{")]
    assert [case["version"] for case in told] == ["2", "3"]
    gone = {610, 777, 1300}
    for case in told:
        before, after, result = case["before"], case["after"], case["result"]
        assert (case["code"], result["is_proved"]) == (0, True), result["left"]
        assert (result["key_count"], result["dropped_tags"]) == (3, ["before"])
        assert gone < set(before["main"])
        for branch in ("main", "other"):
            assert after[branch] == [id_ for id_ in before[branch] if id_ not in gone]
        stayed = before.keys() & after.keys() - {"main", "other"}
        assert stayed  # time travel, as far as it may
        assert {one: after[one] for one in stayed} == {one: before[one] for one in stayed}
