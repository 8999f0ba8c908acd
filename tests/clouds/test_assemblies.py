"""Objects that Azure puts together of ranges of others, and merges of data files by that.

The emulator does not copy blocks: a front of it does, as Microsoft documents it.
"""

import http.server
import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from icectl.errors import StorageError
from icectl.storage.new_files import PROBE, create_own
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import CopyRefused
from tests.stores.assemblies import assemble_of_replaced, assembled, begun
from tests.stores.azure_server import KEY, Azurite, CopyingFront, account_signature
from tests.stores.failing_proxy import handler, told
from tests.stores.fixed_env import FixedEnv
from tests.stores.merges import merge

NUMBERS = itertools.count()
SIZES = {"large": 700_000, "d=1/larger é%": 600_001, "small": 100_000, "tiny": 9}
CONTENT = {name: random.Random(name).randbytes(size) for name, size in SIZES.items()}
COPY, LIST, SOURCE = "comp=block&", "comp=blocklist", "x-ms-copy-source"


class Blobs:
    """Blobs of a container behind the front, and a store of it."""

    def __init__(self, server: Azurite, env: FixedEnv) -> None:
        self.server, self.name = server, f"assembled-{next(NUMBERS)}"
        server.create_container(self.name)
        self.front = CopyingFront(server.port)
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(self.front))
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        endpoint = f"http://127.0.0.1:{self.http.server_port}/{server.account}"
        text = f"AccountName={server.account};AccountKey={KEY};BlobEndpoint={endpoint};"
        self.options = {"connection_string": text}
        self.root = f"abfss://{self.name}@{server.account}.dfs.core.windows.net"
        self.env = env
        self.store = open_store(StorageOptions(self.options, concurrency=4), env)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.server.put(self.name, key, CONTENT[key])

    def made_of(self, *parts: Any, options: dict[str, str] | None = None) -> bytes:
        store = self.store
        if options is not None:
            store = open_store(StorageOptions(options, concurrency=4), self.env)
        return assembled(store, self.root, "new", CONTENT, parts)

    def stored(self) -> bytes:
        return self.server.get(self.name, "new")

    def keys(self) -> set[str]:
        return set(self.server.keys(self.name, ""))

    @property
    def counts(self) -> Counter[str]:
        kinds = ((COPY, "block"), ("blocklisttype", "look"), (LIST, "commit"))
        return Counter(
            next((kind for part, kind in kinds if part in path), method)
            for method, path in self.front.requests
        )


@pytest.fixture
def blobs(azurite: Azurite, fixed_env: FixedEnv) -> Iterator[Blobs]:
    made = Blobs(azurite, fixed_env)
    made.put("large", "small", "tiny")
    yield made
    made.http.shutdown()
    made.http.server_close()


LARGE, SMALL, TINY = [(key, 0, SIZES[key]) for key in ("large", "small", "tiny")]
ALL = [LARGE, SMALL, TINY, b"between", LARGE, ("large", 3, 600_000), b"end"]


@pytest.mark.parametrize(
    "parts",
    [ALL, [TINY, b"", ("small", 1, 2)], [("large", 0, 300_000), ("large", 300_000, 700_000)]],
    ids=["all", "small", "adjacent"],
)
def test_a_blob_has_the_bytes_of_its_parts_in_order(blobs, parts):
    assert blobs.made_of(*parts) == blobs.stored()


def test_ranges_are_copied_by_the_storage_and_shorter_ones_pass_here(blobs):
    blobs.made_of(("large", 0, 300_000), ("large", 300_000, 700_000), ("small", 0, 99), b"end")
    assert blobs.counts == {"HEAD": 2, "GET": 3, "block": 2, "commit": 1}


@pytest.mark.parametrize("read", [True, False])
def test_a_source_that_is_written_over_is_told(blobs, read):
    replace = partial(blobs.server.put, blobs.name, "large", bytes(SIZES["large"]))
    with pytest.raises(StorageError, match="was replaced during the run"):
        assemble_of_replaced(blobs.store, blobs.root, dict([LARGE[::2]]), replace, read=read)
    assert blobs.keys() == {"large", "small", "tiny"}


FAILURES = [
    ("PUT", COPY, told(503, "ServerBusy")), ("PUT", COPY, "lost"),
    ("PUT", LIST, told(500, "InternalError")), ("PUT", LIST, "lost"), ("HEAD", "large", "lost"),
    ("GET", "large", "cut"),
]  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: f"{one[0]}-{one[1]}")
def test_a_request_that_fails_once_is_made_again(blobs, failure):
    blobs.front.failures = [failure]
    assert blobs.made_of(*ALL) == blobs.stored()
    assert blobs.front.failures == []


@pytest.mark.parametrize("part", [COPY, LIST])
def test_a_blob_that_fails_for_good_is_not_there(blobs, part):
    blobs.front.failures = [("PUT", part, told(503, "ServerBusy"))] * 99
    with pytest.raises(StorageError, match="ServerBusy"):
        blobs.made_of(*ALL)
    assert blobs.keys() == {"large", "small", "tiny"}


def test_a_blob_that_is_there_already_is_not_overwritten(blobs):
    blobs.server.put(blobs.name, "new", b"of another")
    with pytest.raises(StorageError):
        blobs.made_of(*ALL)
    assert blobs.stored() == b"of another"


@pytest.mark.parametrize("status", [403, 404, 501])
def test_what_does_not_copy_blocks_is_found_out(blobs, status):
    blobs.front.failures = [("PUT", COPY, told(status, "CannotVerifyCopySource"))]
    with pytest.raises(CopyRefused, match="copies no ranges"):
        blobs.made_of(*ALL)
    assert blobs.keys() == {"large", "small", "tiny"}


def test_bytes_that_are_refused_go_another_way(blobs):
    blobs.front.failures = [("PUT", COPY, told(403, "AuthenticationFailed"))] * 2
    with pytest.raises(CopyRefused, match="no blocks by a signed address"):
        blobs.made_of(TINY, bytes(300_000), LARGE)


def test_the_emulator_itself_copies_no_blocks(blobs):
    with pytest.raises(CopyRefused, match=r"copies no ranges: .*Current API is not implemented"):
        blobs.made_of(*ALL, options=blobs.server.options)


def test_a_given_signature_is_used_and_shown_to_the_account_alone(blobs, monkeypatch):
    now = datetime.now(UTC)
    token = account_signature(blobs.server.account, now)
    endpoint = f"BlobEndpoint=http://127.0.0.1:{blobs.http.server_port}/{blobs.server.account}"
    options = {"connection_string": f"AccountName={blobs.server.account};{endpoint}"}
    seen: list[str] = []
    passed_on = blobs.front.passed_on

    def noted(method: str, path: str, body: bytes, headers: dict[str, str]) -> Any:
        seen.extend(value for name, value in headers.items() if name.lower() == SOURCE)
        return passed_on(method, path, body, headers)

    monkeypatch.setattr(blobs.front, "passed_on", noted)
    assert blobs.made_of(*ALL, options=options | {"sas_token": f"?{token}"}) == blobs.stored()
    assert seen
    assert all(url.startswith(f"http://127.0.0.1:{blobs.http.server_port}/") for url in seen)


def test_redirections_are_not_followed(blobs):
    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(CopyingFront(1)))
    place = f"http://127.0.0.1:{other.server_port}/"
    blobs.front.redirects_to = place
    other.server_close()
    with pytest.raises(CopyRefused, match="status 307"):
        blobs.made_of(*ALL)


def test_nothing_is_copied_without_credentials_to_sign_with(blobs):
    endpoint = f"BlobEndpoint=http://127.0.0.1:{blobs.http.server_port}/{blobs.server.account}"
    text = f"AccountName={blobs.server.account};{endpoint}"
    with pytest.raises(CopyRefused):  # not even read
        blobs.made_of(*ALL, options={"connection_string": text, "anon": "true"})


def test_files_of_other_containers_are_not_copied_by_the_storage(blobs):
    new = begun(blobs.store, f"{blobs.root}/new")
    with pytest.raises(CopyRefused, match="another bucket"), new as assembly:
        assembly.open(blobs.root.replace("//", "//other-") + "/large")


@pytest.mark.parametrize("copies", [True, False], ids=["copied", "refused"])
def test_data_files_are_merged_by_the_storage_to_what_a_local_merge_makes(
    blobs, merge_inputs, copies, tmp_path, capsys
):
    location = f"{blobs.root}/wh/t"
    merge_inputs.build(tmp_path / "t", location)
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            key = f"wh/t/{path.relative_to(tmp_path / 't')}"
            blobs.server.put(blobs.name, key, path.read_bytes())
    before = blobs.keys()
    if not copies:
        blobs.front.failures = [("PUT", COPY, told(501, "NotImplemented"))]
    options = ["--storage-option", f"connection_string={blobs.options['connection_string']}"]
    _, shown = merge(location, options, capsys)
    assert ("the storage copies no ranges" in shown) is not copies
    (key,) = (key for key in blobs.keys() - before if key.endswith(".parquet"))
    assert blobs.server.get(blobs.name, key) == merge_inputs.merged
    if copies:
        copied = sum("comp=block&" in path for _, path in blobs.front.requests)
        assert copied == len(merge_inputs.paths) + 1


@pytest.mark.parametrize("failure", [told(503, "ServerBusy"), "dropped", "lost"])
def test_an_own_blob_is_created_again_after_a_failure_or_a_lost_answer(blobs, failure):
    blobs.front.failures = [("PUT", name, failure) for name in (PROBE, "/new")]
    create_own(blobs.store, blobs.env, f"{blobs.root}/new", b"mine")
    assert (blobs.front.failures, blobs.stored()) == ([], b"mine")
    assert blobs.keys() == {"large", "small", "tiny", "new"}
