"""Credentials that a REST server hands out for the storage: who gets which, and that they end."""

import asyncio
import itertools
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.configured import CatalogSettings
from icectl.catalog.identifier import TableName
from icectl.catalog.protocol import CatalogAccess, Conflict
from icectl.catalog.rest.warehouse import connect
from icectl.errors import IcectlError
from icectl.format.updates import SetProperties
from icectl.storage.credentials import Places
from icectl.storage.open import SchemeStore, StorageOptions, open_store
from icectl.storage.s3fs import with_refreshing_credentials
from tests.builders import rows
from tests.builders.rows import current_metadata, read_metadata
from tests.catalogs.rest_fake import Fake, Quick, fake
from tests.catalogs.rest_servers import Reply, Seen, refusal
from tests.fault.changing import run
from tests.s3.conftest import Bucket
from tests.s3.test_commits import build
from tests.spark.engine import on_spark, why_skipped
from tests.stores.fixed_env import FixedEnv
from tests.stores.s3_servers import S3Server, served_at

HOUR_MS = 3_600_000
CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
LOAD = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"


def storage(
    catalog: Fake, env: FixedEnv, given: dict[str, str] | None = None, **properties: str
) -> Callable[[str], Any]:
    """What options a location of the table has, asked now."""
    assert catalog.server is not None
    settings = {"uri": catalog.server.uri, **properties}
    catalog_settings = CatalogSettings("c", "rest", settings, dict.fromkeys(settings, ""))
    hide = lambda _: None  # noqa: E731
    means = CatalogAccess(catalog_settings, env, StorageOptions(given or {}), hide, hide)
    found = connect(means).table(TableName(("db",), "t")).storage()
    return lambda location: dict(found.now().of(location))


def keys(number: int, ends_at_ms: int | None = None) -> dict[str, str]:
    found = {"s3.access-key-id": f"K{number}", "s3.secret-access-key": "s"}
    found["s3.session-token"] = "t"
    if ends_at_ms is not None:
        found["s3.session-token-expires-at-ms"] = str(ends_at_ms)
    return found


def test_the_longest_prefix_counts_then_config_then_the_catalogs_own(catalog):
    secret = {"s3.secret-access-key": "s"}
    catalog.config["defaults"] = {"s3.region": "eu", "s3.access-key-id": "mine", **secret}
    catalog.extra = {
        "config": {"client.region": "us", "s3.access-key-id": "config"},
        "storage-credentials": [
            {"prefix": "s3://b", "config": {"s3.access-key-id": "short"}},
            {"prefix": "s3://b/wh/", "config": {"s3.access-key-id": "long"}},
        ],
    }
    of = storage(catalog, FixedEnv())
    assert of("s3://b/wh/x")["key"] == "long"
    assert of("s3://b/other")["key"] == "short"
    assert of("s3://c/x") == {"key": "config", "secret": "s", "client_kwargs.region_name": "eu"}
    assert of("/local/x") == {}
    of = storage(catalog, FixedEnv(), {"key": "given"})
    assert of("s3://b/wh/x")["key"] == "given"


@pytest.mark.parametrize("endpoints", [None, [LOAD, CREDENTIALS]])
def test_credentials_are_renewed_half_way_to_their_end(catalog, endpoints):
    env, numbers = FixedEnv(), itertools.count(1)
    catalog.config["endpoints"] = endpoints

    def before(seen: Seen) -> Reply | None:
        if seen.path.endswith("/credentials"):
            config = keys(next(numbers), env.now_ms() + HOUR_MS)
            return Reply(body={"storage-credentials": [{"prefix": "s3", "config": config}]})
        if seen.path.endswith("/tables/t"):
            config = keys(next(numbers), env.now_ms() + HOUR_MS)
            return Reply(body={**catalog.loaded(), "config": config})
        return None

    catalog.before = before
    of = storage(catalog, env)
    found = []
    for _ in range(7):
        found.append(of("s3://b/x")["key"])
        env.sleep(600)
    assert found == ["K1", "K1", "K1", "K2", "K2", "K2", "K3"]
    assert catalog.server is not None
    assert len(catalog.server.asked("/credentials")) == (2 if endpoints else 0)


def test_temporary_ones_whose_end_nobody_tells_are_renewed_too(catalog):
    env, numbers = FixedEnv(), itertools.count(1)
    catalog.before = lambda seen: (
        Reply(body={**catalog.loaded(), "config": keys(next(numbers))})
        if seen.path.endswith("/tables/t")
        else None
    )
    of = storage(catalog, env)
    assert of("s3://b/x")["key"] == "K1"
    env.sleep(16 * 60)
    assert of("s3://b/x")["key"] == "K2"


def test_those_that_cannot_be_renewed_serve_to_their_end(catalog):
    env = FixedEnv()
    catalog.extra = {"config": keys(1, env.now_ms() + HOUR_MS)}
    of = storage(catalog, env)
    assert of("s3://b/x")["key"] == "K1"
    catalog.before = lambda seen: refusal(503, "maintenance") if "/tables/" in seen.path else None
    env.sleep(2000)
    assert of("s3://b/x")["key"] == "K1"
    env.sleep(3600)
    with pytest.raises(IcectlError) as error:
        of("s3://b/x")
    assert (error.value.exit_code, "maintenance" in error.value.message) == (13, True)


def test_a_copy_in_another_process_renews_for_itself(catalog):
    """Spark's tasks take it along: what it has is used, and renewed when its time has come."""
    assert catalog.server is not None
    now_ms = Quick().now_ms()
    catalog.extra = {"config": keys(1, now_ms + HOUR_MS)}
    settings = CatalogSettings(
        "c", "rest", {"uri": catalog.server.uri, "token": "tk"}, {"uri": "", "token": ""}
    )
    lock = threading.Lock()  # what warns is bound to its process
    warn = lambda _: lock.acquire()  # type: ignore[return-value]  # noqa: E731
    means = CatalogAccess(settings, Quick(), StorageOptions(warn=warn), warn, print)
    table = connect(means).table(TableName(("db",), "t"))
    table.catalog.load()
    copy = pickle.loads(pickle.dumps(table.storage().crossing()))
    asked = len(catalog.server.seen)
    assert copy.now().of("s3://b/x")["key"] == "K1"
    assert len(catalog.server.seen) == asked
    catalog.extra = {"config": keys(2, now_ms + 100)}
    table.catalog.load()
    copy = pickle.loads(pickle.dumps(table.storage().crossing()))
    catalog.extra = {"config": keys(3, now_ms + HOUR_MS)}
    threading.Event().wait(0.1)
    assert copy.now().of("s3://b/x")["key"] == "K3"
    assert catalog.server.seen[-1].headers["authorization"] == "Bearer tk"


@pytest.mark.parametrize("listed", [5, True, "s3", {"prefix": "s3"}, [5, None]])
def test_credentials_that_are_no_list_are_none(catalog, listed):
    catalog.extra = {"storage-credentials": listed, "config": {"s3.session-token": "\ud800"}}
    code, document = catalog.run("inspect")
    assert code == 0, document


def test_a_token_of_the_table_is_shown_from_then_on(catalog):
    catalog.extra = {"config": {"token": "of-the-table"}}
    assert catalog.server is not None
    properties = {"uri": catalog.server.uri, "token": "of-the-catalog"}
    settings = CatalogSettings("c", "rest", properties, dict.fromkeys(properties, ""))
    means = CatalogAccess(settings, FixedEnv(), StorageOptions(), print, print)
    table = connect(means).table(TableName(("db",), "t"))
    for _ in range(3):
        table.catalog.load()
    shown = [one.headers["authorization"] for one in catalog.server.asked("/tables/t")]
    assert shown[0] == "Bearer of-the-catalog"
    assert set(shown[1:]) == {"Bearer of-the-table"}


@pytest.mark.parametrize("status", [401, 419])
@pytest.mark.parametrize("second", ["of-the-table-2", None])
def test_a_token_of_the_table_that_ends_is_asked_for_anew_once(catalog, status, second):
    """The table is loaded again by the catalog's own login, which brings another token, or none."""
    assert catalog.server is not None
    catalog.extra = {"config": {"token": "of-the-table-1"}}
    ended: set[str] = set()

    def before(seen: Seen) -> Reply | None:
        if seen.headers["authorization"].removeprefix("Bearer ") in ended:
            return refusal(status, "the token has ended")
        return refusal(409, "lost") if seen.method == "POST" else None

    catalog.before = before
    properties = {"uri": catalog.server.uri, "token": "of-the-catalog"}
    settings = CatalogSettings("c", "rest", properties, dict.fromkeys(properties, ""))
    means = CatalogAccess(settings, FixedEnv(), StorageOptions(), print, print)
    table = connect(means).table(TableName(("db",), "t"))
    loaded = table.catalog.load()
    table.catalog.load()
    ended.add("of-the-table-1")
    catalog.extra = {"config": {"token": second} if second else {}}
    outcome = table.catalog.commit(loaded, (), (SetProperties({"a": "b"}),))
    assert isinstance(outcome, Conflict)  # an answer of the server to the token that holds
    shown = [one.headers["authorization"][7:] for one in catalog.server.asked("/tables/t")]
    last = second or "of-the-catalog"
    assert shown[:4] == ["of-the-catalog", "of-the-table-1", "of-the-table-1", "of-the-catalog"]
    assert set(shown[4:]) == {last}
    ended |= {"of-the-table-2", "of-the-catalog"}
    with pytest.raises(IcectlError, match="the token has ended"):
        table.catalog.load()


def test_remote_signing_alone_is_exit_14_where_files_are_read(catalog):
    catalog.extra = {"config": {"s3.remote-signing-enabled": "true"}}
    code, document = catalog.run("inspect")
    assert (code, "signs each request" in document["error"]["message"]) == (14, True)
    given = ("--storage-option", "key=k", "--storage-option", "secret=env:HOME")
    assert catalog.run("inspect", *given)[0] == 0


def test_azures_tokens_are_for_their_account(catalog):
    host = "acc.dfs.core.windows.net"
    catalog.extra = {"config": {f"adls.sas-token.{host}": "sas"}}
    of = storage(catalog, FixedEnv())
    assert of(f"abfss://c@{host}/x") == {"account_name": "acc", "sas_token": "sas"}


class Hurried(Quick):
    """A clock that goes on for half a minute each time that it is asked."""

    def now_ms(self) -> int:
        self.waited_seconds += 30
        return super().now_ms()


@contextmanager
def gated(is_valid: Callable[[str], bool]) -> Iterator[S3Server]:
    """moto behind a gate, which lets pass whose key is valid at the moment."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    moto = DomainDispatcherApplication(create_backend_app)
    denied = b"<Error><Code>ExpiredToken</Code><Message>it has ended</Message></Error>"

    def gate(environ: dict[str, Any], start: Any) -> Any:
        key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
        if is_valid(key):
            return moto(environ, start)
        start("400 Bad Request", [("Content-Type", "application/xml")])
        return [denied]

    server = make_server("127.0.0.1", 0, gate, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with served_at(f"http://127.0.0.1:{server.server_port}") as found:
            yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_other_storage_is_opened_anew_with_what_is_valid_then():
    now = {"memory:": {"a": "1"}}

    class Renewing:
        def __call__(self) -> Places:
            return {key: dict(value) for key, value in now.items()}

        def expire(self) -> bool:
            return False

    store = open_store(StorageOptions(renewed=Renewing(), home="memory://b"), Quick())
    assert isinstance(store, SchemeStore)
    first = store.of("memory://b/x")
    assert store.of("memory://b/y") is first
    now["memory:"] = {"a": "2"}
    second = store.of("memory://b/x")
    assert second is not first
    assert second.filesystem.storage_options == {"a": "2"}  # type: ignore[attr-defined]


def test_requests_to_s3_are_signed_with_what_is_valid_then():
    """So that what was begun with credentials that end goes on: an upload, a listing."""
    numbers = itertools.count(1)
    found = with_refreshing_credentials(
        {"key": "K0", "secret": "s", "anon": False},
        lambda: {"key": f"K{next(numbers)}", "secret": "s", "token": "t"},
    )
    assert set(found) == {"anon", "session"}

    async def two() -> list[Any]:
        credentials = await found["session"].get_credentials()
        return [await credentials.get_frozen_credentials() for _ in range(2)]

    assert asyncio.run(two()) == [("K1", "s", "t", None), ("K2", "s", "t", None)]


@dataclass
class Vending:
    """A table in a bucket, behind a server whose keys are good for ten minutes each."""

    catalog: Fake
    bucket: Bucket
    used: set[str]
    rows: list[Any]

    def new_rows(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """The rows of the newest snapshot, read without icectl."""
        directory, start = self.bucket.download("t"), self.bucket.location("t")
        monkeypatch.setattr(
            rows, "local", lambda place: directory / place.removeprefix(start).lstrip("/")
        )
        metadata = self.catalog.metadata
        return sorted(rows.read_rows(metadata, metadata["current-snapshot-id"]))


@contextmanager
def vending(folder: Path, now_ms: Callable[[], int]) -> Iterator[Vending]:
    ends, used = {"test-key": 1 << 62}, set()
    lock = threading.Lock()

    def is_valid(key: str) -> bool:
        with lock:
            used.add(key)
            return now_ms() <= ends[key]

    with gated(is_valid) as server:
        bucket = Bucket(server, "vended", folder)
        bucket.client.create_bucket(Bucket=bucket.name)
        table = build(bucket, "t", 2)
        with pytest.MonkeyPatch.context() as patch:
            before = bucket.rows("t", patch)
        location = current_metadata(table.directory)
        head = read_metadata(location)["current-snapshot-id"]
        with fake(location) as catalog:

            def answer(seen: Seen) -> Reply | None:
                if not seen.path.endswith("/tables/t"):
                    return None
                is_commit = seen.method == "POST"
                reply = catalog.commit(seen) if is_commit else Reply(body=catalog.loaded())
                number = len(ends)
                ends[f"K{number}"] = ends_at_ms = now_ms() + 600_000
                config = {**keys(number, ends_at_ms), "s3.endpoint": server.endpoint}
                config["client.region"] = "us-east-1"
                place = f"{bucket.location('t')}/metadata/{catalog.location.name}"
                return Reply(body={**reply.body, "metadata-location": place, "config": config})

            catalog.before = answer
            yield Vending(catalog, bucket, used, sorted(before[head]))


@pytest.mark.full
@pytest.mark.s3
@pytest.mark.parametrize("method", ["merge", "rewrite"])
def test_a_compaction_outlives_the_credentials_it_began_with(tmp_path, monkeypatch, method):
    """Half a minute passes with every use of the storage."""
    env = Hurried()
    with vending(tmp_path, partial(Quick.now_ms, env)) as made:
        assert made.catalog.server is not None
        words = ["compact", "c.db.t", "--catalog-option", f"uri={made.catalog.server.uri}"]
        words += ["--engine", "local", "--rewrite-all", "--method", method, "--json"]
        code, document = run(words, env=env)
        assert code == 0, document
        assert {group["method"] for group in document["result"]["groups"]} == {method}
        assert made.catalog.commits == 1
        assert len(made.used) > 3, made.used
        assert made.new_rows(monkeypatch) == made.rows


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.s3
@pytest.mark.skipif(why_skipped() is not None, reason=str(why_skipped()))
def test_tasks_on_spark_reach_the_storage_with_what_the_server_hands_out(tmp_path, monkeypatch):
    with vending(tmp_path, Quick().now_ms) as made:
        assert made.catalog.server is not None
        words = ["compact", "c.db.t", "--catalog-option", f"uri={made.catalog.server.uri}"]
        done = on_spark("-m", "icectl", *words, "--rewrite-all", "--json")
        assert done.returncode == 0, done.stderr
        assert made.catalog.commits == 1
        assert made.new_rows(monkeypatch) == made.rows
