"""What is particular to catalogs in databases."""

import json
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from icectl.catalog import sql
from icectl.catalog.configured import Configuration
from icectl.catalog.sql import database_of
from icectl.cli import app
from icectl.env import Deadline, SystemEnv
from icectl.errors import TableNotFound, UsageError
from tests.builders.compactions import build
from tests.builders.expiry import NOW_MS, Clock
from tests.builders.orphans import age, stray
from tests.builders.rows import current_metadata, local, read_metadata
from tests.catalogs.server import NAME
from tests.catalogs.sql_servers import SqlServer, free_port, sqlite_server
from tests.fault.changing import run

NEVER = Deadline(SystemEnv())
NAMESPACE = ("db", "inner")
TABLE = ".".join((NAME, *NAMESPACE, "t"))
REWRITE = ["rewrite-manifests", TABLE, "--min-manifests", "1", "--json"]
EXPIRE = ["expire-snapshots", TABLE, "--older-than", "0s", "--retain-last", "1", "--yes", "--json"]
ORPHANS = ["remove-orphans", TABLE, "--older-than", "2d", "--yes", "--json", "--max-fraction", "1"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    """A catalog in SQLite, configured as NAME, with a table `t`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    with sqlite_server(tmp_path) as started:
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__URI", started.properties["uri"])
        build(started.warehouse / "t", 2, "identity")
        started.register("t", str(current_metadata(started.warehouse / "t")))
        yield started


def row(server: SqlServer) -> tuple[str, str | None]:
    [found] = server.execute(
        "SELECT metadata_location, previous_metadata_location FROM iceberg_tables"
        " WHERE table_name = 't'"
    )
    return (found[0], found[1])


def set_members(server: SqlServer, **members: Any) -> None:
    path = local(server.current("t"))
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **members}))


def test_the_row_keeps_what_it_named_before(server):
    before = server.current("t")
    assert run(REWRITE)[0] == 0
    location, previous = row(server)
    assert previous == before
    number, _, uuid = Path(location).name.removesuffix(".metadata.json").partition("-")
    assert int(number) == int(Path(before).name.partition(".")[0].removeprefix("v")) + 1
    assert (len(number), len(uuid)) == (5, 36)


def test_the_older_schema_of_the_database_works_too(server):
    location = server.current("t")
    server.execute("DROP TABLE iceberg_tables")
    server.execute("DROP TABLE iceberg_namespace_properties")
    server.create(with_type=False)
    server.register("t", location)
    assert run(REWRITE)[0] == 0
    assert server.current("t") != location
    with closing(load_catalog(NAME, **server.properties)) as catalog:
        assert catalog.load_table((*NAMESPACE, "t")).metadata_location == server.current("t")


def test_a_location_as_java_spells_it_is_kept_as_it_is(server):
    path = server.current("t")
    server.execute("UPDATE iceberg_tables SET metadata_location = ?", f"file:{path}")
    set_members(server, location=f"file:{Path(path).parent.parent}")
    assert run(REWRITE)[0] == 0
    location, previous = row(server)
    assert previous == f"file:{path}"
    assert location.startswith(f"file:{Path(path).parent}/0")
    assert read_metadata(local(location))["metadata-log"][-1]["metadata-file"] == f"file:{path}"


def test_metadata_and_manifests_go_where_the_table_says(server, tmp_path):
    elsewhere = tmp_path / "meta" / "t"
    before = set((server.warehouse / "t" / "metadata").iterdir())
    set_members(server, properties={"write.metadata.path": f"{elsewhere}/"})
    elsewhere.mkdir(parents=True)  # as engines commit the property
    moved = shutil.copy(local(server.current("t")), elsewhere / "00077-a.metadata.json")
    server.execute("UPDATE iceberg_tables SET metadata_location = ?", str(moved))
    assert run(REWRITE)[0] == 0
    assert local(server.current("t")).parent == elsewhere
    assert {path.suffix for path in elsewhere.iterdir()} == {".json", ".avro"}
    assert set((server.warehouse / "t" / "metadata").iterdir()) == before
    assert run(["validate", TABLE, "--json"])[0] == 0


def test_metadata_is_compressed_where_the_table_says(server):
    set_members(server, properties={"write.metadata.compression-codec": "gzip"})
    assert run(REWRITE)[0] == 0
    path = local(server.current("t"))
    assert path.name.endswith(".gz.metadata.json")
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    with closing(load_catalog(NAME, **server.properties)) as catalog:
        found = catalog.load_table((*NAMESPACE, "t")).metadata
    assert found.current_snapshot_id == read_metadata(path)["current-snapshot-id"]


def test_metadata_files_that_leave_the_log_are_deleted_where_the_table_says(server):
    wanted = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    set_members(server, properties=wanted)
    assert run(REWRITE)[0] == 0
    first = local(server.current("t"))
    assert run(EXPIRE)[0] == 0
    assert first.exists()
    server.change("t", "keep", read_metadata(local(server.current("t")))["current-snapshot-id"])
    assert not first.exists()  # PyIceberg does so as well


@pytest.mark.parametrize("words", [REWRITE, EXPIRE, ORPHANS])
def test_a_copy_that_was_registered_is_not_changed(server, tmp_path, words):
    shutil.copytree(server.warehouse / "t", tmp_path / "copy")
    copied = tmp_path / "copy" / "metadata" / local(server.current("t")).name
    server.execute("UPDATE iceberg_tables SET metadata_location = ?", str(copied))
    before = sorted(server.warehouse.rglob("*"))
    code, document = run(words)
    assert (code, document["status"]) == (5, "refused")
    assert "it was copied or moved" in document["error"]["message"]
    assert sorted(server.warehouse.rglob("*")) == before


def test_a_view_is_no_table(server):
    server.execute("UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
    code, document = run(["inspect", TABLE, "--json"])
    assert (code, document["error"]["message"]) == (10, "`db.inner.t` in catalog `main` is a view")
    assert run(["inspect", "main", "--json"])[1]["result"]["rows"] == []


def test_a_metadata_file_that_is_gone_is_told_as_what_it_is(server):
    current = local(server.current("t"))
    current.unlink()
    code, document = run(["inspect", TABLE, "--json"])
    assert code == 15
    assert document["error"]["message"].startswith(
        f"the catalog says that {current} is the current"
    )


def test_files_that_may_be_taken_for_the_current_one_are_told_of(server):
    assert run(REWRITE)[0] == 0
    current = local(server.current("t"))
    number = int(current.name[:5])
    for name in (f"{number:05}-other.metadata.json", f"{number + 1:05}-newer.metadata.json"):
        (current.parent / name).write_bytes(current.read_bytes())
    for command in ("inspect", "validate"):
        code, document = run([command, TABLE, "--json"])
        assert code == 0
        newer, doubled = document["warnings"][:2]
        assert newer == (
            f"{number + 1:05}-newer.metadata.json in the metadata directory is newer than "
            f"{current.name}, which the catalog says is current: a commit is under way, or has "
            "failed, or another catalog has the table too"
        )
        assert doubled == (
            f"{number:05}-other.metadata.json and {current.name} in the metadata directory have "
            "the same version; the catalog says that the last is current"
        )


@pytest.mark.parametrize("place", ["", "/deeper", "/.."])
def test_orphans_are_not_looked_for_where_another_table_of_the_catalog_lies(
    server, tmp_path, place
):
    lost = stray(server.warehouse / "t" / "data", "lost.parquet", days=7)
    age(server.warehouse / "t", 5)
    other = tmp_path / "meta-of-u" / "v1.metadata.json"  # its metadata lie elsewhere
    other.parent.mkdir()
    members = json.loads(local(server.current("t")).read_bytes())
    other.write_text(json.dumps({**members, "location": f"{server.warehouse / 't'}{place}"}))
    server.register("u", str(other))
    code, document = run(ORPHANS)
    assert (code, document["error"]["id"]) == (5, "other-table")
    assert document["error"]["message"].startswith(
        "`main.db.inner.u`, another table of the catalog"
    )
    assert lost.exists()
    server.execute("DELETE FROM iceberg_tables WHERE table_name = 'u'")
    assert run(ORPHANS)[0] == 0
    assert not lost.exists()


def test_tables_of_a_catalog_a_namespace_and_a_folder_are_listed(server):
    server.register("broken", "/nowhere/metadata/v1.metadata.json")
    code, document = run(["inspect", "main", "--json"])
    assert (code, document["status"]) == (3, "incomplete")
    broken, good = document["result"]["rows"]
    assert broken["table"] == "main.db.inner.broken"
    assert broken["error"].startswith("the catalog says that /nowhere/metadata/v1.metadata.json")
    members = read_metadata(local(server.current("t")))
    [snapshot] = [
        each
        for each in members["snapshots"]
        if each["snapshot-id"] == members["current-snapshot-id"]
    ]
    counted = {key: int(value) for key, value in snapshot["summary"].items() if "total" in key}
    assert (good["table"], good["snapshot_count"], good["error"]) == (
        TABLE,
        len(members["snapshots"]),
        None,
    )
    if counted:
        assert good["file_bytes"] == counted.get("total-files-size")
    assert run(["inspect", "main.db", "--json"])[1]["result"]["rows"] == document["result"]["rows"]
    code, document = run(["inspect", str(server.warehouse), "--json"])
    assert code == 0
    assert [each["table"] for each in document["result"]["rows"]] == [f"{server.warehouse}/t"]
    assert run(["inspect", "main.db.none", "--json"])[0] == 10


def test_a_listing_tells_below_it_which_tables_cannot_be_read(server):
    server.register("broken", "/nowhere/metadata/v1.metadata.json")
    done = subprocess.run(
        [sys.executable, "-m", "icectl", "inspect", "main"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[-1] == "size"
    assert [row.split()[0] for row in rows] == ["main.db.inner.broken", TABLE]
    assert "warning: main.db.inner.broken: the catalog says that /nowhere/metadata" in done.stderr


def test_a_catalog_of_another_name_in_the_database_is_named(server):
    server.execute("UPDATE iceberg_tables SET catalog_name = 'Main'")
    code, document = run(["inspect", TABLE, "--json"])
    assert code == 10
    assert document["error"]["hint"] == (
        "it has tables of `Main`: name the catalog exactly so (case-sensitive)"
    )
    code, listed = run(["inspect", NAME, "--json"])
    assert (code, listed["error"]["id"]) == (10, document["error"]["id"])
    assert listed["error"]["hint"] == document["error"]["hint"]
    server.execute("DELETE FROM iceberg_tables")
    code, document = run(["inspect", NAME, "--json"])  # new: nobody's tables are in the database
    assert (code, document["result"]["rows"]) == (0, [])


def test_rows_written_by_both_are_read_back_by_both(server, tmp_path):
    words = ["compact", f"{NAME}.own.p", "--engine", "local", "--rewrite-all", "--json"]
    with closing(
        load_catalog(NAME, **server.properties, warehouse=f"file://{tmp_path}/w")
    ) as catalog:
        catalog.create_namespace("own")
        table = catalog.create_table("own.p", pa.schema([("a", pa.int64()), ("b", pa.string())]))
        for start in range(0, 30, 10):
            table.append(pa.table({"a": range(start, start + 10), "b": ["x"] * 10}))
        assert run(words)[0] == 0
        table = catalog.load_table("own.p")
        table.append(pa.table({"a": [30], "b": ["y"]}))
        assert run(words)[0] == 0
        found = catalog.load_table("own.p").scan().to_arrow()
    assert sorted(found["a"].to_pylist()) == list(range(31))
    assert run(["validate", f"{NAME}.own.p", "--level", "data", "--json"])[0] == 0


@pytest.mark.parametrize(
    ("uri", "family", "shown"),
    [
        ("sqlite:///relative/c.db", "sqlite", "relative/c.db"),
        ("sqlite:////abs/c.db", "sqlite", "/abs/c.db"),
        ("sqlite:////abs/c.db?timeout=3", "sqlite", "/abs/c.db"),
        ("jdbc:sqlite:/abs/c.db", "sqlite", "/abs/c.db"),
        ("jdbc:sqlite:file:/abs/c.db", "sqlite", "/abs/c.db"),
        ("postgresql+psycopg2://u:pw@h:1/d?x=y", "postgresql", "postgresql+psycopg2://u:***@h:1/d"),
        ("jdbc:postgresql://h/d?password=pw", "postgresql", "postgresql://h/d"),
        ("mysql+pymysql://u:pw@h/d", "mysql", "mysql+pymysql://u:***@h/d"),
        ("mariadb+pymysql://h/d", "mysql", "mariadb+pymysql://h/d"),
    ],
)
def test_databases_are_named_as_sqlalchemy_and_jdbc_name_them(uri, family, shown):
    database = database_of("c", Configuration({}).settings("c", {}, {"uri": uri}).properties, NEVER)
    assert (database.family, database.shown) == (family, shown)


def test_a_database_in_memory_holds_nothing_to_reach():
    with pytest.raises(UsageError, match="in memory"):
        database_of("c", {"uri": "sqlite://"}, NEVER)


@pytest.mark.parametrize("words", [["c"], ["c.n"], ["c.n.t"]])
@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("metadata_location", ("c", "n", "t", "/w/t/metadata/1.metadata.json")),
        ("metadata_location, previous_metadata_location", ("c", "n", 5, "/w", None)),
        ("metadata_location, previous_metadata_location", ("c", "n", "t", b"/w", None)),
        ("metadata_location, previous_metadata_location", ("c", "n", None, "/w", None)),
    ],
)
def test_rows_that_no_catalog_has_are_told(tmp_path, columns, row, words):
    """A column is missing, or a value is no text: another program's table, or one made by hand."""
    with closing(sqlite3.connect(tmp_path / "odd.db")) as connection:
        names = f"catalog_name, table_namespace, table_name, {columns}"
        connection.execute(f"CREATE TABLE iceberg_tables ({names})")
        marks = ",".join("?" * len(row))
        connection.execute(f"INSERT INTO iceberg_tables VALUES ({marks})", row)
        connection.commit()
    uri = f"uri=sqlite:///{tmp_path}/odd.db"
    code, document = run(["inspect", *words, "--catalog-option", uri, "--json"])
    assert (code, "`iceberg_tables` in the database" in document["error"]["message"]) == (13, True)


def test_a_database_that_is_not_there_is_not_made(tmp_path):
    database = database_of("c", {"uri": f"sqlite:///{tmp_path}/none.db"}, NEVER)
    with pytest.raises(TableNotFound, match="there is no SQLite database"):
        database.connect()
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "none.db").write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        database.connect().execute("SELECT 1 FROM iceberg_tables")


def test_a_server_that_does_not_answer_is_exit_13_without_its_password(monkeypatch, tmp_path):
    pytest.importorskip("psycopg")
    monkeypatch.setenv("HOME", str(tmp_path))
    uri = f"postgresql://joe:hush@127.0.0.1:{free_port()}/d"
    monkeypatch.setenv("PYICEBERG_CATALOG__DEAD__URI", uri)
    code, document = run(["inspect", "dead.db.t", "--json"])
    assert (code, document["error"]["id"]) == (13, "storage")
    assert document["error"]["message"].startswith(
        "cannot reach the database postgresql://joe:***@"
    )
    assert "hush" not in json.dumps(document)


def test_a_server_that_takes_the_connection_and_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setitem(sql._LOST, "mysql", {"read_timeout": 1, "write_timeout": 1})
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        uri = f"mysql+pymysql://me:hush@127.0.0.1:{silent.getsockname()[1]}/db"
        code, document = run(["inspect", "c.db.t", "--catalog-option", f"uri={uri}", "--json"])
    assert (code, "cannot reach the database" in document["error"]["message"]) == (13, True)
    assert "hush" not in json.dumps(document)


@pytest.mark.parametrize("family", ["postgresql", "mysql"])
def test_time_outs_of_a_server_are_those_that_the_time_limit_leaves(monkeypatch, family):
    statements: list[str] = []
    driver = SimpleNamespace(
        __name__="psycopg" if family == "postgresql" else "pymysql",
        Error=ValueError,
        connect=lambda **arguments: arguments,
    )
    monkeypatch.setattr(sql, "_driver", lambda *_: driver)
    cursor = SimpleNamespace(execute=statements.append)
    connection = SimpleNamespace(cursor=lambda: cursor)
    uri = f"{family}://h/d?user=own"

    def seconds(left: float | None) -> tuple[int, int | None]:
        env = SystemEnv()
        ends_at = None if left is None else env.monotonic_seconds() + left
        database = database_of("c", {"uri": uri}, Deadline(env, ends_at))
        found = database.connect()
        assert found["user"] == "own"
        assert database.cursor(connection) is cursor
        return found["connect_timeout"], found.get("read_timeout")

    of_mysql = family == "mysql"
    assert seconds(None) == (30, 120 if of_mysql else None)
    assert statements == []
    assert seconds(-5) == (1, 60 if of_mysql else None)
    assert seconds(90) == (30, 90 if of_mysql else None)
    assert [text.partition(" = ")[0] for text in statements] == (
        [] if of_mysql else ["SET LOCAL statement_timeout"] * 2
    )
    assert of_mysql or statements[0].endswith(" = 60000")


def test_a_driver_that_is_missing_names_what_to_install(monkeypatch):
    import sys

    for name in ("pymysql", "MySQLdb"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("PYICEBERG_CATALOG__DEAD__URI", "mysql://h/d")
    code, document = run(["inspect", "dead.db.t", "--json"])
    assert (code, document["error"]["hint"]) == (
        14,
        "`pip install 'icectl[sql]'`, in the environment of icectl, installs one",
    )


def test_a_database_without_the_tables_of_a_catalog_is_none(server):
    server.execute("DROP TABLE iceberg_tables")
    code, document = run(["inspect", TABLE, "--json"])
    assert code == 10
    assert "has no catalog: no such table: iceberg_tables" in document["error"]["message"]


def test_a_write_that_the_database_refuses_leaves_no_file(server):
    server.execute(
        "CREATE TRIGGER no BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ABORT, 'read only');"
        " END"
    )
    before = sorted((server.warehouse / "t").rglob("*"))
    code, document = run(REWRITE)
    assert code == 13
    assert document["error"]["message"].endswith("catalog.db: read only")
    assert sorted((server.warehouse / "t").rglob("*")) == before


def test_a_table_is_repaired_by_its_name(server):
    members = json.loads(local(server.current("t")).read_bytes())
    [newest] = [
        each
        for each in members["snapshots"]
        if each["snapshot-id"] == members["current-snapshot-id"]
    ]
    local(newest["manifest-list"]).unlink()
    words = ["repair", TABLE, "--to-snapshot", str(newest["parent-snapshot-id"]), "--json"]
    location = server.current("t")
    assert run([*words, "--dry-run"])[0] == 0
    assert server.current("t") == location
    code, document = run([*words, "--yes"])
    assert code == 0, document
    assert document["table"]["metadata_location_after"] == server.current("t") != location
    assert run(["validate", TABLE, "--json"])[0] == 0


def test_hints_lead_out_of_a_broken_table_by_its_name(server):
    assert run(REWRITE)[0] == 0
    current = local(server.current("t"))
    current.write_text("{")
    code, document = run(["compact", TABLE, "--engine", "local", "--json"])
    assert code == 15
    before = current.parent.glob("v*.metadata.json")
    whole = max(before, key=lambda path: int(path.name[1:].partition(".")[0]))
    assert document["error"]["hint"] == (
        f"the newest complete metadata file before {current.name} is `{whole}`: point the "
        f"catalog at it, or restore {current.name} from a copy"
    )


def test_a_given_metadata_file_tells_how_catalogs_are_pointed_at_the_next(server, capsys):
    assert run(REWRITE)[0] == 0
    location = local(server.current("t"))
    words = ["rewrite-manifests", str(server.warehouse / "t"), "--min-manifests", "1"]
    code, document = run([*words, "--json"])
    assert code == 5
    assert "CATALOG.NAMESPACE.TABLE" in document["error"]["hint"]
    expire = ["expire-snapshots", str(server.warehouse / "t"), "--older-than", "0s", "--yes"]
    app.main([*expire, "--retain-last", "1", "--metadata-file", str(location)], env=Clock(NOW_MS))
    out = capsys.readouterr().out
    assert "new metadata file: " in out
    for kind in ("PyIceberg", "Spark", "REST", "SQL", "Hive", "Glue"):
        assert f"\n  {kind} " in out
