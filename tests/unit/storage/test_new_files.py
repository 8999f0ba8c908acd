"""Files of a moment: told by their names, and old by the clock that dates them."""

import os
import re

import pytest

from icectl.errors import Refused, StorageError
from icectl.storage.failures import AnswerLost
from icectl.storage.local.store import LocalStore
from icectl.storage.new_files import (
    PROBE,
    TEMPORARY,
    Proven,
    create_own,
    old_temporaries,
    prove_condition,
    temporary_name,
)
from icectl.storage.store import FailedRemoval, FileStatus
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore, WrappedStore

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
OURS = (
    ".icectl-4242-0-v9.metadata.json", ".icectl-4242-17-version-hint.text",
    f".icectl-1-2-icectl-compact-{UUID}.json", ".icectl-1-2-.tmp", f".icectl-probe-{UUID}",
)  # fmt: skip
OTHERS = (
    ".icectl", ".icectl-4242", ".icectl-probe-", ".icectl-a-1-x", f"icectl-probe-{UUID}",
    f"icectl-compact-{UUID}.json", "x.icectl-4242-0-v9.metadata.json", ".icectl-4242-0-a/b",
)  # fmt: skip
AGE_MS = 1_000


class Dated(WrappedStore):
    """A store with a clock of its own."""

    def clock_ms(self, location: str) -> int | None:
        return 50_000


def statuses(*names: str, modified_ms: int | None) -> list[FileStatus]:
    return [FileStatus(f"/t/metadata/{name}", 1, modified_ms) for name in names]


def test_the_names_that_are_given_are_recognised():
    assert temporary_name(3, "a.avro") == f".icectl-{os.getpid()}-3-a.avro"
    for name in (temporary_name(3, "a.avro"), PROBE, *OURS):
        assert re.fullmatch(TEMPORARY, name), name


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_are_not(name):
    assert not re.fullmatch(TEMPORARY, name)


@pytest.mark.parametrize(
    ("modified_ms", "old"), [(48_999, True), (49_000, False), (60_000, False), (None, False)]
)
def test_a_file_is_old_by_the_clock_that_dates_it(modified_ms, old):
    listed = statuses(*OURS, *OTHERS[:-1], modified_ms=modified_ms)
    found = old_temporaries(Dated(None), FixedEnv(), listed, AGE_MS)  # type: ignore[arg-type]
    assert found == (tuple(f"/t/metadata/{name}" for name in OURS) if old else ())


def test_where_there_are_none_nothing_is_asked():
    store = CountingStore(None)  # type: ignore[arg-type]
    assert old_temporaries(store, FixedEnv(), statuses(*OTHERS[:-1], modified_ms=1), 1) == ()
    assert store.calls == []


class Failing(WrappedStore):
    """A store whose creates fail, in order: before or after they are done, or never (None)."""

    def __init__(self, *failures: tuple[str, Exception] | None) -> None:
        super().__init__(LocalStore())
        self.failures = list(failures)

    def create(self, location: str, content: bytes) -> None:
        when, error = (self.failures.pop(0) if self.failures else None) or ("", None)
        if when != "before":
            super().create(location, content)
        if error is not None:
            raise error


def passing() -> StorageError:
    error = StorageError("cannot write: SlowDown")
    error.__cause__ = TimeoutError()
    return error


LOST = AnswerLost("cannot write: the connection broke off")


@pytest.mark.parametrize(
    "failures",
    [
        [("before", LOST)],
        [("after", LOST)],
        [("before", passing())] * 5,
        [("before", LOST), ("after", LOST), ("before", passing()), ("after", FileExistsError())],
    ],
)
def test_an_own_file_is_created_again_until_it_is_there(tmp_path, failures):
    env, store = FixedEnv(), Failing(*failures)
    create_own(store, env, f"{tmp_path}/a", b"mine")
    assert (tmp_path / "a").read_bytes() == b"mine"
    assert env.slept == [0.2, 0.4, 0.8, 1.6, 3.2][: len(env.slept)]
    assert env.slept


def test_what_will_not_pass_is_not_tried_again_and_tries_are_bounded(tmp_path):
    env = FixedEnv()
    for error in (StorageError("cannot write: access denied"), Refused("no")):
        with pytest.raises(type(error), match=error.message):
            create_own(Failing(("before", error)), env, f"{tmp_path}/a", b"mine")
    assert env.slept == []
    store = Failing(*[("before", LOST)] * 99)
    with pytest.raises(AnswerLost):
        create_own(store, env, f"{tmp_path}/a", b"mine")
    assert (len(store.failures), len(env.slept)) == (93, 5)
    assert not (tmp_path / "a").exists()


def test_a_file_of_other_bytes_is_told_and_left_alone(tmp_path):
    (tmp_path / "a").write_bytes(b"other")
    for failures in ((), (("before", LOST),)):
        with pytest.raises(FileExistsError):
            create_own(Failing(*failures), FixedEnv(), f"{tmp_path}/a", b"mine")
    assert (tmp_path / "a").read_bytes() == b"other"


class Bucket:
    """Objects under conditions; `lost` answers are those of the puts of these numbers."""

    def __init__(self, *, is_careless: bool = False, denies: bool = False, lost: str = "") -> None:
        self.objects: set[str] = set()
        self.is_careless, self.denies, self.lost = is_careless, denies, lost
        self.puts = 0
        self.warnings: list[str] = []

    def put_new(self, location: str, _: bytes) -> None:
        self.puts += 1
        if location in self.objects and not self.is_careless:
            raise FileExistsError(location)
        self.objects.add(location)
        if str(self.puts) in self.lost:
            raise LOST

    def remove(self, removed):
        if self.denies:
            return [FailedRemoval(location, "access denied") for location in removed]
        self.objects -= set(removed)
        return []

    def prove(self) -> None:
        place = "s3://b/t/metadata/v2.metadata.json"
        prove_condition(
            Proven(), place, self.put_new, self.remove, FixedEnv(), self.warnings.append
        )


@pytest.mark.parametrize("lost", ["", "1", "2", "12"])
def test_a_bucket_that_keeps_conditions_is_proven_whatever_answers_are_lost(lost):
    bucket = Bucket(lost=lost)
    bucket.prove()
    assert (bucket.objects, bucket.warnings, bucket.puts) == (set(), [], 2)


@pytest.mark.parametrize("lost", ["", "1", "2", "1357"])
def test_a_careless_bucket_is_refused_whatever_answers_are_lost(lost):
    bucket = Bucket(is_careless=True, lost=lost)
    with pytest.raises(Refused, match="ignores conditional writes"):
        bucket.prove()
    assert bucket.objects == set()


def test_a_probe_that_may_not_be_removed_serves_later_runs_and_is_the_only_one():
    bucket = Bucket(denies=True)
    for _ in range(3):
        bucket.prove()
    assert bucket.objects == {f"s3://b/t/metadata/{PROBE}"}
    assert (len(bucket.warnings), bucket.puts) == (3, 4)
    assert bucket.warnings[0].count("access denied") == 1


def test_a_probe_that_other_runs_remove_in_between_is_no_careless_bucket():
    bucket = Bucket()
    put_new = bucket.put_new

    def taken_away(location: str, content: bytes) -> None:
        put_new(location, content)
        if bucket.puts < 3:  # by two of them
            bucket.objects.clear()

    bucket.put_new = taken_away  # type: ignore[method-assign]
    bucket.prove()
    assert (bucket.objects, bucket.puts) == (set(), 4)
