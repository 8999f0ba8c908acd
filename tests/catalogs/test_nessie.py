"""Tables of Nessie, which keeps every table's history in commits of its own."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from icectl.catalog.protocol import Committed, Conflict, Unknown
from tests.catalogs.nessie_servers import Nessie, missing, nessie_server, passed_on
from tests.catalogs.races import race_in
from tests.catalogs.rest_servers import PythonServer, Reply, Seen
from tests.catalogs.server import NAME, meanwhile
from tests.fault.changing import run

pytestmark = pytest.mark.xdist_group("nessie")
TABLE = f"{NAME}.db.t"
COMPACT = ["compact", TABLE, "--engine", "local", "--rewrite-all", "--json"]
REWRITE = ["rewrite-manifests", TABLE, "--min-manifests", "1", "--json"]
EXPIRE = ["expire-snapshots", TABLE, "--older-than", "0s", "--retain-last", "1", "--yes", "--json"]
ORPHANS = ["remove-orphans", TABLE, "--yes", "--json"]


@pytest.fixture(scope="module")
def nessie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nessie]:
    """One server for all tests here."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with nessie_server(tmp_path_factory.mktemp("nessie")) as started:
        yield started


@pytest.fixture
def proxy(
    nessie: Nessie, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PythonServer]:
    """What stands between icectl and Nessie."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    with nessie.behind_proxy() as started:
        configure(monkeypatch, f"{started.uri}/iceberg", nessie)
        yield started


def configure(monkeypatch: pytest.MonkeyPatch, uri: str, nessie: Nessie) -> None:
    for key, value in {"type": "rest", "uri": uri, **nessie.storage}.items():
        variable = key.upper().replace(".", "__").replace("-", "_")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{NAME.upper()}__{variable}", value)


@pytest.fixture
def catalog(nessie: Nessie, proxy: PythonServer) -> Iterator[Catalog]:
    """PyIceberg's view of Nessie's main branch, in which `db.t` has five small files."""
    with closing(of_pyiceberg(nessie, nessie.uri)) as opened:
        opened.create_namespace_if_not_exists("db")
        table = opened.create_table("db.t", pa.schema([("id", pa.int64())]))
        for number in range(5):
            table.append(pa.table({"id": [number]}))
        yield opened
        opened.drop_table("db.t")


def of_pyiceberg(nessie: Nessie, uri: str) -> Catalog:
    return load_catalog("other", type="rest", uri=uri, **nessie.storage)


def append(catalog: Catalog, number: int) -> None:
    catalog.load_table("db.t").append(pa.table({"id": [number]}))


def ids(catalog: Catalog) -> list[int]:
    found: list[int] = catalog.load_table("db.t").scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def data_files(catalog: Catalog) -> int:
    return len(catalog.load_table("db.t").inspect.files())


def test_rows_stay_with_every_command_that_may_change_a_table(catalog):
    for words in (REWRITE, COMPACT):
        code, document = run(words)
        assert (code, document["warnings"]) == (0, []), document
        assert ids(catalog) == [0, 1, 2, 3, 4]
        code, document = run(["validate", TABLE, "--level", "data", "--json"])
        assert (code, document["result"]["counts"]["error"]) == (0, 0), document
        assert document["warnings"] == []
    assert data_files(catalog) == 1
    code, document = run(["upgrade-to-v4", "--layout=sfc-1", TABLE, "--yes", "--json"])
    assert (code, document["error"]["id"]) == (14, "unsupported")


@pytest.mark.parametrize("words", [EXPIRE, ORPHANS], ids=lambda words: words[0])
def test_what_nessie_keeps_to_itself_is_refused(catalog, words):
    code, document = run(words)
    assert (code, document["error"]["id"]) == (5, "maintained-elsewhere")
    assert "`nessie-gc`" in document["error"]["hint"]
    assert ids(catalog) == [0, 1, 2, 3, 4]


def test_a_row_that_is_appended_meanwhile_is_kept(catalog):
    with meanwhile(lambda: append(catalog, 5)) as outcomes:
        code, document = run(COMPACT)
    assert code == 0, document
    assert [type(outcome) for outcome in outcomes] == [Conflict, Committed]
    assert ids(catalog) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("landed", [True, False])
def test_a_lost_answer_is_found_out(catalog, nessie, proxy, landed):
    proxy.answering = losing(nessie, lambda seen: passed_on(nessie, seen) if landed else None)
    with meanwhile() as outcomes:
        code, document = run(COMPACT)
    assert code == 0, document
    assert [type(outcome) for outcome in outcomes] == [Committed]
    assert (ids(catalog), data_files(catalog)) == ([0, 1, 2, 3, 4], 1)


def test_a_lost_answer_before_what_hides_the_commit_is_unknown_and_loses_nothing(
    catalog, nessie, proxy
):
    """Nessie shows the newest snapshot alone: that of the commit is no more to be seen."""

    def commit_and_append(seen: Seen) -> None:
        passed_on(nessie, seen)
        append(catalog, 5)

    proxy.answering = losing(nessie, commit_and_append)
    code, document = run(COMPACT)
    assert (code, document["error"]["id"]) == (12, "commit-unknown"), document
    assert (ids(catalog), data_files(catalog)) == ([0, 1, 2, 3, 4, 5], 2)


def test_a_server_that_dies_leaves_all_as_it_was(catalog, nessie, proxy):
    dead: list[bool] = []

    def answering(seen: Seen) -> Reply:
        if is_commit(seen):
            dead.append(True)
        return Reply(breaks=True) if dead else passed_on(nessie, seen)

    proxy.answering = answering
    with meanwhile() as outcomes:
        assert run(COMPACT)[0] == 12
    assert [type(outcome) for outcome in outcomes] == [Unknown]
    assert ids(catalog) == [0, 1, 2, 3, 4]
    proxy.answering = partial(passed_on, nessie)
    assert run(COMPACT)[0] == 0


def is_commit(seen: Seen) -> bool:
    return seen.method == "POST" and seen.path.endswith("/tables/t")


def losing(nessie: Nessie, act: Callable[[Seen], object]) -> Callable[[Seen], Reply]:
    """A proxy that gives no answer to the first commit, with which something is done."""
    done: list[object] = []

    def answering(seen: Seen) -> Reply:
        if not is_commit(seen) or done:
            return passed_on(nessie, seen)
        done.append(True)
        act(seen)
        return Reply(breaks=True)

    return answering


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (f"{NAME}.db.tt", f"catalog `{NAME}` has no table `db.tt`", f"`{NAME}.db.t`"),
        (f"{NAME}.dbx.t", f"catalog `{NAME}` has no table `dbx.t`", ""),
        (f"{NAME}.dbx", f"catalog `{NAME}` has no namespace `dbx`", "it has `db`"),
    ],
)
@pytest.mark.usefixtures("catalog")
def test_names_that_are_not_there(name, message, hint):
    """Nessie lists nothing in namespaces that do not exist, where others say so."""
    code, document = run(["inspect", name, "--json"])
    assert code == 10, document
    assert document["error"]["message"].startswith(message)
    assert hint in document["error"]["hint"]


@pytest.mark.usefixtures("catalog")
def test_tables_are_listed():
    code, document = run(["inspect", NAME, "--json"])
    assert code == 0, document
    [row] = document["result"]["rows"]
    assert (row["table"], row["snapshot_count"], row["file_count"]) == (TABLE, 1, 5)


def test_a_branch_is_changed_alone(catalog, nessie, monkeypatch):
    nessie.branch("work")
    configure(monkeypatch, f"{nessie.uri}/work", nessie)
    code, document = run(COMPACT)
    assert code == 0, document
    assert data_files(catalog) == 5
    with closing(of_pyiceberg(nessie, f"{nessie.uri}/work")) as work:
        assert (ids(work), data_files(work)) == ([0, 1, 2, 3, 4], 1)


@pytest.mark.parametrize("rounds", [1, pytest.param(200, marks=pytest.mark.full)])
def test_two_of_icectl_and_pyiceberg_lose_nothing(catalog, rounds):
    table = ("db", f"raced_{rounds}")
    race_in(catalog, table, rounds, [command[:1] + command[2:-1] for command in (COMPACT, REWRITE)])
