"""What advice tells of layouts and sizes, held against the files of a real rewrite."""

import shlex
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

from icectl.cli import app
from icectl.env import SystemEnv
from tests.benchmarks.compact_tables import build
from tests.builders.commits import set_properties
from tests.builders.orphans import edit_metadata
from tests.builders.rows import head, live_entries, local
from tests.builders.table_builder import filled_table
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


def add_partition(table: Path, transform: str, source_id: int) -> None:
    """Partition new files, as Spark's ADD PARTITION FIELD does."""
    field = {"name": "p", "transform": transform, "source-id": source_id, "field-id": 1000}
    specs = [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": [field]}]
    edit_metadata(table, partition_specs=specs, default_spec_id=1, last_partition_id=1000)


def may_hold(entry: dict[str, Any], column: int, value: Any) -> bool:
    """Whether a file may hold a value: by footer, bucket as PyIceberg has it, and Bloom filter.

    Footers tell times apart at least as partitions do.
    """
    path = local(entry["file_path"])
    footer = pq.read_metadata(path)
    told = [footer.row_group(at).column(column).statistics for at in range(footer.num_row_groups)]
    if not any(one.min <= value <= one.max for one in told):
        return False
    part = entry["partition"].get("p")
    if part is not None and column == COLUMNS["user_id"]:
        return bool(BucketTransform(BUCKETS).transform(LongType())(value) == part)
    rows = duckdb.execute(
        "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, ?, ?)",
        [str(path), footer.row_group(0).column(column).path_in_schema, value],
    ).fetchall()
    return not all(excludes for (excludes,) in rows) if rows else True


BUCKETS = 4
COLUMNS = {"id": 0, "user_id": 1, "at": 4}
TERMS = {
    "compact": (), "sort": ("user_id",), "hilbert": ("id", "user_id"),
    "partition": (f"bucket[{BUCKETS}](user_id)",), "hour": ("hour(at)",), "day": ("day(at)",),
    "month": ("month(at)",), "bloom": ("user_id",),
}  # fmt: skip
SECONDS = {"hour": 8 * 3600, "month": 300 * 86_400}
"""The time that rows are spread over, if it is not the usual one of 12 days."""


@pytest.mark.parametrize(
    "kind",
    [
        "partition",
        *(pytest.param(one, marks=pytest.mark.full) for one in TERMS if one != "partition"),
    ],
)
def test_layouts_are_read_as_was_told(run, tmp_path, kind):
    table = tmp_path / "t"
    is_of_time = TERMS[kind] == (f"{kind}(at)",)
    columns = {"hilbert": ("user_id", "id")}.get(kind, ("at" if is_of_time else "user_id",))
    files, rows = (24, 5_000) if kind == "compact" else (6, 20_000)
    build(table, files, rows, seconds=SECONDS.get(kind, 10**6))
    target = "130000" if kind == "hilbert" else "800000"
    set_properties(table, SystemEnv(), {"write.target-file-size-bytes": target})
    if kind != "compact":  # icectl writes in fewer bytes, as above
        app.main(["compact", str(table), "--rewrite-all", "--yes", "-q"], env=SystemEnv())
    if kind == "bloom":
        assert run("analyze", str(table), "--yes").code == 0
    words = ("inspect", str(table), "advice", "--columns", ",".join(columns), "--json")
    layouts = {(one["kind"], tuple(one["terms"])): one for one in result_of(run(*words))["advice"]}
    best = layouts["partition" if is_of_time else kind, TERMS[kind]]
    if kind == "partition":
        assert best["first"].endswith(f"ADD PARTITION FIELD bucket({BUCKETS}, user_id)")
        add_partition(table, f"bucket[{BUCKETS}]", 2)
    elif is_of_time:
        assert best["first"].endswith(f"ADD PARTITION FIELD {kind}(at)")
        add_partition(table, kind, 5)
    elif best["first"]:
        assert run(*shlex.split(best["first"])[1:], "--yes").code == 0
    assert run(*shlex.split(best["command"])[1:], "--yes").code == 0
    entries = [entry["data_file"] for entry in live_entries(head(table))]
    assert len(entries) == pytest.approx(best["data_file_count"], rel=0.2)
    read, size = [], []
    for name in columns:
        files = [pq.read_table(local(one["file_path"]), partitioning=None) for one in entries]
        values = pa.concat_tables(files)[name]
        for at in np.random.default_rng(3).choice(len(values), 40).tolist():
            value = values[at].as_py()
            hit = [entry for entry in entries if may_hold(entry, COLUMNS[name], value)]
            read.append(len(hit))
            size.append(sum(entry["file_size_in_bytes"] for entry in hit))
    if kind != "bloom":  # whose files are opened for their filters
        assert np.mean(read) == pytest.approx(best["files_per_read"], rel=0.2)
    if kind != "compact":
        assert np.mean(size) == pytest.approx(best["bytes_per_read"], rel=0.2)


def test_rows_that_take_no_memory_say_nothing_of_row_groups(tmp_path, run):
    table = filled_table(tmp_path / "t", range(4_000), files=4)
    table.set_properties({"write.target-file-size-bytes": "20000"})
    for file in (table.directory / "data").rglob("*.parquet"):
        pq.write_table(pa.table({"other": pa.nulls(10)}), file)
    told = result_of(run("inspect", table.location, "advice", "--columns", "id", "--json"))
    assert "row-group" not in {one["kind"] for one in told["advice"]}


def test_a_tiny_target_size_is_no_error_of_an_option_that_advice_has_not(tmp_path, run):
    table = filled_table(tmp_path / "t", range(400), files=4)
    table.set_properties({"write.target-file-size-bytes": "1"})
    told = result_of(run("inspect", table.location, "advice", "--columns", "id", "--json"))
    assert told["target_file_size_bytes"] == 1
