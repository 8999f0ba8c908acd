"""Sizes of version 4 metadata: bit vectors, and roots of growing tables.

    python tests/benchmarks/bench_v4_sizes.py [FILES]      default 10,000,000, the largest table

The proposal's table of bit vectors is made again: Roaring byte for byte, the others within what
differs between draws and libraries. Roots list leaves of 1,000 files with statistics of twenty
columns; those of large tables are made of rows of their own, without the leaves.
"""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))

from icectl.entries.rows import Entries
from icectl.files.deletion_vectors import write_bitmap
from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.snapshot import Snapshot, SnapshotRef
from icectl.sfc1.manifest_file import STATS, TreeContent, read_tree, write_tree
from tests.benchmarks.measure import verdict
from tests.benchmarks.trees import ENTRIES, LOCATION, TreeTable, new_files

Positions = npt.NDArray[np.int64]
LATER = 9
"""A sequence number after those of all samples."""
COUNTS = (1_000, 10_000, 100_000, 1_000_000)
DENSITIES = (0.01, 0.05, 0.1, 0.2)
ROARING = (
    (36, 216, 2_024, 20_136),
    (116, 1_016, 10_024, 100_136),
    (216, 2_016, 15_340, 126_440),
    (416, 4_016, 16_408, 129_918),
)
RAW = (
    (123, 1_247, 12_485, 124_980),
    (123, 1_247, 12_494, 124_985),
    (123, 1_247, 12_500, 125_000),
    (125, 1_250, 12_500, 125_000),
)
ZSTD = (
    (46, 224, 1_826, 17_690),
    (93, 533, 4_727, 46_987),
    (97, 715, 6_599, 67_170),
    (129, 981, 9_227, 91_923),
)
LZ4 = (
    (57, 383, 3_545, 32_713),
    (98, 920, 8_480, 75_451),
    (130, 1_155, 10_600, 108_987),
    (135, 1_264, 12_541, 125_493),
)
"""The proposal's sizes: a row for each density, a column for each number of entries."""

IN_LAST_CONTAINER = {(0.1, 100_000): 3_562, (0.1, 1_000_000): 1_712, (0.2, 1_000_000): 3_451}
"""Positions in the last, partly used container, where the size depends on how many there are."""

CONTAINER = 65_536
WITHIN = {"ZSTD": 0.1, "LZ4": 0.25}
"""How far sizes may lie from the proposal's, which were made by other libraries of other draws."""
DRAWS = 20
THRESHOLDS = (100, 300, 1_000, 3_000, 10_000)


def positions(rng: np.random.Generator, count: int, density: float) -> Positions:
    """Positions drawn by chance, as many in the last container as the proposal had."""
    wanted = int(count * density)
    last = IN_LAST_CONTAINER.get((density, count))
    if last is None:
        return np.sort(rng.choice(count, wanted, replace=False))
    edge = (count - 1) // CONTAINER * CONTAINER
    head = rng.choice(edge, wanted - last, replace=False)
    tail = edge + rng.choice(count - edge, last, replace=False)
    return np.sort(np.concatenate([head, tail]))


def bitset(chosen: Positions, size: int) -> bytes:
    """A plain bitset of so many bytes; the highest position is in its last one."""
    bits = np.zeros(size * 8, np.uint8)
    bits[chosen[chosen < size * 8]] = 1
    bits[size * 8 - 8 : size * 8] |= not bits[size * 8 - 8 :].any()
    return np.packbits(bits, bitorder="little").tobytes()


def vectors() -> list[bool]:
    """The proposal's table."""
    print("bytes of bit vectors: ours, and the proposal's")
    rng = np.random.default_rng(5)
    exact, farthest = True, {"ZSTD": 0.0, "LZ4": 0.0}
    for (row, density), (column, count) in itertools.product(
        enumerate(DENSITIES), enumerate(COUNTS)
    ):
        chosen = positions(rng, count, density)
        roaring, wanted = len(write_bitmap(chosen)), ROARING[row][column]
        exact &= roaring == wanted
        raw = bitset(chosen, RAW[row][column])
        print(f"  {count:,} at {density}: Roaring {roaring:,} ({wanted:,})", end="")
        exact &= len(raw.rstrip(b"\0")) == RAW[row][column]
        print(f", raw {len(raw):,} ({RAW[row][column]:,})", end="")
        for name, codec, table in (
            ("ZSTD", pa.Codec("zstd", 3), ZSTD),
            ("LZ4", pa.Codec("lz4_raw"), LZ4),
        ):
            sizes = [
                len(codec.compress(bitset(positions(rng, count, density), RAW[row][column])))
                for _ in range(DRAWS if count < COUNTS[-1] else 3)
            ]
            mean, told = float(np.mean(sizes)), table[row][column]
            farthest[name] = max(farthest[name], abs(mean - told) / told)
            print(f", {name} {mean:,.0f} ({told:,})", end="")
        print()
    return [
        verdict("Roaring and raw bitsets, sizes that differ", 0.0 if exact else 1.0, 0),
        *(
            verdict(f"{name}, farthest from the proposal", farthest[name], limit)
            for name, limit in WITHIN.items()
        ),
    ]


def leaf_row_samples() -> pa.Table:
    """Rows of a root for a hundred leaves, with what their files have between their bounds."""
    table = TreeTable(
        {"icectl.v4.root.max-data-files": "0", "icectl.v4.leaf.max-entries": str(ENTRIES)}
    )
    for start in range(0, 100, 25):
        batches = [new_files(number, ENTRIES).table for number in range(start, start + 25)]
        table.append(Entries(pa.concat_tables(batches)))
    return root_of(table)


def root_of(table: TreeTable) -> pa.Table:
    """The rows of the newest root."""
    return read_tree(table.store.read(str(table.head.root_manifest))).rows


def many_leaves(samples: pa.Table, count: int) -> pa.Table:
    """Rows of so many leaves: the samples in turn, moved apart in bounds and names."""
    rng = np.random.default_rng(count)
    rows = samples.take(pa.array(np.arange(count) % len(samples))).combine_chunks()
    names = [
        f"{LOCATION}/metadata/{number:08x}-1f0e-4b8e-9a53-5b6b0a0d8f11-m1.parquet"
        for number in range(count)
    ]
    rows = replaced(rows, "location", pa.array(names))
    rows = replaced(rows, "status", pa.array(np.zeros(count, np.int8)))
    rows = replaced(rows, "first_row_id", pa.array(np.arange(count) * 50_000_000))
    stats = rows[STATS].combine_chunks()
    groups = [moved(group, rng) for group in stats.flatten()]
    return replaced(rows, STATS, pa.StructArray.from_arrays(groups, fields=list(stats.type)))


def moved(group: pa.StructArray, rng: np.random.Generator) -> pa.StructArray:
    """Statistics of a column, bounds drawn anew."""
    members = [
        drawn(values, rng) if one.name.endswith("_bound") else values
        for one, values in zip(group.type, group.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(members, fields=list(group.type))


def drawn(values: pa.Array, rng: np.random.Generator) -> pa.Array:
    """As many values of the same type, by chance."""
    count = len(values)
    if pa.types.is_string(values.type):
        return pa.array([rng.bytes(8).hex() for _ in range(count)], pa.string())
    if pa.types.is_floating(values.type):
        return pa.array(rng.random(count))
    numbers = rng.integers(0, 1 << (30 if pa.types.is_int32(values.type) else 40), count)
    return pa.array(numbers).cast(values.type)


def replaced(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """The rows with another column under a name."""
    at = rows.schema.get_field_index(name)
    field = rows.schema.field(at)
    return rows.set_column(at, field, column if name == STATS else column.cast(field.type))


def grown(samples: pa.Table, own: pa.Table, leaves: int, count: int) -> TreeTable:
    """A table of so many leaves, whose root lists `count` files itself."""
    table = TreeTable()
    rows = pa.concat_tables([many_leaves(samples, leaves), own.slice(0, count)])
    location = f"{LOCATION}/metadata/root-0.parquet"
    table.store.create(location, write_tree(rows, TreeContent.ROOT))
    totals = {
        f"total-{name}": "0"
        for name in (
            "data-files", "delete-files", "records", "files-size", "position-deletes",
            "equality-deletes",
        )
    }  # fmt: skip
    id_ = 1_000 + LATER
    snapshot = Snapshot(
        id_, 1_750_000_000_001, None, LATER, root_manifest=location, summary=totals, schema_id=0
    )
    table.metadata = replace(
        table.metadata,
        snapshots=(snapshot,),
        current_snapshot_id=id_,
        refs={"main": SnapshotRef(id_, "branch")},
        last_sequence_number=LATER,
        next_row_id=1 << 50,  # above that of any leaf
    )
    return table


def growth(largest: int) -> None:
    """Roots and commits as the table grows."""
    samples = leaf_row_samples()
    table = TreeTable()
    table.append(new_files(200, ENTRIES))
    own = replaced(root_of(table), "status", pa.array(np.zeros(ENTRIES, np.int8)))
    one = new_files(300, 3)
    print("roots of tables that grow by single files; a root is flushed at 1,000 files")
    bare = grown(samples, own, 0, 0).root_bytes
    files = 1_000
    while files <= largest:
        leaves = files // ENTRIES
        flushed = grown(samples, own, leaves, 0)
        full = grown(samples, own, leaves, ENTRIES - 1)
        few = flushed.root_bytes
        costs = [
            flushed.append(Entries(one.table.slice(0, 1))),
            full.append(Entries(one.table.slice(1, 1))),
        ]
        many = full.root_bytes
        flush = full.append(Entries(one.table.slice(2, 1)))
        print(
            f"  {files:>10,} files, {leaves:>6,} leaves: root {few:>9,} bytes after a flush, "
            f"{many:>9,} before the next; an append takes {costs[0].seconds:.2f} to "
            f"{costs[1].seconds:.2f} s, with a flush {flush.seconds:.2f} s in {flush.files} files"
        )
        told_thresholds(files, bare, (few - bare) / leaves, (many - few) / ENTRIES)
        files *= 10
    vector_bytes()


def told_thresholds(files: int, bare: int, per_leaf: float, per_file: float) -> None:
    """What an append writes on average, by the number of files at which roots are flushed."""
    means = [
        f"{limit:,}: {bare + files / limit * per_leaf + limit / 2 * per_file:,.0f}"
        for limit in THRESHOLDS
    ]
    best = (2 * files * per_leaf / per_file) ** 0.5
    print(f"{'':14}mean bytes of an append if flushed at {', '.join(means)}; best at {best:,.0f}")


def vector_bytes() -> None:
    """What a delete vector of data takes in a root."""
    table = TreeTable()
    sizes = []
    for count in (1_000, 5_000):
        rows = pa.Table.from_pylist(list(vector_entries(count)), schema=table.facts.rows_schema)
        sizes.append(len(write_tree(rows, TreeContent.ROOT)))
    print(f"  a delete vector in a root: {(sizes[1] - sizes[0]) / 4_000:.0f} bytes", end="")
    print(f"; {sizes[1]:,} bytes for 5,000, at which they are flushed")


def vector_entries(count: int) -> Iterator[dict[str, object]]:
    """Delete vectors of data files, each in a Puffin file of its own."""
    rng = np.random.default_rng(3)
    names = [new_files(400, count).table["location"][at].as_py() for at in range(0, count, count)]
    for number in range(count):
        yield {
            "content": Content.POSITION_DELETES,
            "status": Status.EXISTING,
            "file_format": FileFormat.PUFFIN,
            "location": f"{LOCATION}/data/{rng.bytes(16).hex()}-deletes.puffin",
            "referenced_file": f"{names[0][:-8]}{rng.bytes(16).hex()}.parquet",
            "snapshot_id": 1_000 + number,
            "sequence_number": number,
            "file_sequence_number": number,
            "content_offset": 4,
            "content_size_in_bytes": int(rng.integers(40, 4_000)),
            "file_size_in_bytes": int(rng.integers(400, 8_000)),
            "spec_id": 0,
            "record_count": int(rng.integers(1, 1_000)),
        }


def main() -> int:
    """Print sizes and times; 1 when the proposal's table is not reproduced."""
    verdicts = vectors()
    growth(int([*sys.argv[1:], "10000000"][0]))
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
