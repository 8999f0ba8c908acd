"""A table that is written all day, with `maintain` beside the writer: is it ever worse than new?

    python tests/benchmarks/bench_busy_table.py [--commits N] [--format-version V] [--spark]
                                                [--plain] [--pace SECONDS] [--folder FOLDER]

Half of the commits are upserts as Flink writes them (a small data file, and an equality delete file
with its keys), the others plain appends and a few deletes; with `--plain` there are no upserts.
After each 100, `maintain` runs beside the writer, and is killed 20 times by chance; a commit comes
each SECONDS (0.5), on a busy machine as much later as each core has programs that wait for it.
After each fourth run it runs once more while the writer waits. Now the rows must be those of a
model, and reading the table at most 1.1 times as dear as reading the same rows freshly rewritten.
With `--spark`, every 1,000th commit is a MERGE of Spark's, beside `maintain` as elsewhere, and
Spark reads both tables.

A line of JSON for each of these checkpoints is in FOLDER/checkpoints.jsonl; what a run of
`maintain` said that did not end with 0 is in FOLDER/failed-*.json. If FOLDER is there, the run goes
on from its table. Needs the Spark peer that tests/run.sh sets up, only with `--spark`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icectl.commands.compact.plan_options import CompactOptions
from icectl.commands.compact.run import prepare
from icectl.entries.rows import CARRIED, PLANNING
from icectl.env import SystemEnv
from icectl.files.manifest.manifest_list import read_manifest_list
from icectl.files.metadata_file import write_metadata
from icectl.files.parquet.schema import schema_from_arrow
from icectl.format.manifest import Content, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.sort import SortOrder
from icectl.table.output_sizes import sizes_of
from tests.benchmarks.bench_compact_spark import RefusedStatement, Session
from tests.benchmarks.compact_tables import fields, file_entry
from tests.benchmarks.measure import verdict
from tests.builders.compactions import compacted, compaction_of
from tests.builders.plain_manifests import list_of, manifest_of
from tests.builders.rows import current_metadata, dv_positions, head, live_entries, local, read_avro
from tests.spark.engine import why_skipped

ROOT = Path(__file__).parents[2]
SCHEMA = fields(
    ("id", pa.int64(), 1),
    ("version", pa.int64(), 2),
    ("amount", pa.float64(), 3),
    ("name", pa.string(), 4),
)
COLUMNS = schema_from_arrow(SCHEMA)
KEY = Schema(0, COLUMNS.fields[:1])
TARGET_BYTES = 1 << 20
SCALE = 128
"""What the table is smaller than one with files of 128 MiB: bytes and keys count so many times."""
BYTES_A_SECOND, SECONDS_A_REQUEST, SECONDS_A_KEY = 100e6, 0.03, 1e-7
PREVIOUS_VERSIONS = 20
PROPERTIES = {
    "write.target-file-size-bytes": str(TARGET_BYTES),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(PREVIOUS_VERSIONS),
    "write.merge.mode": "merge-on-read",
    "commit.retry.num-retries": "20",
    "write.parquet.compression-codec": "zstd",
}
POLICY = """
[compact]
min-delete-ratio = "8%"
min-input-files = 2
deletes-per-file = 1
[expire-snapshots]
older-than = "0s"
retain-last = 1
"""
FIRST_ROWS, ROWS, NEW_KEYS, DELETED = 50_000, 200, 40, 20
UPSERTS, DELETES = 0.5, 0.05
EVERY, RUNS, MERGE_EVERY, MERGED, KILLS = 100, 4, 1_000, 100, 20
MOST_READ, MOST_GROWTH, MOST_FILES = 1.1, 1.25, 2.0
CHANCE_OF_KILL, MOST_SECONDS = 0.45, 3600
MERGE_TRIES, READS, MOST_FAILED = 9, 9, 30
COMMIT = "bench.commit"
Keys = npt.NDArray[np.int64]
Newest = tuple[tuple[int, dict[str, Any]], tuple[ManifestFile, ...]]
"""The version and the content of a metadata file, and the manifests of its current snapshot."""


class Model:
    """The version of each row by its id; -1 where there is none."""

    def __init__(self, versions: Keys, *, plain: bool = False) -> None:
        self.versions, self.upserts = versions, 0.0 if plain else UPSERTS

    def change(self, number: int) -> tuple[Keys, Keys]:
        """The keys that a commit writes, and those that it deletes; the model takes them over."""
        chance = np.random.default_rng([17, number])
        count, kind = len(self.versions), chance.random()
        if number == 0:
            written, deleted = np.arange(FIRST_ROWS), np.arange(0)
        elif number % MERGE_EVERY == 0:
            old = chance.choice(count, MERGED, replace=False)
            written = np.concatenate([np.sort(old), np.arange(count, count + NEW_KEYS)])
            deleted = np.arange(0)
        elif kind < self.upserts:
            recent = chance.integers(count - count // 5, count, (ROWS - NEW_KEYS) // 2)
            old = chance.integers(0, count, (ROWS - NEW_KEYS) // 2)
            new = np.arange(count, count + NEW_KEYS)
            written = deleted = np.concatenate([np.unique(np.concatenate([recent, old])), new])
        elif kind < 1 - DELETES:
            written, deleted = np.arange(count, count + ROWS), np.arange(0)
        else:
            written, deleted = np.arange(0), np.unique(chance.integers(0, count, DELETED))
        more = max(int(written.max(initial=-1)) + 1 - count, 0)
        self.versions = np.concatenate([self.versions, np.full(more, -1)])
        self.versions[deleted] = -1
        self.versions[written] = number
        return written, deleted


def rows_of(ids: Keys, versions: Keys) -> pa.Table:
    """The rows of some ids: all columns follow from id and version."""
    mixed = (ids * 2_654_435_761 + versions * 40_503_000_017) % (2**32)
    columns = [pa.array(ids), pa.array(versions), pa.array(mixed / 7.0)]
    return pa.Table.from_arrays([*columns, pc.cast(pa.array(mixed), pa.string())], schema=SCHEMA)


class Writer:
    """Commits as a stream does: it adds manifests to the list of the newest metadata.

    Its metadata files are written without icectl, as Iceberg's own writer for file systems does:
    the next version is a file that must not exist.
    """

    def __init__(self, directory: Path, format_version: int) -> None:
        self.directory, self.version = directory, format_version
        self._newest: Newest | None = None
        self._serial = time.time_ns()
        self.retries = 0

    def create(self) -> None:
        """Write a table without a snapshot."""
        for folder in ("data", "metadata"):
            (self.directory / folder).mkdir(parents=True)
        metadata = TableMetadata(
            self.version, "9c12d441-03fe-4693-9a96-a0705ddf69c1", str(self.directory), 0,
            time.time_ns() // 1_000_000, 4, (COLUMNS,), 0, (PartitionSpec(0, ()),), 0, 999,
            (SortOrder(0, ()),), 0, PROPERTIES, None, (), {},
            next_row_id=0 if self.version > 2 else None,
        )  # fmt: skip
        path = self.directory / "metadata" / "v1.metadata.json"
        path.write_bytes(write_metadata(metadata, compressed=False))

    def commit(self, number: int, rows: pa.Table, deleted: Keys) -> None:
        """Commit rows, and an equality delete of keys, in one snapshot."""
        parts = []
        if len(rows):
            path = self._path("data", ".parquet")
            pq.write_table(rows, path, compression="zstd")
            parts.append((ManifestContent.DATA, file_entry(path, COLUMNS, Content.DATA)))
        if len(deleted):
            path = self._path("data", "-keys.parquet")
            pq.write_table(pa.Table.from_arrays([deleted], schema=pa.schema([SCHEMA[0]])), path)
            entry = file_entry(path, KEY, Content.EQUALITY_DELETES) | {"equality_ids": [1]}
            parts.append((ManifestContent.DELETES, entry))
        while not self._try(number, parts):
            self.retries += 1
            time.sleep(0.05)

    def _try(self, number: int, parts: list[tuple[ManifestContent, dict[str, Any]]]) -> bool:
        base, listed = self._load()
        version, stored = base
        parent = stored.get("current-snapshot-id", -1)
        sequence, self._serial = stored["last-sequence-number"] + 1, self._serial + 1
        snapshot_id, next_row_id = self._serial, stored.get("next-row-id")
        manifests = []
        for content, entry in parts:
            made = self._manifest(content, entry, snapshot_id, sequence, next_row_id)
            manifests.append(made)
        path = self._path("metadata", f"-snap-{snapshot_id}.avro")
        path.write_bytes(
            list_of(
                [*manifests, *listed],
                snapshot_id,
                sequence,
                format_version=self.version,
                parent_snapshot_id=parent if parent > 0 else None,
                first_row_id=next_row_id,
            )
        )
        kinds = {content for content, _ in parts}
        operation = "overwrite" if len(kinds) > 1 else "append"
        now_ms = max(time.time_ns() // 1_000_000, stored["last-updated-ms"])
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": now_ms,
            "manifest-list": str(path),
            "summary": {"operation": "delete" if kinds == {ManifestContent.DELETES} else operation},
            "schema-id": 0,
        }
        if parent > 0:
            snapshot["parent-snapshot-id"] = parent
        log = [
            *stored.get("metadata-log", ()),
            {
                "metadata-file": str(self._metadata_file(version)),
                "timestamp-ms": stored["last-updated-ms"],
            },
        ]
        branch = {**stored.get("refs", {}).get("main", {"type": "branch"})}
        new = {
            **stored,
            "last-sequence-number": sequence,
            "last-updated-ms": now_ms,
            "current-snapshot-id": snapshot_id,
            "snapshots": [*stored.get("snapshots", ()), snapshot],
            "refs": {**stored.get("refs", {}), "main": branch | {"snapshot-id": snapshot_id}},
            "snapshot-log": [
                *stored.get("snapshot-log", ()),
                {"snapshot-id": snapshot_id, "timestamp-ms": now_ms},
            ],
            "metadata-log": log[-PREVIOUS_VERSIONS:],
            "properties": {**stored["properties"], COMMIT: str(number)},
        }
        if next_row_id is not None:
            added = sum(
                one.added_rows_count or 0 for one in manifests if one.first_row_id is not None
            )
            snapshot |= {"first-row-id": next_row_id, "added-rows": added}
            new["next-row-id"] = next_row_id + added
        temporary = self._path("metadata", ".tmp")
        temporary.write_text(json.dumps(new))
        try:
            os.link(temporary, self._metadata_file(version + 1))
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        (self.directory / "metadata" / "version-hint.text").write_text(str(version + 1))
        for dropped in log[:-PREVIOUS_VERSIONS]:  # as the table's properties want it
            local(dropped["metadata-file"]).unlink(missing_ok=True)
        self._newest = (version + 1, new), (*manifests, *listed)
        return True

    def _load(self) -> Newest:
        """The newest metadata with its version, and the manifests that its snapshot lists."""
        if self._newest is None or self._metadata_file(self._newest[0][0] + 1).exists():
            path = current_metadata(self.directory)
            stored = json.loads(path.read_text())
            current = stored.get("current-snapshot-id", -1)
            listed: tuple[ManifestFile, ...] = ()
            for snapshot in stored.get("snapshots", ()):
                if snapshot["snapshot-id"] == current:
                    content = local(snapshot["manifest-list"]).read_bytes()
                    listed = tuple(read_manifest_list(content))
            self._newest = (int(path.name[1:].split(".")[0]), stored), listed
        return self._newest

    def _metadata_file(self, version: int) -> Path:
        return self.directory / "metadata" / f"v{version}.metadata.json"

    def _manifest(
        self,
        content: ManifestContent,
        entry: dict[str, Any],
        snapshot_id: int,
        sequence: int,
        next_row_id: int | None,
    ) -> ManifestFile:
        row = entry | {"snapshot_id": snapshot_id, "manifest": 0, "manifest_pos": 0}
        table = pa.Table.from_pylist([row], schema=pa.schema([*PLANNING, *CARRIED]))
        written = manifest_of(
            table,
            COLUMNS,
            PartitionSpec(0, ()),
            format_version=self.version,
            content=content,
            snapshot_id=snapshot_id,
        )
        path = self._path("metadata", f"-m{int(content)}.avro")
        path.write_bytes(written)
        is_data = content == ManifestContent.DATA
        return ManifestFile(
            str(path), len(written), 0, content, sequence, sequence, snapshot_id, 1, 0, 0,
            entry["record_count"], 0, 0, (), first_row_id=next_row_id if is_data else None,
        )  # fmt: skip

    def _path(self, folder: str, suffix: str) -> Path:
        self._serial += 1
        return self.directory / folder / f"{self._serial}{suffix}"

    @property
    def committed(self) -> int:
        """The number of the newest commit."""
        return int(self._load()[0][1]["properties"][COMMIT])


@dataclass(frozen=True)
class Cost:
    """What a reader of all rows fetches and compares."""

    byte_count: int
    request_count: int
    key_count: int

    @property
    def seconds(self) -> float:
        """The time that this takes, of a table SCALE times as large."""
        scaled = self.byte_count / BYTES_A_SECOND + self.key_count * SECONDS_A_KEY
        return SCALE * scaled + self.request_count * SECONDS_A_REQUEST


def look(directory: Path) -> tuple[pa.Table, Cost, set[Path]]:
    """The rows of a table by a reader of its own, their cost, and the files that they lie in."""
    snapshot = head(directory)
    entries = live_entries(snapshot)
    newest = np.zeros(1, np.int64)
    positions: dict[Path, list[Any]] = {}
    manifests = read_avro(snapshot["manifest-list"])
    size = current_metadata(directory).stat().st_size
    size += sum(item["manifest_length"] for item in manifests)
    size += local(snapshot["manifest-list"]).stat().st_size
    requests, keys = 2 + len(manifests), 0
    for entry in entries:
        data, sequence = entry["data_file"], entry["sequence"]
        if not data["content"]:
            continue
        requests += 1
        size += data.get("content_size_in_bytes") or data["file_size_in_bytes"]
        if data["file_format"].lower() == "puffin":
            found = positions.setdefault(local(data["referenced_data_file"]), [])
            found.append(np.fromiter(dv_positions(data), np.int64))
            continue
        table = pq.read_table(local(data["file_path"]), partitioning=None)
        if data["content"] == Content.EQUALITY_DELETES:
            ids = table["id"].to_numpy()
            more = max(int(ids.max(initial=0)) + 1 - len(newest), 0)
            newest = np.concatenate([newest, np.zeros(more, np.int64)])
            newest[ids] = np.maximum(newest[ids], sequence)
            older = sum(
                one["sequence"] < sequence for one in entries if not one["data_file"]["content"]
            )
            keys += len(ids) * older
            continue
        for path in table["file_path"].unique().to_pylist():
            rows = table.filter(pc.equal(table["file_path"], path))
            positions.setdefault(local(path), []).append(rows["pos"].to_numpy())
    parts = []
    for entry in entries:
        data = entry["data_file"]
        if data["content"]:
            continue
        path = local(data["file_path"])
        requests += 2
        size += data["file_size_in_bytes"]
        table = pq.read_table(path, columns=SCHEMA.names, partitioning=None)
        kept = np.ones(len(table), np.bool_)
        for found in positions.get(path, ()):
            kept[found] = False
        ids = table["id"].to_numpy()
        known = ids < len(newest)
        kept[known] &= newest[ids[known]] <= entry["sequence"]
        parts.append(table.filter(pa.array(kept)))
    files = {local(entry["data_file"]["file_path"]) for entry in entries}
    return pa.concat_tables(parts), Cost(size, requests, keys), files


def check_rows(found: pa.Table, model: Model) -> int:
    """How many rows there are. Raises: AssertionError if they are not those of the model."""
    ids = np.flatnonzero(model.versions >= 0)
    expected = rows_of(ids, model.versions[ids])
    found = found.sort_by("id").combine_chunks()
    assert len(found) == len(expected), f"{len(found):,} rows, not {len(expected):,}"
    for name in SCHEMA.names:
        assert found[name].combine_chunks().equals(expected[name].combine_chunks()), name
    return len(found)


class Bench:
    """A table, its model, the runs beside it, and what is recorded."""

    def __init__(
        self, folder: Path, format_version: int, pace: float, kills: int, *, plain: bool
    ) -> None:
        self.folder, self.pace_seconds, self.kills = folder, pace, kills
        self.table, self.record = folder / "db" / "busy", folder / "checkpoints.jsonl"
        self.writer = Writer(self.table, format_version)
        self.policy = folder / "policy.toml"
        self.model = Model(np.empty(0, np.int64), plain=plain)
        self.next = self.runs = self.killed = self.refused_merges = self.failed = 0
        self.longest_seconds = 6.0  # of the newest run that was not killed

    def begin(self) -> None:
        """Create the table, or go on with it: the model lives through its commits again."""
        if not self.table.exists():
            self.writer.create()
            self.policy.write_text(POLICY)
            self.commit(None)
            return
        self.next = self.writer.committed + 1
        for number in range(self.next):
            self.model.change(number)
        if self.record.exists():
            last = json.loads(self.record.read_text().splitlines()[-1])
            self.runs, self.killed = last["runs"], last["killed"]

    def commit(self, spark: Session | None) -> None:
        """Make the next commit."""
        written, deleted = self.model.change(self.next)
        rows = rows_of(written, self.model.versions[written])
        if self.next and self.next % MERGE_EVERY == 0:
            self._merge(rows, spark)
        else:
            self.writer.commit(self.next, rows, deleted)
        self.next += 1

    def _merge(self, rows: pa.Table, spark: Session | None) -> None:
        """Let Spark merge rows; without it, they are upserts."""
        if spark is None:
            self.writer.commit(self.next, rows, rows["id"].to_numpy())
            return
        source = self.folder / "source.parquet"
        pq.write_table(rows, source)
        merge = f"MERGE INTO peer.db.busy t USING parquet.`{source}` s ON t.id = s.id "
        merge += "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        for tries_left in reversed(range(MERGE_TRIES)):
            try:
                spark.ask(do="sql", sql=merge)
                break
            except RefusedStatement as error:  # its files were replaced meanwhile
                if not tries_left or "ValidationException" not in str(error):
                    raise
                self.refused_merges += 1
        spark.ask(
            do="sql",
            sql=f"ALTER TABLE peer.db.busy SET TBLPROPERTIES ('{COMMIT}' = '{self.next}')",
        )

    def maintain(self, spark: Session | None, *, beside: bool) -> dict[str, Any]:
        """Run `maintain`, perhaps with commits beside it, perhaps to be killed."""
        line = [sys.executable, "-m", "icectl", "maintain", str(self.table), "--json"]
        line += ["--policy", str(self.policy)]
        chance = np.random.default_rng([19, self.next])
        is_killed = beside and self.killed < self.kills and chance.random() < CHANCE_OF_KILL
        end = chance.uniform(0.5, self.longest_seconds) if is_killed else MOST_SECONDS
        start, commits = time.monotonic(), 0
        next_commit = start + self.pace_seconds
        with (self.folder / "maintain.json").open("w+") as out:
            run = subprocess.Popen(line, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
            while run.poll() is None and time.monotonic() < start + end:
                if beside and time.monotonic() > next_commit:
                    self.commit(spark)
                    commits += 1
                    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
                    next_commit = time.monotonic() + self.pace_seconds * max(1.0, waiting)
                time.sleep(0.02)
            was_killed = is_killed and run.poll() is None
            run.kill()
            code = run.wait()
            out.seek(0)
            said = out.read()
        seconds = time.monotonic() - start
        if code and not was_killed:
            (self.folder / f"failed-{self.next}.json").write_text(said)
            self.failed += 1
            assert self.failed <= MOST_FAILED, said
        elif beside and not was_killed:
            self.longest_seconds = seconds
        self.runs += beside
        self.killed += was_killed
        return {
            "exit": code,
            "was_killed": was_killed,
            "seconds": seconds,
            "commits": commits,
            "conflicts": said.split('{"icectl"')[0].count("planning again"),
        }

    def checkpoint(self, spark: Session | None, beside: list[dict[str, Any]]) -> None:
        """Maintain the table, compare it with its model and with a new one, and record that."""
        quiet = self.maintain(spark, beside=False)
        rows, cost, live = look(self.table)
        count = check_rows(rows, self.model)
        fresh = self._fresh(rows)
        stored = [path for path in (self.table / "data").rglob("*") if path.is_file()]
        stored = [path for path in stored if path.suffix != ".crc"]
        of_metadata = [path for path in (self.table / "metadata").iterdir() if path.is_file()]
        told = {
            "at": time.strftime("%H:%M:%S"),
            "load": os.getloadavg()[1],
            "commits": self.next,
            "rows": count,
            "runs": self.runs,
            "killed": self.killed,
            "beside": beside,
            "quiet": quiet,
            "cost": vars(cost),
            "fresh": vars(fresh),
            "read": cost.seconds / fresh.seconds,
            "stored_files": len(stored) / len(live),
            "stored_bytes": _size(stored) / _size(live),
            "files_of_metadata": len(of_metadata),
            "writer_retries": self.writer.retries,
            "refused_merges": self.refused_merges,
            "metadata_bytes": current_metadata(self.table).stat().st_size,
            "list_bytes": local(head(self.table)["manifest-list"]).stat().st_size,
        }
        if spark is not None:
            runs: dict[str, list[float]] = {name: [] for name in ("busy", "fresh")}
            for _ in range(READS):
                for name, seconds in runs.items():
                    seconds.append(spark.ask(do="read", table=name).cpu_seconds)
            told["spark"] = min(runs["busy"]) / min(runs["fresh"])
            told["spark_reads"] = runs
        with self.record.open("a") as file:
            file.write(json.dumps(told) + "\n")

    def _fresh(self, rows: pa.Table) -> Cost:
        """The cost of the same rows in a table that has just been rewritten."""
        directory = self.folder / "db" / "fresh"
        shutil.rmtree(directory, ignore_errors=True)
        writer = Writer(directory, self.writer.version)
        writer.create()
        writer.commit(0, rows, np.empty(0, np.int64))
        sizes = sizes_of(TARGET_BYTES, None, None)
        context = compaction_of(directory, SystemEnv())
        options = CompactOptions(sizes, 0, every=True)
        compacted(directory, prepare(context, "main", lambda _: options))
        return look(directory)[1]


def _size(paths: Any) -> int:
    return sum(path.stat().st_size for path in paths)


def judge(record: Path) -> list[bool]:
    """Print the figures of a record; whether each target is reached."""
    told = [json.loads(line) for line in record.read_text().splitlines()]
    last = told[-1]
    runs = [run for one in told for run in (*one["beside"], one["quiet"])]
    ended = [run for run in runs if not run["was_killed"]]
    beside = [run["seconds"] for run in ended if run["commits"]]
    print(
        f"{last['commits']:,} commits, {last['rows']:,} rows, {last['runs']} runs of maintain "
        f"beside the writer, {last['killed']} killed, the others in {np.median(beside):.1f} s at "
        f"the median; {sum(run['conflicts'] for run in runs)} conflicts, "
        f"{last['writer_retries']} of the writer, {last['refused_merges']} of MERGE"
    )
    failed = sum(run["exit"] != 0 for run in ended)
    reached = [verdict("runs of maintain that failed", failed, 0)]
    reads = [one["read"] for one in told]
    print(f"read cost at the median: {np.median(reads):.2f} of the freshly rewritten rows'")
    reached.append(verdict("read cost, of the freshly rewritten rows'", max(reads), MOST_READ))
    early, late = told[: len(told) // 2 + 1], told[len(told) // 2 :]
    for name in ("metadata_bytes", "list_bytes"):
        growth = max(one[name] for one in late) / max(one[name] for one in early)
        reached.append(verdict(f"{name}, second half over first", growth, MOST_GROWTH))
    for name in ("stored_files", "stored_bytes"):
        most = max(one[name] for one in told)
        reached.append(verdict(f"{name}, of the live ones'", most, MOST_FILES))
    if spark := [one["spark"] for one in told if "spark" in one]:
        ratio = float(np.median(spark))
        reached.append(verdict("CPU time of Spark, of that of fresh files", ratio, MOST_READ))
    return reached


def main() -> int:
    """Print the figures; the exit code says whether the targets are reached."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--format-version", type=int, default=3)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--pace", type=float, default=0.5)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.spark and (skipped := why_skipped()):
        print(f"skipped: {skipped}")
        return 0
    kills = -(-KILLS * options.commits // 10_000)
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Bench(folder, options.format_version, options.pace, kills, plain=options.plain)
        bench.begin()
        spark = None
        if options.spark:
            peer = str(ROOT / "tests/peers/spark_rewrites.py")
            jar = os.environ["ICECTL_TEST_SPARK_JAR"]
            spark = stack.enter_context(Session(peer, jar, str(folder)))
        while bench.next < options.commits:
            beside = []
            for _ in range(RUNS):
                for _ in range(EVERY):
                    bench.commit(spark)
                beside.append(bench.maintain(spark, beside=True))
            bench.checkpoint(spark, beside)
        reached = judge(bench.record)
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
