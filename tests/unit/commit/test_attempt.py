"""Committing changes: once, again after a conflict, and never more often than the table allows."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from icectl.catalog.files import FILE_SYSTEM
from icectl.catalog.protocol import CommitOutcome, Committed, Conflict, LoadedTable, Unknown
from icectl.commit.attempt import Changes, CommitRequest, commit_changes
from icectl.env import Deadline
from icectl.errors import CommitConflict, CommitUnknown, Refused
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import MetadataLogEntry
from icectl.format.updates import (
    AddSnapshot,
    AssertRefSnapshotId,
    AssertTableUuid,
    RemoveSnapshotRef,
    Requirement,
    SetProperties,
    Update,
    apply_all,
)
from icectl.progress import SilentProgress
from icectl.storage.local.store import LocalStore
from icectl.table.context import TableContext
from tests.builders.commits import loaded_at
from tests.builders.history import history
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
WHEN = "2023-11-14T00:00:00Z"
TABLE = history([(1, None, WHEN)], {"main": {"head": 1}})
BASE = loaded_at("/wh/t/metadata/v1.metadata.json", TABLE, FILE_SYSTEM)

Answer = Callable[[TableMetadata], CommitOutcome]


def committed(updated: TableMetadata) -> CommitOutcome:
    return Committed(loaded_at("/wh/t/metadata/v9.metadata.json", updated, FILE_SYSTEM))


def conflict(_: TableMetadata) -> CommitOutcome:
    return Conflict("v2.metadata.json was committed by another writer")


@dataclass
class ScriptedCatalog:
    """Answers commits in order; after each conflict there is newer metadata."""

    answers: list[Answer]
    commits: list[tuple[LoadedTable, Sequence[Requirement], Sequence[Update]]] = field(
        default_factory=list
    )
    newest: LoadedTable = BASE

    def load(self) -> LoadedTable:
        newer = self.newest.metadata.last_updated_ms + 1
        location = f"/wh/t/metadata/v{(self.newest.version or 0) + 1}.metadata.json"
        entry = MetadataLogEntry(newer - 1, self.newest.metadata_location)
        changed = replace(self.newest.metadata, last_updated_ms=newer, metadata_log=(entry,))
        self.newest = loaded_at(location, changed, FILE_SYSTEM)
        return self.newest

    def check_writable(self, loaded: LoadedTable) -> None: ...

    def settle(self) -> None: ...

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        self.commits.append((base, requirements, updates))
        return self.answers.pop(0)(apply_all(base.metadata, updates))


def scripted(*answers: Answer) -> tuple[TableContext, ScriptedCatalog, FixedEnv]:
    catalog, env = ScriptedCatalog(list(answers)), FixedEnv()
    store = CountingStore(LocalStore())
    progress, deadline = SilentProgress(), Deadline(env)
    return TableContext(store, catalog, env, progress, deadline, 1), catalog, env


def commit(
    context: TableContext, base: LoadedTable, changes: Changes, *, deletes: bool = True
) -> LoadedTable:
    return commit_changes(context, base, changes, CommitRequest(), deletes_dropped_metadata=deletes)


def owned(_: TableMetadata) -> Sequence[Update]:
    return [SetProperties({"owner": "ops"})]


def slow(env: FixedEnv, seconds: float) -> Changes:
    def build(metadata: TableMetadata) -> Sequence[Update]:
        env.sleep(seconds)
        return owned(metadata)

    return build


def test_r150_the_updates_are_committed_on_the_metadata_they_were_made_from():
    context, catalog, env = scripted(committed)
    landed = commit(context, BASE, owned)
    ((base, requirements, updates),) = catalog.commits
    assert base is BASE
    assert (requirements, updates) == ((AssertTableUuid(UUID),), [SetProperties({"owner": "ops"})])
    assert landed.metadata.properties == {"owner": "ops"}
    assert landed.metadata_location == "/wh/t/metadata/v9.metadata.json"
    assert env.slept == []


def test_after_a_conflict_the_updates_are_made_anew_on_the_newest_metadata():
    context, catalog, env = scripted(conflict, conflict, committed)
    seen: list[int] = []

    def build(metadata: TableMetadata) -> Sequence[Update]:
        seen.append(metadata.last_updated_ms)
        return owned(metadata)

    commit(context, BASE, build)
    first = TABLE.last_updated_ms
    assert seen == [first, first + 1, first + 2]
    assert [base.version for base, _, _ in catalog.commits] == [1, 2, 3]
    assert env.slept == [0.1, 0.1]


@pytest.mark.parametrize(
    ("attempt_seconds", "pauses"), [(30, [1.0, 2.0, 2.5]), (1.5, [1.0, 1.5, 1.5]), (0, [1.0] * 3)]
)
def test_retries_and_pauses_are_those_of_the_table_up_to_the_time_of_an_attempt(
    attempt_seconds, pauses
):
    properties = {
        "commit.retry.num-retries": "3",
        "commit.retry.min-wait-ms": "1000",
        "commit.retry.max-wait-ms": "2500",
    }
    base = replace(BASE, metadata=replace(TABLE, properties=properties))
    context, catalog, env = scripted(*[conflict] * 4)
    catalog.newest = base
    with pytest.raises(CommitConflict, match=r"v2\.metadata\.json was committed by another writer"):
        commit(context, base, slow(env, attempt_seconds))
    assert len(catalog.commits) == 4
    assert env.slept[1::2] == pauses


def test_nothing_left_to_change_after_a_conflict_is_a_conflict():
    context, catalog, _ = scripted(conflict)
    with pytest.raises(CommitConflict, match="another writer has made these changes already"):
        commit(context, BASE, lambda metadata: owned(metadata) if metadata is TABLE else [])
    assert len(catalog.commits) == 1


def test_r002_another_table_in_the_place_is_not_committed_to():
    context, catalog, _ = scripted(conflict)
    other = replace(TABLE, table_uuid="00000000-0000-0000-0000-000000000000")
    catalog.newest = loaded_at("/wh/t/metadata/v1.metadata.json", other, FILE_SYSTEM)
    with pytest.raises(CommitConflict, match="the table's UUID is 00000000-0000"):
        commit(context, BASE, owned)
    assert len(catalog.commits) == 1


def test_r156_an_unknown_outcome_is_not_tried_again():
    context, catalog, _ = scripted(
        lambda _: Unknown("/wh/t/metadata/v2.metadata.json", "no answer")
    )
    with pytest.raises(CommitUnknown) as raised:
        commit(context, BASE, owned)
    assert raised.value.message == (
        "it is not known whether /wh/t/metadata/v2.metadata.json was written: no answer"
    )
    assert "check whether that file exists" in (raised.value.hint or "")
    assert len(catalog.commits) == 1


def test_no_try_begins_after_the_time_that_the_table_allows():
    context, catalog, env = scripted(*[conflict] * 9)
    limited = {"commit.retry.total-timeout-ms": "500", "commit.retry.num-retries": "8"}
    base = replace(BASE, metadata=replace(TABLE, properties=limited))
    catalog.newest = base
    with pytest.raises(CommitConflict):
        commit(context, base, slow(env, 0.125))
    assert env.slept == pytest.approx([0.125, 0.1, 0.125, 0.125, 0.125])
    assert len(catalog.commits) == 3


def test_the_time_to_read_an_old_base_again_is_not_of_the_time_for_tries(monkeypatch):
    context, catalog, env = scripted(conflict, committed)
    limited = {"commit.retry.total-timeout-ms": "500"}
    catalog.newest = base = replace(BASE, metadata=replace(TABLE, properties=limited))
    load = catalog.load

    def slow_load() -> LoadedTable:
        env.sleep(1)
        return load()

    monkeypatch.setattr(catalog, "load", slow_load)
    commit_changes(context, base, owned, CommitRequest(), reloads_base=True)
    assert [of.version for of, _, _ in catalog.commits] == [2, 3]


def logged(*places: str) -> LoadedTable:
    log = tuple(MetadataLogEntry(at, place) for at, place in enumerate(places))
    wanted = {"write.metadata.delete-after-commit.enabled": "true"}
    return replace(BASE, metadata=replace(TABLE, metadata_log=log, properties=wanted))


FORGOTTEN = [("remove", "/wh/t/metadata/v0.metadata.json /wh/t/metadata/.v0.metadata.json.crc")]
CASES = {
    "wanted": ({}, FILE_SYSTEM, True, FORGOTTEN),
    "the caller sees to it": ({}, FILE_SYSTEM, False, []),
    "the catalog sees to it": ({}, replace(FILE_SYSTEM, cleans_metadata=False), True, []),
    "files may be shared": ({"gc.enabled": "false"}, FILE_SYSTEM, True, []),
}


@pytest.mark.parametrize("case", CASES)
def test_r024_metadata_files_that_left_the_log_go_where_clients_clean(case):
    properties, capabilities, deletes, removed = CASES[case]
    base = logged("/wh/t/metadata/v0.metadata.json", "/elsewhere/v1.metadata.json")
    base = replace(base, capabilities=capabilities)

    def shortened(updated: TableMetadata) -> CommitOutcome:
        left = replace(updated, metadata_log=())
        return Committed(loaded_at("/wh/t/metadata/v9.metadata.json", left, capabilities))

    context, _, _ = scripted(shortened)
    commit(context, base, lambda _: [SetProperties(properties)], deletes=deletes)
    removals = [call for call in context.store.calls if call[0] == "remove"]  # type: ignore[attr-defined]
    assert removals == removed


def test_a_removal_requires_every_ref_at_its_head():
    table = history(
        [(1, None, "2023-11-14T00:00:00Z")],
        {"main": {"head": 1}, "old": {"head": 1, "type": "tag"}},
    )
    context, catalog, _ = scripted(committed)
    base = loaded_at("/wh/t/metadata/v1.metadata.json", table, FILE_SYSTEM)
    commit(context, base, lambda _: [RemoveSnapshotRef("old")])
    ((_, requirements, _),) = catalog.commits
    assert requirements == (
        AssertTableUuid(UUID),
        AssertRefSnapshotId("main", 1),
        AssertRefSnapshotId("old", 1),
    )


def refused(_: TableMetadata) -> CommitOutcome:
    raise Refused("no")


def broken(_: TableMetadata) -> CommitOutcome:
    raise ZeroDivisionError


def interrupted(_: TableMetadata) -> CommitOutcome:
    raise KeyboardInterrupt


def unknown(_: TableMetadata) -> CommitOutcome:
    return Unknown("/wh/t/metadata/v2.metadata.json", "no answer")


def doubtful(_: TableMetadata) -> CommitOutcome:
    return Conflict("a commit is in progress", may_land=True)


@pytest.mark.parametrize(
    ("answers", "sent"),
    [
        ((committed,), True), ((conflict, committed), True), ((unknown,), True),
        ((conflict,) * 5, False), ((refused,), False), ((conflict, broken), False),
        ((doubtful, broken), True), ((doubtful, conflict, conflict, conflict, conflict), True),
        ((interrupted,), True), ((conflict, interrupted), True),
    ],
)  # fmt: skip
def test_r156_the_caller_knows_whether_the_commit_may_have_landed(answers, sent):
    context, _, _ = scripted(*answers)
    request = CommitRequest()
    with suppress(CommitConflict, CommitUnknown, Refused, ZeroDivisionError, KeyboardInterrupt):
        commit_changes(context, BASE, owned, request)
    assert request.sent is sent


def test_r156_an_attempt_that_lands_during_the_next_one_is_found():
    context, catalog, _ = scripted(doubtful, conflict)
    request = CommitRequest()
    (only,) = TABLE.snapshots
    first, second = (replace(only, snapshot_id=id_, sequence_number=2) for id_ in (2, 3))
    proposed = iter([first, second])

    def build(_: TableMetadata) -> Sequence[Update]:
        if catalog.commits:  # the first attempt lands after this base was read
            catalog.newest = replace(
                catalog.newest, metadata=apply_all(catalog.newest.metadata, [AddSnapshot(first)])
            )
        return [AddSnapshot(next(proposed))]

    assert commit_changes(context, BASE, build, request).metadata.snapshots_by_id.keys() == {1, 2}
    assert (request.sent, request.doubtful) == (True, True)


def test_while_updates_are_made_nothing_was_sent():
    context, _, _ = scripted()
    request = CommitRequest()

    def ended(_: TableMetadata) -> Sequence[Update]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit_changes(context, BASE, ended, request)
    assert not request.sent


def test_a_conflict_tells_the_way_out():
    context, _, _ = scripted(*[lambda _: Conflict("busy", "wait")] * 5)
    with pytest.raises(CommitConflict) as caught:
        commit(context, BASE, owned)
    assert (caught.value.message, caught.value.hint) == ("busy", "wait")
