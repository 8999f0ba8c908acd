"""Names of tables in catalogs, and what tells them from locations."""

from pathlib import Path

import pytest

from icectl.catalog.identifier import TableName, dotted_name, parse_name
from icectl.cli import app
from icectl.errors import UsageError
from tests.builders.table_builder import TableBuilder, filled_table
from tests.catalogs.sql_servers import sqlite_server
from tests.fault.changing import run


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("c.ns.t", ("c", "ns", "t")), ("c.a.b.c.t", ("c", "a", "b", "c", "t")),
        ('c."a.b".t', ("c", "a.b", "t")), ("c.`a.b`.t", ("c", "a.b", "t")),
        ('"c.d"."e ""f"""', ("c.d", 'e "f"')), ("`a``b`.t", ("a`b", "t")), ("c", ("c",)),
        ("c.größe.t", ("c", "größe", "t")),
    ],
)  # fmt: skip
def test_a_name_is_split_at_dots_outside_of_quotes(text, parts):
    assert parse_name(text) == parts
    assert parse_name(dotted_name(parts)) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', 'a"b"', '"a"b.c', '"".t', "`"])
def test_what_is_no_name_is_refused(text):
    with pytest.raises(UsageError, match="is not a table name"):
        parse_name(text)


def test_a_name_is_printed_with_the_quotes_it_needs():
    assert str(TableName(("a.b", 'q"'), "t u")) == '"a.b"."q"""."t u"'


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a SQLite catalog `main`, in which `db.inner.t` is a table."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    filled_table(tmp_path / "warehouse" / "t", range(3))
    with sqlite_server(tmp_path) as server:
        monkeypatch.setenv("PYICEBERG_CATALOG__MAIN__URI", server.properties["uri"])
        [current] = sorted((tmp_path / "warehouse" / "t" / "metadata").glob("v*.json"))[-1:]
        server.register("t", str(current))
    return tmp_path


def test_a_name_a_name_with_its_catalog_and_a_location_are_one_table(catalog):
    uuids = {
        run(["inspect", *words, "--json"])[1]["table"]["uuid"]
        for words in (
            ["main.db.inner.t"],
            ["db.inner.t", "--catalog", "main"],
            ['main."db".`inner`.t'],
            ["./warehouse/t"],
        )
    }
    assert len(uuids) == 1


def test_the_summary_of_a_table_in_a_catalog_begins_with_its_name(catalog, capsys):
    shown = {}
    for words in (["main.db.inner.t"], ["db.inner.t", "--catalog", "main"], ["./warehouse/t"]):
        app.main(["inspect", *words])
        shown[words[0]] = [line.split() for line in capsys.readouterr().out.splitlines()[:2]]
    place = str(catalog / "warehouse" / "t")
    by_name = [["table", "main.db.inner.t"], ["location", place]]
    assert shown["main.db.inner.t"] == shown["db.inner.t"] == by_name
    assert shown["./warehouse/t"][0] == ["table", place]


def test_an_existing_path_is_a_location_unless_a_catalog_has_its_name(catalog):
    TableBuilder(catalog / "other.db.t").append(range(3))
    assert run(["inspect", "other.db.t", "--json"])[0] == 0
    (catalog / "main.db.inner.t").mkdir()
    code, document = run(["inspect", "main.db.inner.t", "--json"])
    assert (code, document["error"]["message"], document["error"]["hint"]) == (
        2,
        "`main.db.inner.t` is both a path and a name in catalog `main`",
        "`./main.db.inner.t` means the path, `--catalog main db.inner.t` the name",
    )
    code, document = run(["inspect", "./main.db.inner.t", "--json"])
    assert (code, document["error"]["id"]) == (10, "table-not-found")
    (catalog / "main").mkdir()
    code, document = run(["inspect", "main", "--json"])
    assert (code, document["error"]["hint"]) == (
        2,
        "`./main` means the path, `'\"main\"'` the catalog",
    )
    code, document = run(["inspect", '"main"', "--json"])
    assert (code, [row["table"] for row in document["result"]["rows"]]) == (0, ["main.db.inner.t"])


def test_a_folder_named_like_a_catalog_hides_none_of_it(catalog):
    (catalog / "main").mkdir()
    for words in (["--catalog", "main"], ["--catalog=main"], ['"main"']):
        code, document = run(["inspect", *words, "--json"])
        assert (code, document["result"]["view"]) == (0, "tables")
        assert [row["table"] for row in document["result"]["rows"]] == ["main.db.inner.t"]
    for words in (["health", "--catalog", "main"], ["--catalog", "main", "health"]):
        code, document = run(["inspect", *words, "--json"])
        assert (code, [one["table"] for one in document["result"]["tables"]]) == (
            0,
            ["main.db.inner.t"],
        )
    hints = {
        tuple(words): run([*words, "--json"])[1]["error"]["hint"]
        for words in (
            ["compact", '"main"'],
            ["inspect", "./main"],
            ["inspect", "--catalog", "mian"],
        )
    }
    assert hints == {
        ("compact", '"main"'): "`icectl inspect '\"main\"'` lists its tables; "
        "'main.**' means all tables in it",
        ("inspect", "./main"): "a table directory contains metadata/*.metadata.json; if "
        "write.metadata.path puts the metadata elsewhere, name one metadata file",
        ("inspect", "--catalog", "mian"): "did you mean `main`? configured catalogs: `main`",
    }
    assert run(["inspect", "--json"])[1]["error"]["message"] == "`TABLE` is missing"


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (
            ["validate", "mian.db.inner.t"],
            10,
            "there is no catalog `mian`",
            "did you mean `main`? configured catalogs: `main`",
        ),
        (
            ["validate", "db.inner.t"],
            10,
            "there is no catalog `db`",
            "did you mean `main.db.inner.t`? configured catalogs: `main`",
        ),
        (
            ["validate", "--catalog", "main", "main.db.inner.t"],
            10,
            "catalog `main` has no namespace `main.db.inner`",
            "the catalog is named twice: leave out `main.`; it has `db.inner`",
        ),
        (
            ["validate", "main.db.iner.t"],
            10,
            "catalog `main` has no namespace `db.iner`",
            "it has `db.inner`",
        ),
        (
            ["validate", "main.db.inner.tt"],
            10,
            "catalog `main` has no table `db.inner.tt`",
            "did you mean `main.db.inner.t`?",
        ),
        (
            ["validate", "main.db.inner.other"],
            10,
            "catalog `main` has no table `db.inner.other`",
            "`icectl inspect main.db.inner` lists its tables",
        ),
        (
            ["inspect", "main.*.t", "files"],
            2,
            "the view `files` shows one table, and `main.*.t` is a pattern",
            "`icectl inspect 'main.*.t' health` is the only view for patterns",
        ),
        (
            ["maintain", "main.db.inner.x*", "--dry-run"],
            10,
            "there is no table at `main.db.inner.x*`",
            "`icectl inspect main.db.inner` lists the tables",
        ),
        (
            ["validate", "main"],
            2,
            "`main` names a catalog; a table is CATALOG.NAMESPACE.TABLE",
            "`icectl inspect main` lists its tables; 'main.**' means all tables in it",
        ),
        (
            ["compact", "main.db", "--dry-run"],
            2,
            "`main.db` names a namespace; a table is CATALOG.NAMESPACE.TABLE",
            ("`icectl inspect main.db` lists its tables; 'main.db.**' means all tables in it"),
        ),
        (
            ["compact", "main.db.inner.t", "--metadata-file", "x", "--engine", "local"],
            2,
            "`main.db.inner.t` is a name in catalog `main`, which knows the current metadata file",
            "leave `--metadata-file` out, or name the table by its location",
        ),
        (
            ["validate", "./warehouse/t", "--catalog-option", "a=b"],
            2,
            "`--catalog-option` needs a catalog, and `./warehouse/t` is a location",
            None,
        ),
    ],
)
def test_a_name_that_leads_nowhere_says_what_is_near(catalog, words, code, message, hint):
    ended, document = run([*words, "--json"])
    error = document["error"]
    assert (ended, error["message"], error["hint"]) == (code, message, hint)


def test_a_folder_in_a_table_leads_to_the_table(catalog):
    ended, document = run(["maintain", "./warehouse/t/data", "--dry-run", "--json"])
    assert (ended, document["error"]["hint"]) == (10, f"name {Path('warehouse/t').absolute()}")
