"""Google Cloud Storage that fails: storms, tokens that end, files of credentials that hold none."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from icectl.errors import Refused, StorageError
from icectl.storage.failures import AnswerLost
from icectl.storage.new_files import create_own
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import Store
from tests.s3.conftest import NUMBERS
from tests.stores.fixed_env import FixedEnv
from tests.stores.gcs_server import FakeGcs


@dataclass
class Place:
    """A new bucket, and a store of it."""

    server: FakeGcs
    bucket: str
    env: FixedEnv

    def store(self, **more: Any) -> Store:
        return open_store(StorageOptions(self.server.options, **more), self.env)

    def at(self, path: str) -> str:
        return f"gs://{self.bucket}/{path}"


@pytest.fixture
def place(fake_gcs: FakeGcs, fixed_env: FixedEnv) -> Iterator[Place]:
    made = Place(fake_gcs, f"faults-{next(NUMBERS)}", fixed_env)
    fake_gcs.create_bucket(made.bucket)
    fake_gcs.put(made.bucket, "a", b"content")
    fake_gcs.requests.clear()
    yield made
    fake_gcs.failures.clear()


@pytest.mark.parametrize(("status", "code"), [(503, "ServiceUnavailable"), (429, "SlowDown")])
def test_a_storm_is_waited_out_and_one_without_end_is_told(place, status, code):
    store = place.store()
    place.server.failures += [("GET", "/a", status, code)] * 5
    assert store.read(place.at("a")) == b"content"
    assert len(place.server.requests) == 6
    place.server.failures += [("GET", "/a", status, code)] * 99
    with pytest.raises(StorageError, match=f"{code}!"):
        store.read(place.at("a"))
    assert len(place.server.requests) == 12


def test_a_create_is_never_repeated_and_a_refused_one_is_known(place):
    store = place.store()
    store.create(place.at("first"), b"1")
    place.server.requests.clear()
    place.server.failures += [("PUT", "/b", 503, "ServiceUnavailable")]
    with pytest.raises(AnswerLost):
        store.create(place.at("b"), b"mine")
    assert [method for method, _ in place.server.requests] == ["PUT"]
    place.server.failures += [("PUT", "/b", 403, "AccessDenied")]
    with pytest.raises(StorageError, match="access denied") as caught:
        store.create(place.at("b"), b"mine")
    assert not isinstance(caught.value, AnswerLost)
    assert place.server.keys(place.bucket, "") == ["a", "first"]


@pytest.mark.parametrize(("status", "code"), [(503, "ServiceUnavailable"), (0, "")])
def test_an_own_file_is_created_again_after_a_failure_or_a_lost_answer(place, status, code):
    place.server.failures += [("PUT", name, status, code) for name in ("probe", "/b")]
    create_own(place.store(), place.env, place.at("b"), b"mine")
    assert place.server.failures == []
    assert place.server.get(place.bucket, "b") == b"mine"
    assert place.server.keys(place.bucket, "") == ["a", "b"]


def test_storage_that_ignores_conditions_is_refused_and_left_as_it_was(place, monkeypatch):
    monkeypatch.setattr(place.server, "is_careless", True)
    store = place.store()
    for _ in range(2):
        with pytest.raises(Refused, match="ignores conditional writes") as caught:
            store.create(place.at("metadata/v2.metadata.json"), b"{}")
    assert "x-goog-if-generation-match: 0" in (caught.value.hint or "")
    assert place.server.keys(place.bucket, "") == ["a"]


class Vendor:
    """Gives tokens numbered from 1."""

    number = 1

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def __call__(self) -> dict[str, dict[str, str]]:
        address = {"endpoint_url": self.options["endpoint_url"]}
        return {"gs:": {**address, "bearer_token": f"token-{self.number}"}}

    def expire(self) -> bool:
        self.number += 1
        return True


def test_a_token_that_ends_during_a_run_is_asked_for_anew_once(place):
    vendor = Vendor(place.server.options)
    store = open_store(StorageOptions(renewed=vendor), place.env)
    assert store.read(place.at("a")) == b"content"
    place.server.failures += [("GET", "/a", 401, "AuthenticationRequired")]
    assert store.read(place.at("a")) == b"content"
    assert vendor.number == 2
    place.server.failures += [("GET", "/a", 401, "AuthenticationRequired")] * 2
    with pytest.raises(StorageError, match="credentials are not accepted") as caught:
        store.read(place.at("a"))
    assert "GOOGLE_APPLICATION_CREDENTIALS" in (caught.value.hint or "")


def test_a_bucket_without_list_right_is_read_and_its_listing_is_denied(place):
    store = place.store()
    place.server.failures += [("GET", "list-type=2", 403, "AccessDenied")]
    with pytest.raises(StorageError, match=r"cannot list .*: access denied"):
        list(store.list(place.at("t")))
    assert store.read(place.at("a")) == b"content"


def test_more_files_than_a_page_are_listed_each_once(place):
    names = [f"t/p={number % 7}/{number:04}" for number in range(1100)]
    for name in names:
        place.server.put(place.bucket, name, b"")
    found = [
        row["location"] for batch in place.store().list(place.at("t")) for row in batch.to_pylist()
    ]
    assert sorted(found) == sorted(map(place.at, names))
