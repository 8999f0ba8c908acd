"""A REST catalog that wants what is not its own: logins, secrets, memory, a traceback."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.builders.rows import current_metadata
from tests.builders.table_builder import filled_table
from tests.catalogs.rest_fake import Fake, Quick, fake
from tests.catalogs.rest_servers import PythonServer, Reply, Seen, python_server, refusal
from tests.fault.changing import run

DEEP = b'{"error":' + b"[" * 200_000


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OPERATORKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "operators-secret")
    table = filled_table(tmp_path / "t", range(3), range(3))
    with fake(current_metadata(table.directory)) as served:
        yield served


@pytest.fixture
def thief() -> Iterator[PythonServer]:
    with python_server(lambda _: Reply(body={"access_token": "stolen"})) as server:
        yield server


@pytest.mark.parametrize("layer", ["defaults", "overrides"])
@pytest.mark.parametrize(
    "said",
    [
        {"rest.sigv4-enabled": "true", "rest.signing-name": "iam", "rest.signing-region": "eu-x-1"},
        {"auth.type": "sigv4", "client.region": "eu-west-1", "client.profile-name": "admin"},
        {"auth.type": "basic", "auth.basic.username": "u", "auth.basic.password": "p"},
        {"token": "of the server"},
        {"credential": "id:of the server"},
        {"header.x-leak": "a", "header.Authorization": "Bearer of the server"},
        {"ssl.cabundle": "/nonexistent", "ssl.client.cert": "/nonexistent"},
        {"rest.client.socket-timeout-ms": "1"},
    ],
)
def test_a_server_does_not_say_how_one_logs_in(catalog, layer, said):
    catalog.config[layer] = said
    assert catalog.run("inspect")[0] == 0
    assert catalog.server is not None
    assert {seen.path.partition("?")[0] for seen in catalog.server.seen} == {
        "/v1/config",
        "/v1/namespaces/db/tables/t",
    }
    for seen in catalog.server.seen:
        assert not {"authorization", "x-leak", "x-amz-date"} & seen.headers.keys()


def test_an_override_of_the_address_keeps_scheme_host_and_port(catalog, thief):
    assert catalog.server is not None
    own = catalog.server.uri
    host = own.removeprefix("http://")
    for uri in (
        f"{thief.uri}/?Action=CreateUser&UserName=evil#",
        thief.uri,
        f"https://{host}",
        f"http://u:p@{host}",
        f"http://{host}@{thief.uri.removeprefix('http://')}",
        f"{own}/?Action=CreateUser",
        f"{own}/x#",
        f"{own}/\\x",
        "http://[",
        "file:///etc/passwd",
    ):
        catalog.config["overrides"] = {"uri": uri}
        code, document = catalog.run("inspect", token="hush-hush")
        assert (code, document["error"]["id"]) == (5, "refused"), (uri, document)
    assert thief.seen == []
    catalog.config["overrides"] = {"uri": f"{own}/below/"}
    assert catalog.run("inspect", token="hush-hush")[0] == 0
    assert catalog.server.seen[-1].path == "/below/v1/namespaces/db/tables/t"
    assert catalog.server.seen[-1].headers["authorization"] == "Bearer hush-hush"


def test_the_clients_secret_goes_to_the_catalogs_own_host_or_where_the_user_says(catalog, thief):
    catalog.config["overrides"] = {"oauth2-server-uri": f"{thief.uri}/steal", "scope": "all"}
    assert catalog.run("inspect", credential="id:hush-hush")[0] == 0
    assert catalog.server is not None
    [asked] = catalog.server.asked("/oauth/tokens")
    assert b"hush-hush" in asked.body
    assert b"scope=catalog" in asked.body
    assert thief.seen == []


def test_what_a_server_repeats_of_a_login_is_not_shown(catalog, capsys):
    def repeat(seen: Seen) -> Reply | None:
        if seen.path.endswith("/config"):
            return None
        if seen.path.endswith("/oauth/tokens"):
            if b"bad" in seen.body:
                return refusal(401, f"no such secret as {seen.body.decode()}")
            return Reply(body={"access_token": "fetched-hush-hush"})
        return refusal(403, f"who is {seen.headers.get('authorization')}?")

    catalog.before = repeat
    pair = base64.b64encode(b"user:hush-hush").decode()
    basic = {"auth.type": "basic", "auth.basic.username": "user"}
    for properties, secrets in (
        ({"credential": "id:bad-hush"}, ["bad-hush"]),
        ({"credential": "id:hush-hush"}, ["hush-hush"]),
        ({**basic, "auth.basic.password": "hush-hush"}, [pair, "hush-hush"]),
    ):
        words = {key.replace(".", "__"): value for key, value in properties.items()}
        code, document = catalog.run("inspect", "-vv", **words)
        shown = json.dumps(document) + capsys.readouterr().err
        assert (code, "***" in shown) == (13, True)
        assert not any(secret in shown for secret in secrets), shown


@pytest.mark.parametrize(
    "properties",
    [
        {"token": "hush-hush\n"}, {"token": "hush-hush€"},
        {"header.authorization": "a\r\nhush-hush: b"}, {"header.x secret": "hush-hush"},
        {"uri": "http://["}, {"uri": "http://host:99999999/"},
        {"rest.client.socket-timeout-ms": "1" + "0" * 21},
        {"rest.client.socket-timeout-ms": "9" * 5000},
    ],
)  # fmt: skip
def test_values_that_no_request_can_have_are_wrong_usage(catalog, capsys, properties):
    words = {key.replace(".", "__"): value for key, value in properties.items()}
    code, document = catalog.run("inspect", "-vv", **words)
    shown = json.dumps(document) + capsys.readouterr().err
    assert (code, document["error"]["id"]) == (2, "usage"), document
    assert "hush-hush" not in shown
    assert "Traceback" not in shown


def bomb(size: int) -> Reply:
    return Reply(body=gzip.compress(b" " * size, 1), headers={"Content-Encoding": "gzip"})


@pytest.mark.parametrize("path", ["/tables/t", "/v1/config"])
def test_answers_that_unpack_to_many_times_their_size_end_in_one_message(catalog, path):
    check_answer(catalog, path, bomb(200 << 20), "MiB")


@pytest.mark.parametrize(
    ("path", "reply", "said"),
    [
        ("/tables/t", Reply(404, DEEP), "does not respond like"),
        ("/tables/t", Reply(200, DEEP), "not JSON"),
        ("/tables/t", Reply(403, b"x" * (5 << 20)), "MiB"),
        ("/tables/t", Reply(body=b"{}", headers={"Content-Encoding": "br"}), "not requested"),
        ("/tables/t", Reply(body=b"{}", headers={"Content-Encoding": "gzip"}), "header"),
        ("/oauth/tokens", Reply(400, DEEP), "not a token"),
        ("/oauth/tokens", Reply(body={"access_token": {"a": 1}}), "not a token"),
        ("/oauth/tokens", Reply(body={"access_token": "a\r\nb: c"}), "not a token"),
    ],
)
def test_answers_that_are_bombs_end_in_one_message(catalog, path, reply, said):
    check_answer(catalog, path, reply, said)


def check_answer(catalog, path, reply, said):
    catalog.before = lambda seen: reply if seen.path.partition("?")[0].endswith(path) else None
    code, document = catalog.run("inspect", credential="id:hush-hush")
    assert (code, said in document["error"]["message"]) == (13, True), document


def test_a_packed_answer_of_usual_size_is_read(catalog):
    def packed(seen: Seen) -> Reply | None:
        if not seen.path.endswith("/tables/t"):
            return None
        content = gzip.compress(json.dumps(catalog.loaded()).encode())
        return Reply(body=content, headers={"Content-Encoding": "gzip"})

    catalog.before = packed
    assert catalog.run("inspect")[0] == 0


@pytest.mark.parametrize("seconds", [1e999, float("-inf"), 10**400, True, "soon"])
def test_a_token_may_hold_for_any_time(catalog, seconds):
    answer = {"access_token": "fetched", "expires_in": seconds}
    catalog.before = lambda seen: (
        Reply(body=answer) if seen.path.endswith("/oauth/tokens") else None
    )
    assert catalog.run("inspect", credential="id:hush-hush")[0] == 0


@pytest.mark.parametrize("kind", ["RuntimeException", "", "ServerErrorException"])
def test_a_server_that_breaks_after_the_commit_has_refused_nothing(catalog, kind):
    """It carries the commit out later, when its first files are long needed."""
    before = set(catalog.location.parents[1].rglob("*"))
    catalog.before = lambda seen: refusal(500, "it broke", kind) if seen.method == "POST" else None
    for command in (("rewrite-manifests", "--yes"), ("expire-snapshots", "--older-than", "0s")):
        words = (*command, "--retain-last", "1", "--yes") if len(command) > 2 else command
        code, document = catalog.run(*words)
        assert (code, document["error"]["id"]) == (12, "commit-unknown")
        assert before <= set(catalog.location.parents[1].rglob("*"))


def test_a_login_that_fails_between_two_sendings_removes_nothing(catalog):
    """The first may still land: what it needs stays."""
    before = set(catalog.location.parents[1].rglob("*"))

    def answer(seen: Seen) -> Reply | None:
        assert catalog.server is not None
        if seen.path.endswith("/oauth/tokens"):
            return refusal(401, "no more") if catalog.posts else None
        if seen.method == "POST":
            return Reply(504) if len(catalog.posts) == 1 else Reply(401)
        return None

    catalog.before = answer
    code, _ = catalog.run("rewrite-manifests", "--yes", credential="id:hush-hush")
    assert code == 12
    assert before < set(catalog.location.parents[1].rglob("*"))


def test_a_token_for_a_table_that_is_none_is_an_odd_answer(catalog):
    catalog.extra = {"config": {"token": "a\r\nx-evil: 1"}}
    code, document = catalog.run("inspect")
    assert (code, "a\r\n" in json.dumps(document)) == (13, False)


def test_a_name_with_a_slash_is_a_name(catalog):
    name = "a/../../b"

    def answer(seen: Seen) -> Reply | None:
        path = seen.path.partition("?")[0]
        if path.endswith("/tables"):
            return Reply(body={"identifiers": [{"namespace": ["db"], "name": name}]})
        if path.endswith(f"/tables/{quote(name, safe='')}"):
            return Reply(body=catalog.loaded())
        return None

    catalog.before = answer
    assert catalog.server is not None
    options = ["--catalog-option", f"uri={catalog.server.uri}", "--json"]
    for target in ("c.**", f'c.db."{name}"'):
        code, document = run(["validate", target, *options], env=Quick())
        assert code == 0, document
