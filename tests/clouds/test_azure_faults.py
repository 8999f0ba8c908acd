"""Azure's blobs behind a server that fails: tokens that end, storms, bodies that are cut."""

import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from icectl.errors import StorageError
from icectl.storage.open import StorageOptions, open_store

CONTENT = b"content" * 1000
PLACE = "abfss://lake@account.dfs.core.windows.net/a"


@dataclass
class Blobs:
    """A server with one blob, the answers that it gives before that, and the tokens it got."""

    port: int = 0
    answers: list[tuple[int, str]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def options(self, token: str) -> dict[str, str]:
        endpoint = f"BlobEndpoint=http://127.0.0.1:{self.port}/account"
        return {"connection_string": f"AccountName=account;{endpoint}", "sas_token": token}


@pytest.fixture
def blobs() -> Iterator[Blobs]:
    made = Blobs()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.tokens.append(self.path.partition("sig=")[2].partition("&")[0])
            status, code = made.answers.pop(0) if made.answers else (200, "")
            content = CONTENT if status == 200 else f"<Error><Code>{code}</Code></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.send_header("ETag", '"e"')
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if code == "cut" else content)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


class Vendor:
    """Gives tokens numbered from 1."""

    number = 1

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs

    def __call__(self) -> dict[str, dict[str, str]]:
        return {"abfss:": self.blobs.options(f"sig=t{self.number}")}

    def expire(self) -> bool:
        self.number += 1
        return True


def test_a_token_that_ends_during_a_run_is_asked_for_anew_once(blobs, fixed_env):
    vendor = Vendor(blobs)
    store = open_store(StorageOptions(renewed=vendor), fixed_env)
    blobs.answers = [(403, "AuthenticationFailed")]
    assert store.read(PLACE) == CONTENT
    assert blobs.tokens == ["t1", "t2"]
    blobs.answers = [(403, "AuthenticationFailed")] * 2
    with pytest.raises(StorageError, match="credentials are not accepted"):
        store.read(PLACE)
    assert blobs.tokens == ["t1", "t2", "t2", "t3"]


def test_a_token_that_nobody_renews_is_told_at_once(blobs, fixed_env):
    store = open_store(StorageOptions(blobs.options("sig=t1")), fixed_env)
    blobs.answers = [(403, "AuthenticationFailed")]
    with pytest.raises(StorageError, match="credentials are not accepted") as caught:
        store.read(PLACE)
    assert "account_key" in (caught.value.hint or "")
    assert blobs.tokens == ["t1"]


@pytest.mark.parametrize("answer", [(503, "ServerBusy"), (429, "TooManyRequests"), (200, "cut")])
def test_storms_and_cuts_are_waited_out_up_to_six_times(blobs, fixed_env, answer):
    store = open_store(StorageOptions(blobs.options("sig=t1")), fixed_env)
    blobs.answers = [answer] * 5
    assert store.read(PLACE) == CONTENT
    assert len(blobs.tokens) == 6
    blobs.answers = [answer] * 99
    with pytest.raises(StorageError):
        store.read(PLACE)
    assert len(blobs.tokens) == 12
