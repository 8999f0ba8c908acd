"""`icectl analyze`: what is read, written and kept; statistics change nothing else of a table."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.cli import engines
from icectl.commands.analyze import run as analyze_run
from icectl.commands.analyze.plan import changed_ratio
from icectl.env import Env
from icectl.files.manifest.manifest_list import read_manifest_list
from icectl.files.puffin import NewBlob, read_blob, read_puffin, write_puffin
from icectl.files.theta_sketch import BLOB_TYPE, read_sketch
from icectl.format.metadata_json import parse_metadata
from icectl.format.snapshot import PartitionStatisticsFile
from icectl.table import partition_statistics
from icectl.table.manifests import load_entries
from icectl.units import print_size
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.orphans import edit_metadata
from tests.builders.rows import current_metadata, local, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.conftest import Ended, Run, result, result_of
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def analyze(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `icectl analyze` in this process."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    run = prepared("analyze", FixedEnv(NOW_MS))
    return lambda *arguments, **options: run(*arguments, "--engine", "local", **options)


@pytest.fixture(params=[2, 3])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableBuilder:
    built = TableBuilder(tmp_path / "t", format_version=request.param, partitioning="identity")
    built.append(range(40), files=2)
    return built


def members(table: TableBuilder) -> dict[str, Any]:
    found: dict[str, Any] = read_metadata(current_metadata(Path(table.location)))
    return found


def counts(ended: Ended) -> dict[str, int]:
    """The distinct values of each column that was computed."""
    return {column["name"]: column["ndv"] for column in result(ended)["columns"]}


def stored(table: TableBuilder) -> dict[int, Any]:
    """The estimates of the current snapshot's sketches by field id, from the Puffin file itself.

    Trino reads them in the metadata alone: of each sketch of one column, a number in `ndv`; it
    fails where a column has two sketches.
    """
    found = members(table)
    (entry,) = [
        item for item in found["statistics"] if item["snapshot-id"] == found["current-snapshot-id"]
    ]
    content = Path(entry["statistics-path"]).read_bytes()
    assert entry["file-size-in-bytes"] == len(content)
    payload = int.from_bytes(content[-12:-8], "little")
    assert entry["file-footer-size-in-bytes"] == payload + 16
    footer = json.loads(content[-12 - payload : -12])
    described = [
        {name: blob[name] for name in ("type", "snapshot-id", "sequence-number", "fields")}
        for blob in footer["blobs"]
    ]
    assert described == [
        {name: blob[name] for name in described[0]} for blob in entry["blob-metadata"]
    ]
    sketches = {
        blob.fields[0]: read_sketch(read_blob(content[blob.span], blob)).estimate
        for blob in read_puffin(content).blobs
        if blob.type == BLOB_TYPE
    }
    named = [blob for blob in entry["blob-metadata"] if blob["type"] == BLOB_TYPE]
    by_trino = [(*blob["fields"], blob["properties"]["ndv"]) for blob in named]
    assert sorted(by_trino) == sorted((id_, f"{of:.0f}") for id_, of in sketches.items())
    return sketches


def distinct(table: TableBuilder) -> dict[int, int]:
    """Distinct values of the columns by field id, counted in rows that the builder knows of."""
    rows = read_rows(members(table))
    found: dict[str, set[Any]] = {}
    for row in rows:
        for name, value in row:
            if value is not None:
                found.setdefault(name, set()).add(value)
    (schema,) = members(table)["schemas"]
    return {field["id"]: len(found.get(field["name"], ())) for field in schema["fields"]}


def test_r140_sketches_count_the_values_of_each_column(table, analyze):
    before = read_rows(members(table)), members(table)["snapshots"]
    planned = result(analyze(table.location, "--dry-run", "--json"))
    assert {column["ndv"] for column in planned["columns"]} == {None}
    assert "statistics" not in members(table) or not members(table)["statistics"]
    assert counts(analyze(table.location, "--json"))["id"] == 40
    assert stored(table) == distinct(table)
    assert (read_rows(members(table)), members(table)["snapshots"]) == before
    assert analyze(table.location, "--json").document["status"] == "nothing-to-do"
    assert analyze(table.location, "--check").code == 0


def test_r142_partitions_are_counted(table, analyze):
    table.delete_rows([3, 8])
    table.delete_rows([4], kind="equality")
    written = result(analyze(table.location, "--only", "partitions", "--json"))
    rows = pq.read_table(written["partition_statistics_file"]).to_pylist()
    assert written["partitions"]["count"] == len(rows)
    values = [tuple(row["partition"].values()) for row in rows]
    assert values == sorted(values, key=lambda key: tuple((part is not None, part) for part in key))
    data = [row for row in table.live() if not row["content"]]
    assert sum(row["data_record_count"] for row in rows) == sum(r["record_count"] for r in data)
    assert sum(row["data_file_count"] for row in rows) == len(data)
    assert sum(row["position_delete_record_count"] for row in rows) == 2
    assert sum(row["equality_delete_record_count"] for row in rows) == 1
    vectors = sum(row.get("dv_count", 0) for row in rows)
    files = sum(row["position_delete_file_count"] for row in rows)
    assert (vectors > 0, files > 0) == ((False, True), (True, False))[table.format_version == 3]
    for row in rows:
        is_known = not row["equality_delete_file_count"] and not row["position_delete_file_count"]
        assert (row["total_record_count"] is not None) == is_known
        assert row["last_updated_snapshot_id"] in {
            item["snapshot-id"] for item in members(table)["snapshots"]
        }
    (entry,) = members(table)["partition-statistics"]
    assert entry["file-size-in-bytes"] == Path(entry["statistics-path"]).stat().st_size
    assert not members(table).get("statistics")


def test_processes_of_their_own_find_the_same(table, prepared):
    run = prepared("analyze", FixedEnv(NOW_MS))
    assert result(run(table.location, "--engine", "local", "--json"))["statistics_file"]
    assert stored(table) == distinct(table)


def test_only_new_files_are_read(table, analyze):
    analyze(table.location)
    table.follow()
    table.append(range(100, 105))
    read = {column["rows"] for column in result(analyze(table.location, "--json"))["columns"]}
    assert read == {5}
    assert stored(table) == distinct(table)


def test_statistics_of_the_same_rows_are_named_again(table, analyze, prepared):
    table.set_properties({"icectl.statistics.keep": "false"})
    analyze(table.location)
    before = members(table)["statistics"][0]
    compacted = prepared("compact", FixedEnv(NOW_MS))(
        table.location, "--engine", "local", "--rewrite-all"
    )
    assert compacted.code == 0
    assert result(analyze(table.location, "--json"))["read_bytes"] == 0
    head = members(table)["current-snapshot-id"]
    (after,) = [item for item in members(table)["statistics"] if item["snapshot-id"] == head]
    assert after == {**before, "snapshot-id": head}
    expired = prepared("expire-snapshots", FixedEnv(NOW_MS))(
        table.location, "--older-than", "0s", "--retain-last", "1", "--yes"
    )
    assert expired.code == 0
    assert members(table)["statistics"] == [after]
    assert stored(table) == distinct(table)


@pytest.mark.parametrize(
    "words",
    [
        ("compact", "--engine", "local", "--rewrite-all"),
        ("rewrite-manifests", "--rewrite-all"),
    ],
    ids=["compact", "rewrite-manifests"],
)
def test_statistics_stay_with_rows_that_stay_the_same(table, analyze, prepared, words):
    analyze(table.location)
    (before,) = members(table)["statistics"]
    command, *options = words
    changed = prepared(command, FixedEnv(NOW_MS))(table.location, *options)
    assert changed.code == 0, changed.err
    head = members(table)["current-snapshot-id"]
    assert head != before["snapshot-id"]
    assert members(table)["statistics"] == [before, {**before, "snapshot-id": head}]
    assert result(analyze(table.location, "--only", "columns", "--check", "--json"))["current"]
    assert prepared("validate", FixedEnv(NOW_MS))(table.location).code == 0


@pytest.mark.parametrize("upgrades", [False, True], ids=["own", "sfc-1"])
def test_counts_of_partitions_stay_with_files_that_stay_the_same(
    table, analyze, prepared, upgrades
):
    """What `analyze --full` counts afterwards is what the file that was taken over says."""
    rewrite = prepared("rewrite-manifests", FixedEnv(NOW_MS, snapshot_ids=5_000, uuids=5_000))
    if upgrades:
        upgrade = prepared("upgrade-to-v4", FixedEnv(NOW_MS))
        assert upgrade(table.location, "--layout=sfc-1", "--yes").code == 0
    analyze(table.location, "--only", "partitions")
    (before,) = members(table)["partition-statistics"]
    changed = rewrite(table.location, "--rewrite-all")
    assert changed.code == 0, changed.err
    head = members(table)["current-snapshot-id"]
    assert head != before["snapshot-id"]
    assert members(table)["partition-statistics"] == [before, {**before, "snapshot-id": head}]
    assert analyze(table.location, "--only", "partitions", "--check").code == 0
    again = result(analyze(table.location, "--only", "partitions", "--full", "--json"))
    rows = [
        pq.read_table(place).to_pylist()
        for place in (local(before["statistics-path"]), again["partition_statistics_file"])
    ]
    assert rows[0] == rows[1]
    expired = prepared("expire-snapshots", FixedEnv(NOW_MS))(
        table.location, "--older-than", "0s", "--retain-last", "1", "--yes"
    )
    assert expired.code == 0
    assert prepared("validate", FixedEnv(NOW_MS))(table.location).code == 0


def partition_rows(table: TableBuilder) -> list[dict[str, Any]]:
    """The rows of the statistics of partitions that the current snapshot has."""
    found = members(table)
    (entry,) = [
        file
        for file in found["partition-statistics"]
        if file["snapshot-id"] == found["current-snapshot-id"]
    ]
    rows: list[dict[str, Any]] = pq.read_table(local(entry["statistics-path"])).to_pylist()
    return rows


def test_compact_counts_the_partitions_of_its_files(table, analyze, prepared):
    table.delete_rows([3, 8])
    assert analyze(table.location, "--only", "partitions").code == 0
    before = partition_rows(table)
    compacted = prepared("compact", FixedEnv(NOW_MS))(
        table.location, "--engine", "local", "--rewrite-all"
    )
    assert compacted.code == 0
    rows = partition_rows(table)
    assert [row["partition"] for row in rows] == [row["partition"] for row in before]
    assert sum(row["data_record_count"] for row in rows) == 38
    assert sum(row["position_delete_record_count"] for row in rows) == 0
    assert analyze(table.location, "--only", "partitions", "--check").code == 0
    assert analyze(table.location, "--only", "partitions", "--full").code == 0
    assert rows == partition_rows(table)


def manifest_paths(table: TableBuilder) -> set[str]:
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    content = Path(snapshot.manifest_list).read_bytes()
    return {item.manifest_path for item in read_manifest_list(content)}


def test_only_manifests_that_came_or_went_are_read_for_counts(table, analyze, monkeypatch):
    assert analyze(table.location, "--only", "partitions").code == 0
    table.follow()
    before = manifest_paths(table)
    table.append(range(100, 105))
    new = manifest_paths(table) - before
    read: list[str] = []

    def load(context, metadata, manifests, *columns):
        read.extend(item.manifest_path for item in manifests)
        return load_entries(context, metadata, manifests, *columns)

    monkeypatch.setattr(partition_statistics, "load_entries", load)
    monkeypatch.setattr(analyze_run, "load_entries", load)
    assert analyze(table.location, "--only", "partitions").code == 0
    assert set(read) == new
    assert sum(row["data_record_count"] for row in partition_rows(table)) == 45


@pytest.mark.parametrize("damage", ["missing", "shorter", "other bytes", "too few", "twice"])
def test_counts_that_cannot_be_proved_are_made_anew(table, analyze, damage):
    assert analyze(table.location, "--only", "partitions").code == 0
    table.follow()
    table.append(range(100, 105))
    path = Path(members(table)["partition-statistics"][0]["statistics-path"])
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "shorter":
        path.write_bytes(content[:-1])
    elif damage == "other bytes":
        path.write_bytes(bytes(len(content)))
    else:
        stored = pq.read_table(path)
        rows = [0, 0, *range(stored.num_rows)] if damage == "twice" else [0]
        pq.write_table(stored.take(rows), path)
        (entry,) = members(table)["partition-statistics"]
        entry["file-size-in-bytes"] = path.stat().st_size
        edit_metadata(table.directory, partition_statistics=[entry])
    assert analyze(table.location, "--only", "partitions").code == 0
    assert sum(row["data_record_count"] for row in partition_rows(table)) == 45


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("data_record_count", pa.uint64(), 2**64 - 1),
        ("data_file_count", pa.int64(), 2**40),
        ("data_file_count", pa.int32(), 2**31 - 1),
        ("spec_id", pa.int64(), 2**40),
        ("last_updated_snapshot_id", pa.uint64(), 2**64 - 1),
        ("partition", pa.string(), b"\xff"),
    ],
)
def test_counts_that_no_table_has_are_not_gone_on_from(table, analyze, prepared, name, kind, value):
    assert analyze(table.location, "--only", "partitions").code == 0
    table.follow()
    table.append(range(100, 105))
    (entry,) = members(table)["partition-statistics"]
    entry["snapshot-id"] = members(table)["current-snapshot-id"]
    path = Path(entry["statistics-path"])
    stored = pq.read_table(path)
    at = stored.schema.get_field_index(name)
    field, count = stored.schema.field(at), stored.num_rows
    if name == "partition":
        texts = pa.array([value] * count, pa.binary()).view(kind)
        column = pa.StructArray.from_arrays([texts], fields=[*field.type])
    else:
        field, column = field.with_type(kind), pa.array([value] * count, kind)
    pq.write_table(stored.set_column(at, field, column), path)
    entry["file-size-in-bytes"] = path.stat().st_size
    edit_metadata(table.directory, partition_statistics=[entry])
    compact = prepared("compact", FixedEnv(NOW_MS))
    assert compact(table.location, "--engine", "local", "--rewrite-all").code == 0
    assert len(members(table)["partition-statistics"]) == 1
    assert analyze(table.location, "--only", "partitions").code == 0
    assert sum(row["data_record_count"] for row in partition_rows(table)) == 45


def test_partitions_are_not_counted_where_an_id_has_fields_of_two_types(tmp_path, analyze):
    """In version 1 each spec may begin with 1000."""
    table = filled_table(tmp_path / "t", range(8), format_version=1, partitioning="bucket")
    table.respec("truncate")
    specs = members(table)["partition-specs"]
    specs[0]["fields"][0]["source-id"] = specs[1]["fields"][0]["source-id"]
    specs[1]["fields"][0]["field-id"] = 1000
    edit_metadata(table.directory, partition_specs=specs, partition_spec=specs[1]["fields"])
    table.follow()
    table.append(range(8, 16))
    ended = analyze(table.location, "--only", "partitions")
    assert (ended.code, "two partition fields have the id 1000" in ended.err) == (0, True)


def test_a_property_keeps_statistics_from_later_snapshots(table, analyze, prepared):
    table.set_properties({"icectl.statistics.keep": "false"})
    analyze(table.location)
    compacted = prepared("compact", FixedEnv(NOW_MS))(
        table.location, "--engine", "local", "--rewrite-all"
    )
    assert compacted.code == 0
    assert len(members(table)["statistics"]) == 1


def test_columns_that_take_too_many_bytes_are_skipped_and_named(table, analyze):
    table.append(range(40, 4_000))
    sizes: dict[str, int] = {}
    for row in table.live():
        footer = pq.read_metadata(local(row["location"]))
        for number in range(footer.num_row_groups):
            for at in range(footer.num_columns):
                chunk = footer.row_group(number).column(at)
                name = chunk.path_in_schema
                sizes[name] = sizes.get(name, 0) + chunk.total_compressed_size
    plain = result(analyze(table.location, "-n", "--json"))
    names = {column["name"] for column in plain["columns"]}
    largest = max(names, key=lambda name: sizes[name])
    limit = "--max-column-bytes", str(sizes[largest] - 1)
    left = result(analyze(table.location, "-n", "--json", *limit))
    assert {column["name"] for column in left["columns"]} == names - {largest}
    assert [skipped["name"] for skipped in left["skipped"][len(plain["skipped"]) :]] == [largest]
    assert left["read_bytes"] == plain["read_bytes"] - sizes[largest]
    why = f"in all data files, more than {print_size(sizes[largest] - 1)}"
    assert left["skipped"][-1]["reason"].endswith(why)
    assert f"{largest}: " in analyze(table.location, "-n", *limit).out
    named = result(analyze(table.location, "-n", "--json", "--columns", largest, *limit))
    assert [column["name"] for column in named["columns"]] == [largest]
    enough = result(analyze(table.location, "-n", "--json", limit[0], str(sizes[largest])))
    assert enough["columns"] == plain["columns"]
    assert analyze(table.location, *limit).code == 0
    again = analyze(table.location, *limit)
    assert "nothing to do: all other statistics are up to date" in again.out
    assert f"{largest}: " in again.out


def test_all_files_are_read_where_too_many_rows_went(table, analyze):
    analyze(table.location)
    table.follow()
    table.remove_data_files(1)
    kept = result(analyze(table.location, "-n", "--json", "--max-removed", "1"))["columns"]
    assert {column["files"] for column in kept} == {0}
    whole = result(analyze(table.location, "--json", "--max-removed", "0"))["columns"]
    left = sum(row["record_count"] for row in table.live())
    assert {column["rows"] for column in whole} == {left}
    assert stored(table) == distinct(table)


def test_a_sample_counts_what_is_in_some_files(table, analyze):
    table.append(range(100, 140), files=10)
    every = [row["record_count"] for row in table.live()]
    sampled = result(analyze(table.location, "--sample", "25%", "--json", "--columns", "id"))
    (column,) = sampled["columns"]
    assert (column["files"], column["sample"], column["exact"]) == (len(every) // 4, 0.25, False)
    # Each id is in one row, so that the rows of the files that were read are all that can be seen.
    assert column["ndv"] == column["rows"] < sum(every)
    (blob,) = members(table)["statistics"][0]["blob-metadata"]
    assert blob["properties"]["icectl.sample"] == "0.25"
    table.follow()
    table.append([500])
    refreshed = result(analyze(table.location, "--refresh", "--json"))["columns"]
    assert [(of["ndv"], of["files"], of["sample"]) for of in refreshed] == [
        (column["ndv"] + 1, 1, 0.25)
    ]
    assert "at least" in analyze(table.location, "--sample", "25%", "--full").out
    whole = result(analyze(table.location, "--json", "--columns", "id"))["columns"]
    assert [(of["ndv"], of["exact"], of["sample"], of["reason"]) for of in whole] == [
        (81, True, None, "statistics are of a sample")
    ]
    all_of_it = result(analyze(table.location, "--sample", "100%", "--full", "--json"))["columns"]
    assert {of["sample"] for of in all_of_it} == {None}
    assert analyze(table.location, "--sample", "0").code == 2


def test_removed_rows_add_up(table, analyze):
    analyze(table.location)
    table.follow()
    for _ in range(2):
        table.remove_data_files(1)
        table.append(range(200, 230))
        assert analyze(table.location, "--max-removed", "1").code == 0
        table.follow()
    table.append([999])
    planned = result(analyze(table.location, "-n", "--json", "--max-removed", "0"))
    assert {column["reason"] for column in planned["columns"]} == {
        "more than 0% of the rows were removed"
    }


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_deleted_rows_count_unless_they_must_not(table, analyze, kind):
    table.delete_rows([0, 1, 2], kind=kind)
    assert counts(analyze(table.location, "--json"))["id"] == 40
    exact = result(analyze(table.location, "--exact-deletes", "--json", "--columns", "id"))
    assert exact["deleted_rows"] == "left out"
    assert [column["ndv"] for column in exact["columns"]] == [37]


def test_other_blobs_are_kept_byte_for_byte(table, analyze):
    analyze(table.location)
    found = members(table)
    path = Path(found["statistics"][0]["statistics-path"])
    content = path.read_bytes()
    blobs = [
        NewBlob(
            blob.type, blob.fields, blob.snapshot_id, blob.sequence_number, content[blob.span],
            blob.compression_codec, blob.properties, is_stored=True,
        )
        for blob in read_puffin(content).blobs
    ]  # fmt: skip
    head = found["current-snapshot-id"]
    other = NewBlob("acme-histogram-v7", (1, 2), head, 1, b"\x00anything", None, {"k": "v"})
    path.write_bytes(write_puffin([*blobs, other], {}))
    replace_entry(table, path)
    assert result_of(analyze(table.location, "--full", "--json"))["statistics_file"] != str(path)
    after = Path(members(table)["statistics"][0]["statistics-path"]).read_bytes()
    (kept,) = [blob for blob in read_puffin(after).blobs if blob.type == other.type]
    assert after[kept.span] == other.content
    assert (kept.fields, kept.properties, kept.snapshot_id) == (other.fields, {"k": "v"}, head)


def test_statistics_of_another_writer_alone_survive_those_of_the_same_snapshot(table, analyze):
    analyze(table.location)
    table.follow()
    table.append([50])
    found = members(table)
    head = found["current-snapshot-id"]
    other = NewBlob("acme-histogram-v7", (1, 2), head, 1, b"\x00anything", None, {"k": "v"})
    path = Path(table.location, "metadata", "acme.puffin")
    path.write_bytes(write_puffin([other], {}))
    found["statistics"].insert(0, {"snapshot-id": head, "statistics-path": str(path)})
    current_metadata(Path(table.location)).write_text(json.dumps(found))
    replace_entry(table, path)
    assert result_of(analyze(table.location, "--json"))["statistics_file"] != str(path)
    (entry,) = [of for of in members(table)["statistics"] if of["snapshot-id"] == head]
    after = Path(entry["statistics-path"]).read_bytes()
    (kept,) = [blob for blob in read_puffin(after).blobs if blob.type == other.type]
    assert (after[kept.span], kept.properties) == (other.content, {"k": "v"})
    assert stored(table) == distinct(table)


def replace_entry(table: TableBuilder, path: Path) -> None:
    """Let the metadata describe a statistics file as it is now."""
    content = path.read_bytes()
    metadata = current_metadata(Path(table.location))
    found = json.loads(metadata.read_text())
    found["statistics"][0] |= {
        "file-size-in-bytes": len(content),
        "file-footer-size-in-bytes": int.from_bytes(content[-12:-8], "little") + 16,
        "blob-metadata": [
            {
                "type": blob.type, "snapshot-id": blob.snapshot_id,
                "sequence-number": blob.sequence_number, "fields": list(blob.fields),
                "properties": dict(blob.properties),
            }
            for blob in read_puffin(content).blobs
        ],
    }  # fmt: skip
    metadata.write_text(json.dumps(found))


@pytest.mark.parametrize("damage", ["cut", "gone", "other blobs", "sketch"])
def test_r140_statistics_that_are_not_what_the_metadata_says_are_not_built_upon(
    table, analyze, damage
):
    analyze(table.location)
    path = Path(members(table)["statistics"][0]["statistics-path"])
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "gone":
        path.unlink()
    elif damage == "other blobs":
        blob = NewBlob(BLOB_TYPE, (99,), 1, 1, b"")
        short = write_puffin([blob], {})
        path.write_bytes(short + bytes(len(content) - len(short)))
    else:
        blob = read_puffin(content).blobs[0]
        damaged = b"\xff" * blob.length
        path.write_bytes(content[: blob.offset] + damaged + content[blob.offset + blob.length :])
    table.follow()
    table.append([50])
    before = members(table)
    ended = analyze(table.location)
    assert (ended.code, members(table)) == (15, before)
    assert path.name in ended.err
    assert ("repair" if damage == "gone" else "--full") in ended.err
    assert analyze(table.location, "--full").code == 0
    assert stored(table) == distinct(table)


@pytest.mark.parametrize(("number", "code"), [(1, 15), (10, 15), (5, 0)])
def test_r140_sketches_of_another_table_are_not_built_upon(table, analyze, number, code):
    """Footer and metadata agree; snapshot 99 may only have expired if its number is a free one."""
    analyze(table.location)
    table.follow()
    table.append([50])
    path = Path(members(table)["statistics"][0]["statistics-path"])
    content = path.read_bytes()
    blobs = [
        NewBlob(blob.type, blob.fields, 99, number, read_blob(content[blob.span], blob))
        for blob in read_puffin(content).blobs
    ]
    path.write_bytes(write_puffin(blobs, {}))
    replace_entry(table, path)
    edit_metadata(Path(table.location), last_sequence_number=9)
    ended = analyze(table.location)
    assert ended.code == code
    assert ("sketch of another table: snapshot 99" in ended.err, path.name in ended.err) == (
        (code == 15,) * 2
    )
    if code == 0:
        assert stored(table) == distinct(table)


def test_statistics_that_others_name_meanwhile_end_the_run(table, analyze, monkeypatch):
    computed = analyze_run.write_counts

    def beside(*arguments: Any) -> PartitionStatisticsFile:
        monkeypatch.setattr(analyze_run, "write_counts", computed)
        assert analyze(table.location).code == 0
        return computed(*arguments)

    monkeypatch.setattr(analyze_run, "write_counts", beside)
    ended = analyze(table.location)
    assert (ended.code, "another writer has committed statistics" in ended.err) == (11, True)
    assert len(list(Path(table.location, "metadata").glob("*.stats"))) == 1
    assert stored(table) == distinct(table)


def test_columns_that_have_no_sketch_are_named(table, analyze):
    ended = analyze(table.location, "--columns", "idd")
    assert (ended.code, "did you mean `id`" in ended.err) == (2, True)
    assert counts(analyze(table.location, "--columns", "id", "--json")) == {"id": 40}


def test_an_empty_table_has_nothing_to_count(tmp_path, analyze):
    ended = analyze(TableBuilder(tmp_path / "t", format_version=2).location)
    assert (ended.code, ended.out) == (0, "nothing to do: the table is empty\n")


def check_of_statistics(table: TableBuilder, prepared: Callable[[str, Env], Run]) -> dict[str, Any]:
    """What health says of a table's statistics."""
    ended = prepared("inspect", FixedEnv(NOW_MS))(table.location, "health", "--json")
    found: dict[str, Any] = result(ended)["statistics"]
    return found


def test_health_asks_for_statistics_that_are_out_of_date(table, analyze, prepared):
    assert check_of_statistics(table, prepared)["found"] == "no statistics"
    analyze(table.location, "--columns", "id,amount", "--only", "columns")
    check = check_of_statistics(table, prepared)
    assert (check["verdict"], check["column_count"], check["command"]) == ("ok", 2, None)
    table.follow()
    table.append(range(100, 110))
    check = check_of_statistics(table, prepared)
    assert (check["command"], check["options"]) == ("analyze", ["--refresh"])
    assert (check["stale_column_count"], check["partition_statistics_stale"]) == (2, False)
    assert check["read_bytes"] > 0
    assert analyze(table.location, "--refresh", "--check").code == 4
    assert counts(analyze(table.location, "--refresh", "--json")) == {"id": 50, "amount": 50}
    assert stored(table) == {1: 50, 3: 50}
    assert check_of_statistics(table, prepared)["verdict"] == "ok"
    assert analyze(table.location, "--refresh", "--check").code == 0
    assert not members(table).get("partition-statistics")


@pytest.mark.parametrize(
    ("summaries", "expected"),
    [
        ([("append", {"added-records": "30", "total-records": "130"})], 30 / 130),
        ([("replace", {"added-records": "100", "total-records": "100"})], 0.0),
        ([("delete", {"total-records": "100"})], 0.0),  # by position: no file went
        ([("overwrite", {})], 1.0),
        ([("overwrite", {"added-records": "500", "total-records": "100"})], 1.0),
    ],
)
def test_changed_rows_are_counted_by_summaries(tmp_path, summaries, expected):
    built = filled_table(tmp_path / "t", range(4))
    metadata = parse_metadata(read_metadata(current_metadata(Path(built.location))))
    base = metadata.current_snapshot
    assert base is not None
    chain = [base]
    for operation, summary in summaries:
        last = chain[-1]
        chain.append(
            replace(
                last,
                snapshot_id=last.snapshot_id + 1,
                parent_snapshot_id=last.snapshot_id,
                summary={"operation": operation, **summary},
            )
        )
    grown = replace(metadata, snapshots=tuple(chain))
    assert changed_ratio(grown, chain[-1], {base.snapshot_id}) == expected
    assert changed_ratio(grown, chain[-1], {1}) == 1.0


def nightly(
    table: TableBuilder, prepared: Callable[[str, Env], Run], policy: Path
) -> dict[str, str]:
    """The steps that a night of `maintain` does, each with how it ended."""
    policy.chmod(0o600)
    maintain = prepared("maintain", FixedEnv(NOW_MS))
    ended = maintain(table.location, "--policy", policy, "--yes", "--json", "-q")
    (entry,) = ended.document["result"]["tables"]
    return {step["step"]: step["status"] for step in entry["steps"]}


def test_no_expiry_takes_the_statistics_that_new_ones_build_on(table, analyze, prepared, tmp_path):
    """Though few rows are new: those of an expired snapshot go with it."""
    policy = tmp_path / "maintain.toml"
    policy.write_text(
        'steps = ["analyze", "expire-snapshots"]\nanalyze.stale-statistics = "50%"\n'
        'expire-snapshots.older-than = "1s"\n'
    )
    assert analyze(table.location, "--columns", "id", "--only", "columns").code == 0
    table.follow()
    table.append([500])
    assert nightly(table, prepared, policy) == {"analyze": "done", "expire-snapshots": "done"}
    assert stored(table) == {1: 41}
    (snapshot,) = members(table)["snapshots"]
    assert snapshot["snapshot-id"] == members(table)["current-snapshot-id"]


def test_damaged_statistics_are_computed_again_and_stop_no_other_step(
    table, analyze, prepared, tmp_path
):
    policy = tmp_path / "maintain.toml"
    policy.write_text(
        'steps = ["analyze", "expire-snapshots"]\nexpire-snapshots.older-than = "1s"\n'
    )
    assert analyze(table.location, "--columns", "id", "--only", "columns").code == 0
    table.follow()
    (entry,) = members(table)["statistics"]
    path = Path(entry["statistics-path"])
    path.write_bytes(path.read_bytes()[:-1])
    table.append([500])
    assert nightly(table, prepared, policy) == {"analyze": "done", "expire-snapshots": "done"}
    assert stored(table) == {1: 41}


def test_maintain_keeps_statistics_and_begins_them_by_policy(table, analyze, prepared, tmp_path):
    policy = tmp_path / "maintain.toml"
    maintain = prepared("maintain", FixedEnv(NOW_MS))

    def runs(text: str) -> list[str]:
        """The steps that a run does by a policy."""
        policy.write_text(f'steps = ["analyze"]\n[analyze]\n{text}\n')
        policy.chmod(0o600)
        ended = maintain(table.location, "--policy", policy, "--yes", "--json", "-q")
        assert ended.code == 0, ended.err
        (entry,) = ended.document["result"]["tables"]
        return [step["step"] for step in entry["steps"]]

    assert runs("") == []
    assert runs('columns = "*"\nonly = "columns"') == ["analyze"]
    assert stored(table) == distinct(table)
    table.follow()
    table.append([500])
    assert runs('stale-statistics = "10%"') == []
    assert runs("") == ["analyze"]
    assert stored(table) == distinct(table)
    assert runs("") == []
