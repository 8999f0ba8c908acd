"""Files of a moment: told by their names, and old by the clock that dates them."""

import os
import re

import pytest

from icectl.storage.new_files import TEMPORARY, old_temporaries, probe_name, temporary_name
from icectl.storage.store import FileStatus
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore, WrappedStore

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
OURS = (
    ".icectl-4242-0-v9.metadata.json",
    ".icectl-4242-17-version-hint.text",
    f".icectl-1-2-icectl-compact-{UUID}.json",
    ".icectl-1-2-.tmp",
    f".icectl-probe-{UUID}",
)
OTHERS = (
    ".icectl",
    ".icectl-4242",
    ".icectl-probe-",
    ".icectl-a-1-x",
    f"icectl-probe-{UUID}",
    f"icectl-compact-{UUID}.json",
    "x.icectl-4242-0-v9.metadata.json",
    ".icectl-4242-0-a/b",
)
AGE_MS = 1_000


class Dated(WrappedStore):
    """A store with a clock of its own."""

    def clock_ms(self, location: str) -> int | None:
        return 50_000


def statuses(*names: str, modified_ms: int | None) -> list[FileStatus]:
    return [FileStatus(f"/t/metadata/{name}", 1, modified_ms) for name in names]


def test_the_names_that_are_given_are_recognised():
    assert temporary_name(3, "a.avro") == f".icectl-{os.getpid()}-3-a.avro"
    assert probe_name(UUID) == f".icectl-probe-{UUID}"
    for name in (temporary_name(3, "a.avro"), probe_name(UUID), *OURS):
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
