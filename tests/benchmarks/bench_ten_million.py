"""Millions of files in thousands of manifests, and parts of that table: does planning grow in line?

    python tests/benchmarks/bench_ten_million.py [MANIFESTS [ENTRIES [KIND]]]

The default is 2000 of 1000, `plain`. Ten million files are `10000`, twenty million
`4000 5000 plans`: that measures the four plans alone, each in at most 1.2 GiB.

`inspect`, the plans of remove-orphans (of an inventory), expire-snapshots, rewrite-manifests and
compact, and a whole run of rewrite-manifests, each a process of its own, on an eighth, a quarter, a
half and all of the manifests: processor seconds, peak memory, and what that makes of 100 million.
The table has no statistics of columns: planning carries none. The newest of its two snapshots lists
all manifests, the one before half of them, and one that only it has.

With KIND `orphans` each file has an orphan beside it, and the plan is saved. With `expired` only
the older snapshot has the files. An expiry plans to delete them, saves the plan, and runs: 500 MiB
at most. None of these files is there. With `deletes` one in a hundred files has position deletes of
its own. With `sfc-1` an upgrade is measured, and plans of the table that it leaves. With
`eager` an eager upgrade is.
"""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icectl.files.manifest.manifest_list import read_manifest_list
from icectl.files.metadata_file import read_metadata, write_metadata
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, SnapshotLogEntry, SnapshotRef
from tests.benchmarks.big_table import SCHEMA, SNAPSHOT_ID, SPEC, build, entries
from tests.benchmarks.measure import Run, process, verdict
from tests.builders.plain_manifests import list_of, manifest_of

PARTS = (8, 4, 2, 1)
HOUR_MS = 3_600_000
# Of the files one in 250 is small, as in a table that is looked after.
_EXPIRY = ["--older-than", "1d", "--retain-last", "1"]
_ORPHANS = ["--older-than", "3d", "--max-fraction", "1"]
_SMALL_BYTES = 128 << 10
_SIZES = ["--target-file-size", "16MiB", "--min-file-size", "128KiB"]
_LOOKED_UP = 400
"""More small files than are looked up, as some are of one size."""

_UPGRADE = ["upgrade-to-v4", "TABLE", "--layout", "sfc-1"]

_EXPIRE_ALL = ["expire-snapshots", "TABLE", *_EXPIRY, "--json"]

PLANS = {
    "inspect": ["inspect", "TABLE"],
    "remove-orphans -n": ["remove-orphans", "TABLE", "--inventory", "INVENTORY", *_ORPHANS],
    "remove as many orphans -n": [
        "remove-orphans",
        "TABLE",
        "--inventory",
        "INVENTORY",
        *_ORPHANS,
        "--json",
        "--save-plan",
        "PLAN",
    ],
    "expire-snapshots -n": ["expire-snapshots", "TABLE", *_EXPIRY],
    "expire all files -n": [*_EXPIRE_ALL, "--save-plan", "PLAN"],
    "expire all files": [*_EXPIRE_ALL, "--yes"],
    "rewrite-manifests -n": ["rewrite-manifests", "TABLE"],
    "compact -n": ["compact", "TABLE", "--engine", "local", *_SIZES],
    "rewrite-manifests": ["rewrite-manifests", "TABLE", "--yes"],
    "upgrade-to-v4 -n": _UPGRADE,
    "upgrade-to-v4": [*_UPGRADE, "--yes"],
    "upgrade-to-v4 --eager -n": [*_UPGRADE, "--eager"],
    "upgrade-to-v4 --eager": [*_UPGRADE, "--eager", "--yes"],
    "rewrite all manifests -n": ["rewrite-manifests", "TABLE", "--rewrite-all"],
}
"""Those without `-n` change the table."""

KINDS = {
    "plain": [
        "inspect", "remove-orphans -n", "expire-snapshots -n", "rewrite-manifests -n",
        "compact -n", "rewrite-manifests",
    ],
    "plans": ["remove-orphans -n", "expire-snapshots -n", "rewrite-manifests -n", "compact -n"],
    "orphans": ["remove as many orphans -n"],
    "expired": ["expire all files -n", "expire all files"],
    "deletes": ["expire-snapshots -n", "rewrite-manifests -n", "compact -n"],
    "eager": ["upgrade-to-v4 --eager -n", "upgrade-to-v4 --eager"],
    "sfc-1": ["upgrade-to-v4 -n", "upgrade-to-v4", "rewrite all manifests -n", "compact -n"],
}  # fmt: skip
"""What is measured, in this order."""

_LARGEST_BYTES = {
    "inspect": 20, "remove-orphans -n": 19, "remove as many orphans -n": 150,
    "expire-snapshots -n": 19, "expire all files -n": 100, "expire all files": 100,
    "rewrite-manifests -n": 19, "compact -n": 19,
    "rewrite-manifests": 250, "upgrade-to-v4 -n": 40, "upgrade-to-v4": 40,
    "upgrade-to-v4 --eager -n": 40, "upgrade-to-v4 --eager": 150,
    "rewrite all manifests -n": 19,
}  # fmt: skip
"""Of memory for each file more: with 19, 100 million files need less than 2 GiB.

Work under way is not in full use at a million orphans: 150 tells only that no plan holds them.
"""

_MANY = 100_000_000
_MANY_GIB = 2
_LARGEST_GIB = {"plans": 1.2, "expired": 500 / 1024}
_OLD_MS = 1_700_000_000_000
_LISTED = pa.schema(
    [("location", pa.string()), ("size", pa.int64()), ("last_modified", pa.timestamp("ms", "UTC"))]
)


def inventory(file: Path, table: Path, manifests: Sequence[int], count: int, orphans: int) -> None:
    """An inventory of all files of some manifests, and of orphans beside those of each.

    The largest of the small files are there, without content: `compact` looks them up.
    """
    small = []
    with pq.ParquetWriter(file, _LISTED) as writer:
        for start in range(0, len(manifests), 100):
            listed, bytes_of = [], []
            for number in manifests[start : start + 100]:
                is_last = number == manifests[-1]
                files = entries(number, count, str(table), metrics=False, larger=is_last)
                sizes = files["file_size_in_bytes"]
                listed += files["location"].chunks
                bytes_of += sizes.chunks
                folder = f"{table}/data/column_5={number}"
                named = [f"{folder}/orphan-{at:032x}.parquet" for at in range(orphans)]
                listed.append(pa.array(named))
                bytes_of.append(pa.array(np.full(orphans, 123_456)))
                chosen = files.filter(pc.less(sizes, _SMALL_BYTES))
                columns = chosen["file_size_in_bytes"], chosen["location"]
                small += zip(*(column.to_pylist() for column in columns), strict=True)
            locations = pa.chunked_array(listed)
            times = pa.array(np.full(len(locations), _OLD_MS)).cast(_LISTED.field(2).type)
            columns = [locations, pa.chunked_array(bytes_of), times]
            writer.write_table(pa.table(columns, schema=_LISTED))
    for size, location in sorted(small)[-_LOOKED_UP:]:
        path = Path(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as made:
            made.truncate(size)


_DELETES_EVERY = 100


def of_deletes(whole: Path, table: Path, first: int, count: int) -> ManifestFile:
    """A manifest of position deletes, each of one file, of one in a hundred of some manifests."""
    parts = [
        entries(number, count, str(table), metrics=False).slice(0, count // _DELETES_EVERY)
        for number in range(first, first + _DELETES_EVERY)
    ]
    rows = pa.concat_tables(parts)
    own = pc.replace_substring(rows["location"], ".parquet", "-deletes.parquet")
    for name, column in (
        ("referenced_data_file", rows["location"]),
        ("location", own),
        ("content", pa.array(np.ones(len(rows), np.int8))),
        ("record_count", pa.array(np.ones(len(rows), np.int64))),
        ("snapshot_id", pa.array(np.full(len(rows), SNAPSHOT_ID + 1))),
    ):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), column)
    content = manifest_of(
        rows, SCHEMA, SPEC, content=ManifestContent.DELETES, snapshot_id=SNAPSHOT_ID + 1
    )
    path = whole / "metadata" / f"d{first:05}.avro"
    path.write_bytes(content)
    counts = len(rows), 0, 0, len(rows), 0, 0
    of_manifest = str(path), len(content), 0, ManifestContent.DELETES, 2, 2, SNAPSHOT_ID + 1
    return ManifestFile(*of_manifest, *counts)


def part_of(
    whole: Path,
    table: Path,
    count: int,
    deletes: Sequence[ManifestFile] = (),
    *,
    expired: bool = False,
) -> None:
    """A table whose head lists the first `count` manifests of another's, and some of deletes.

    With `expired` only the snapshot before lists them, and the head one more.
    """
    (table / "metadata").mkdir(parents=True)
    metadata = read_metadata((whole / "metadata" / "v1.metadata.json").read_bytes())
    (head,) = metadata.snapshots
    stored = whole / "metadata"
    listed = [
        replace(item, manifest_path=str(stored / Path(item.manifest_path).name))
        for item in read_manifest_list((stored / Path(head.manifest_list or "").name).read_bytes())
    ]
    now = listed[:count]
    before, head_lists = [*now[: count // 2], listed[-1]], [*now, *deletes]
    if expired:
        before, head_lists = now, listed[-1:]
    snapshots = (
        _snapshot(table, metadata, 1, before),
        _snapshot(table, metadata, 2, head_lists),
    )
    made = replace(
        metadata,
        location=str(table),
        last_sequence_number=2,
        snapshots=snapshots,
        current_snapshot_id=snapshots[-1].snapshot_id,
        snapshot_log=tuple(
            SnapshotLogEntry(one.timestamp_ms, one.snapshot_id) for one in snapshots
        ),
        refs={"main": SnapshotRef(snapshots[-1].snapshot_id, "branch")},
    )
    content = write_metadata(made, compressed=False)
    (table / "metadata" / "v1.metadata.json").write_bytes(content)


def _snapshot(
    table: Path, metadata: TableMetadata, number: int, listed: list[ManifestFile]
) -> Snapshot:
    id_ = SNAPSHOT_ID + number - 1
    path = table / "metadata" / f"snap-{number}.avro"
    parent = id_ - 1 if number > 1 else None
    path.write_bytes(list_of(listed, id_, number, parent_snapshot_id=parent))
    return Snapshot(
        id_,
        metadata.last_updated_ms + number * HOUR_MS,
        parent_snapshot_id=parent,
        sequence_number=number,
        manifest_list=str(path),
        summary={"operation": "append"},
        schema_id=0,
    )


def run(name: str, table: Path) -> Run:
    """One process; plans change nothing."""
    icectl = str(Path(sys.executable).parent / "icectl")
    places = {"TABLE": str(table), "INVENTORY": f"{table}.parquet", "PLAN": f"{table}.plan"}
    words = [places.get(word, word) for word in PLANS[name]]
    return process([icectl, *words, *(["--dry-run"] if name.endswith("-n") else [])])


def main() -> int:
    """Print the curves; 1 where one bends or a plan takes more memory for each file."""
    given = [*sys.argv[1:], *["2000", "1000", "plain"][len(sys.argv) - 1 :]]
    manifests, count, kind = int(given[0]), int(given[1]), given[2]
    found: dict[str, list[Run]] = {name: [] for name in KINDS[kind]}
    with tempfile.TemporaryDirectory() as folder:
        whole, table = Path(folder) / "whole", Path(folder) / "part"
        build(whole, manifests + 1, count, metrics=False, location=str(table))
        for part in PARTS:
            last = manifests // part + 1 - _DELETES_EVERY if kind == "deletes" else 0
            firsts = range(0, last, _DELETES_EVERY)
            deletes = [of_deletes(whole, table, first, count) for first in firsts]
            part_of(whole, table, manifests // part, deletes, expired=kind == "expired")
            listed = [*range(manifests // part), manifests]
            orphans = count if kind == "orphans" else 1
            inventory(table.with_suffix(".parquet"), table, listed, count, orphans)
            for name, runs in found.items():
                runs.append(run(name, table))
            shutil.rmtree(table)
    for part in range(len(PARTS)):
        figures = (
            f"{name} {runs[part].cpu_seconds:.1f} s {runs[part].peak_bytes >> 20:,} MiB"
            for name, runs in found.items()
        )
        print(f"{manifests // PARTS[part] * count:,} entries: {'; '.join(figures)}")
    reached, largest = [], _LARGEST_GIB.get(kind, _MANY_GIB)
    for name, runs in found.items():
        grown = runs[-1].cpu_seconds / runs[-2].cpu_seconds
        more = (manifests - manifests // PARTS[1]) * count
        bytes_each = (runs[-1].peak_bytes - runs[1].peak_bytes) / more
        of_many = runs[-1].peak_bytes + bytes_each * (_MANY - manifests * count)
        if kind != "plans":
            print(f"{name}: GiB at 100 million files, by this slope: {of_many / 2**30:.2f}")
        reached += [
            verdict(f"{name}: processor time of all / of half", grown, 2.4),
            verdict(f"{name}: memory for each file in bytes", bytes_each, _LARGEST_BYTES[name]),
            verdict(f"{name}: memory of all in GiB", runs[-1].peak_bytes / 2**30, largest),
        ]
        if kind == "plans":
            reached.append(verdict(f"{name}: GiB at 100 million", of_many / 2**30, _MANY_GIB))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
