"""The crash law of expiries beyond what holds for every command (test_commands.py)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from icectl.commands.expire_snapshots.run import execute, prepare
from icectl.errors import IcectlError
from icectl.storage.local.store import LocalStore
from tests.builders.expiry import Aged, aged_table, context_of, expire, has_work, options_of
from tests.builders.folders import files_of
from tests.builders.rows import current_metadata, read_metadata
from tests.stores.wrapped import WRITES, CountingStore, FaultyStore

METADATA_FILE = re.compile(r"metadata/(v\d+\.metadata\.json|version-hint\.text)")
PROBE = "metadata/.icectl-probe"


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Aged:
    return aged_table(tmp_path_factory.mktemp("crash"))


@pytest.fixture(scope="module")
def finished(aged: Aged) -> frozenset[str]:
    """The files of the table, its metadata files aside, after an expiry that nothing disturbs."""
    aged.restore()
    expire(aged.table.location)
    left = lasting(aged)
    assert left < frozenset(
        name for name in files_of(aged.pristine) if not METADATA_FILE.fullmatch(name)
    )
    return left


def lasting(aged: Aged) -> frozenset[str]:
    return frozenset(name for name in aged.files() if not METADATA_FILE.fullmatch(name))


def calls_of_a_run(aged: Aged) -> list[str]:
    aged.restore()
    store = CountingStore(LocalStore())
    expire(aged.table.location, store)
    return [method for method, _ in store.calls]


def exit_code_of(aged: Aged, store: FaultyStore) -> int:
    try:
        removal = expire(aged.table.location, store).removal
    except IcectlError as error:
        return error.exit_code
    return 3 if removal.failed or removal.stopped else 0


def check_finished(aged: Aged, finished: frozenset[str]) -> None:
    aged.check_readable()
    # a probe whose own removal failed is empty and stays
    assert frozenset(name for name in lasting(aged) if name != PROBE) == finished
    assert not has_work(aged.table.location)


def test_r190_a_failure_before_the_first_write_changes_no_file(aged, finished):
    calls = calls_of_a_run(aged)
    first_write = next(number for number, method in enumerate(calls, 1) if method in WRITES)
    failed = 0
    for nth in range(1, first_write + 1):
        aged.restore()
        before = aged.content()
        code = exit_code_of(aged, FaultyStore(LocalStore(), nth, "before"))
        if code == 0:  # what goes is read again one by one
            assert lasting(aged) == finished
            continue
        assert code == 13
        assert aged.content() == before
        failed += 1
    assert failed > first_write / 2


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_interrupt_ends_the_run_after_its_step_and_a_rerun_finishes(aged, finished, step):
    """The shield raises what arrived inside once the step is done: commit, then each batch."""
    aged.restore()
    steps = 0

    @contextmanager
    def shield() -> Iterator[None]:
        nonlocal steps
        steps += 1
        yield
        if steps == step:
            raise KeyboardInterrupt

    expiry = replace(context_of(aged.table.location), shield=shield)
    with pytest.raises(KeyboardInterrupt):
        execute(expiry, prepare(expiry, options_of()))
    aged.check_readable()
    assert len(read_metadata(current_metadata(aged.directory))["snapshots"]) == 2
    assert sum("icectl-expire-snapshots-" in name for name in aged.files()) == 1
    expire(aged.table.location)
    check_finished(aged, finished)
