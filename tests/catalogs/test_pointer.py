"""What becomes of a commit to a table behind a pointer, by what the pointer says afterwards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from icectl.catalog.metadata_files import read_file
from icectl.catalog.pointer import PointerCatalog, PointerState, SwapUncertain
from icectl.catalog.protocol import CommitOutcome, Committed, Conflict, Unknown
from icectl.env import SystemEnv
from icectl.errors import Refused, StorageError, TableNotFound
from icectl.format.metadata import TableMetadata
from icectl.format.updates import AssertRefSnapshotId, SetProperties, Update
from icectl.storage.local.store import LocalStore
from tests.builders.rows import current_metadata
from tests.builders.table_builder import filled_table
from tests.stores.fixed_env import FixedEnv

UPDATES: Sequence[Update] = (SetProperties({"a": "b"}),)


@dataclass
class Entry:
    """A pointer in memory; `swaps` is what happens at a swap, `is_settled` what is said of it."""

    location: str
    swaps: Callable[[str], Conflict | None] | None = None
    is_settled: bool = True
    looks: list[str] = field(default_factory=list)
    error: Exception | None = None

    def read(self) -> PointerState:
        if self.error is not None:
            raise self.error
        self.looks.append(self.location)
        return PointerState(self.location)

    def check_writable(self, pointed: PointerState) -> None:
        if pointed.metadata_location == "managed":
            raise Refused("it is managed")

    def swap(
        self, pointed: PointerState, location: str, metadata: TableMetadata
    ) -> Conflict | None:
        if self.swaps is not None:
            return self.swaps(location)
        self.location = location
        return None

    def settle(self, pointed: PointerState) -> bool:
        return self.is_settled


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    filled_table(tmp_path / "t", range(3))
    return Entry(str(current_metadata(tmp_path / "t")))


def catalog_of(entry: Entry) -> PointerCatalog:
    return PointerCatalog(entry, LocalStore(), FixedEnv(), "c.t")


def committed(entry: Entry, swaps: Callable[[str], Conflict | None]) -> CommitOutcome:
    """What a commit comes to whose swap goes so."""
    catalog = catalog_of(entry)
    loaded, entry.swaps = catalog.load(), swaps
    return catalog.commit(loaded, (), UPDATES)


def lost(_: str) -> None:
    raise SwapUncertain("time-out")


def files(entry: Entry) -> set[str]:
    return {path.name for path in Path(entry.location).parent.glob("*.metadata.json")}


def another_commit(entry: Entry) -> None:
    """Another client commits what it has built on the newest metadata."""
    client = PointerCatalog(Entry(entry.location), LocalStore(), SystemEnv(), "c.t")
    outcome = client.commit(client.load(), (), [SetProperties({"other": "x"})])
    assert isinstance(outcome, Committed)
    entry.location = outcome.table.metadata_location


def test_a_swap_that_landed_without_an_answer_is_committed(entry):
    def swaps(location: str) -> None:
        entry.location = location
        raise SwapUncertain("time-out")

    outcome = committed(entry, swaps)
    assert isinstance(outcome, Committed)
    assert outcome.table.metadata.properties["a"] == "b"


def test_so_is_one_that_another_commit_has_followed(entry):
    def swaps(location: str) -> None:
        entry.location = location
        another_commit(entry)
        raise SwapUncertain("time-out")

    outcome = committed(entry, swaps)
    assert isinstance(outcome, Committed)
    assert outcome.table.metadata_location == entry.location
    assert {"a", "other"} <= set(outcome.table.metadata.properties)


@pytest.mark.parametrize("answered", [False, True])
def test_a_swap_that_lost_is_a_conflict_and_leaves_no_file(entry, *, answered):
    def swaps(_: str) -> Conflict:
        another_commit(entry)
        if answered:
            return Conflict("another was faster")
        raise SwapUncertain("time-out")

    before = files(entry)
    assert isinstance(committed(entry, swaps), Conflict)
    assert files(entry) == before | {Path(entry.location).name}


def test_a_swap_that_cannot_come_any_more_is_a_conflict(entry):
    before = files(entry)
    assert isinstance(committed(entry, lost), Conflict)
    assert files(entry) == before


def test_a_swap_that_may_still_come_is_unknown_and_its_file_stays(entry):
    entry.is_settled, before = False, files(entry)
    outcome = committed(entry, lost)
    assert isinstance(outcome, Unknown)
    assert outcome.reason == "time-out"
    assert files(entry) == before | {Path(outcome.metadata_location).name}


@pytest.mark.parametrize("error", [StorageError("no route"), TableNotFound("dropped")])
def test_so_is_one_that_cannot_be_looked_for(entry, error):
    def swaps(_: str) -> None:
        entry.error = error
        raise SwapUncertain("time-out")

    outcome = committed(entry, swaps)
    assert isinstance(outcome, Unknown)
    assert Path(outcome.metadata_location).exists()


def test_so_is_one_whose_trace_the_log_has_lost(entry):
    def swaps(_: str) -> None:
        for _ in range(2):
            another_commit(entry)
        raise SwapUncertain("time-out")

    catalog = catalog_of(entry)
    keep_one = [SetProperties({"write.metadata.previous-versions-max": "1"})]
    assert isinstance(catalog.commit(catalog.load(), (), keep_one), Committed)
    assert isinstance(committed(entry, swaps), Unknown)


def test_an_error_before_the_swap_leaves_no_file(entry):
    def swaps(_: str) -> None:
        raise StorageError("denied")

    before = files(entry)
    with pytest.raises(StorageError, match="denied"):
        committed(entry, swaps)
    assert files(entry) == before


def test_a_pointer_that_has_moved_or_a_requirement_that_fails_is_a_conflict(entry):
    catalog = catalog_of(entry)
    base = catalog.load()
    assert isinstance(catalog.commit(base, [AssertRefSnapshotId("main", 1)], UPDATES), Conflict)
    another_commit(entry)
    moved = catalog.commit(base, (), UPDATES)
    assert isinstance(moved, Conflict)
    assert moved.reason == f"{Path(entry.location).name} was committed by another writer"


def test_a_table_that_was_replaced_is_refused(entry, tmp_path):
    catalog = catalog_of(entry)
    base = catalog.load()
    path = Path(entry.location)
    uuid = base.metadata.table_uuid
    assert uuid is not None
    path.write_text(path.read_text().replace(uuid, "0" * 8 + uuid[8:]))
    with pytest.raises(Refused, match="now belongs to another table"):
        catalog.commit(base, (), UPDATES)


def test_a_metadata_file_that_goes_with_a_commit_is_looked_for_again(entry):
    catalog = catalog_of(entry)
    old = entry.location
    another_commit(entry)
    new, entry.location = entry.location, old
    Path(old).unlink()
    reads = iter([old, new])
    entry.read = lambda: PointerState(next(reads))  # type: ignore[method-assign]
    assert catalog.load().metadata == read_file(LocalStore(), new)


def test_what_clients_must_not_change_is_refused_before_anything_is_written(entry):
    catalog = catalog_of(entry)
    base = catalog.load()
    before = files(entry)
    entry.read = lambda: PointerState("managed")  # type: ignore[method-assign]
    with pytest.raises(Refused, match="it is managed"):
        catalog.commit(base, (), UPDATES)
    assert {path.name for path in Path(base.metadata_folder).glob("*.json")} == before
