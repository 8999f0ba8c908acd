"""Deleting files: in their order, kind by kind, never raising, stopping in time."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from icectl.commit import deletion
from icectl.commit.deletion import Removal, remove_files
from icectl.entries.files import FileKind, Files, files
from icectl.storage.local.store import LocalStore
from icectl.storage.many_files import FilesByKind
from icectl.storage.store import FailedRemoval, Store
from tests.builders.expiry import context_of
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore, FaultyStore, WrappedStore


def named(kind: FileKind, *places: str) -> Files:
    return files(places, places, kind, [1] * len(places))


DOOMED = FilesByKind(
    [
        named(FileKind.STATISTICS_FILES, "/a.puffin"),
        named(FileKind.MANIFEST_LISTS, "/a-list.avro"),
        named(FileKind.MANIFESTS, "/a-manifest.avro"),
        named(FileKind.DATA_FILES, "/x.parquet", "/y.parquet", "/z.parquet"),
        named(FileKind.EQUALITY_DELETE_FILES, "/b.parquet"),
    ]
)


def remove(
    store: Store,
    doomed: FilesByKind,
    env: FixedEnv | None = None,
    ends_at: float | None = None,
    kept_check_sums: Collection[str] | None = None,
) -> Removal:
    context = context_of(store=store, env=env or FixedEnv(), ends_at_seconds=ends_at)
    return remove_files(context, doomed, kept_check_sums)


def places(found: FilesByKind) -> list[str]:
    return [*found.locations()]


def test_files_go_before_what_describes_them(monkeypatch):
    monkeypatch.setattr(deletion, "STEP", 2)
    store = CountingStore(LocalStore())
    removal = remove(store, DOOMED)
    assert [location for _, location in store.calls] == [
        "/x.parquet /y.parquet",
        "/z.parquet",
        "/b.parquet",
        "/a-manifest.avro",
        "/a-list.avro",
        "/a.puffin",
    ]
    assert places(removal.removed) == places(DOOMED)
    assert (removal.failed, removal.stopped) == ((), False)


class Asked(WrappedStore):
    """Removes nothing, and knows how many files each step had."""

    def __init__(self) -> None:
        super().__init__(LocalStore())
        self.counts: list[int] = []

    def remove(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:  # type: ignore[override]
        self.counts.append(len(removed))
        return ()


def test_the_store_is_asked_for_several_requests_of_s3_at_a_time():
    store = Asked()
    many = [f"/{number}" for number in range(9_000)]
    remove(store, FilesByKind([named(FileKind.DATA_FILES, *many)]))
    assert store.counts == [4_000, 4_000, 1_000]


class Stubborn(WrappedStore):
    """Keeps the files of one name."""

    def remove(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:  # type: ignore[override]
        return [FailedRemoval(place, "no") for place in removed if place == "/y.parquet"]


def test_what_cannot_be_deleted_is_named_and_the_rest_goes():
    removal = remove(Stubborn(LocalStore()), DOOMED)
    assert removal.failed == (FailedRemoval("/y.parquet", "no"),)
    assert places(removal.removed) == [place for place in places(DOOMED) if place != "/y.parquet"]
    assert places(removal.remaining) == ["/y.parquet"]
    assert not removal.stopped


def test_a_batch_that_fails_whole_is_named_whole():
    removal = remove(FaultyStore(LocalStore(), 1, "before"), DOOMED)
    assert [item.location for item in removal.failed] == ["/x.parquet", "/y.parquet", "/z.parquet"]
    assert places(removal.removed) == [
        "/b.parquet",
        "/a-manifest.avro",
        "/a-list.avro",
        "/a.puffin",
    ]


class Slow(WrappedStore):
    """Takes a second for every call."""

    def __init__(self, env: FixedEnv) -> None:
        super().__init__(LocalStore())
        self.env = env

    def remove(self, removed: Sequence[str]) -> Sequence[FailedRemoval]:  # type: ignore[override]
        self.env.sleep(1)
        return []


def test_the_time_limit_ends_it_between_batches():
    env = FixedEnv()
    removal = remove(Slow(env), DOOMED, env, ends_at=2)
    assert places(removal.removed) == ["/x.parquet", "/y.parquet", "/z.parquet", "/b.parquet"]
    assert places(removal.remaining) == ["/a-manifest.avro", "/a-list.avro", "/a.puffin"]
    assert removal.stopped


def test_each_batch_is_shielded_from_interrupts():
    entered: list[str] = []

    @contextlib.contextmanager
    def shield() -> Iterator[None]:
        entered.append("in")
        yield
        entered.append("out")

    remove_files(replace(context_of(), shield=shield), DOOMED)
    assert entered == ["in", "out"] * 5


def test_no_files_are_no_calls():
    store = CountingStore(LocalStore())
    removal = remove(store, FilesByKind())
    assert (store.calls, len(removal.removed), removal.stopped) == ([], 0, False)


def test_the_check_sums_of_files_go_after_them_but_for_those_that_are_to_stay():
    store = CountingStore(LocalStore())
    doomed = FilesByKind(
        [
            named(FileKind.DATA_FILES, "/d/x.parquet", "file:///d/y.parquet"),
            named(FileKind.MANIFESTS, "/d/m.avro"),
        ]
    )
    removal = remove(store, doomed, kept_check_sums={"/d/.y.parquet.crc"})
    assert [location for _, location in store.calls] == [
        "/d/x.parquet file:///d/y.parquet",
        "/d/.x.parquet.crc",
        "/d/m.avro",
        "/d/.m.avro.crc",
    ]
    assert places(removal.removed) == places(doomed)


def test_files_that_stay_keep_their_check_sums():
    store = CountingStore(Stubborn(LocalStore()))
    files_of = FilesByKind([named(FileKind.DATA_FILES, "/y.parquet")])
    assert len(remove(store, files_of, kept_check_sums=()).failed) == 1
    assert [location for _, location in store.calls] == ["/y.parquet"]


class Told:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def phase(self, name: str, *, total: int | None = None, unit: str = "count") -> None:
        self.told.append((name, total, unit))

    def advance(self, amount: int) -> None:
        self.told.append(amount)

    def warn(self, message: str) -> None:
        self.told.append(message)


def test_progress_counts_the_files(monkeypatch):
    monkeypatch.setattr(deletion, "STEP", 2)
    progress = Told()
    remove_files(context_of(progress=progress), DOOMED)
    assert progress.told == [("deleting files", 7, "count"), 2, 1, 1, 1, 1, 1]
