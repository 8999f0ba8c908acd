"""compact beside Iceberg's Spark, which deletes, updates and merges rows of the table meanwhile."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from tests.catalogs.rest_servers import iceberg_server, missing
from tests.spark.conftest import icectl, peer
from tests.spark.engine import NO_DRIVER, skip_without_spark, sqlite_driver

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TABLES = ("v2_merge", "v2_rewrite", "v3_merge", "v3_rewrite")
MOST_TRIES = 2


@pytest.fixture
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str | None]]:
    """What the peer is told of the catalog, and its URI; none of a folder."""
    skip_without_spark()
    match request.param:
        case "folder":
            yield "folder", None
        case "rest":
            if reason := missing():
                pytest.skip(reason)
            with iceberg_server(tmp_path) as uri:
                yield f"rest {uri}", uri
        case schema:
            if sqlite_driver() is None:
                pytest.skip(NO_DRIVER)
            database = tmp_path / "c.db"
            yield f"jdbc {database} {schema}", f"sqlite:///{database}"
            assert has_types(database) == (schema == "V1")


@pytest.mark.parametrize(
    ("catalog", "runs", "tables"),
    [
        pytest.param("folder", 1, ["v3_merge"], id="once"),
        pytest.param("rest", 1, ["v3_merge"], id="rest-once"),
        pytest.param("folder", 20, TABLES, marks=pytest.mark.full, id="often"),
        pytest.param("rest", 8, TABLES, marks=pytest.mark.full, id="rest-often"),
        pytest.param("V0", 5, TABLES[::2], marks=pytest.mark.full, id="sqlite-V0-often"),
        pytest.param("V1", 8, TABLES, marks=pytest.mark.full, id="sqlite-V1-often"),
    ],
    indirect=["catalog"],
)
def test_every_compaction_lands_and_spark_reads_all_rows_with_their_ids(
    catalog, tmp_path, runs, tables
):
    told_of, uri = catalog
    printed = peer(told_of, str(tmp_path), str(runs), *tables, script="spark_writer").splitlines()
    lines = [json.loads(line) for line in printed if line.startswith("{")]
    assert [line["table"] for line in lines] == list(tables)
    for told in lines:
        assert [run["code"] for run in told["ended"]] == [0] * runs
        assert max(run["tries"] for run in told["ended"]) <= MOST_TRIES
        assert told["ended"][0]["carried"] > 0
        assert told["rows"] == told["expected"]
        name = told["table"]
        if name.startswith("v3"):
            assert told["other_row_ids"] == []
            assert told["distinct_row_ids"] == len(told["rows"])
        if uri is None:
            words = [str(tmp_path / "db" / name)]
        else:
            words = [f"own.db.{name}", "--catalog-option", f"uri={uri}"]
            assert read_by_pyiceberg(uri, name) == told["expected"]
        found = icectl("validate", *words, "--level", "data")
        assert (found.exit_code, found.document["result"]["findings"]) == (0, [])


def has_types(database: Path) -> bool:
    """Whether a catalog's tables tell tables from views, as in the newer schema."""
    with closing(sqlite3.connect(database)) as connection:
        columns = connection.execute("SELECT name FROM pragma_table_info('iceberg_tables')")
        return ("iceberg_type",) in columns.fetchall()


def read_by_pyiceberg(uri: str, table: str) -> dict[str, int]:
    """The values of the rows by their ids, which are texts as in JSON."""
    with closing(load_catalog("own", uri=uri)) as catalog:
        rows = catalog.load_table(f"db.{table}").scan().to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {str(row["id"]): row["value"] for row in rows}
