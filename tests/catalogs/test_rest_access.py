"""How icectl reaches a REST server: what it sends, what it makes of odd answers, what it hides."""

import base64
import datetime as dt
import hashlib
import hmac
import ipaddress
import json
import pickle
import ssl
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from icectl.catalog.configured import CatalogSettings
from icectl.catalog.identifier import TableName
from icectl.catalog.protocol import CatalogAccess, TablePlace
from icectl.catalog.rest.client import Config, RestClient
from icectl.catalog.rest.served import product_of
from icectl.catalog.rest.warehouse import RestWarehouse, connect
from icectl.errors import IcectlError
from icectl.storage.open import StorageOptions
from tests.catalogs.rest_fake import Fake
from tests.catalogs.rest_servers import Reply, Seen, python_server, refusal
from tests.fault.changing import run
from tests.stores.fixed_env import FixedEnv


def warehouse(uri: str, env: FixedEnv | None = None, **properties: str) -> RestWarehouse:
    """A catalog `c`, without a command line."""
    given = {"uri": uri, **{key.replace("__", "."): value for key, value in properties.items()}}
    settings = CatalogSettings("c", "rest", given, dict.fromkeys(given, "here"))
    silent = lambda _: None  # noqa: E731
    return connect(CatalogAccess(settings, env or FixedEnv(), StorageOptions(), silent, silent))


def asked_with(catalog: Fake, **properties: str) -> list[Seen]:
    """The requests of one look at the table."""
    code, document = catalog.run("inspect", **properties)
    assert code == 0, document
    assert catalog.server is not None
    return catalog.server.seen


def test_without_credentials_none_are_sent(catalog):
    config, load = asked_with(catalog, warehouse="wh 1")
    assert [config.path, load.path] == ["/v1/config?warehouse=wh+1", "/v1/namespaces/db/tables/t"]
    assert all("authorization" not in one.headers for one in (config, load))
    assert load.headers["x-iceberg-access-delegation"] == "vended-credentials"
    assert load.headers["user-agent"].startswith("icectl/")


def test_a_token_is_shown_with_each_request(catalog):
    for one in asked_with(catalog, token="secret-1", header__X_Tenant="a"):
        assert one.headers["authorization"] == "Bearer secret-1"
        assert one.headers["x_tenant"] == "a"


def test_an_empty_header_leaves_out_what_is_usual(catalog):
    for one in asked_with(catalog, **{"header.x-iceberg-access-delegation": ""}):
        assert "x-iceberg-access-delegation" not in one.headers


def test_basic_shows_user_and_password(catalog):
    given = {"auth.type": "basic", "auth.basic.username": "me", "auth.basic.password": "pw:1"}
    expected = "Basic " + base64.b64encode(b"me:pw:1").decode()
    assert {one.headers["authorization"] for one in asked_with(catalog, **given)} == {expected}


def test_a_credential_is_changed_for_a_token(catalog):
    given = {"credential": "id:se:cret", "scope": "PRINCIPAL_ROLE:ALL", "audience": "a"}
    token, config, load = asked_with(catalog, **given)
    assert (token.method, token.path) == ("POST", "/v1/oauth/tokens")
    assert "authorization" not in token.headers
    assert parse_qs(token.body.decode()) == {
        "grant_type": ["client_credentials"], "client_id": ["id"], "client_secret": ["se:cret"],
        "scope": ["PRINCIPAL_ROLE:ALL"], "audience": ["a"],
    }  # fmt: skip
    assert [one.headers["authorization"] for one in (config, load)] == ["Bearer fetched"] * 2


def test_an_oauth_server_of_its_own_is_asked_by_header(catalog):
    assert catalog.server is not None
    given = {
        "auth.type": "oauth2", "auth.oauth2.client_id": "id", "auth.oauth2.client_secret": "s",
        "auth.oauth2.token_url": f"{catalog.server.uri}/elsewhere/oauth/tokens",
    }  # fmt: skip
    token, *_ = asked_with(catalog, **given)
    assert token.path == "/elsewhere/oauth/tokens"
    assert token.headers["authorization"] == "Basic " + base64.b64encode(b"id:s").decode()
    assert parse_qs(token.body.decode()) == {"grant_type": ["client_credentials"]}


def test_tokens_are_renewed_before_their_end_and_after_a_401(catalog):
    tokens = iter(["one", "two", "three"])
    accepted = {"one", "two", "three"}

    def before(seen: Seen) -> Reply | None:
        if seen.path.endswith("/tokens"):
            return Reply(body={"access_token": next(tokens), "expires_in": 3600})
        if seen.headers["authorization"].removeprefix("Bearer ") not in accepted:
            return refusal(401, "the token has ended", "NotAuthorizedException")
        return None

    catalog.before = before
    assert catalog.server is not None
    env = FixedEnv()
    table = warehouse(catalog.server.uri, env, credential="id:s").table(TableName(("db",), "t"))
    table.catalog.load()
    env.sleep(3500)
    table.catalog.load()
    assert len(catalog.server.asked("/tokens")) == 1
    env.sleep(60)
    table.catalog.load()
    assert len(catalog.server.asked("/tokens")) == 2
    accepted -= {"one", "two"}
    table.catalog.load()
    assert len(catalog.server.asked("/tokens")) == 3
    accepted.clear()
    tokens = iter(["four", "five"])
    with pytest.raises(IcectlError) as error:
        table.catalog.load()
    assert error.value.exit_code == 13
    assert "the OAuth2 token of client `id`" in error.value.message


def test_requests_are_signed_for_aws(catalog, monkeypatch):
    """The signature is computed here a second time, by AWS's description of it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")
    given = {"rest.sigv4-enabled": "true", "rest.signing-name": "glue", "rest.signing-region": "eu"}
    for seen in asked_with(catalog, warehouse="1:a/b", **given):
        assert seen.headers["authorization"] == aws_signature(seen, "AK", "SK", "eu", "glue")
        assert seen.headers["x-amz-content-sha256"] == hashlib.sha256(seen.body).hexdigest()


def aws_signature(seen: Seen, key: str, secret: str, region: str, service: str) -> str:
    """The header that AWS expects."""
    signed = seen.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    parts = urlsplit(seen.path)
    canonical = "\n".join((
        seen.method, parts.path, parts.query,
        *(f"{name}:{seen.headers[name]}" for name in signed.split(";")), "",
        signed, hashlib.sha256(seen.body).hexdigest(),
    ))  # fmt: skip
    at = seen.headers["x-amz-date"]
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(
        ("AWS4-HMAC-SHA256", at, scope, hashlib.sha256(canonical.encode()).hexdigest())
    )
    mac = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), text):
        mac = hmac.new(mac, part.encode(), hashlib.sha256).digest()
    return (
        f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={signed}, Signature={mac.hex()}"
    )


def test_the_servers_configuration_counts(catalog):
    """Overrides are above the user's properties, but for headers; the prefix is in every path."""
    catalog.config = {
        "defaults": {"header.x-a": "default", "header.x-b": "default"},
        "overrides": {"prefix": "main|wh", "header.x-c": "override", "namespace-separator": "%2E"},
    }
    properties = {"header.x-b": "mine", "header.x-c": "mine"}
    assert catalog.server is not None
    found = warehouse(catalog.server.uri, **properties)
    found.table(TableName(("db", "in ner", "ä/b"), "t")).catalog.load()
    load = catalog.server.seen[-1]
    assert load.path == "/v1/main%7Cwh/namespaces/db.in%20ner.%C3%A4%2Fb/tables/t"
    assert [load.headers.get(f"x-{name}") for name in "abc"] == [None, "mine", "mine"]


def test_levels_of_namespaces_are_parted_as_the_protocol_has_it(catalog):
    assert catalog.server is not None
    found = warehouse(catalog.server.uri)
    found.table(TableName(("a", "b.c"), "t")).catalog.load()
    assert catalog.server.seen[-1].path == "/v1/namespaces/a%1Fb.c/tables/t"
    assert list(found.namespaces(("a", "b"))) == []
    assert catalog.server.seen[-1].path == "/v1/namespaces?parent=a%1Fb&pageToken="


def test_lists_are_read_page_by_page(catalog):
    pages = {
        "": {"namespaces": [["a"], ["b"]], "next-page-token": "2 &"},
        "2 &": {"namespaces": [["c"]], "next-page-token": None},
    }
    tables = {
        "": {"identifiers": [{"namespace": ["a"], "name": "t"}], "next-page-token": "x"},
        "x": {"identifiers": [{"namespace": ["a"], "name": "u"}], "next-page-token": "x"},
    }

    def before(seen: Seen) -> Reply | None:
        parts = urlsplit(seen.path)
        token = parse_qs(parts.query, keep_blank_values=True).get("pageToken", [""])[0]
        if parts.path.endswith("/namespaces"):
            return Reply(body=pages[token])
        return Reply(body=tables[token]) if parts.path.endswith("/tables") else None

    catalog.before = before
    assert catalog.server is not None
    found = warehouse(catalog.server.uri, **{"rest-page-size": "2"})
    assert list(found.namespaces()) == [("a",), ("b",), ("c",)]
    assert [one.path for one in catalog.server.asked("/namespaces")] == [
        "/v1/namespaces?pageToken=&pageSize=2", "/v1/namespaces?pageToken=2+%26&pageSize=2"
    ]  # fmt: skip
    assert [str(name) for name in found.tables(("a",))] == ["a.t", "a.u"]


def test_every_location_of_the_catalog_is_asked_for(catalog):
    assert catalog.server is not None
    metadata = catalog.metadata | {"properties": {"write.data.path": "s3://b/data/"}}
    catalog.location.write_text(json.dumps(metadata))
    found = warehouse(catalog.server.uri).places()
    assert found is not None
    table = TableName(("db",), "t")
    assert list(found) == [
        TablePlace(table, catalog.metadata["location"]),
        TablePlace(table, "s3://b/data", is_named=True),
    ]


ODD = {
    "no JSON": (
        Reply(200, b"<html>login</html>", {"Content-Type": "text/html"}),
        13,
        "is not JSON",
    ),
    "no object": (Reply(200, b"[]"), 13, "not a JSON object"),
    "no metadata": (Reply(body={"metadata-location": "/x"}), 13, "no table metadata"),
    "a redirection": (Reply(302, b"", {"Location": "/login"}), 13, "status 302"),
    "a page for 404": (Reply(404, b"<html>"), 13, "status 404"),
    "401": (refusal(401, "who are you"), 13, "does not accept a request without credentials"),
    "403": (refusal(403, "not you"), 13, "does not allow this to"),
    "a broken server": (refusal(500, "out of order"), 13, "out of order"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_answers_are_told_in_one_clear_message(catalog, name):
    reply, wanted, said = ODD[name]
    catalog.before = lambda seen: reply if "/tables/t" in seen.path else None
    code, document = catalog.run("inspect")
    assert (code, said in document["error"]["message"]) == (wanted, True), document
    assert "`c`" in document["error"]["message"]


@pytest.mark.parametrize("name", ["no JSON", "no object", "a page for 404", "401"])
def test_so_are_those_to_the_first_question(catalog, name):
    reply, wanted, said = ODD[name]
    catalog.before = lambda _: reply
    code, document = catalog.run("inspect")
    assert (code, said in document["error"]["message"]) == (wanted, True), document


def test_a_table_without_a_metadata_location_is_exit_14(catalog):
    catalog.extra = {"metadata-location": None}
    code, document = catalog.run("validate")
    assert (code, "does not say where" in document["error"]["message"]) == (14, True)


def test_corrupt_metadata_names_the_table_and_the_rule(catalog):
    catalog.extra = {"metadata": {**catalog.metadata, "last-column-id": None}}
    code, document = catalog.run("compact", "--engine", "local")
    assert (code, "`db.t` of catalog `c`" in document["error"]["message"]) == (15, True)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"credential": "id:hush", "oauth2-server-uri": "URI/page"},
            "issued no OAuth2 token for client `id` (200): its response is not a token (text/html)",
        ),
        ({"uri": "https:REST"}, "the server does not speak TLS (an `http:` address?)"),
    ],
    ids=["a page in the place of a token", "no TLS"],
)
def test_what_stands_at_an_address_is_told(catalog, properties, message):
    assert catalog.server is not None
    page = Reply(body=b"<html>", headers={"Content-Type": "text/html; charset=utf-8"})
    catalog.before = lambda seen: page if seen.path == "/page" else None
    uri = catalog.server.uri
    given = {
        key: value.replace("URI", uri).replace("REST", uri.removeprefix("http:"))
        for key, value in properties.items()
    }
    code, document = catalog.run("inspect", **given)
    assert (code, message in document["error"]["message"]) == (13, True), document
    assert "hush" not in json.dumps(document)


def test_a_namespace_with_a_slip_is_told_with_those_there_are(catalog, monkeypatch):
    assert catalog.server is not None
    monkeypatch.setenv("PYICEBERG_CATALOG__C__URI", catalog.server.uri)
    spaces = {"": [["sales"], ["stock"]], "sales": [["sales", "eu"], ["sales", "us"]]}

    def answer(seen: Seen) -> Reply | None:
        parts = urlsplit(seen.path)
        if parts.path.endswith("/namespaces"):
            parent = parse_qs(parts.query).get("parent", [""])[0]
            if parent in spaces:
                return Reply(body={"namespaces": spaces[parent]})
            return refusal(404, f"no {parent}", "NoSuchNamespaceException")
        if "/namespaces/" in parts.path:
            return refusal(404, "it is not there", "NoSuchNamespaceException")
        return None

    catalog.before = answer
    for name, missed, hint in (
        ("c.sales.euu.t", "sales.euu", "it has `sales.eu`, `sales.us`"),
        ("c.salse.eu.t", "salse.eu", "it has `sales`"),
        ("c.xyz.t", "xyz", "it has `sales`, `stock`"),
    ):
        code, document = run(["inspect", name, "--json"])
        error = document["error"]
        assert (code, error["message"]) == (10, f"catalog `c` has no namespace `{missed}`")
        assert error["hint"] == hint


def test_a_view_is_told_as_one(catalog):
    catalog.config["endpoints"] = [
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    ]
    gone = refusal(404, "no such table", "NoSuchTableException")
    catalog.before = lambda seen: (
        gone if "/tables/" in seen.path else Reply(body={}) if "/views/" in seen.path else None
    )
    code, document = catalog.run("inspect")
    assert (code, document["error"]["message"]) == (14, "`db.t` of catalog `c` is a view")


@pytest.mark.parametrize(
    ("uri", "code"), [("http://u:hush@127.0.0.1:1/x?k=hush", 13), ("ftp://u:hush@h/x", 2)]
)
def test_addresses_are_shown_without_secrets(catalog, uri, code, capsys):
    found, document = catalog.run("inspect", "-vv", type="rest", uri=uri)
    assert found == code
    assert "hush" not in json.dumps(document) + capsys.readouterr().err


def test_no_secret_is_ever_shown(catalog, capsys):
    """Neither what the user gave, nor what the server hands out, whatever is logged."""
    catalog.extra = {
        "config": {"s3.access-key-id": "vended-1", "s3.secret-access-key": "hush-2"},
        "storage-credentials": [{"prefix": "s3://b", "config": {"s3.session-token": "hush-3"}}],
    }
    given = {"credential": "id:hush-1", "header.x-secret": "hush-4"}
    code, document = catalog.run("validate", "-vv", **given)
    logged = capsys.readouterr().err
    assert code == 0, document
    assert "GET http://127.0.0.1" in logged
    assert "hush" not in json.dumps(document) + logged


def test_a_proxy_of_the_environment_is_used(catalog, monkeypatch):
    assert catalog.server is not None
    monkeypatch.setenv("http_proxy", catalog.server.uri.replace("//", "//me:pw@"))
    monkeypatch.setenv("no_proxy", "")
    config, _ = asked_with(catalog, uri="http://far.away.example/api")
    assert config.path == "http://far.away.example/api/v1/config"
    expected = "Basic " + base64.b64encode(b"me:pw").decode()
    assert config.headers["proxy-authorization"] == expected


def test_tls_takes_an_own_authority_and_shows_a_certificate(catalog, tmp_path):
    authority, certificate, key = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    with python_server(catalog.answer, context) as server:
        trusted = {"ssl.cabundle": str(authority)}
        shown = {"ssl.client.cert": str(certificate), "ssl.client.key": str(key)}
        assert catalog.run("inspect", uri=server.uri, **trusted, **shown)[0] == 0
        for given in ({}, trusted, shown):
            code, document = catalog.run("inspect", uri=server.uri, **given)
            assert (code, server.uri in document["error"]["message"]) == (13, True), document
        code, document = catalog.run("inspect", uri=server.uri, **{"ssl.cabundle": "/none"})
        assert (code, "ssl.cabundle" in document["error"]["message"]) == (2, True)


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and a certificate of it with its key, for this machine."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    names = {each: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in "ab"}

    def made(subject: str, key: Any, signer: Any, *, is_authority: bool) -> Any:
        names_of_host = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = x509.CertificateBuilder().subject_name(names[subject]).issuer_name(names["a"])
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - dt.timedelta(days=1))
        builder = builder.not_valid_after(now + dt.timedelta(days=9))
        usage = x509.BasicConstraints(ca=is_authority, path_length=None)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName(names_of_host), critical=False)
        return builder.sign(signer, hashes.SHA256())

    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in "ab"]
    pem = serialization.Encoding.PEM
    files = folder / "ca.pem", folder / "own.pem", folder / "own.key"
    files[0].write_bytes(made("a", keys[0], keys[0], is_authority=True).public_bytes(pem))
    files[1].write_bytes(made("b", keys[1], keys[0], is_authority=False).public_bytes(pem))
    files[2].write_bytes(
        keys[1].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


S3_TABLES = "the maintenance of the table bucket in S3 Tables"
PRODUCTS = [
    ("https://n.example/iceberg/main", {"nessie.is-nessie-catalog": "true"},
     "`nessie-gc`, which knows all of Nessie's branches"),
    ("https://s3tables.eu-west-1.amazonaws.com/iceberg", {}, S3_TABLES),
    ("https://s3tables-fips.us-east-1.api.aws/iceberg", {}, S3_TABLES),
    ("https://glue.eu-west-1.amazonaws.com/iceberg", {"warehouse": "1:s3tablescatalog/b"},
     S3_TABLES),
    ("https://glue.eu-west-1.amazonaws.com/iceberg", {"warehouse": "1"}, None),
    ("https://dbc-1.cloud.databricks.com/api/2.1/unity-catalog/iceberg-rest", {},
     "the predictive optimization of Databricks"),
    ("http://localhost:8080/api/2.1/unity-catalog/iceberg", {}, None),
    ("https://acc.snowflakecomputing.com/polaris/api/catalog", {}, None),
    ("https://acc.snowflakecomputing.com/horizon-catalog", {}, "Snowflake"),
    ("https://biglake.googleapis.com/iceberg/v1/restcatalog", {}, None),
    ("https://s3tables.eu.amazonaws.com.evil.example/", {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("uri", "properties", "keeper"), PRODUCTS)
def test_products_are_recognised(uri, properties, keeper):
    client = partial(Config, addresses=None, endpoints=frozenset())  # type: ignore[arg-type]
    product = product_of(client(uri, properties))
    assert (None if product is None else product.keeper) == keeper


@pytest.mark.parametrize("command", ["expire-snapshots", "remove-orphans"])
def test_what_nessie_keeps_for_itself_is_refused(catalog, command):
    catalog.config["defaults"] = {"nessie.is-nessie-catalog": "true"}
    code, document = catalog.run(command, "--older-than", "3d", "--yes")
    assert (code, "`nessie-gc`" in document["error"]["message"]) == (5, True)
    assert catalog.run("rewrite-manifests")[0] == 0
    assert catalog.posts == []


def test_a_connection_crosses_to_another_process_without_its_connections(catalog):
    assert catalog.server is not None
    client = warehouse(catalog.server.uri, token="t").client
    client.get("v1/namespaces")
    other: RestClient = pickle.loads(pickle.dumps(client))
    other.get("v1/namespaces")
    assert [one.path for one in catalog.server.seen] == [
        "/v1/config", "/v1/namespaces", "/v1/namespaces"
    ]  # fmt: skip
    assert catalog.server.seen[-1].headers["authorization"] == "Bearer t"
    assert "Bearer" not in repr(client)
