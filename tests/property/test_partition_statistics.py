"""Random histories: counts of partitions that go on from older ones are those of all entries."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icectl.cli import app, engines
from icectl.commands.analyze import run as analyze_run
from icectl.env import Env
from tests.builders.examples import examples
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import current_metadata, local, read_metadata
from tests.builders.table_builder import PARTITIONINGS as FIELDS_OF
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.tree_table import upgrade
from tests.cli.conftest import HOUR_MS
from tests.stores.fixed_env import FixedEnv

PARTITIONINGS = ["identity", "truncate", "bucket", "day", "two"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "position", "equality", "remove", "replace", "respec", "analyze"]
        ),
        st.integers(0, 2**16),
    ),
    min_size=2,
    max_size=10,
)
UPDATED = "last_updated_at", "last_updated_snapshot_id"


def run(*words: str, env: Env) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setenv("XDG_CONFIG_HOME", "/nonexistent")
        patched.setattr(engines, "LocalEngine", InlineEngine)
        code = app.main((*words, "--json"), env=env)
    assert code == 0, (err.getvalue(), out.getvalue())
    result: dict[str, Any] = json.loads(out.getvalue())["result"]
    return result


def analyze(directory: Path, *words: str) -> None:
    env = FixedEnv(NOW_MS, uuids=sum(1 for _ in directory.rglob("*")) + 60_000)
    run("analyze", str(directory), "--only", "partitions", *words, env=env)


def stored(directory: Path) -> list[dict[str, Any]] | None:
    """The rows of the current snapshot's statistics of partitions."""
    metadata = read_metadata(current_metadata(directory))
    places = [
        file["statistics-path"]
        for file in metadata.get("partition-statistics", ())
        if file["snapshot-id"] == metadata["current-snapshot-id"]
    ]
    if not places:
        return None
    rows: list[dict[str, Any]] = pq.read_table(local(places[0])).to_pylist()
    for row in rows:  # a spec that came since adds fields that are null
        fields = row["partition"].items()
        row["partition"] = {name: value for name, value in fields if value is not None}
    return rows


def compare(directory: Path) -> None:
    """Counts are those of a run that reads all; updates are at least as new."""
    found = stored(directory)
    analyze(directory, "--full")
    whole = stored(directory)
    assert found is not None
    assert whole is not None
    for row, counted in zip(found, whole, strict=True):
        assert (row["last_updated_at"] or 0) >= (counted["last_updated_at"] or 0)
        for name in UPDATED:
            assert row.pop(name) is not None
            counted.pop(name)
    assert found == whole


def live_through(table: TableBuilder, steps: list[tuple[str, int]]) -> None:
    next_id = 12
    table.append(range(next_id))
    analyze(table.directory)
    table.follow()
    for what, number in steps:
        ids = sorted(table.ids())
        has_files = any(row["content"] == 0 for row in table.live())
        if what == "append":
            count = number % 7 + 1
            table.append(range(next_id, next_id + count))
            next_id += count
        elif what in ("position", "equality"):
            if table.format_version > 1 and ids:
                table.delete_rows({ids[number % len(ids)], ids[number // 7 % len(ids)]}, kind=what)
        elif what == "analyze":
            analyze(table.directory)
            table.follow()
        elif what == "respec":
            partitioning = PARTITIONINGS[number % len(PARTITIONINGS)]
            names = {item.name for spec in table.metadata.partition_specs for item in spec.fields}
            if not names & {item.name for item in FIELDS_OF[partitioning]}:
                table.respec(partitioning)
        elif has_files:
            change = table.remove_data_files if what == "remove" else table.replace_data_files
            change(number % 3 + 1)


@example(  # the last deletes of a partition go, and nothing comes there
    steps=[
        ("append", 2), ("append", 0), ("equality", 0), ("append", 0), ("remove", 2), ("replace", 1),
    ],
    version=3,
    partitioning="day",
    words=("--deletes-only",),
)  # fmt: skip
@given(
    steps=STEPS,
    version=st.integers(1, 4),
    partitioning=st.sampled_from(PARTITIONINGS),
    words=st.sampled_from([("--rewrite-all",), ("--deletes-only",)]),
)
@examples(16, 100)
def test_counts_that_go_on_are_those_of_all_entries(steps, version, partitioning, words):
    with TemporaryDirectory() as folder:
        directory = Path(folder) / "t"
        table = TableBuilder(directory, min(version, 3), partitioning, merge_manifests_above=3)
        live_through(table, steps)
        counted = analyze_run.count_partitions
        with patch.object(analyze_run, "count_partitions", side_effect=counted) as anew:
            analyze(directory)
            assert not anew.called
        compare(directory)
        if version == 4:
            upgrade(directory, FixedEnv(START_MS + 24 * HOUR_MS))
            analyze(directory)
        before = read_metadata(current_metadata(directory))["current-snapshot-id"]
        env = FixedEnv(NOW_MS, uuids=70_000, snapshot_ids=70_000)
        run("compact", str(directory), "--engine", "local", *words, "--yes", env=env)
        after = read_metadata(current_metadata(directory))["current-snapshot-id"]
        assert after == before or stored(directory) is not None
        compare(directory)
