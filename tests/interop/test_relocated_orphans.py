"""Tables by other writers, copied to a place of their own: only what nothing names is an orphan."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.folders import paths_of
from tests.builders.foreign_table import facts_of
from tests.builders.relocate import relocate
from tests.builders.respell import respell
from tests.builders.rows import listed_manifests, local, read_avro, read_metadata
from tests.interop.test_relocated_fixtures import BIG, OTHER, of_small_tables, rows_of

REFUSED = {
    "pg_lake/spark_generated_iceberg_test_2": 15,  # a manifest list was never published
    "impala/ice_puffin": 5,  # a metadata file lies elsewhere than in `metadata/`
    "trino/databricks143_uniform_iceberg_v2": 5,  # a Delta table shares the files
    "unitycatalog/marksheet_uniform": 5,
    "duckdb-iceberg/struct_filter_issue": 5,  # somebody has kept a copy of the metadata
}
ALL_AT_ONCE = ("--max-fraction", "1", "--yes", "--json")
STRAYS = {"data/lost.parquet", "metadata/lost-m0.avro", "data/.lost.parquet.crc", "lost.orc"}


def littered(fixtures_dir: Path, name: str, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of a table among files that it does not know, all old; and its metadata file."""
    table = tmp_path / "t"
    current = relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table)
    for stray in STRAYS:
        (table / stray).parent.mkdir(exist_ok=True)
        (table / stray).write_bytes(b"lost")
    make_old(table)
    return table, current


def make_old(table: Path) -> None:
    week_ago = time.time() - 7 * 86_400
    for path in paths_of(table):
        os.utime(path, (week_ago, week_ago))


def referenced(metadata: dict[str, Any]) -> set[Path]:
    """Every file that the metadata, a list or a manifest names, whatever its state."""
    found: set[str] = {entry["metadata-file"] for entry in metadata.get("metadata-log") or ()}
    for snapshot in metadata["snapshots"]:
        place = snapshot.get("manifest-list")
        found |= {place} if place else set()
        for manifest in listed_manifests(snapshot):
            found.add(manifest["manifest_path"])
            for entry in read_avro(manifest["manifest_path"]):
                found.add(entry["data_file"]["file_path"])
    for member in ("statistics", "partition-statistics"):
        found |= {item["statistics-path"] for item in metadata.get(member) or ()}
    return {local(place) for place in found}


def is_hidden(name: str) -> bool:
    """Whether a part of a path begins so that engines pass it over; a checksum is its file."""
    *folders, last = Path(name).parts
    if last.startswith(".") and last.endswith(".crc"):
        last = last[1:-4]
    return any(part.startswith(("_", ".")) for part in [*folders, last])


def checked_by(path: Path) -> Path:
    """The file that a checksum belongs to; any other file itself."""
    if path.name.startswith(".") and path.name.endswith(".crc"):
        return path.with_name(path.name[1:-4])
    return path


@pytest.mark.parametrize(
    "name", of_small_tables([name for name in OTHER if name not in REFUSED], 4)
)
def test_only_what_no_writer_has_named_is_an_orphan(fixtures_dir, tmp_path, capsys, name):
    table, current = littered(fixtures_dir, name, tmp_path)
    metadata, files = read_metadata(current), paths_of(table)
    kept = referenced(metadata) | {current}
    expected = {
        path
        for path in files
        if checked_by(path) not in kept and not is_hidden(str(path.relative_to(table)))
    }
    assert {table / stray for stray in STRAYS} <= expected
    every = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
    rows = rows_of(metadata, every)

    words = ["remove-orphans", str(table), *ALL_AT_ONCE]
    code = app.main(words)
    document = json.loads(capsys.readouterr().out)
    assert code == 0, document["error"]
    assert files - paths_of(table) == expected
    assert document["result"]["removed"] == len(expected)
    assert rows_of(read_metadata(current), every) == rows
    assert app.main([*words, "--check"]) == 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith("impala/iceberg_v") else pytest.mark.full)
        for name in OTHER
        if name not in REFUSED and not name.startswith(BIG)
    ],
)
def test_no_file_goes_however_the_table_spells_its_name(fixtures_dir, tmp_path, capsys, name):
    """Links, escapes, dots, mounts and gateways, another for each file."""
    table, current = littered(fixtures_dir, name, tmp_path)
    kept = referenced(read_metadata(current)) | {current}
    (tmp_path / "link").symlink_to(table, target_is_directory=True)
    respell(table, current, tmp_path / "link", seed=len(name))
    make_old(table)
    there = {path for path in paths_of(table) if path in kept}
    code = app.main(["remove-orphans", str(table), *ALL_AT_ONCE])
    document = json.loads(capsys.readouterr().out)
    assert code == 0, document["error"]
    assert there <= paths_of(table)
    assert not any((table / stray).exists() for stray in STRAYS)


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_read_completely_or_told_apart_is_left_as_it_is(
    fixtures_dir, tmp_path, name
):
    table, _ = littered(fixtures_dir, name, tmp_path)
    files = paths_of(table)
    assert app.main(["remove-orphans", str(table), *ALL_AT_ONCE]) == REFUSED[name]
    assert paths_of(table) == files
