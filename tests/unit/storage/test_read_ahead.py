"""Reading ahead: in order, within a budget, and what happens to those who are faster."""

import threading

import pytest

from icectl.errors import StorageError
from icectl.storage import streams
from icectl.storage.ahead import AheadStore
from icectl.storage.kept import KeepingStore
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.streams import ReadAhead
from tests.stores.wrapped import CountingStore, FaultyStore

BASE = "memory://read-ahead/t"


@pytest.fixture
def store(fixed_env):
    made = open_store(StorageOptions(home=BASE), fixed_env)
    for number in range(10):
        made.replace(f"{BASE}/{number}", bytes([number]) * 10)
    return CountingStore(made)


def files(count=10, size=10):
    return [(f"{BASE}/{number}", size) for number in range(count)]


def test_each_file_is_one_request_and_is_read_at_any_place(store):
    with ReadAhead(store, files(), 4) as ahead:
        for number in range(10):
            with ahead.open(f"{BASE}/{number}") as file:
                assert file.seek(-2, 2) == 8
                assert file.read() == bytes([number]) * 2
                assert file.seek(0) == 0
                assert file.read(3) == bytes([number]) * 3
    assert store.counts == {"read_range": 10}


def test_no_more_is_here_than_the_budget_until_files_are_closed(store, monkeypatch):
    monkeypatch.setattr(streams, "_BUDGET_BYTES", 35)
    with ReadAhead(store, files(), 4) as ahead:
        opened = [ahead.open(f"{BASE}/{number}") for number in range(3)]
        assert store.counts == {"read_range": 3}
        opened[0].close()
        opened[0].close()
        with ahead.open(f"{BASE}/3") as file:
            assert file.read() == bytes([3]) * 10
        assert store.counts["read_range"] in {4, 5}
        assert "open" not in store.counts
        for file in opened:
            file.close()


def test_who_is_faster_and_who_opens_again_is_served_by_the_store(store, monkeypatch):
    monkeypatch.setattr(streams, "_BUDGET_BYTES", 10)
    with ReadAhead(store, files(3), 4) as ahead:
        for number in (2, 0, 0, 1):
            with ahead.open(f"{BASE}/{number}") as file:
                assert file.read() == bytes([number]) * 10
    opened = [place for method, place in store.calls if method == "open"]
    assert opened == [f"{BASE}/2", f"{BASE}/0"]


def test_large_files_are_left_to_the_store(store, monkeypatch):
    monkeypatch.setattr(streams, "_LARGEST_BYTES", 9)
    with ReadAhead(store, files(2), 4) as ahead, ahead.open(f"{BASE}/1") as file:
        assert file.read() == bytes([1]) * 10
    assert "read_range" not in store.counts


def test_local_files_are_left_to_the_store(fixed_env, tmp_path):
    (tmp_path / "a").write_bytes(b"here")
    store = CountingStore(open_store(StorageOptions(), fixed_env))
    with (
        ReadAhead(store, [(str(tmp_path / "a"), 4)], 4) as ahead,
        ahead.open(str(tmp_path / "a")) as file,
    ):
        assert file.read() == b"here"
    assert "read_range" not in store.counts


@pytest.mark.parametrize("size", [9, 11])
def test_a_size_that_metadata_has_wrong_is_the_stores(store, size):
    with ReadAhead(store, files(1, size), 4) as ahead, ahead.open(f"{BASE}/0") as file:
        assert file.read() == bytes(10)
    assert store.counts["open"] == 1


def test_failures_come_to_who_opens_and_the_others_go_on(store, monkeypatch):
    monkeypatch.setattr(streams, "_BUDGET_BYTES", 10)
    faulty = FaultyStore(store, 1, "before", frozenset({"read_range"}))
    with ReadAhead(faulty, [*files(1), (f"{BASE}/missing", 10), *files(2)[1:]], 1) as ahead:
        with pytest.raises(StorageError):
            ahead.open(f"{BASE}/0")
        with pytest.raises(FileNotFoundError):
            ahead.open(f"{BASE}/missing")
        with ahead.open(f"{BASE}/1") as file:
            assert file.read() == bytes([1]) * 10
    assert "open" not in store.counts


def test_what_nobody_opens_does_not_keep_the_run(store):
    held = threading.Event()

    class Slow(CountingStore):
        def call(self, method, location, action):
            held.wait(5)
            return super().call(method, location, action)

    slow = Slow(store)
    with ReadAhead(slow, files(), 1):
        held.set()
    assert slow.counts["read_range"] <= 10


@pytest.fixture
def large(store, monkeypatch):
    """A file of ten parts, of which an open one has the last two bytes."""
    monkeypatch.setattr(streams, "_LARGEST_BYTES", 9)
    monkeypatch.setattr(streams, "_PART_BYTES", 10)
    monkeypatch.setattr(streams, "_END_BYTES", 2)
    monkeypatch.setattr(streams, "_BUFFER_BYTES", 1)
    store.replace(f"{BASE}/large", bytes(range(95)))
    return f"{BASE}/large"


def test_a_large_file_is_read_in_parts_each_once(store, large):
    with ReadAhead(store, [(large, 95)], 4) as ahead, ahead.open(large) as file:
        assert file.seek(-2, 2) == 93
        assert file.read() == bytes([93, 94])
        assert "read_range" not in store.counts
        file.seek(0)
        assert file.read(25) == bytes(range(25))
        assert file.read(1) == bytes([25])
        assert file.read() == bytes(range(26, 95))
        assert file.seek(-80, 1) == 15
        assert file.tell() == 15
    assert store.counts == {"replace": 1, "open": 1, "read_range": 10}


def test_parts_behind_a_reader_are_under_way_but_no_more_of_them_than_three(store, large):
    with ReadAhead(store, [], 4) as ahead, ahead.open(large) as file:
        file.seek(30)
        assert file.read(1) == bytes([30])
    assert 1 <= store.counts["read_range"] <= 4


def test_a_large_file_that_is_read_in_places_is_left_to_the_store(store, large):
    with ReadAhead(store, [], 4, [large]) as ahead, ahead.open(large) as file:
        file.seek(30)
        assert file.read(10) == bytes(range(30, 40))
    assert "read_range" not in store.counts


def test_a_part_that_failed_is_read_again_where_it_is_asked_for_again(store, large):
    faulty = FaultyStore(store, 1, "before", frozenset({"read_range"}))
    with ReadAhead(faulty, [], 1) as ahead, ahead.open(large) as file:
        with pytest.raises(StorageError):
            file.read(1)
        assert file.read(12) == bytes(range(12))


def test_a_store_reads_ahead_in_a_block_and_each_file_once(store):
    ahead = AheadStore(store, 4)
    with ahead.ahead(files(3)):
        assert [ahead.read(f"{BASE}/{number}") for number in (0, 1, 2, 3)] == [
            bytes([number]) * 10 for number in range(4)
        ]
        assert store.counts == {"read_range": 3, "read": 1}
        assert ahead.read(f"{BASE}/0") == bytes(10)
    assert ahead.read(f"{BASE}/1") == bytes([1]) * 10
    assert store.counts == {"read_range": 3, "read": 3}


def test_what_a_store_keeps_is_not_read_ahead(store):
    place = f"{BASE}/kept.parquet"
    store.replace(place, b"kept")
    keeping = KeepingStore(store)
    assert keeping.read(place) == b"kept"
    ahead = AheadStore(keeping, 4)
    with ahead.ahead([(place, 4), *files(1)]):
        assert (ahead.read(place), ahead.read(f"{BASE}/0")) == (b"kept", bytes(10))
    assert store.counts == {"replace": 1, "read": 1, "read_range": 1}
