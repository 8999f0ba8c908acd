"""Object storage that answers badly, or not at all: what is tried again and what is said."""

import http.server
import importlib
import socket
import sys
import threading

import pytest

from icectl.errors import StorageError, Unsupported, UsageError
from icectl.storage.failures import remote_failure
from icectl.storage.open import StorageOptions, open_store

pytestmark = pytest.mark.s3

SECRET = "sEcReT-value"


def error(status, code):
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}!</Message></Error>"
    return status, body.encode()


class Script(http.server.ThreadingHTTPServer):
    """An S3 endpoint that gives the next answer of a list to each request; None breaks off."""

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests = list(answers), []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.server.requests.append(self.path)
        scripted = self.server.answers.pop(0)
        if scripted is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, body = scripted
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = answer  # noqa: N815 - http.server's names

    def log_message(self, *args):
        pass


@pytest.fixture
def script():
    servers = []

    def start(*answers):
        servers.append(Script(*answers))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def s3(endpoint, env, **options):
    given = {
        "key": "an-access-key", "secret": SECRET, "endpoint_url": endpoint,
        "client_kwargs.region_name": "us-east-1", **options,
    }  # fmt: skip
    return open_store(StorageOptions(given), env)


PASSING = [error(503, "SlowDown"), error(500, "InternalError"), error(429, "TooManyRequests")]
PASSING += [error(502, "BadGateway"), error(504, "GatewayTimeout"), error(400, "RequestTimeout")]


@pytest.mark.parametrize("failure", PASSING)
def test_what_passes_is_tried_again(script, fixed_env, failure):
    server = script(failure, failure, (200, b"content"))
    assert s3(server.endpoint, fixed_env).read("s3://b/t/a") == b"content"
    assert fixed_env.slept == [0.2, 0.4]
    assert server.requests == ["/b/t/a"] * 3


def test_a_connection_that_breaks_off_is_tried_again(script, fixed_env):
    server = script(None, None, None, (200, b"content"))
    assert s3(server.endpoint, fixed_env).read("s3://b/t/a") == b"content"
    assert fixed_env.slept[0] == 0.2
    assert server.requests == ["/b/t/a"] * 4


def test_what_does_not_pass_ends_after_six_attempts(script, fixed_env):
    server = script(*[error(503, "SlowDown")] * 9)
    with pytest.raises(StorageError) as caught:
        s3(server.endpoint, fixed_env).read("s3://b/t/a")
    assert caught.value.message == "cannot read s3://b/t/a: SlowDown! (SlowDown)"
    assert len(server.requests) == 6
    assert fixed_env.slept == [0.2, 0.4, 0.8, 1.6, 3.2]


@pytest.mark.parametrize(
    ("answer", "reason", "hint"),
    [
        (error(403, "AccessDenied"), "access denied", "AWS_PROFILE"),
        (
            error(403, "InvalidAccessKeyId"),
            "the credentials are not accepted (InvalidAccessKeyId)",
            "AWS_PROFILE",
        ),
        (
            error(403, "SignatureDoesNotMatch"),
            "the credentials are not accepted (SignatureDoesNotMatch)",
            "AWS_PROFILE",
        ),
        (error(404, "NoSuchBucket"), "there is no such bucket", "endpoint_url"),
        (
            error(400, "AuthorizationHeaderMalformed"),
            "the bucket is in another region (AuthorizationHeaderMalformed)",
            "client_kwargs.region_name",
        ),
    ],
)
def test_refusals_are_told_with_a_hint_and_not_repeated(script, fixed_env, answer, reason, hint):
    server = script(*[answer] * 3)
    with pytest.raises(StorageError) as caught:
        s3(server.endpoint, fixed_env).read("s3://b/t/a")
    assert caught.value.message == f"cannot read s3://b/t/a: {reason}"
    assert hint in caught.value.hint
    assert fixed_env.slept == []


def test_a_missing_object_is_missing(script, fixed_env):
    server = script(error(404, "NoSuchKey"))
    with pytest.raises(FileNotFoundError):
        s3(server.endpoint, fixed_env).read("s3://b/t/a")
    assert len(server.requests) == 1


def test_secrets_are_not_repeated(script, fixed_env):
    server = script(error(400, f"you-sent-{SECRET}"))
    with pytest.raises(StorageError) as caught:
        s3(server.endpoint, fixed_env).read("s3://b/t/a")
    assert caught.value.message == "cannot read s3://b/t/a: you-sent-***! (you-sent-***)"


def test_no_store_shows_its_secrets(fixed_env):
    store = s3("http://127.0.0.1:1", fixed_env)
    assert SECRET not in repr(store)
    assert SECRET not in repr(store.of("s3://b/t"))


def test_a_reader_repeats_its_reads(script, fixed_env):
    server = script((200, b"0123"), error(503, "SlowDown"), (206, b"0123"))
    with s3(server.endpoint, fixed_env).open("s3://b/t/a") as file:
        assert file.read(4) == b"0123"
    assert fixed_env.slept == [0.2]


def test_an_endpoint_that_is_not_there_is_told(fixed_env):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    store = s3(endpoint, fixed_env)
    for call in (
        lambda: store.read("s3://b/t/a"),
        lambda: store.stat("s3://b/t/a"),
        lambda: list(store.list("s3://b/t")),
        lambda: store.list_directory("s3://b/t"),
    ):
        with pytest.raises(StorageError, match=r"no response: .*127\.0\.0\.1") as caught:
            call()
        assert "endpoint_url" in caught.value.hint
        assert "s3://b/t" in caught.value.message
    assert len(fixed_env.slept) == 20


def test_a_web_page_is_told_where_tables_lie():
    error = remote_failure("list", "http://h/t", ConnectionRefusedError("refused"), secrets=())
    assert isinstance(error, StorageError)
    assert (error.hint or "").startswith("a table's location begins with s3://")


def test_missing_credentials_are_told(fixed_env, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    options = {"endpoint_url": "http://127.0.0.1:1", "client_kwargs.region_name": "us-east-1"}
    store = open_store(StorageOptions(options), fixed_env)
    with pytest.raises(StorageError, match="cannot read s3://b/t/a: no credentials") as caught:
        store.read("s3://b/t/a")
    assert "AWS_PROFILE" in caught.value.hint


def test_a_missing_bucket_is_a_storage_error_for_every_call(s3_server, fixed_env):
    store = open_store(StorageOptions(s3_server.options), fixed_env)
    for call in (
        lambda: store.read("s3://no-such-bucket/t/a"),
        lambda: store.read_range("s3://no-such-bucket/t/a", 0, 1),
        lambda: list(store.list("s3://no-such-bucket/t")),
        lambda: store.list_directory("s3://no-such-bucket/t"),
    ):
        with pytest.raises(StorageError, match="there is no such bucket"):
            call()


@pytest.mark.full
def test_a_large_prefix_is_listed_once_each(s3_server, fixed_env):
    s3_server.client.create_bucket(Bucket="large")
    keys = [f"t/data/p={number % 9}/{number}" for number in range(1500)]
    for key in keys:
        s3_server.client.put_object(Bucket="large", Key=key, Body=b"")
    store = open_store(StorageOptions(s3_server.options, concurrency=3), fixed_env)
    found = [
        path for batch in store.list("s3a://large/t") for path in batch["location"].to_pylist()
    ]
    assert sorted(found) == sorted(f"s3a://large/{key}" for key in keys)


def test_an_unknown_option_is_wrong_usage(fixed_env):
    store = s3("http://127.0.0.1:1", fixed_env, **{"client_kwargs.regionname": "x"})
    with pytest.raises(UsageError, match="the storage driver has no option `regionname`") as caught:
        store.read("s3://b/t/a")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("options are `endpoint_url`, `key`, `secret`, ")
    with pytest.raises(UsageError) as caught:
        s3("http://127.0.0.1:1", fixed_env, endpoint_ur="x").read("s3://b/t/a")
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean `endpoint_url`? options are ")


def test_an_unknown_scheme_is_unsupported(fixed_env):
    store = open_store(StorageOptions(home="nosuch://b/t/a"), fixed_env)
    with pytest.raises(Unsupported, match="no storage driver supports the scheme nosuch:"):
        store.read("nosuch://b/t/a")


def test_a_driver_that_cannot_start_is_told_in_one_line(fixed_env, monkeypatch):
    def start(*_: object, **__: object) -> None:
        raise OSError("unable to load libjvm\ndlopen(/usr/lib/libjvm.so) failed")

    monkeypatch.setattr("fsspec.implementations.http.HTTPFileSystem.__init__", start)
    store = open_store(StorageOptions(home="https://node/wh/t"), fixed_env)
    with pytest.raises(StorageError) as caught:
        store.read("https://node/wh/t")
    assert caught.value.message == "cannot reach https://node/wh/t: unable to load libjvm"


def test_a_driver_that_is_not_installed_is_unsupported(fixed_env, monkeypatch):
    from fsspec.registry import known_implementations

    monkeypatch.setitem(
        known_implementations,
        "elsewhere",
        {"class": "no_such_module.FileSystem", "err": "Install no_such_module"},
    )
    store = open_store(StorageOptions(home="elsewhere://b/t/a"), fixed_env)
    with pytest.raises(Unsupported, match="is not installed"):
        store.read("elsewhere://b/t/a")


@pytest.mark.parametrize(
    ("location", "module", "extra"),
    [
        ("gs://b/t/a", "gcsfs", "icectl[gcs]"),
        ("abfss://c@a.dfs.core.windows.net/t/a", "adlfs", "icectl[azure]"),
    ],
)
def test_a_driver_that_an_extra_brings_is_named_by_it(
    fixed_env, monkeypatch, location, module, extra
):
    known = importlib.import_module("fsspec.registry")._registry
    monkeypatch.delitem(known, location.partition(":")[0], raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    store = open_store(StorageOptions({"version_aware": "true"}), fixed_env)
    with pytest.raises(Unsupported, match="is not installed") as caught:
        store.read(location)
    assert (caught.value.exit_code, extra in caught.value.hint) == (14, True)
