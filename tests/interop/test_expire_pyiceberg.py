"""Expiry of tables that PyIceberg wrote; PyIceberg reads them back, row by row."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType

from icectl.cli import app

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "kind", StringType(), required=False),
)
SPECS = {
    "unpartitioned": PartitionSpec(),
    "identity": PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind")),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def rows(first: int, last: int) -> pa.Table:
    numbers = list(range(first, last))
    schema = pa.schema([("id", pa.int32()), ("kind", pa.string())])
    return pa.table({"id": numbers, "kind": [f"k{n % 3}" for n in numbers]}, schema=schema)


def written(catalog: SqlCatalog, spec: PartitionSpec, version: int) -> Table:
    """Appends, rows deleted by rewriting files, an overwrite, a tag."""
    table = catalog.create_table(
        "db.t", SCHEMA, partition_spec=spec, properties={"format-version": str(version)}
    )
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v1").commit()
    table.delete(EqualTo("kind", "k1"))
    table.append(rows(20, 30))
    table.overwrite(rows(30, 36), EqualTo("id", 6))
    table.delete(EqualTo("id", 9))
    table.append(rows(40, 42))
    return table


def directory_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def as_file_system_table(table: Table) -> Path:
    """Give the metadata files the names that tables without a catalog have."""
    folder = directory_of(table) / "metadata"
    names = sorted(path.name for path in folder.glob("*.metadata.json"))
    renamed = {name: f"v{number}.metadata.json" for number, name in enumerate(names, 1)}
    for name, new in renamed.items():
        text = (folder / name).read_text()
        for old, current in renamed.items():
            text = text.replace(old, current)
        (folder / name).unlink()
        (folder / new).write_text(text)
    (folder / "version-hint.text").write_text(str(len(names)))
    return folder.parent


def scanned(metadata_file: Path) -> dict[int, list[dict[str, Any]]]:
    """The rows of every snapshot, as PyIceberg reads them."""
    table = StaticTable.from_metadata(str(metadata_file))
    return {
        snapshot.snapshot_id: sorted(
            table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist(),
            key=lambda row: (row["id"], row["kind"]),
        )
        for snapshot in table.metadata.snapshots
    }


def icectl(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code = app.main(["expire-snapshots", *arguments, "--older-than", "0s", "--yes", "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0, document["error"]
    return document


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_reads_the_same_rows_after_an_expiry(catalog, capsys, spec, version):
    directory = as_file_system_table(written(catalog, SPECS[spec], version))
    newest = max(
        directory.glob("metadata/v*.json"), key=lambda path: int(path.name[1:].split(".")[0])
    )
    before = scanned(newest)
    files = {path for path in directory.rglob("*") if path.is_file()}

    document = icectl(capsys, str(directory))
    found = document["result"]
    expired = {int(item["snapshot_id"]) for item in found["expired"]}
    after = scanned(Path(document["table"]["metadata_location_after"].removeprefix("file://")))
    assert len(before) >= 6
    assert len(after) == 2
    assert after == {id_: rows for id_, rows in before.items() if id_ not in expired}

    gone = files - set(directory.rglob("*"))
    assert {f"file://{path}" for path in gone} == {item["path"] for item in found["files"]}
    assert found["deleted"]["data_files"] >= 1
    assert found["deleted"]["manifests"] >= 1
    assert found["deleted"]["manifest_lists"] == len(expired)
    assert app.main(["expire-snapshots", str(directory), "--older-than", "0s", "--check"]) == 0


def test_what_is_left_is_what_pyiceberg_says_is_needed(catalog, capsys):
    directory = as_file_system_table(written(catalog, SPECS["identity"], 2))
    after = icectl(capsys, str(directory))["table"]["metadata_location_after"]
    table = StaticTable.from_metadata(after)
    needed = set(table.inspect.all_files()["file_path"].to_pylist())
    needed |= set(table.inspect.all_manifests()["path"].to_pylist())
    needed |= {snapshot.manifest_list for snapshot in table.metadata.snapshots}
    left = {f"file://{path}" for path in directory.rglob("*.avro")}
    left |= {f"file://{path}" for path in directory.rglob("*.parquet")}
    assert left == needed


def test_a_catalog_takes_the_metadata_file_that_icectl_wrote(catalog, capsys):
    table = written(catalog, SPECS["identity"], 2)
    directory = directory_of(table)
    current = table.metadata_location
    before = scanned(Path(current.removeprefix("file://")))
    files = {path for path in directory.rglob("*") if path.is_file()}

    document = icectl(capsys, str(directory), "--metadata-file", current.removeprefix("file://"))
    written_file = document["table"]["metadata_location_after"]
    assert {path for path in directory.rglob("*") if path.is_file()} - files == {
        Path(written_file.removeprefix("file://"))
    }
    assert files < set(directory.rglob("*"))
    catalog.drop_table("db.t")
    registered = catalog.register_table("db.t", written_file)
    assert list(registered.metadata.refs) == ["main", "v1"]
    assert registered.metadata.table_uuid == table.metadata.table_uuid
    after = scanned(Path(written_file.removeprefix("file://")))
    assert after == {id_: before[id_] for id_ in after}
    registered.append(rows(50, 51))
    assert len(registered.scan().to_arrow()) == len(after[table.current_snapshot().snapshot_id]) + 1
