"""Sizes that advice tells of, held against the files of a real rewrite."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import app
from icectl.env import SystemEnv
from tests.benchmarks.compact_tables import build
from tests.builders.commits import set_properties
from tests.builders.rows import head, live_entries, local
from tests.builders.table_builder import TableBuilder
from tests.cli.conftest import result_of


def opened(files: list[Path], value: int) -> tuple[int, int]:
    """How many files, and bytes of row groups, a look-up by `user_id` reads, by the footers."""
    read, size = 0, 0
    for path in files:
        metadata = pq.read_metadata(path)
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        ends = [(group, group.column(1).statistics) for group in groups]
        hits = [group for group, told in ends if told.min <= value <= told.max]
        read += bool(hits)
        size += sum(group.column(at).total_compressed_size
                    for group in hits for at in range(group.num_columns))  # fmt: skip
    return read, size


@pytest.mark.parametrize("kind", ["file-size", "row-group"])
def test_files_and_row_groups_of_the_advised_size_are_read_as_was_told(run, tmp_path, kind):
    table = tmp_path / "t"
    build(table, 6, 20_000)
    # icectl writes in fewer bytes, which no advice knows: it writes the files of today too.
    for size in (800_000, 8 << 20):
        set_properties(table, SystemEnv(), {"write.target-file-size-bytes": str(size)})
        if size < 1 << 20:
            app.main(["compact", str(table), "--rewrite-all", "--yes", "-q"], env=SystemEnv())
    told = result_of(run("inspect", str(table), "advice", "--columns", "user_id", "--json"))
    (best,) = [one for one in told["advice"] if one["kind"] == kind]
    assert (best["terms"], best["size_bytes"]) == (["user_id"], 1 << 20)
    for command in (best["first"], best["command"]):
        assert run(*shlex.split(command)[1:], "--yes").code == 0
    files = [local(entry["data_file"]["file_path"]) for entry in live_entries(head(table))]
    assert len(files) == pytest.approx(best["data_file_count"], rel=0.2)
    values = np.concatenate([pq.read_table(path)["user_id"].to_numpy() for path in files])
    looked_up = np.random.default_rng(3).choice(values, 40).tolist()
    found: list[Any] = [opened(files, value) for value in looked_up]
    read, size = np.mean(found, axis=0)
    assert read == pytest.approx(best["files_per_read"], rel=0.2)
    assert size == pytest.approx(best["bytes_per_read"], rel=0.2)


def test_rows_that_take_no_memory_say_nothing_of_row_groups(tmp_path, run):
    table = TableBuilder(tmp_path / "t")
    table.append(range(4_000), files=4)
    table.set_properties({"write.target-file-size-bytes": "20000"})
    for file in (table.directory / "data").rglob("*.parquet"):
        pq.write_table(pa.table({"other": pa.nulls(10)}), file)
    told = result_of(run("inspect", table.location, "advice", "--columns", "id", "--json"))
    assert "row-group" not in {one["kind"] for one in told["advice"]}
