"""What icectl writes of the draft of version 4, as the classes of Iceberg 1.12 read it."""

import io
import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import app
from icectl.codec.draft_16025.manifest import read_draft, write_draft
from icectl.codec.draft_16025.mumbling import read_mumbling, write_mumbling
from icectl.codec.draft_16025.pfor import decode_bytes, encode_bytes
from icectl.entries.draft_16025.rows import Inherited, inherit
from icectl.storage.local.store import LocalStore
from icectl.table.draft_16025.root import read_root
from tests.builders.drafts import draft_tables
from tests.builders.foreign_table import facts_of
from tests.builders.relocate import relocate
from tests.spark.draft_reader import ask, why_missing

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(autouse=True)
def _skipped() -> None:
    reason = why_missing()
    if reason:
        pytest.skip(reason)


def descriptors(numbers: np.random.Generator, kind: int) -> np.ndarray:
    """Bytes of one kind of distribution, some hundred."""
    count = int(numbers.integers(1, 600))
    made = (
        numbers.integers(0, 33, count),
        numbers.integers(0, 4, count),
        np.where(numbers.random(count) < 0.05, 32, numbers.integers(0, 3, count)),
        numbers.integers(0, 256, count),
        np.where(numbers.random(count) < 0.5, 32, 0),
        np.full(count, 32),
    )
    return made[kind].astype(np.uint8)


def test_bitmaps_are_those_of_iceberg():
    numbers = np.random.default_rng(5)
    packed = [descriptors(numbers, turn % 6) for turn in range(240)]
    sizes = numbers.choice([1, 256, 5000, 100_000], 80)
    densities = numbers.choice([0.001, 0.05, 0.12, 0.5, 1], 80)
    sets = [
        np.flatnonzero(numbers.random(int(size)) < density)
        for size, density in zip(sizes, densities, strict=True)
    ]
    answers = ask(
        [
            *(("pfor", values.tobytes().hex()) for values in packed),
            *(("bitmap", write_mumbling(positions).hex()) for positions in sets),
        ],
    )
    for values, answer in zip(packed, answers, strict=False):
        stored = bytes.fromhex(answer)
        # Of equal sizes Iceberg takes the most bits, where the specification's examples have
        # the fewest: as long, but not always the same.
        assert len(encode_bytes(values)) == len(stored)
        decoded, end = decode_bytes(stored, 0, len(values))
        assert (decoded.tolist(), end) == (values.tolist(), len(stored))
    assert answers[len(packed) :] == [
        {"cardinality": len(positions), "positions": positions.tolist()} for positions in sets
    ]


KINDS = ["version-1", "equality-deletes", "vectors", "merged", "iceberg-1.12", "sfc-1"]


def live_entries(table: Path, capsys) -> dict[str, dict]:
    """The live files of a table by location, each with its vector."""
    assert app.main(["inspect", str(table), "entries", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["result"]["rows"]
    alive = [row | row["data_file"] for row in rows if row["status"] != 2]
    found = {row["file_path"]: row | {"vector": None} for row in alive if row["content"] != 1}
    for row in alive:
        if row["content"] == 1:
            found[row["referenced_data_file"]]["vector"] = row
    return found


def request(manifest: Path | str, leaf: dict | None = None) -> list[object]:
    """Ask for a manifest; a leaf passes on what its entry says, the root what its footer does."""
    path = str(manifest).removeprefix("file:")
    said = {key.decode(): value.decode() for key, value in pq.read_metadata(path).metadata.items()}
    specs = [json.dumps(spec) for spec in json.loads(said["partition-specs"])]
    # Without a row id of the manifest Iceberg takes those of its rows for unknown.
    tracked = pq.read_table(path, columns=["tracking"])["tracking"].to_pylist()
    has_row_ids = any(row["first_row_id"] is not None for row in tracked)
    inherited = [
        said["icectl.snapshot-id"],
        said["icectl.sequence-number"],
        0 if has_row_ids else "",
    ]
    if leaf is not None:
        numbers = (leaf["snapshot_id"], leaf["sequence_number"], leaf["first_row_id"])
        inherited = ["" if number is None else number for number in numbers]
    return ["manifest", path, said["icectl.table-location"], *inherited, said["schema"], *specs]


def wanted(row: dict) -> dict:
    """What the table says of a file, under the names of the peer; metrics by column."""
    vector = row["vector"] or {}
    told = {name: row[name] for name in SAME} | {
        "snapshot_id": int(row["snapshot_id"]),
        "location": with_scheme(row["file_path"]),
        "file_format": row["file_format"].lower(),
        "dv_location": with_scheme(vector["file_path"]) if vector else None,
        "dv_offset": vector.get("content_offset"),
        "dv_size_in_bytes": vector.get("content_size_in_bytes"),
        "dv_cardinality": vector.get("record_count"),
        "dv_snapshot_id": int(vector["snapshot_id"]) if vector else None,
    }
    if row["content"] == 0:
        told |= {name: row[name] or {} for name in METRICS}
        # The draft counts no nulls of required columns, which 1 is.
        told["null_value_counts"] = {
            number: count for number, count in told["null_value_counts"].items() if number != "1"
        }
    return told


SAME = (
    "sequence_number", "file_sequence_number", "first_row_id", "content", "record_count",
    "file_size_in_bytes", "spec_id", "sort_order_id", "split_offsets", "equality_ids",
)  # fmt: skip
METRICS = ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")


def with_scheme(location: str) -> str:
    return location if location.startswith(("file:", "s3:")) else f"file:{location}"


def test_iceberg_resolves_what_entries_inherit_as_icectl_does(tmp_path, exports):
    """Rows without numbers of their own, in a manifest that has some."""
    export = exports["vectors"]
    leaf = Path(next(iter(export.leaves)).removeprefix("file:"))
    read = read_draft(leaf.read_bytes())
    added = dict.fromkeys(NUMBERS) | {"status": 1}
    rows = [
        {**row, **(added if place % 3 else {"first_row_id": None})}
        for place, row in enumerate([*read.rows.to_pylist()] * 3)
    ]
    table = pa.Table.from_pylist(rows, schema=read.rows.schema)
    manifest = tmp_path / "inherits.parquet"
    manifest.write_bytes(write_draft(table, read.footer))
    own = {"snapshot_id": 77, "sequence_number": 8, "first_row_id": 5000}
    (found,) = ask([request(manifest, own)])
    resolved = inherit(table, Inherited(77, 8, 5000))
    for name in NUMBERS:
        assert [entry[name] for entry in found] == resolved[name].to_pylist()
    assert {row["snapshot_id"] for row in found} > {77}


NUMBERS = ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")


@dataclass(frozen=True)
class Export:
    """One export: its table, what the command told, and the entries that Iceberg reads of it."""

    table: Path
    told: dict
    root: list[dict]
    leaves: dict[str, list[dict]]


@pytest.fixture(scope="module")
def exports(tmp_path_factory) -> dict[str, Export]:
    """Export tables of every kind, and have Iceberg read all roots, then all leaves."""
    if why_missing():
        pytest.skip(str(why_missing()))
    folder = tmp_path_factory.mktemp("drafts")
    tables = draft_tables(folder)
    told = {}
    for name, table in tables.items():
        before = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
        told[name] = exported(table, folder / f"{name}-export")
        assert {path: path.read_bytes() for path in table.rglob("*") if path.is_file()} == before
    roots = ask([request(one["root"]) for one in told.values()])
    asked = [
        (name, entry)
        for name, entries in zip(told, roots, strict=True)
        for entry in entries
        if entry["content"] > 2
    ]
    answers = ask([request(leaf["location"], leaf) for _, leaf in asked])
    leaves: dict[str, dict] = {name: {} for name in told}
    for (name, leaf), rows in zip(asked, answers, strict=True):
        leaves[name][leaf["location"]] = rows
    return {
        name: Export(tables[name], told[name], entries, leaves[name])
        for name, entries in zip(told, roots, strict=True)
    }


def exported(table: Path, folder: Path) -> dict:
    """Export a table; what the command told."""
    output = io.StringIO()
    with redirect_stdout(output):
        words = ["--layout", "draft-16025", "--to", str(folder), "--json"]
        assert app.main(["upgrade-to-v4", str(table), *words]) == 0
    return json.loads(output.getvalue())["result"]["export"]


def live_in(entries: list[dict], leaves: dict[str, list[dict]]) -> dict[str, dict]:
    """The live entries of files, by location: what statuses and dead positions leave."""
    found = [entry for entry in entries if entry["content"] < 3 and entry["status"] in LIVE]
    for leaf in entries:
        dead = set(leaf.get("dead") or ())
        found += [
            entry
            for entry in leaves.get(leaf["location"], ())
            if entry["status"] in LIVE and entry["position"] not in dead
        ]
    by_location = {entry["location"]: entry for entry in found}
    assert len(by_location) == len(found)
    return by_location


LIVE = (0, 1, 4)


def counted(rows: list[dict]) -> list[int]:
    """Files and rows of each status, EXISTING with MODIFIED, as manifest_info has them."""
    of = [[row for row in rows if row["status"] in group] for group in ((1,), (0, 4), (2,), (3,))]
    return [len(group) for group in of] + [
        sum(row["record_count"] for row in group) for group in of
    ]


@pytest.mark.parametrize("name", KINDS)
def test_iceberg_reads_the_entries_of_an_export(exports, capsys, name):
    export = exports[name]
    found = live_in(export.root, export.leaves)
    rows = live_entries(export.table, capsys)
    by_location = {with_scheme(location): wanted(row) for location, row in rows.items()}
    assert {
        location: {
            member: entry[member] or {} if member in METRICS else entry[member]
            for member in by_location[location]
        }
        for location, entry in found.items()
    } == by_location
    assert export.told["live_files"] == len(rows)
    for location, entry in found.items():
        if entry["content"] == 0:  # the builder names folders by partition
            parts = location.removeprefix(f"file:{export.table}/data/").split("/")[:-1]
            assert entry["partition"] == "/".join(parts)


@pytest.mark.parametrize("name", KINDS)
def test_what_a_root_says_of_leaves_is_what_iceberg_finds_there(exports, name):
    export = exports[name]
    listed = [entry for entry in export.root if entry["content"] > 2]
    assert [entry["location"] for entry in listed] == list(export.leaves)
    assert export.told["leaves"] == len(listed)
    for leaf in listed:
        rows = export.leaves[leaf["location"]]
        assert leaf["counts"][:8] == counted(rows)
        assert (leaf["record_count"], leaf["format_version"]) == (len(rows), 4)


def test_changes_of_the_snapshot_itself_are_told_as_the_draft_does(exports):
    vectors, merged, tree = (exports[name] for name in ("vectors", "merged", "sfc-1"))
    modified = [entry for entry in vectors.root if entry["status"] == 4 and entry["content"] == 0]
    marked = [entry for entry in vectors.root if entry["replaced_positions"]]
    assert len(modified) == 3
    assert {leaf["status"] for leaf in marked} == {4}
    assert sum(len(leaf["dead"]) for leaf in marked) == 3
    (rows,) = merged.leaves.values()
    assert sorted(row["status"] for row in rows) == [0] * 6 + [3] * 3 + [4] * 3
    gone = {row["location"]: row for row in rows if row["status"] == 3}
    assert gone.keys() == {row["location"] for row in rows if row["status"] == 4}
    (leaf,) = tree.root
    assert leaf["dead"] == [0, 1, 3]
    assert read_mumbling(bytes.fromhex(leaf["deleted_positions"])).tolist() == [3]


def test_iceberg_reads_exports_of_tables_of_other_writers(fixtures_dir, tmp_path, capsys):
    """Every table that can be exported has no findings, and Iceberg reads the same of each file."""
    files = []
    for number, name in enumerate(FOREIGN):
        table, folder = tmp_path / str(number), tmp_path / f"{number}-export"
        relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table)
        exported(table, folder)
        assert app.main(["validate", str(folder / "root.parquet")]) == 0
        files += sorted(folder.iterdir())
    capsys.readouterr()
    assert len(files) > 2 * len(FOREIGN)
    for file, entries in zip(files, ask(list(map(request, files))), strict=True):
        rows = read_root(LocalStore(), str(file)).rows
        for name in (*SAME, "status", "location", "dv_location", "dv_offset", "dv_snapshot_id"):
            if name != "first_row_id":
                assert [entry[name] for entry in entries] == rows[name].to_pylist(), name


FOREIGN = (
    "iceberg-cxx/deletion_vectors", "impala/iceberg_v3_deletion_vectors",
    "impala/iceberg_v2_delete_equality_partition_evolution", "impala/iceberg_v3_all_types",
    "duckdb-iceberg/multi_blob_deletion_vectors", "impala/test_default_part",
    "iceberg-cxx/types__all_spark_types", "dremio/nation",
)  # fmt: skip
