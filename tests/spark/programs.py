"""What programs on Spark maintain and change, and what has to come of it over any session."""

import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any
from uuid import UUID

import mmh3

from icectl.cli import app
from icectl.env import SystemEnv
from icectl.spark import ValidateOptions, validate
from tests.builders.compactions import build
from tests.builders.inline_rows import tree, typed_tree
from tests.builders.rows import current_metadata, live_entries, local, read_metadata, read_rows

TABLES = {
    "packed": (2, "two"), "sorted": (3, "none"), "z-ordered": (2, "bucket"), "wrong": (2, "none"),
}  # fmt: skip
"""Version and partitioning of tables to compact; of `wrong` a data file is damaged."""
COMPACTED = ("packed", "sorted", "z-ordered")
STEPS = ("append", "whole files", "some rows", "keys", "beside")
"""Steps of `partitioned` in spark_rows.py that tell which ids are left."""


def build_tables(folder: Path) -> None:
    """Build the tables to compact."""
    for name, (version, partitioning) in TABLES.items():
        build(folder / name, version, partitioning)
    damaged = max((folder / "wrong/data").rglob("*.parquet"))
    content = bytearray(damaged.read_bytes())
    content[40:80] = b"\xff" * 40
    damaged.write_bytes(bytes(content))


def build_trees(folder: Path) -> None:
    """Build the tables of layout sfc-1 whose rows are changed over any session."""
    tree(folder / "two", "two")
    tree(folder / "plain", "none", commit__retry__num_retries="20")
    typed_tree(folder / "typed")


def checked(table: Path) -> Any:
    """What a check of the rows finds, without Spark."""
    return validate(None, str(table), ValidateOptions(level="data")).document


def told_by(output: str) -> dict[str, Any]:
    """What a program has told, by the names of calls and steps."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {line.pop("name"): line for line in lines}


def rows(directory: Path) -> list[Any]:
    """The rows of a table, sorted."""
    return sorted(read_rows(read_metadata(current_metadata(directory))), key=str)


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """The rows of a table, by the names of their columns."""
    return [dict(row) for row in read_rows(read_metadata(current_metadata(directory)))]


def unreferenced(directory: Path) -> set[Path]:
    """Data files that no snapshot has."""
    named = {
        local(entry["data_file"]["file_path"])
        for snapshot in read_metadata(current_metadata(directory))["snapshots"]
        for entry in live_entries(snapshot)
    }
    found = (path for path in (directory / "data").rglob("*") if path.is_file())
    return {path for path in found if not path.name.endswith(".crc")} - named


def ids_by_snapshot(directory: Path) -> dict[int, list[int]]:
    """The ids that each snapshot shows."""
    metadata = read_metadata(current_metadata(directory))
    return {
        one["snapshot-id"]: sorted(
            dict(row)["id"] for row in read_rows(metadata, one["snapshot-id"])
        )
        for one in metadata["snapshots"]
    }


def check_overwritten(told: Mapping[str, Any], directory: Path) -> None:
    """Rows of the partitions of two new rows are gone, and no others."""
    before = set(told["beside"]["expected"])
    made = told["overwritten"]["made"]
    buckets = {bucket(200), bucket(203)}
    gone = {one for one in before if one % 3 == 2 and bucket(one) in buckets}
    left = sorted(before - gone | {200, 203})
    assert told["then"]["made"] == left
    assert ids_by_snapshot(directory)[made["snapshot_id"]] == left
    assert (made["added_rows"], made["deleted_rows"]) == (2, len(gone))


def bucket(id_: int) -> int:
    """The partition of a long in four buckets, as the specification has it."""
    hashed: int = mmh3.hash(struct.pack("<q", id_))
    return (hashed & 0x7FFFFFFF) % 4


def check_loaded(told: Mapping[str, Any]) -> None:
    """Frames have the rows of their snapshot, and hours that no zone of a session has moved."""
    for step in ("compacted", "of a snapshot"):
        assert told[step]["made"] == told[step]["expected"]
    few = [one for one in told["then"]["made"] if one < 12 and one % 7]
    assert told["some"]["rows"] == sorted([f"note {one}", one] for one in few)
    assert told["shown"]["rows"] == [["12", "c0", "15.00", "2023-11-15 10:13:20", "note 12"]]
    assert told["hours"]["rows"] == [[one, (22 + one) % 24] for one in range(60)]


def check_typed(told: Mapping[str, Any], directory: Path) -> None:
    """Values of types that Spark lacks are what they were in files and frames."""
    (snapshot, _) = ids_by_snapshot(directory)
    assert told["typed"]["made"]["snapshot_id"] == snapshot
    read = read_rows(read_metadata(current_metadata(directory)), snapshot)
    one, two = sorted(map(dict, read), key=lambda row: row["id"])
    assert one == {
        "id": 1,
        "u": UUID("00112233-4455-6677-8899-aabbccddeeff"),
        "f": b"abcd",
        "t": time(23, 59, 59, 999999),
        "ns": datetime(2262, 4, 11, 23, 47, 16, 854775),  # noqa: DTZ001 - without a zone
        "nz": datetime(1677, 9, 21, 0, 12, 43, 145225, UTC),
        "us": [UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479"), None],
    }
    assert two == {**one, "id": 2, "u": None, "t": None}
    types = ["bigint", "string", "binary", "time(6)", "timestamp_ntz", "timestamp", "array<string>"]
    assert told["typed rows"] == {"same": True, "types": types}
    assert (told["no times"]["error"], told["no times"]["message"][:17]) == (
        "Unsupported",
        "the column `t` is",
    )
    assert told["others"]["rows"] == [[str(one["u"]), 1], [None, 2]]
    assert told["typed keys"]["made"]["deleted_rows"] == 1
    assert [row["id"] for row in rows_of(directory)] == [2]
    unfit = {name: told[name]["message"] for name in ("text", "octets", "far", "number")}
    assert {told[name]["error"] for name in unfit} == {"Refused"}
    assert "`f47ac10b` is not a UUID" in unfit["text"]
    assert "column `f` does not fit the table's" in unfit["octets"]
    assert "out of bounds" in unfit["far"]
    assert "`t` is int64 in the DataFrame and time in the table" in unfit["number"]


def check_clean(directory: Path) -> None:
    """Nothing lies about that a table does not need, and no rule is broken in any snapshot."""
    assert not unreferenced(directory)
    assert not list((directory / "metadata").glob("icectl-*"))
    words = ["validate", str(directory), "--all-snapshots", "--quiet"]
    assert app.main(words, env=SystemEnv()) == 0
