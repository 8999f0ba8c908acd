"""DuckDB on tables that icectl has upgraded, or whose equality deletes it has converted."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, filled_table
from tests.catalogs.rest_servers import NAMESPACE, load, register
from tests.fault.changing import run

SCRIPT = Path(__file__).parents[1] / "peers" / "duckdb_statements.py"
PYTHON = os.environ.get("ICECTL_TEST_DUCKDB_PYTHON")

pytestmark = [
    pytest.mark.xdist_group("rest"),
    pytest.mark.skipif(
        PYTHON is None,
        reason=os.environ.get("ICECTL_TEST_NO_DUCKDB", "tests/run.sh sets up DuckDB"),
    ),
]


def told(*statements: str, catalog: str = "") -> list[Any]:
    """The rows of each statement; the error in the place of those, if there is one."""
    line = [str(PYTHON), str(SCRIPT), catalog, *statements]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return rows if not done.returncode else [*rows, done.stderr]


def read(directory: Path) -> Any:
    """The ids that DuckDB finds in a table, or its error."""
    (found,) = told(f"SELECT id FROM iceberg_scan('{current_metadata(directory)}') ORDER BY id")
    return [row[0] for row in found] if isinstance(found, list) else found


def changed(command: str, directory: Path, *options: str) -> None:
    code, document = run([command, str(directory), *options, "--yes", "--json"])
    assert (code, document["status"]) == (0, "done"), document


CONVERT = ("compact", "--deletes-only", "--engine", "local")
UPGRADE = ("upgrade-to-v3", "--convert-position-deletes")


@pytest.mark.parametrize("partitioning", ["none", "identity"])
@pytest.mark.parametrize(
    ("version", "commands"),
    [(2, [CONVERT]), (3, [CONVERT]), (2, [UPGRADE, CONVERT])],
    ids=["2", "3", "2 to 3"],
)
def test_it_reads_all_rows_once_deletes_are_converted(tmp_path, version, commands, partitioning):
    """Two dozen vectors lie in one file: it has to take the right one for each data file."""
    table = TableBuilder(tmp_path, format_version=version, partitioning=partitioning)
    table.append(range(96), files=12)
    table.delete_rows([1, 2, 13, 50])
    for keys in ([3, 4, 14, 90], [4, 20, 61], [5, 3, *range(6, 90, 7)]):
        table.delete_rows(keys, kind="equality")
        table.append(keys)
    for name, *options in commands:
        changed(name, tmp_path, *options)
    assert read(tmp_path) == sorted(table.ids())


def test_it_reads_a_table_that_was_of_version_1_once_manifests_are_rewritten(tmp_path):
    """docs/formats.md says so: it wants sequence numbers in manifests of version 1."""
    table = filled_table(tmp_path, range(12), format_version=1)
    changed("upgrade-to-v3", tmp_path)
    assert "required field 'sequence_number' is NULL" in read(tmp_path)
    changed("rewrite-manifests", tmp_path, "--rewrite-all")
    assert read(tmp_path) == sorted(table.ids())


@pytest.mark.parametrize("version", [1, 2])
def test_it_writes_on_where_version_3_has_given_row_ids(iceberg_rest, tmp_path, version):
    table = TableBuilder(tmp_path, format_version=version, partitioning="identity")
    table.append(range(24), files=4)
    changed("upgrade-to-v3", tmp_path)
    changed("rewrite-manifests", tmp_path, "--rewrite-all")
    name = f"duck_{version}_{tmp_path.name}"
    register(iceberg_rest, name, str(current_metadata(tmp_path)))
    place = f'r."{".".join(NAMESPACE)}"."{name}"'
    *_, found = told(
        f"INSERT INTO {place} (id, category) VALUES (100, 'c0'), (101, 'c1')",
        f"DELETE FROM {place} WHERE id IN (3, 4, 101)",
        f"SELECT id FROM {place} ORDER BY id",
        catalog=iceberg_rest,
    )
    left = sorted({*range(24), 100} - {3, 4})
    assert [row[0] for row in found] == left
    location = load(iceberg_rest, name)["metadata-location"].removeprefix("file://")
    assert sorted(dict(row)["id"] for row in read_rows(read_metadata(Path(location)))) == left
    code, checked = run(["validate", location, "--level", "data", "--json"])
    assert (code, checked["result"]["counts"]["error"]) == (0, 0), checked
