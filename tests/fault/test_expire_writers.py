"""Other writers at the worst moment: their commits stand, nothing that they reach is deleted."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.commands.expire_snapshots.report import Expired
from icectl.commands.expire_snapshots.run import execute, prepare
from icectl.errors import CommitConflict, CommitUnknown, CorruptTable, StorageError
from icectl.files.metadata_file import write_metadata
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import SnapshotRef
from icectl.format.updates import SetProperties, SetSnapshotRef, Update, with_log
from icectl.storage.failures import AnswerLost
from icectl.storage.local.store import LocalStore
from icectl.storage.location import join
from icectl.table.retention import AskedRetention
from tests.builders import commits
from tests.builders.expiry import (
    ALL_BUT_HEADS,
    NOW_MS,
    Aged,
    Clock,
    context_of,
    expire,
    has_work,
    options_of,
)
from tests.builders.rows import current_metadata, read_metadata, read_rows
from tests.stores.wrapped import WrappedStore


def expired_ids(expired: Expired, aged: Aged) -> set[int]:
    return set(aged.table.ids_of) - {item.snapshot_id for item in expired.landed.metadata.snapshots}


def commit_updates(aged: Aged, *updates: Update) -> None:
    """Commit as another writer does."""
    commits.commit_updates(aged.table.location, Clock(NOW_MS), *updates)


def go_back(aged: Aged, old: TableMetadata) -> None:
    """Commit what the table once was, as a writer does that knows no better."""
    store = LocalStore()
    newest = FileSystemCatalog(store, aged.table.location, Clock(NOW_MS)).load()
    again = replace(old, last_updated_ms=newest.metadata.last_updated_ms)
    updated, _ = with_log(again, newest.metadata_location, NOW_MS)
    name = f"v{(newest.version or 0) + 1}.metadata.json"
    store.create(join(newest.metadata_folder, name), write_metadata(updated, compressed=False))


def oldest(aged: Aged) -> int:
    return min(aged.table.ids_of)


class HookedStore(WrappedStore):
    """Runs something once, right after the first metadata file is created."""

    def __init__(self, hook: Callable[[], None]) -> None:
        super().__init__(LocalStore())
        self.hook: Callable[[], None] | None = hook

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        done = action()
        if method == "create" and location.endswith(".metadata.json") and self.hook:
            hook, self.hook = self.hook, None
            hook()
        return done


def test_an_append_between_plan_and_commit_stands_and_keeps_its_files(aged):
    expiry = context_of(aged.table.location)
    prepared = prepare(expiry, options_of())
    appended = aged.table.append(range(24, 30))
    expired = execute(expiry, prepared)
    assert appended in expired.landed.metadata.snapshots_by_id
    assert expired_ids(expired, aged) == {
        item.snapshot_id for item in prepared.plan.retention.expired
    }
    aged.check_readable()


def test_a_plan_made_anew_lets_no_more_go_than_was_confirmed(aged):
    policy = replace(ALL_BUT_HEADS, retain_last=2)
    expiry = context_of(aged.table.location)
    prepared = prepare(expiry, options_of(policy))
    aged.table.append(range(24, 30))
    expired = execute(expiry, prepared)
    assert expired_ids(expired, aged) == {
        item.snapshot_id for item in prepared.plan.retention.expired
    }
    assert has_work(aged.table.location, policy)
    aged.check_readable()


def test_a_tag_set_between_plan_and_commit_keeps_its_snapshot_and_files(aged):
    expiry = context_of(aged.table.location)
    prepared = prepare(expiry, options_of())
    assert oldest(aged) in {item.snapshot_id for item in prepared.plan.retention.expired}
    commit_updates(aged, SetSnapshotRef("audit", SnapshotRef(oldest(aged), "tag")))
    expired = execute(expiry, prepared)
    assert expired.landed.metadata.refs["audit"].snapshot_id == oldest(aged)
    assert oldest(aged) not in expired_ids(expired, aged)
    assert len(expired.removal.removed) < len(prepared.deletable)
    aged.check_readable()


def test_a_longer_retention_set_between_plan_and_commit_holds(aged):
    policy = AskedRetention()
    commit_updates(aged, SetProperties({"history.expire.max-snapshot-age-ms": "1"}))
    expiry = context_of(aged.table.location)
    prepared = prepare(expiry, options_of(policy))
    assert len(prepared.plan.retention.expired) == 5
    commit_updates(aged, SetProperties({"history.expire.min-snapshots-to-keep": "4"}))
    assert len(expired_ids(execute(expiry, prepared), aged)) == 2
    aged.check_readable()


def test_r191_snapshots_brought_back_after_the_commit_keep_every_file(aged):
    """Another writer goes back to a metadata file that still names what was just dropped."""
    before = aged.files()
    old = aged.table.metadata

    def bring_back() -> None:
        go_back(aged, old)

    assert len(expire(aged.table.location, HookedStore(bring_back)).removal.removed) == 0
    assert before <= aged.files()
    aged.check_readable()


def test_r192_nothing_is_deleted_when_what_came_meanwhile_cannot_be_read(aged):
    old = aged.table.metadata
    lost = Path(old.snapshots[0].manifest_list or "")

    def bring_back() -> None:
        go_back(aged, old)
        lost.unlink()

    before = aged.files()
    expired = expire(aged.table.location, HookedStore(bring_back))
    assert (len(expired.removal.removed), expired.removal.stopped) == (0, True)
    left = aged.files()
    assert before - {f"metadata/{lost.name}"} <= left
    assert sum("icectl-expire-snapshots-" in name for name in left) == 1


def test_the_second_of_two_runs_with_one_plan_does_nothing(aged):
    first = context_of(aged.table.location)
    second = context_of(aged.table.location, env=Clock(NOW_MS + 1))
    plans = [prepare(first, options_of()), prepare(second, options_of())]
    execute(first, plans[0])
    done = aged.content()
    with pytest.raises(CommitConflict):
        execute(second, plans[1])
    assert aged.content() == done


def test_of_runs_at_the_same_time_one_wins(aged):
    # Runs with one plan in one millisecond write the same bytes, and each may call them its own.
    clocks = [Clock(NOW_MS + number) for number in range(4)]
    expiries = [context_of(aged.table.location, env=clock) for clock in clocks]
    plans = [prepare(expiry, options_of()) for expiry in expiries]
    barrier = threading.Barrier(4)
    ends: list[str] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            execute(expiries[number], plans[number])
            ends.append("won")
        except CommitConflict:
            ends.append("lost")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["lost", "lost", "lost", "won"]
    aged.check_readable()
    assert not has_work(aged.table.location)
    assert [name for name in aged.files() if "icectl-" in name] == []


class LosingStore(WrappedStore):
    """The answer to the commit is lost, and then the store cannot be reached."""

    def __init__(self, *, landed: bool) -> None:
        super().__init__(LocalStore())
        self.landed, self.gone = landed, False

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if self.gone:
            raise StorageError(f"cannot {method}: no answer")
        if method == "create" and location.endswith(".metadata.json"):
            self.gone = True
            if self.landed:
                action()
            raise AnswerLost("no answer")
        return action()


@pytest.mark.parametrize("landed", [True, False])
def test_r156_an_unknown_outcome_deletes_nothing_and_is_finished_later(aged, landed):
    before = aged.files()
    with pytest.raises(CommitUnknown, match=r"v\d+\.metadata\.json"):
        expire(aged.table.location, LosingStore(landed=landed))
    assert before <= aged.files()
    aged.check_readable()
    expire(aged.table.location)
    if has_work(aged.table.location):
        expire(aged.table.location)
    aged.check_readable()
    assert not has_work(aged.table.location)


def retained_manifest(aged: Aged) -> Path:
    assert read_rows(read_metadata(current_metadata(aged.directory)))
    head = aged.table.metadata.current_snapshot
    assert head is not None
    return Path(aged.table._manifests_of[head.snapshot_id][0].manifest_path)


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
@pytest.mark.parametrize("what", ["manifest", "manifest list"])
def test_r192_an_unreadable_file_of_what_stays_ends_the_run_untouched(aged, damage, what):
    head = aged.table.metadata.current_snapshot
    assert head is not None
    path = retained_manifest(aged) if what == "manifest" else Path(head.manifest_list or "")
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:40])
    before = aged.content()
    with pytest.raises(CorruptTable):
        expire(aged.table.location)
    assert aged.content() == before
