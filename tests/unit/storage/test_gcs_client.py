"""Which options of gcsfs obstore is trusted with, and what Google's settings become."""

import http.server
import json
import sys
import threading

import pytest
from obstore.exceptions import GenericError

from icectl.errors import StorageError, Unsupported
from icectl.storage.buckets.client import NoCredentials, NotReached, translation
from icectl.storage.buckets.gcs import gcs_source
from icectl.storage.credentials import Renewed
from icectl.storage.open import StorageOptions, open_store

ANONYMOUS = {"skip_signature": True, "bearer_token": "none"}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST", "CLOUDSDK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def file(tmp_path):
    def write(name="key.json", **content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        return str(path)

    return write


def access(options):
    source = gcs_source("lake", Renewed(lambda: options))
    return None if source is None else source.access(None)


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, {}),
        ({"token": "cloud"}, {}),
        ({"token": "anon"}, ANONYMOUS),
        ({"anon": "true"}, ANONYMOUS),
        ({"token": "ya29.from-a-catalog"}, {"bearer_token": "ya29.from-a-catalog"}),
        ({"token": '{"type": 1}'}, {"service_account_key": '{"type": 1}'}),
    ],
)
def test_a_token_is_what_gcsfs_takes_it_for(options, keys):
    found = access(options)
    assert (found.url, found.keys) == ("https://storage.googleapis.com/lake", keys)


@pytest.mark.parametrize(
    "options", [{"token": "browser"}, {"token": "cache"}, {"version_aware": "true"}]
)
def test_what_only_gcsfs_knows_is_left_to_it(options):
    assert access(options) is None


def test_files_of_credentials_are_taken_by_their_kind(file, monkeypatch):
    account = file("account.json", type="service_account")
    person = file(".config/gcloud/application_default_credentials.json", type="authorized_user")
    assert access({"token": account}).keys == {"service_account": account}
    assert access({}).keys == {"application_credentials": person}
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", account)
    assert access({}).keys == {"service_account": account}
    assert access({"token": "google_default"}).keys == {"service_account": account}


@pytest.mark.parametrize("content", [None, "[]", "no JSON"])
def test_a_file_that_holds_no_credentials_is_told(tmp_path, monkeypatch, content):
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    with pytest.raises(StorageError, match=r"credentials of .* cannot be read") as caught:
        access({})
    assert "GOOGLE_APPLICATION_CREDENTIALS" in caught.value.hint


def test_an_emulator_is_found_as_by_googles_libraries(monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "localhost:4443")
    found = access({})
    assert (found.endpoint, found.keys) == ("http://localhost:4443", ANONYMOUS)
    found = access({"endpoint_url": "https://gcs.example/", "token": "t"})
    assert (found.url, found.keys) == ("https://gcs.example/lake", {"bearer_token": "t"})


@pytest.mark.parametrize(
    ("told", "payer"), [("true", "p"), ("other", "other"), ("false", None), (None, None)]
)
def test_who_pays_is_a_project(told, payer):
    options = {"token": "t", "project": "p"} | ({} if told is None else {"requester_pays": told})
    assert access(options).settings["project"] == payer


def test_federated_identities_are_for_googles_own_library(file, monkeypatch):
    """google-auth itself says what is wrong with the file, so it was asked."""
    auth = pytest.importorskip("google.auth.exceptions")
    federated = file(type="external_account", audience="a")
    with pytest.raises(auth.GoogleAuthError):
        access({"token": federated})


def test_without_googles_library_the_extra_is_named(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.auth", None)
    federated = file(type="external_account", audience="a")
    with pytest.raises(Unsupported, match="need google-auth") as caught:
        access({"token": federated})
    assert "icectl[gcs]" in caught.value.hint


MACHINE = "GET http://169.254.169.254/computeMetadata/v1/t in 2ms - "
SERVICE = "POST https://oauth2.googleapis.com/token in 2ms - "
STATUS = "Server returned non-2xx status code: "


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (
            f"{MACHINE}{STATUS}403 Forbidden: denied",
            NoCredentials,
            "http://169.254.169.254 gives no token (status 403)",
        ),
        (
            f"{MACHINE}HTTP error: error sending request",
            NoCredentials,
            "none are set, and this machine has no identity in the cloud",
        ),
        (
            f"{SERVICE}{STATUS}503 Service Unavailable: later",
            NotReached,
            "could not get a token from https://oauth2.googleapis.com",
        ),
    ],
)
def test_a_token_that_cannot_be_had_is_no_answer_of_the_storage(answer, kind, told):
    text = f"Generic GCS error: Error performing token request: Error performing {answer}"
    found = translation(GenericError(text))
    assert (type(found), str(found)) == (kind, told)


def test_what_is_wrong_with_credentials_is_told_with_its_hint_and_nothing_is_repeated(
    tmp_path, fixed_env, file, monkeypatch
):
    store = open_store(StorageOptions({"token": str(tmp_path / "missing.json")}), fixed_env)
    with pytest.raises(StorageError, match="cannot be read: No such file") as caught:
        store.read("gs://lake/a")
    assert "gcloud auth" in caught.value.hint
    monkeypatch.setitem(sys.modules, "google.auth", None)
    store = open_store(StorageOptions({"token": file(type="external_account")}), fixed_env)
    with pytest.raises(Unsupported, match="need google-auth") as unsupported:
        store.create("gs://lake/a", b"")
    assert unsupported.value.exit_code == 14
    assert fixed_env.slept == []


@pytest.fixture
def tokens():
    """A server that gives tokens, its address, and what it was asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"access_token": "given", "expires_in": 3600}')

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token", asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("form", ["text", "file"])
def test_a_service_account_signs_requests_that_are_not_obstores(form, tokens, file):
    pytest.importorskip("google.auth")
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    address, asked = tokens
    key = rsa.generate_private_key(65537, 2048)
    content = {
        "type": "service_account",
        "private_key": key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode(),
        "private_key_id": "1",
        "client_email": "a@b",
        "token_uri": address,
    }
    given = json.dumps(content) if form == "text" else file(**content)
    source = gcs_source("lake", Renewed(lambda: {"token": given}))
    assert [source.token(source.access(None)) for _ in range(2)] == ["given", "given"]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("options", "token"), [({"token": "anon"}, None), ({"bearer_token": "abc"}, "abc")]
)
def test_a_token_that_is_given_signs_by_itself(options, token):
    source = gcs_source("lake", Renewed(lambda: options))
    assert source.token(source.access(None)) == token
