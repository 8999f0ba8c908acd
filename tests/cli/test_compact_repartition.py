"""Rows whose partition has a wrong value: `compact --repartition` moves them where they belong."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders.broken import Broken, Record
from tests.builders.relocate import BOUNDS
from tests.builders.rows import current_metadata, head, live_entries, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.fault.changing import run
from tests.fault.writers import shown

EVERY = ("--rewrite-all", "--repartition", "--engine", "local", "--yes")


class WrongBuilder(TableBuilder):
    """Writes rows of odd ids into a wrong partition, as old writers did."""

    def _partition_of(self, row: dict[str, Any]) -> tuple[Any, ...]:
        *rest, value = super()._partition_of(row)
        if row["id"] % 2 and value is not None:
            match self.partitioning:
                case "day":
                    value = value + timedelta(1) if isinstance(value, date) else value + 1
                case "truncate":
                    value = value[:2]
                case _:
                    value = (value + 1) % 4
        return (*rest, value)


def build(directory: Path, partitioning: str, version: int = 2) -> WrongBuilder:
    table = WrongBuilder(directory, format_version=version, partitioning=partitioning)
    for start in range(0, 120, 40):
        table.append(range(start, start + 40))
    if version > 1:
        table.delete_rows([1, 2, 13])
        table.delete_rows([3, 8, 30, 31], kind="equality")
        table.append(range(120, 140))
    return table


def rules_found(directory: Path) -> set[str]:
    code, document = run(["validate", str(directory), "--level", "data", "--json"])
    findings = document["result"]["findings"]
    rules = {item["rule"] for item in findings if item["severity"] == "error"}
    assert code == (4 if rules else 0)
    hints = {item["hint"] for item in findings if item["rule"] in rules}
    assert all(f"`icectl compact {directory} --rewrite-all --repartition`" in h for h in hints)
    return rules


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    ("partitioning", "rule"),
    [("day", "R-072"), ("bucket", "R-073"), ("truncate", "R-074"), ("two", "R-073")],
)
def test_r072_to_r074_rows_move_to_the_partitions_of_their_values(
    tmp_path, partitioning, rule, version
):
    table = build(tmp_path / "t", partitioning, version)
    before = shown(table)
    assert rules_found(table.directory) == {rule}
    code, planned = run(["compact", table.location, *EVERY, "--dry-run", "--json"])
    assert code == 0
    assert {group["method_reason"] for group in planned["result"]["groups"]} == {
        "rows move to the partitions of their values"
    }
    code, done = run(["compact", table.location, *EVERY, "--json"])
    assert (code, done["status"]) == (0, "done"), done
    assert rules_found(table.directory) == set()
    assert shown(table) == before
    live = [entry["data_file"] for entry in live_entries(head(table.directory))]
    assert {file["content"] if version > 1 else 0 for file in live} <= {0}


def test_each_file_holds_one_partition_and_deletes_of_before_stay_with_their_rows(tmp_path):
    """An equality delete of the partition that a row moves to has not deleted the row."""
    table = build(tmp_path / "t", "bucket")
    table.delete_rows([120], kind="keys")  # by the value, in its right partition
    before = shown(table)
    code, _ = run(["compact", table.location, *EVERY, "--json"])
    assert code == 0
    assert shown(table) == before
    table.append(range(200, 240))
    table.delete_rows([201, 202], kind="equality")
    assert len(read_rows(read_metadata(current_metadata(table.directory)))) == len(before) + 38


def test_rows_with_another_value_of_a_column_that_the_partition_has_are_refused(tmp_path):
    class OtherCategory(TableBuilder):
        def _partition_of(self, row: dict[str, Any]) -> tuple[Any, ...]:
            category, bucket = super()._partition_of(row)
            return ("c9" if row["id"] == 7 else category, bucket)

    table = OtherCategory(tmp_path / "t", partitioning="two")
    table.append(range(20))
    code, document = run(["compact", table.location, *EVERY, "--json"])
    assert (code, "its own bounds exclude (R-071)" in document["error"]["message"]) == (15, True)

    def without_bounds(entries: list[Record]) -> None:
        for entry in entries:
            entry["data_file"] |= dict.fromkeys(BOUNDS)

    Broken(table.directory).edit_manifest(without_bounds)
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    code, document = run(["compact", table.location, *EVERY, "--json"])
    assert (code, document["error"]["id"]) == (14, "unsupported"), document
    assert "whose `category` differs" in document["error"]["message"]
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--method", "merge"), "cannot move rows to other partitions"),
        (("--deletes-only",), "`--repartition` is for data files"),
    ],
)
def test_repartition_needs_rows_to_be_rewritten(tmp_path, words, message):
    table = build(tmp_path / "t", "day")
    code, document = run(["compact", table.location, "--repartition", *words, "--json"])
    assert (code, message in document["error"]["message"]) == (2, True)
