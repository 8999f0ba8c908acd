"""Random histories: after an erasure an independent scanner finds no mark, and other rows stay."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from icectl.format.partition import PartitionField
from icectl.format.transforms import parse_transform
from tests.builders.byte_scanner import hits_below
from tests.builders.examples import examples
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.orphans import age
from tests.builders.rows import current_metadata, read_metadata, rows_without_lineage
from tests.builders.table_builder import PARTITIONINGS, START_MS, TableBuilder
from tests.builders.tree_table import upgrade
from tests.cli.conftest import HOUR_MS
from tests.cli.test_erase import OtherFormat
from tests.cli.test_one_judgement import run
from tests.stores.fixed_env import FixedEnv

GONE = tuple(range(4701, 4721))
MARKS = [f"note {id_}".encode() for id_ in GONE]
WHERE = ("--where", " or ".join(f"id = {id_}" for id_ in GONE))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "append marked", "position", "equality", "keys", "remove",
             "replace", "tag", "branch", "orphan"]
        ),
        st.booleans(),
        st.integers(0, 2**16),
    ),
    min_size=2,
    max_size=9,
)  # fmt: skip


def live_through(table: TableBuilder, steps: list[tuple[str, bool, int]]) -> None:
    """Carry out steps on main or another branch; what makes no sense is left out."""
    table.append([*range(6), GONE[0]])
    next_id, names = 6, 0
    for what, on_branch, number in steps:
        branch = "audit" if on_branch and "audit" in table.metadata.refs else "main"
        ids = sorted(table.ids(branch))
        if what.startswith("append"):
            marked = [id_ for id_ in GONE if id_ not in ids] if "marked" in what else []
            count = number % 5 + 1
            table.append([*range(next_id, next_id + count), *marked], branch=branch)
            next_id += count
        elif what in ("position", "equality", "keys"):
            if table.format_version > 1 and ids:
                doomed = {ids[number % len(ids)], *(GONE if number % 2 else ())}
                if what == "keys" or doomed & set(ids):
                    table.delete_rows(doomed, kind=what, branch=branch)
        elif what in ("remove", "replace"):
            if any(row["content"] == 0 for row in table.live(branch)):
                change = table.remove_data_files if what == "remove" else table.replace_data_files
                change(number % 2 + 1, branch=branch)
        elif what == "orphan":
            (file,) = table.loose_data_files([GONE[number % len(GONE)]])
            age(Path(file["location"].replace(table.location, str(table.directory))), 9)
        elif what == "tag":
            names += 1
            table.ref(f"t{names}")
        elif "audit" not in table.metadata.refs:
            table.ref("audit", "branch")


def rows_of(directory: Path) -> dict[int, list[Any]]:
    """The ids of the rows of each snapshot of a table, read without icectl."""
    snapshots = read_metadata(current_metadata(directory))["snapshots"]
    found = {}
    for item in snapshots:
        rows = rows_without_lineage(directory, item["snapshot-id"])
        found[item["snapshot-id"]] = sorted(row["id"] for row in rows)
    return found


def table_of(
    form: str, directory: Path, version: int, partitioning: str, location: str = ""
) -> TableBuilder:
    """A table whose data files have a format; one of version 4 is to be upgraded."""
    kind = TableBuilder if form == "parquet" else OtherFormat
    table = kind(
        directory, format_version=min(version, 3), partitioning=partitioning, location=location
    )
    if isinstance(table, OtherFormat):
        table.form = form
    return table


def erase(
    steps: list[tuple[str, bool, int]], version: int, partitioning: str, form: str, *, moves: bool
) -> None:
    """Live through some steps, erase all marks, and look for them.

    With `moves`, files that no snapshot names lie in a quarantine by then.
    """
    note = (PartitionField((5,), 1000, "note", parse_transform("identity")),)
    with (
        TemporaryDirectory() as folder,
        patch.dict(PARTITIONINGS, note=note),
        patch.dict(os.environ),
    ):
        directory, away = Path(folder) / "t", Path(folder) / "away"
        live_through(table_of(form, directory, version, partitioning), steps)
        if version == 4:
            upgrade(directory, FixedEnv(START_MS + 24 * HOUR_MS))
        if moves:
            moving = ("--quarantine", str(away), "--max-fraction", "1", "--yes")
            moved = run("remove-orphans", str(directory), *moving, env=Clock(NOW_MS))
            assert moved.code == 0, moved.err
            for path in away.rglob("*.jsonl"):
                age(path, 1)
            os.environ["ICECTL_REMOVE_ORPHANS_QUARANTINE"] = str(away)
        before = rows_of(directory)
        refs = read_metadata(current_metadata(directory))["refs"]
        env = FixedEnv(NOW_MS + HOUR_MS, uuids=50_000, snapshot_ids=50_000)
        words = (*WHERE, "--max-fraction", "1", "--expire-history", "--drop-tags", "*")
        ended = run("erase", str(directory), *words, "--yes", "--json", env=env)
        assert ended.code == 0, (ended.err, ended.out)
        for searched in (directory, away):
            assert hits_below(searched, MARKS) == []
        after = rows_of(directory)
        for id_, rows in after.items():
            assert not set(GONE) & set(rows)
            assert before.get(id_, rows) == rows
        now = read_metadata(current_metadata(directory))["refs"]
        for name, ref in refs.items():
            if ref["type"] == "branch":
                kept = [id_ for id_ in before[ref["snapshot-id"]] if id_ not in GONE]
                assert after[now[name]["snapshot-id"]] == kept
        valid = run("validate", str(directory), "--level", "data", "--json", env=env)
        assert valid.document["result"]["counts"]["error"] == 0, valid.out
        looked = run("erase", str(directory), *WHERE, "--verify", "--json", env=env)
        assert (looked.code, looked.document["result"]["is_proved"]) == (0, True), looked.out


HISTORIES = {
    "steps": STEPS,
    "version": st.integers(1, 4),
    "partitioning": st.sampled_from(["none", "identity", "truncate", "bucket", "day", "note"]),
    "form": st.sampled_from(["parquet", "parquet", "orc", "avro"]),
    "moves": st.booleans(),
}


@given(**HISTORIES)
@examples(4, 200)
def test_no_mark_is_left_and_no_other_row_goes(steps, version, partitioning, form, moves):
    erase(steps, version, partitioning, form, moves=moves)
