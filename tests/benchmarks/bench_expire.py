"""`icectl expire-snapshots`: 500 of 1,000 snapshots, 200,000 live files in 400 manifests.

    python tests/benchmarks/bench_expire.py

Planning in a new process, once Python has started, against one thread that reads and inflates the
distinct manifests and lists; how often each of them is read; the whole run with its deletions, and
memory. Where ICECTL_TEST_SPARK_JAR and ICECTL_TEST_SPARK_PYTHON name Iceberg's Spark runtime
(tests/run.sh), also its procedure on the same table: its own time, without the start of Java and
Spark, and what it leaves.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pyarrow as pa

from icectl.cli import app, session
from icectl.env import SystemEnv
from icectl.files.manifest.manifest_list import read_manifest_list
from icectl.files.metadata_file import read_metadata, write_metadata
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.snapshot import Snapshot, SnapshotLogEntry, SnapshotRef
from icectl.storage.local.store import LocalStore
from tests.benchmarks.bench_inspect import inflate
from tests.benchmarks.big_table import SCHEMA, SNAPSHOT_ID, SPEC, build, entries
from tests.benchmarks.measure import Run, call, in_turn, median, process, ratio, verdict
from tests.builders.plain_manifests import list_of, manifest_of
from tests.stores.wrapped import CountingStore

MANIFESTS, ENTRIES = 400, 500
SNAPSHOTS, EXPIRED = 1000, 500
SHORT_LIVED = 20
"""Files that only one of the snapshots that go shows."""

HOUR_MS = 3_600_000
PLAN = "--plan"
SPARK_PEER = Path(__file__).parents[1] / "peers" / "spark_peer.py"


def short_lived(table: Path, number: int) -> ManifestFile:
    """A manifest of files that one snapshot alone shows; the files are there, and empty."""
    rows = entries(MANIFESTS + number, SHORT_LIVED, str(table))
    # Smaller than all others, which do not exist: one as large would be looked up.
    at = rows.schema.get_field_index("file_size_in_bytes")
    sizes = pa.array(range(1, SHORT_LIVED + 1), pa.int64())
    rows = rows.set_column(at, rows.schema.field(at), sizes)
    content = manifest_of(rows, SCHEMA, SPEC, snapshot_id=SNAPSHOT_ID)
    path = table / "metadata" / f"short{number:05}.avro"
    path.write_bytes(content)
    for location in rows["location"].to_pylist():
        Path(location).parent.mkdir(parents=True, exist_ok=True)
        Path(location).touch()
    counts = SHORT_LIVED, 0, 0, int(np.sum(rows["record_count"].to_numpy())), 0, 0
    return ManifestFile(
        str(path), len(content), 0, ManifestContent.DATA, 1, 1, SNAPSHOT_ID, *counts
    )


def build_history(table: Path) -> list[Path]:
    """Write the table; returns the paths of its manifests and lists."""
    paths = build(table, MANIFESTS, ENTRIES)
    now_ms = SystemEnv().now_ms()
    head = table / "metadata" / "v1.metadata.json"
    metadata = read_metadata(head.read_bytes())
    described = read_manifest_list(Path(metadata.snapshots[0].manifest_list or "").read_bytes())
    snapshots = []
    for number in range(SNAPSHOTS):
        listed = list(described[: max(1, (number + 1) * MANIFESTS // SNAPSHOTS)])
        if number < EXPIRED:
            listed.append(short_lived(table, number))
            paths.append(Path(listed[-1].manifest_path))
        path = table / "metadata" / f"snap-{number:05}.avro"
        id_ = SNAPSHOT_ID + number
        parent = id_ - 1 if number else None
        path.write_bytes(list_of(listed, id_, number + 1, parent_snapshot_id=parent))
        paths.append(path)
        at_ms = now_ms - (SNAPSHOTS - number) * HOUR_MS
        snapshots.append(
            Snapshot(
                id_,
                at_ms,
                parent_snapshot_id=parent,
                sequence_number=number + 1,
                manifest_list=str(path),
                summary={"operation": "append"},
                schema_id=0,
            )
        )
    updated = replace(
        metadata,
        last_updated_ms=snapshots[-1].timestamp_ms,
        last_sequence_number=SNAPSHOTS,
        snapshots=tuple(snapshots),
        current_snapshot_id=snapshots[-1].snapshot_id,
        snapshot_log=tuple(
            SnapshotLogEntry(one.timestamp_ms, one.snapshot_id) for one in snapshots
        ),
        refs={"main": SnapshotRef(snapshots[-1].snapshot_id, "branch")},
    )
    head.write_bytes(write_metadata(updated, compressed=False))
    return paths


def most_reads(table: Path, words: list[str]) -> int:
    """How often a run reads the manifest or list that it reads most often."""
    store = CountingStore(LocalStore())
    opened, session.open_store = session.open_store, lambda *_: store
    try:
        with redirect_stdout(StringIO()):
            code = app.main(words)
    finally:
        session.open_store = opened
    if code:
        raise RuntimeError(f"{words} ended with {code}")
    reads = Counter(
        location
        for method, location in store.calls
        if method in ("read", "read_range", "open") and location.endswith(".avro")
    )
    return max(reads.values())


def plan_alone(words: list[str]) -> None:
    """Plan in this process, which has imported the command, and print how long that takes."""
    import icectl.commands.expire_snapshots.run  # noqa: F401 - what the command imports when it is called

    with redirect_stdout(StringIO()):
        run = call(lambda: app.main(words))
    print(json.dumps([run.wall_seconds, run.cpu_seconds]))


def planned_alone(words: list[str]) -> Run:
    """Planning in a new process, without the start of Python and the imports."""
    command = [sys.executable, __file__, PLAN, *words]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return Run(*json.loads(told))


def spark_seconds(table: Path) -> float:
    """How long Spark's procedure takes for the same expiry of a table below WAREHOUSE/db."""
    head = read_metadata((table / "metadata" / "v1.metadata.json").read_bytes())
    kept_ms = head.snapshots[EXPIRED].timestamp_ms
    older_than = datetime.fromtimestamp((kept_ms - HOUR_MS // 2) / 1000, UTC)
    python, jar = os.environ["ICECTL_TEST_SPARK_PYTHON"], os.environ["ICECTL_TEST_SPARK_JAR"]
    words = [str(table.parents[1]), table.name, f"{older_than:%Y-%m-%d %H:%M:%S}"]
    done = subprocess.run(
        [python, str(SPARK_PEER), jar, "time-expiry", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout.splitlines()[-1])
    print(f"Spark says: {told['deleted']}")
    return float(told["seconds"])


def left(table: Path) -> set[str]:
    """The data files, manifests and lists that are in a table's directory."""
    found = (*table.rglob("*.avro"), *table.rglob("*.parquet"))
    return {str(path.relative_to(table)) for path in found}


def main() -> int:
    """Print ratios and memory; 1 when a target is missed."""
    icectl = str(Path(sys.executable).parent / "icectl")
    with tempfile.TemporaryDirectory() as folder:
        table, pristine = Path(folder) / "db" / "aged", Path(folder) / "pristine"
        paths = build_history(table)
        shutil.copytree(table, pristine)
        older_than = f"{(SNAPSHOTS - EXPIRED) * 60 + 30}m"
        words = ["expire-snapshots", str(table), "--older-than", older_than, "--json"]

        dry_run = [*words, "--retain-last", "1", "--dry-run"]

        def planned() -> Run:
            return planned_alone(dry_run)

        def started() -> Run:
            return process([icectl, *dry_run])

        def restore() -> None:
            shutil.rmtree(table)
            shutil.copytree(pristine, table)

        def expired() -> Run:
            restore()
            return process([icectl, *words, "--retain-last", "1", "--yes"])

        def inflated() -> Run:
            return call(lambda: sum(inflate(path) for path in paths))

        plans, starts, baseline = in_turn(5, planned, started, inflated)
        whole = in_turn(1, expired)[0]
        ours, before = left(table), left(pristine)
        restore()
        reads = most_reads(table, [*words, "--retain-last", "1", "--yes"])
        spark = None
        if "ICECTL_TEST_SPARK_JAR" in os.environ:
            restore()
            spark = spark_seconds(table), left(table)
    print(
        f"{len(paths):,} manifests and lists: "
        f"plan {median([r.wall_seconds for r in plans]):.2f} s, "
        f"with the start of Python {median([r.wall_seconds for r in starts]):.2f} s "
        f"({ratio(starts, baseline):.2f} times), "
        f"read and inflate {median([r.wall_seconds for r in baseline]):.2f} s, "
        f"whole run {whole[0].wall_seconds:.2f} s, {len(before - ours):,} files fewer"
    )
    cpu_seconds = [median([r.cpu_seconds for r in runs]) for runs in (plans, baseline)]
    print(
        f"processor time: plan {cpu_seconds[0]:.2f} s, read and inflate {cpu_seconds[1]:.2f} s, "
        f"{cpu_seconds[0] / cpu_seconds[1]:.2f} times"
    )
    peak = max(run.peak_bytes for run in (*starts, *whole))
    reached = [
        verdict("plan / read and inflate", ratio(plans, baseline), 5.0),
        verdict("reads of one file in a run", reads, 1),
        verdict("peak memory in GiB", peak / (1 << 30), 1.0),
    ]
    if spark is not None:
        seconds, theirs = spark
        print(f"Spark's procedure: {seconds:.1f} s, {len(before - theirs):,} files fewer")
        reached += [
            verdict("whole run / Spark's procedure", whole[0].wall_seconds / seconds, 1.0),
            verdict("files left by one of the two only", len(ours ^ theirs), 0),
        ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [PLAN]:
        plan_alone(sys.argv[2:])
    else:
        sys.exit(main())
