"""PyIceberg goes on writing to tables that icectl has compacted, migrated or had manifests anew."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, In
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder
from tests.fault.changing import run

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "category", StringType(), required=False),
)
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "category"))
COMPACT = ("compact", "--engine", "local", "--min-input-files", "2")
BY_ACTION: dict[str, list[list[str]]] = {
    "rewrite": [["rewrite-manifests"]],
    "migrate": [["migrate-v1-v2"]],
    "migrate and rewrite": [["migrate-v1-v2", "--rewrite-manifests"]],
    "migrate, then rewrite": [["migrate-v1-v2"], ["rewrite-manifests"]],
    "upgrade": [["upgrade-to-v3"]],
    "upgrade and convert": [["upgrade-to-v3", "--convert-position-deletes"]],
    "compact": [[*COMPACT]],
    "merge": [[*COMPACT, "--method", "merge"]],
    "sort": [[*COMPACT, "--sort-order", "id desc"]],
    "merge deletes of": [["compact", "--deletes-only", "--rewrite-all"]],
}


def maintained(words: list[str], table: str, *options: str) -> dict[str, Any]:
    """Run a command that has to have work, and return its document."""
    code, document = run([words[0], table, *words[1:], *options, "--yes", "--json"])
    assert (code, document["status"]) == (0, "done"), document
    return document


def of_the_builder(catalog: SqlCatalog, directory: Path, version: int, action: str) -> Table:
    """A file-system table, of version 2 with position deletes, that is registered afterwards."""
    table = TableBuilder(directory / "t", format_version=version, partitioning="identity")
    for start in range(0, 18, 6):
        table.append(range(start, start + 6))
    if version == 2:
        table.delete_rows([2, 9])
        table.delete_rows([15])
    for words in BY_ACTION[action]:
        maintained(words, table.location)
    return catalog.register_table("db.t", str(current_metadata(table.directory)))


def of_pyiceberg(catalog: SqlCatalog, _: Path, version: int, action: str) -> Table:
    """A table of a catalog, whose next metadata files icectl writes; each is registered."""
    properties = {"format-version": str(version)}
    table = catalog.create_table("db.t", SCHEMA, partition_spec=SPEC, properties=properties)
    for start in range(0, 18, 6):
        table.append(rows_for(table, range(start, start + 6)))
    if version == 2:
        table.delete(In("id", [2, 9, 15]))
    for words in BY_ACTION[action]:
        location = table.metadata_location.removeprefix("file://")
        directory = table.location().removeprefix("file://")
        done = maintained(words, directory, "--metadata-file", location)
        catalog.drop_table("db.t")
        table = catalog.register_table("db.t", done["table"]["metadata_location_after"])
    return table


MAKERS: dict[str, Callable[[SqlCatalog, Path, int, str], Table]] = {
    "a file-system table": of_the_builder,
    "a table of a catalog": of_pyiceberg,
}


def rows_for(table: Table, ids: range) -> pa.Table:
    """Rows with the table's columns; those beside id and category are null."""
    schema = table.schema().as_arrow()
    return pa.Table.from_pylist([{"id": n, "category": f"c{n % 3}"} for n in ids], schema=schema)


def shown(table: Table, snapshot_id: int | None = None) -> list[tuple[int, str]]:
    found = table.scan(snapshot_id=snapshot_id).to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["category"].to_pylist(), strict=True))


def expected(ids: set[int]) -> list[tuple[int, str]]:
    return [(n, f"c{n % 3}") for n in sorted(ids)]


CASES = [
    pytest.param(maker, version, action, id=f"{action} {maker} of version {version}")
    for maker in MAKERS
    for version, actions in (
        (
            1,
            [
                "rewrite",
                "migrate",
                "migrate and rewrite",
                "migrate, then rewrite",
                "compact",
                "merge",
            ],
        ),
        (2, ["rewrite", "compact", "sort", "merge deletes of"]),
    )
    for action in actions
    # Two commits, where `--metadata-file` allows for one; and PyIceberg writes no deletes.
    if (maker, action)
    not in [
        ("a table of a catalog", "migrate and rewrite"),
        ("a table of a catalog", "merge deletes of"),
    ]
]


@pytest.mark.parametrize(("maker", "version", "action"), CASES)
def test_pyiceberg_appends_and_deletes_afterwards(tmp_path, catalog, maker, version, action):
    table = MAKERS[maker](catalog, tmp_path, version, action)
    ids = set(range(18)) - ({2, 9, 15} if version == 2 else set())
    assert table.metadata.format_version == (2 if action.startswith("migrate") else version)
    assert shown(table) == expected(ids)
    maintained_at = table.current_snapshot().snapshot_id
    first = table.metadata.snapshots[0].snapshot_id

    table.append(rows_for(table, range(100, 106)))
    ids |= set(range(100, 106))
    assert shown(table) == expected(ids)
    table.delete(EqualTo("category", "c1"))  # whole files: entries of our manifests are dropped
    ids = {n for n in ids if n % 3 != 1}
    assert shown(table) == expected(ids)
    table.delete(In("id", [3, 101, 102]))  # rows: files are rewritten
    ids -= {3, 101, 102}
    assert shown(table) == expected(ids)

    before = set(range(18)) - ({2, 9, 15} if version == 2 else set())
    assert shown(table, maintained_at) == expected(before)
    assert shown(table, first) == expected(set(range(6)))
    newest = table.metadata_location.removeprefix("file://")
    code, checked = run(["validate", newest, "--level", "data", "--all-snapshots", "--json"])
    found = [one for one in checked["result"]["findings"] if one["severity"] == "error"]
    assert (code, found) == (0, [])


@pytest.mark.parametrize("action", ["upgrade", "upgrade and convert"])
def test_pyiceberg_reads_what_became_version_3_and_refuses_to_write_it(tmp_path, catalog, action):
    """docs/formats.md says so of version 0.12."""
    table = of_the_builder(catalog, tmp_path, 2, action)
    ids = set(range(18)) - {2, 9, 15}
    assert (table.metadata.format_version, shown(table)) == (3, expected(ids))
    assert shown(table, table.metadata.snapshots[0].snapshot_id) == expected(set(range(6)))
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        table.append(rows_for(table, range(100, 106)))
