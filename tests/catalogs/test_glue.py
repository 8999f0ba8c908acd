"""AWS Glue, as far as it is unlike other catalogs: its entries, its refusals, who else writes."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.glue import Glue
from tests.builders.compactions import build
from tests.builders.rows import current_metadata, local, read_metadata, read_rows
from tests.catalogs.conftest import configure
from tests.catalogs.glue_servers import GlueServer, glue_server
from tests.catalogs.races import icectl
from tests.catalogs.server import NAME
from tests.fault.changing import run

COMPACT = ("--engine", "local", "--rewrite-all", "--json")
EXPIRE = ("--older-than", "0s", "--retain-last", "1", "--yes", "--json")


@pytest.fixture
def glue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GlueServer]:
    """A database with one table, `t`, in a catalog that is configured as NAME."""
    with glue_server(tmp_path) as server:
        configure(monkeypatch, tmp_path, server)
        directory = server.warehouse / "t"
        build(directory, 2, "identity")
        server.register("t", str(current_metadata(directory)))
        yield server


def on(server: GlueServer, command: str, *options: str, table: str = "t") -> tuple[int, Any]:
    """Run a command on a table: its exit code and its document."""
    return run([command, f"{NAME}.{server.namespace[0]}.{table}", *options])


def test_a_table_is_no_other_one_in_capital_letters(glue):
    """Glue has all names in lower case."""
    table = f"{NAME}.{glue.namespace[0].upper()}.T"
    code, document = run(["remove-orphans", table, "--yes", "--json"])
    assert code == 0, document


def rows(server: GlueServer) -> list[Any]:
    """The rows of the table's current snapshot, read without icectl."""
    found = read_rows(read_metadata(local(server.current("t"))))
    return sorted(tuple(item for item in row if not item[0].startswith("_")) for row in found)


def updates(server: GlueServer) -> list[Any]:
    """The requests to change the table that came in."""
    return [request for action, request in server.faults.asked if action == "UpdateTable"]


def test_a_commit_changes_the_pointer_alone(glue):
    before = glue.entry("t")
    code, document = on(glue, "compact", *COMPACT)
    assert code == 0, document
    after = glue.entry("t")
    [request] = updates(glue)
    assert (request["VersionId"], request["SkipArchive"]) == (before["VersionId"], True)
    assert after["Parameters"] == {
        "table_type": "ICEBERG",
        "metadata_location": document["table"]["metadata_location_after"],
        "previous_metadata_location": before["Parameters"]["metadata_location"],
        "of-another": "kept",
    }
    changing = {"Parameters", "VersionId", "UpdateTime"}
    assert {key: value for key, value in after.items() if key not in changing} == {
        key: value for key, value in before.items() if key not in changing
    }


def test_versions_are_archived_where_that_is_wanted(glue, monkeypatch):
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__GLUE__SKIP_ARCHIVE", "false")
    assert on(glue, "compact", *COMPACT)[0] == 0
    assert updates(glue)[0]["SkipArchive"] is False


def test_a_change_between_reading_and_updating_is_a_conflict(glue):
    """Glue tells it by the version: the tag of the other writer is in what is planned anew."""
    before = rows(glue)
    oldest = read_metadata(local(glue.current("t")))["snapshots"][0]["snapshot-id"]
    glue.faults.before["UpdateTable"] = lambda: glue.change("t", "keep", oldest)
    code, document = on(glue, "compact", *COMPACT)
    assert code == 0, document
    assert len(updates(glue)) == 3
    assert read_metadata(local(glue.current("t")))["refs"]["keep"]["snapshot-id"] == oldest
    assert rows(glue) == before


@pytest.mark.parametrize("how", ["500-there", "500-back", "page-back"])
def test_an_error_of_the_service_is_asked_about_again(glue, how):
    before = rows(glue)
    glue.faults.lose["UpdateTable"] = how
    code, document = on(glue, "expire-snapshots", *EXPIRE)
    assert code == 0, document
    assert document["result"]["deleted"]["manifest_lists"] > 0
    assert glue.current("t") == document["table"]["metadata_location_after"]
    assert rows(glue) == before
    assert len(updates(glue)) == 2


def test_being_too_busy_is_no_lost_answer(glue):
    def calm() -> None:
        if len(updates(glue)) == 3:
            glue.faults.refuse.clear()
        else:
            glue.faults.before["UpdateTable"] = calm

    glue.faults.refuse["UpdateTable"] = (400, "ThrottlingException", "Rate exceeded")
    glue.faults.before["UpdateTable"] = calm
    assert on(glue, "compact", *COMPACT)[0] == 0
    assert len(updates(glue)) == 3


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (
            (400, "AccessDeniedException", "Insufficient Lake Formation permission(s): Alter on t"),
            "AWS Lake Formation does not let icectl change",
        ),
        (
            (400, "AccessDeniedException", "User: x is not authorized to perform: glue:Up"),
            "(credentials from `glue.access-key-id` of catalog `main`)",
        ),
        (
            (400, "ExpiredTokenException", "The security token included in the request is expired"),
            "does not accept the credentials from `glue.access-key-id` of catalog `main`",
        ),
        (
            (400, "ResourceNumberLimitExceededException", "TABLE_VERSION exceeds the limit"),
            "AWS Glue's limit of table versions is reached",
        ),
    ],
)
def test_refusals_are_told_as_what_they_are(glue, refusal, words):
    location = glue.current("t")
    files = sorted(glue.warehouse.rglob("*.metadata.json"))
    glue.faults.refuse["UpdateTable"] = refusal
    code, document = on(glue, "expire-snapshots", *EXPIRE)
    assert code == 13, document
    assert words in document["error"]["message"]
    assert "very-secret" not in json.dumps(document)
    assert glue.current("t") == location
    assert sorted(glue.warehouse.rglob("*.metadata.json")) == files


@pytest.mark.parametrize("work", ["retention", "orphan_file_deletion"])
def test_what_glue_does_by_itself_is_refused(glue, work):
    glue.faults.optimizers = {work}
    for command, options in (("expire-snapshots", EXPIRE), ("remove-orphans", ("--yes", "--json"))):
        code, document = on(glue, command, *options)
        assert (code, document["error"]["id"]) == (5, "maintained-elsewhere"), document
        assert work.replace("_", " ") in document["error"]["message"]
    assert on(glue, "compact", *COMPACT)[0] == 0


def test_an_optimizer_that_compacts_deletes_nothing(glue):
    glue.faults.optimizers = {"compaction"}
    assert on(glue, "expire-snapshots", *EXPIRE)[0] == 0


def test_nobody_may_ask_for_optimizers(glue):
    denied = (400, "AccessDeniedException", "not authorized to perform: glue:GetTableOptimizer")
    glue.faults.refuse["BatchGetTableOptimizer"] = denied
    assert on(glue, "expire-snapshots", *EXPIRE)[0] == 0


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"TableType": "EXTERNAL_TABLE", "Parameters": {"classification": "csv"}}, "other format"),
        ({"TableType": "VIRTUAL_VIEW", "Parameters": {}}, "is a view"),
        (
            {
                "TargetTable": {"CatalogId": "123456789012", "DatabaseName": "d", "Name": "far"},
                "Parameters": {},
            },
            "is a link to `d.far` of account 123456789012",
        ),
        ({"Parameters": {"table_type": "ICEBERG"}}, "has no metadata file"),
    ],
)
def test_what_is_no_iceberg_table_is_told(glue, entry, words):
    table = {"Name": "odd", "StorageDescriptor": {}, **entry}
    glue.client.create_table(DatabaseName=glue.namespace[0], TableInput=table)
    code, document = on(glue, "inspect", "--json", table="odd")
    assert (code, document["error"]["id"]) == (10, "table-not-found"), document
    assert words in document["error"]["message"]


@pytest.mark.parametrize(
    ("action", "answer", "words"),
    [
        ("GetTable", {"Table": {"Name": "t", "DatabaseName": "d", "Parameters": [1]}}, ".d.t"),
        ("GetTable", {"Table": {"Name": "t", "DatabaseName": "d", "FederatedTable": 5}}, ".d.t"),
        ("GetTables", {"TableList": [{"Name": None}]}, ".d"),
        ("GetTables", {"TableList": True}, ".d"),
        ("GetDatabases", {"DatabaseList": ["d"]}, ""),
    ],
)
def test_answers_that_glue_never_gives_are_told(glue, monkeypatch, action, answer, words):
    monkeypatch.setattr(Glue, "send", lambda _, asked, *__: answer if asked == action else {})
    code, document = run(["inspect", f"{NAME}{words}", "--json"])
    assert (code, "is not AWS Glue" in document["error"]["message"]) == (13, True), document


def test_a_database_that_is_not_there_has_near_names(glue):
    code, document = run(["inspect", f"{NAME}.{glue.namespace[0]}x.t", "--json"])
    assert code == 10
    assert f"`{glue.namespace[0]}`" in document["error"]["hint"]
    code, document = run(["inspect", f"{NAME}.a.b.t", "--json"])
    assert (code, document["error"]["message"]) == (10, f"catalog `{NAME}` has no namespace `a.b`")


def test_lists_are_read_page_by_page(glue):
    glue.faults.page = 2
    for number in range(5):
        glue.register(f"more{number}", glue.current("t"))
    code, document = run(["inspect", f"{NAME}.{glue.namespace[0]}", "--json"])
    assert code == 0, document
    names = json.dumps(document["result"])
    assert all(f"more{number}" in names for number in range(5))
    asked = [request for action, request in glue.faults.asked if action == "GetTables"]
    assert [request.get("NextToken") for request in asked[:3]] == [None, "2", "4"]


def test_what_does_not_answer_is_unreachable(glue, monkeypatch, capsys):
    endpoint = f"PYICEBERG_CATALOG__{NAME.upper()}__GLUE__ENDPOINT"
    monkeypatch.setenv(endpoint, "http://127.0.0.1:1")
    code, document = on(glue, "inspect", "--json", "-vv")
    assert code == 13, document
    assert "cannot reach AWS Glue at http://127.0.0.1:1/" in document["error"]["message"]
    assert "very-secret" not in json.dumps(document) + capsys.readouterr().err


def test_another_service_is_not_taken_for_glue(glue, monkeypatch):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b"<html>not here</html>")

        def log_message(self, *args: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.05,))
        thread.start()
        endpoint = f"http://127.0.0.1:{other.server_address[1]}"
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__GLUE__ENDPOINT", endpoint)
        code, document = on(glue, "inspect", "--json")
        other.shutdown()
        thread.join()
    assert code == 13, document
    assert document["error"]["message"] == (
        f"the server at {endpoint}/ is not AWS Glue: HTTP status 404"
    )


def test_a_table_of_pyiceberg_is_maintained_and_read_back(glue, tmp_path):
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("other", **glue.properties)
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "note": ["x"] * 100})
    name = (*glue.namespace, "theirs")
    theirs = catalog.create_table(name, rows.schema, location=f"file://{tmp_path}/theirs")
    for start in range(0, 100, 20):
        theirs.append(rows.slice(start, 20))
    columns = glue.entry("theirs")["StorageDescriptor"]["Columns"]
    for command, options in (("compact", COMPACT), ("expire-snapshots", EXPIRE)):
        code, told = icectl(command, ".".join((NAME, *name)), *options[:-1])
        assert code == 0, told
    now = catalog.load_table(name)
    assert now.scan().to_arrow().sort_by("id") == rows
    assert len(now.metadata.snapshots) == 1
    assert glue.entry("theirs")["StorageDescriptor"]["Columns"] == columns
    now.append(rows.slice(0, 1))
    assert icectl("validate", ".".join((NAME, *name)))[0] == 0
