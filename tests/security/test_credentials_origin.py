"""Whose keys go where: a server, or a table's metadata, names an address for the storage."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.configured import CatalogSettings
from icectl.catalog.identifier import TableName
from icectl.catalog.protocol import CatalogAccess
from icectl.catalog.rest.client import Config
from icectl.catalog.rest.vended import Vended
from icectl.catalog.rest.warehouse import connect
from icectl.catalog.rest.wire import Addresses
from icectl.env import SystemEnv
from icectl.errors import IcectlError, Refused, StorageError
from icectl.storage.credentials import is_clouds_own, joined
from icectl.storage.failures import remote_failure
from icectl.storage.open import StorageOptions, open_store
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import filled_table
from tests.catalogs.rest_fake import Fake, Quick
from tests.catalogs.rest_servers import PythonServer, Reply, python_server
from tests.fault.changing import run

S3_KEYS = {"s3.access-key-id": "SERVERS", "s3.secret-access-key": "servers-secret"}
MACHINE = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_ACCESS_KEY_ID": "OPERATORS",
    "AWS_SECRET_ACCESS_KEY": "operators-secret",
    "AWS_SESSION_TOKEN": "operators-session",
    "AZURE_STORAGE_TOKEN": "operators-bearer",
    "AZURE_STORAGE_ACCOUNT_KEY": "b3BlcmF0b3Jz",
    "GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent",
}
OPERATORS = ("OPERATORS", "operators-", "operators", "b3BlcmF0b3Jz")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has logins for every cloud, and no cloud to ask for others."""
    for name, value in MACHINE.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def thief() -> Iterator[PythonServer]:
    with python_server(lambda _: Reply(404)) as server:
        yield server


def options_at(
    catalog: Fake, given: Mapping[str, str] | None = None, **properties: str
) -> Callable[[str], Any]:
    """The options of storage, asked now."""
    assert catalog.server is not None
    settings = {"uri": catalog.server.uri, **properties}
    silent = lambda _: None  # noqa: E731
    means = CatalogAccess(
        CatalogSettings("c", "rest", settings, dict.fromkeys(settings, "")),
        Quick(),  # type: ignore[arg-type]
        StorageOptions(dict(given or {})),
        silent,
        silent,
    )
    storage = connect(means).table(TableName(("db",), "t")).storage()
    return lambda location: dict(storage.now().of(location))


@pytest.mark.parametrize("layer", ["config", "overrides", "defaults"])
@pytest.mark.parametrize(
    ("given", "properties"),
    [
        ({}, {}),
        ({"key": "OPERATORS", "secret": "s"}, {}),
        ({}, {"s3.access-key-id": "OPERATORS", "s3.secret-access-key": "s"}),
        ({"profile": "p"}, {}),
    ],
    ids=["machine", "option", "catalog", "profile"],
)
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"s3.session-token": "half a login"},
        {"s3.access-key-id": "half a login"},
        {"s3.profile-name": "admin"},
    ],
)
def test_the_operators_keys_do_not_go_to_an_address_of_the_server(
    catalog, thief, layer, given, properties, said
):
    found = {"s3.endpoint": thief.uri, **said}
    if layer == "config":
        catalog.extra = {"config": found}
    else:
        catalog.config[layer] = found
    with pytest.raises(Refused, match=r"server names \S*127"):
        options_at(catalog, given, **properties)("s3://b/x")


@pytest.mark.parametrize(
    ("location", "config", "given"),
    [
        ("s3://bucket/x", {"s3.endpoint": "THIEF"}, {"key": "OPERATORS", "secret": "hush"}),
        ("gs://bucket/x", {"gcs.service.host": "THIEF"}, {"token": "operators-bearer"}),
        ("gs://bucket/x", {"gcs.service.host": "THIEF"}, {}),
        (
            "abfss://c@a.dfs.core.windows.net/x",
            {"adls.account-host": "THIEF"},
            {"sas_token": "hush"},
        ),
        ("abfss://c@a.dfs.core.windows.net/x", {"adls.account-host": "THIEF"}, {}),
    ],
)
def test_a_whole_run_is_refused_before_any_request(catalog, thief, location, config, given):
    named = {key: value.replace("THIEF", thief.uri) for key, value in config.items()}
    catalog.extra = {"config": named}
    move_manifest_list(catalog.location, location)
    options = [word for item in given.items() for word in ("--storage-option", "=".join(item))]
    code, document = catalog.run("validate", "--level", "metadata", *options)
    assert (code, "credentials" in json.dumps(document)) == (5, True), document
    assert thief.seen == []


def test_what_the_user_names_takes_the_users_keys_and_the_servers(catalog, thief):
    catalog.extra = {"config": {"s3.endpoint": "http://elsewhere.example", **S3_KEYS}}
    own = {"client_kwargs.endpoint_url": thief.uri}
    found = options_at(catalog, own)("s3://b/x")
    assert found == {**own, "key": "SERVERS", "secret": "servers-secret"}
    found = options_at(catalog, {**own, "key": "OPERATORS", "secret": "s"})("s3://b/x")
    assert found == {**own, "key": "OPERATORS", "secret": "s"}


def test_a_login_is_taken_whole(catalog):
    """No session of the server with a key of the user, nor the other way round."""
    catalog.extra = {"config": {**S3_KEYS, "s3.session-token": "servers-session"}}
    found = options_at(catalog, {"key": "OPERATORS", "secret": "s"})("s3://b/x")
    assert found == {"key": "OPERATORS", "secret": "s"}
    catalog.extra = {"config": S3_KEYS}
    properties = {"s3.access-key-id": "O", "s3.secret-access-key": "s", "s3.session-token": "mine"}
    found = options_at(catalog, **properties)("s3://b/x")
    assert found == {"key": "SERVERS", "secret": "servers-secret"}


def test_the_servers_keys_go_to_the_servers_address(catalog, thief):
    """And nothing of this machine goes along."""
    cases = {
        "s3://bucket/x": {"s3.endpoint": thief.uri, "s3.region": "eu-west-1", **S3_KEYS},
        "gs://bucket/x": {"gcs.service.host": thief.uri, "gcs.oauth2.token": "servers-token"},
    }
    for location, config in cases.items():
        catalog.extra = {"config": config}
        thief.seen.clear()
        store = open_store(StorageOptions(options_at(catalog)(location)), SystemEnv())
        with pytest.raises(FileNotFoundError):
            store.read(location)
        shown = json.dumps([[one.path, one.headers] for one in thief.seen])
        assert "SERVERS" in shown or "servers-token" in shown
        assert not any(secret in shown for secret in OPERATORS), shown


@pytest.mark.parametrize(
    ("options", "proof"),
    [
        ({"sas_token": "sig=servers"}, "sig=servers"),
        ({"account_key": "c2VydmVycw=="}, "SharedKey acc:"),
    ],
)
def test_keys_of_azure_that_are_given_go_before_those_of_the_machine(thief, options, proof):
    given = {"connection_string": f"AccountName=acc;BlobEndpoint={thief.uri}/acc", **options}
    store = open_store(StorageOptions(given), SystemEnv())
    with pytest.raises(FileNotFoundError):
        store.read("az://container/x")
    shown = json.dumps([[one.path, one.headers] for one in thief.seen])
    assert proof in shown
    assert "operators-bearer" not in shown


@pytest.mark.parametrize(
    "token", ["/tmp/c.json", "c.json", "google_default", "cloud", "anon", '{"type":"external"}']
)
def test_a_token_of_the_server_is_never_a_file(catalog, token):
    catalog.extra = {"config": {"gcs.oauth2.token": token}}
    assert options_at(catalog)("gs://b/x") == {"bearer_token": token}
    catalog.extra = {"config": {"gcs.oauth2.token": "a\nb"}}
    assert options_at(catalog)("gs://b/x") == {}


@pytest.mark.parametrize(
    "said",
    [
        {"adls.connection-string": "BlobEndpoint=http://thief.example;AccountKey=aaaa"},
        {"client.access-key-id": "k", "client.secret-access-key": "s"},
        {"client.profile-name": "admin"},
        {"s3.profile-name": "admin"},
        {"s3.proxy-uri": "http://thief.example"},
        {"gcs.requester-pays": "true"},
        {"adls.client-id": "i", "adls.client-secret": "s", "adls.tenant-id": "t"},
        {"s3.signer.uri": "http://thief.example"},
    ],
)
@pytest.mark.parametrize("layer", ["config", "overrides"])
def test_what_a_server_may_say_of_storage_is_a_closed_list(catalog, layer, said):
    if layer == "config":
        catalog.extra = {"config": said}
    else:
        catalog.config[layer] = said
    of = options_at(catalog)
    for location in ("s3://b/x", "gs://b/x", "abfss://c@a.dfs.core.windows.net/x"):
        assert of(location) == {}


def test_an_address_without_tls_is_no_word_of_a_server_with_tls(catalog):
    silent = lambda _: None  # noqa: E731
    settings = CatalogSettings("c", "rest", {"uri": "https://c.example"}, {"uri": ""})
    client = connect(CatalogAccess(settings, SystemEnv(), StorageOptions(), silent, silent)).client
    client._config = Config("https://c.example", client.configured, Addresses(), frozenset())
    answer = {"config": {"s3.endpoint": "http://inside.example", **S3_KEYS}}
    with pytest.raises(Refused, match="without TLS"):
        Vended(client, ("db",), "t", StorageOptions(), silent).learn(answer)
    named = StorageOptions({"endpoint_url": "http://inside.example"})
    Vended(client, ("db",), "t", named, silent).learn(answer)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("s3.amazonaws.com", True),
        ("s3.eu-west-1.amazonaws.com", True),
        ("s3-eu-west-1.amazonaws.com", True),
        ("bucket.s3.dualstack.us-gov-west-1.amazonaws.com", True),
        ("s3.cn-north-1.amazonaws.com.cn", True),
        ("storage.googleapis.com", True),
        ("acc.blob.core.windows.net", True),
        ("acc.dfs.core.usgovcloudapi.net", True),
        ("onelake.dfs.fabric.microsoft.com", True),
        ("x.execute-api.eu-west-1.amazonaws.com", False),
        ("ec2-1-2-3-4.eu-west-1.compute.amazonaws.com", False),
        ("s3.x.execute-api.eu-west-1.amazonaws.com", False),
        ("s3.eu-west-1.elb.amazonaws.com", False),
        ("s3.amazonaws.com.thief.example", False),
        ("thiefs3.amazonaws.com", False),
        ("storagegoogleapis.com", False),
        ("googleapis.com.thief.example", False),
        ("acc.web.core.windows.net", False),
        ("acc.blob.core.windows.net.thief.example", False),
        ("thief.example", False),
        ("127.0.0.1", False),
        ("", False),
    ],
)
def test_hosts_of_the_clouds_storage_and_those_that_look_alike(host, is_own):
    assert is_clouds_own(host) == is_own
    served = {"client_kwargs.endpoint_url": f"https://{host}"}
    if is_own:
        assert joined({}, served, {"key": "k", "secret": "s"})["key"] == "k"
        for other in (f"http://{host}", f"https://{host}:8443", f"https://{host}@thief.example"):
            with pytest.raises(Refused):
                joined({}, {"client_kwargs.endpoint_url": other}, {})
    else:
        with pytest.raises(Refused):
            joined({}, served, {"key": "k", "secret": "s"})


@pytest.mark.parametrize("region", ["x.thief.example/#", "x/../", "a@thief.example:", "", "é"])
def test_a_region_is_no_part_of_another_address(catalog, region):
    catalog.extra = {"config": {"s3.region": region, **S3_KEYS}}
    options = options_at(catalog)("s3://bucket/x")
    if not region:
        assert "client_kwargs.region_name" not in options
        return
    store = open_store(StorageOptions(options), SystemEnv())
    with pytest.raises(IcectlError, match="not an AWS region"):
        store.read("s3://bucket/x")


def test_an_account_is_no_part_of_another_address(catalog):
    for name in ("thief.example/#", "thief.example:80/", "a@thief.example"):
        catalog.extra = {"config": {"adls.account-name": name, "adls.sas-token": "s"}}
        store = open_store(StorageOptions(options_at(catalog)("az://c/x")), SystemEnv())
        with pytest.raises(IcectlError, match="not an account name"):
            store.read("az://c/x")


def move_manifest_list(metadata_file: Path, location: str) -> None:
    """Have the newest snapshot's manifest list elsewhere."""
    metadata = read_metadata(metadata_file)
    metadata["snapshots"][-1]["manifest-list"] = location
    metadata_file.write_text(json.dumps(metadata))


@pytest.mark.parametrize("scheme", ["abfss", "abfs", "wasbs", "wasb", "az"])
@pytest.mark.parametrize("host", ["thief.example", "other.dfs.core.windows.net", "127.0.0.1:1"])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"sas_token": "s"}, {"account_name": "acc", "account_key": "c2VydmVycw=="},
        {"client_id": "i", "client_secret": "s", "tenant_id": "t"}, {"account_name": "thief"},
    ],
)  # fmt: skip
def test_an_account_that_metadata_names_is_foreign(tmp_path, scheme, host, options, monkeypatch):
    """Refused before any request, and before any login."""
    import socket

    def no_network(*_: Any, **__: Any) -> None:
        raise AssertionError("something was asked")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    table = filled_table(tmp_path / "t", range(3))
    move_manifest_list(current_metadata(table.directory), f"{scheme}://c@{host}/x")
    words = [word for pair in options.items() for word in ("--storage-option", "=".join(pair))]
    code, document = run(["inspect", str(table.directory), "files", *words, "--json"])
    assert (code, "another account" in json.dumps(document)) == (5, True), document


def test_the_accounts_that_are_the_tables_own(thief):
    """Named by the user as the table's location, or configured; or any, for tables of catalogs."""
    from icectl.storage.buckets.azure import check_account

    one, other = "abfss://c@acc.dfs.core.windows.net/t", "abfss://c@b.dfs.core.windows.net/t"
    check_account(one, {}, ())
    check_account(one, {}, ("wasbs://d@acc.blob.core.windows.net/u",))
    check_account("abfss://c@acc.private.example/t", {}, ("abfss://c@acc.private.example/t",))
    check_account(one, {"account_name": "acc"}, ())
    check_account(one, {"account_name": "acc"}, ("/local/t",))
    check_account("abfss://c@any.example/t", {"account_host": "any.example"}, ("/local/t",))
    for own, options in (((one,), {}), ((), {"account_name": "acc"}), (("/local/t",), {})):
        with pytest.raises(Refused):
            check_account(other, options, own)
    with pytest.raises(Refused):
        check_account("abfss://c@acc.thief.example/t", {"account_name": "acc"}, ())


def test_storage_options_cross_with_whose_they_are():
    options = StorageOptions(
        {"key": "k", "secret": "s"},
        served={"s3:": {"client_kwargs.endpoint_url": "https://thief.example"}},
    )
    with pytest.raises(Refused):
        replace(options.crossing()).of("s3://b/x")


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("secret", ["hush-hush\n", "hush-hush\r\nx: y", "hush-hush\u20ac"])
@pytest.mark.parametrize(
    ("table", "options"),
    [
        ("gs://b/t", {"token": "{}"}),
        ("s3://b/t", {"key": "k", "secret": "s", "token": "{}"}),
        ("s3://b/t", {"key": "{}", "secret": "s"}),
    ],
)
def test_keys_that_no_header_can_have_end_in_one_error(table, options, secret, thief, capsys):
    words = [f"{name}={value.format(secret)}" for name, value in options.items()]
    words.append(f"endpoint_url={thief.uri}")
    given = [part for word in words for part in ("--storage-option", word)]
    code, document = run(["inspect", table, *given, "--json"])
    assert code == 2 if table.startswith("gs:") else code in (2, 13), document
    shown = json.dumps(document) + capsys.readouterr().err
    assert "Traceback" not in shown
    assert "hush-hush" not in shown


def test_a_short_secret_is_hidden_where_it_stands_by_itself():
    failure = remote_failure("read", "s3://b/k", OSError(5, "no answer as a: a"), secrets=["a"])
    assert isinstance(failure, StorageError)
    assert "no answer as ***: ***" in failure.message
