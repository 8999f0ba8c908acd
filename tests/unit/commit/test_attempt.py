"""Committing updates: once, again after a conflict, and never more often than the table allows."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from icectl.catalog.protocol import CommitOutcome, Committed, Conflict, LoadedTable, Unknown
from icectl.commit.attempt import Asked, Committer
from icectl.errors import CommitConflict, CommitUnknown, Refused
from icectl.progress import SilentProgress
from icectl.spec.metadata import TableMetadata
from icectl.spec.requirements import AssertTableUuid
from icectl.spec.updates import SetProperties, Update
from tests.builders.history import history
from tests.stores.fixed_env import FixedEnv

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
TABLE = history([(1, None, "2023-11-14T00:00:00Z")], {"main": {"head": 1}})
BASE = LoadedTable(TABLE, "/wh/t/metadata/v1.metadata.json", 1, "file-system")

Answer = Callable[[TableMetadata], CommitOutcome]


def committed(updated: TableMetadata) -> CommitOutcome:
    return Committed(updated, "/wh/t/metadata/v9.metadata.json")


def conflict(_: TableMetadata) -> CommitOutcome:
    return Conflict("v2.metadata.json was committed meanwhile")


@dataclass
class ScriptedCatalog:
    """Answers commits in order; after each conflict there is newer metadata."""

    answers: list[Answer]
    commits: list[tuple[LoadedTable, TableMetadata]] = field(default_factory=list)
    newest: LoadedTable = BASE

    def load(self) -> LoadedTable:
        newer = self.newest.metadata.last_updated_ms + 1
        version = (self.newest.version or 0) + 1
        self.newest = LoadedTable(
            replace(self.newest.metadata, last_updated_ms=newer),
            f"/wh/t/metadata/v{version}.metadata.json", version, "file-system",
        )  # fmt: skip
        return self.newest

    def check_writable(self, loaded: LoadedTable) -> None: ...

    def settle(self) -> None: ...

    def commit(self, base: LoadedTable, updated: TableMetadata) -> CommitOutcome:
        self.commits.append((base, updated))
        return self.answers.pop(0)(updated)

    def forget(self, base: LoadedTable, updated: TableMetadata, dropped: Sequence[str]) -> None: ...


def committer(*answers: Answer) -> tuple[Committer, ScriptedCatalog, FixedEnv]:
    catalog, env = ScriptedCatalog(list(answers)), FixedEnv()
    return Committer(catalog, env, SilentProgress()), catalog, env


def owned(_: TableMetadata) -> Sequence[Update]:
    return [SetProperties({"owner": "ops"})]


def test_r150_the_updates_are_committed_on_the_metadata_they_were_made_from():
    commit, catalog, env = committer(committed)
    landed = commit.commit(BASE, [AssertTableUuid(UUID)], owned)
    ((base, updated),) = catalog.commits
    assert base is BASE
    assert updated.properties == {"owner": "ops"}
    assert updated.last_updated_ms == env.now_ms()
    assert [entry.metadata_file for entry in updated.metadata_log] == [BASE.metadata_location]
    assert (landed.metadata, landed.metadata_location) == (
        updated,
        "/wh/t/metadata/v9.metadata.json",
    )
    assert env.slept == []


def test_after_a_conflict_the_updates_are_made_anew_on_the_newest_metadata():
    commit, catalog, env = committer(conflict, conflict, committed)
    seen: list[int] = []

    def build(metadata: TableMetadata) -> Sequence[Update]:
        seen.append(metadata.last_updated_ms)
        return owned(metadata)

    landed = commit.commit(BASE, [], build)
    first = TABLE.last_updated_ms
    assert seen == [first, first + 1, first + 2]
    assert [base.version for base, _ in catalog.commits] == [1, 2, 3]
    assert landed.metadata.metadata_log[-1].metadata_file == "/wh/t/metadata/v3.metadata.json"
    assert env.slept == [0.1, 0.2]


def test_retries_and_pauses_are_those_of_the_table():
    properties = {
        "commit.retry.num-retries": "3",
        "commit.retry.min-wait-ms": "1000",
        "commit.retry.max-wait-ms": "2500",
    }
    base = replace(BASE, metadata=replace(TABLE, properties=properties))
    commit, catalog, env = committer(*[conflict] * 4)
    catalog.newest = base
    with pytest.raises(CommitConflict, match=r"v2\.metadata\.json was committed meanwhile"):
        commit.commit(base, [], owned)
    assert len(catalog.commits) == 4
    assert env.slept == [1.0, 2.0, 2.5]


def test_nothing_left_to_change_after_a_conflict_is_a_conflict():
    commit, catalog, _ = committer(conflict)
    with pytest.raises(CommitConflict, match="another writer has made these changes already"):
        commit.commit(BASE, [], lambda metadata: owned(metadata) if metadata is TABLE else [])
    assert len(catalog.commits) == 1


def test_r002_a_requirement_that_does_not_hold_commits_nothing():
    commit, catalog, _ = committer()
    with pytest.raises(CommitConflict, match="the table's UUID is 9c12d441"):
        commit.commit(BASE, [AssertTableUuid("00000000-0000-0000-0000-000000000000")], owned)
    assert catalog.commits == []


def test_r156_an_unknown_outcome_is_not_tried_again():
    commit, catalog, _ = committer(
        lambda _: Unknown("/wh/t/metadata/v2.metadata.json", "no answer")
    )
    with pytest.raises(CommitUnknown) as raised:
        commit.commit(BASE, [], owned)
    assert raised.value.message == (
        "whether /wh/t/metadata/v2.metadata.json was written is not known: no answer"
    )
    assert "look whether that file exists" in (raised.value.hint or "")
    assert len(catalog.commits) == 1


def test_r017_the_time_of_a_commit_is_not_before_that_of_its_base():
    ahead = replace(BASE, metadata=replace(TABLE, last_updated_ms=FixedEnv().now_ms() + 30_000))
    commit, catalog, _ = committer(committed)
    commit.commit(ahead, [], owned)
    assert catalog.commits[0][1].last_updated_ms == FixedEnv().now_ms() + 30_000


def test_no_try_begins_after_the_time_that_the_table_allows():
    commit, catalog, env = committer(*[conflict] * 9)
    limited = {"commit.retry.total-timeout-ms": "500", "commit.retry.num-retries": "8"}
    base = replace(BASE, metadata=replace(TABLE, properties=limited))
    catalog.newest = base
    with pytest.raises(CommitConflict):
        commit.commit(base, [], owned)
    assert env.slept == [0.1, 0.2, 0.4]
    assert len(catalog.commits) == 4


def refused(_: TableMetadata) -> CommitOutcome:
    raise Refused("no")


def broken(_: TableMetadata) -> CommitOutcome:
    raise ZeroDivisionError


def interrupted(_: TableMetadata) -> CommitOutcome:
    raise KeyboardInterrupt


def unknown(_: TableMetadata) -> CommitOutcome:
    return Unknown("/wh/t/metadata/v2.metadata.json", "no answer")


@pytest.mark.parametrize(
    ("answers", "sent"),
    [
        ((committed,), True),
        ((conflict, committed), True),
        ((unknown,), True),
        ((conflict,) * 5, False),
        ((refused,), False),
        ((conflict, broken), False),
        ((interrupted,), True),
        ((conflict, interrupted), True),
    ],
)
def test_r156_the_caller_knows_whether_the_commit_may_have_landed(
    answers: Sequence[Answer], sent: bool
) -> None:
    asked = Asked()
    committing = Committer(
        ScriptedCatalog(list(answers)), FixedEnv(), SilentProgress(), asked=asked
    )
    with suppress(CommitConflict, CommitUnknown, Refused, ZeroDivisionError, KeyboardInterrupt):
        committing.commit(BASE, [], owned)
    assert asked.sent is sent


def test_while_updates_are_made_nothing_was_sent():
    asked = Asked()

    def ended(_: TableMetadata) -> Sequence[Update]:
        raise KeyboardInterrupt

    committing = Committer(ScriptedCatalog([]), FixedEnv(), SilentProgress(), asked=asked)
    with pytest.raises(KeyboardInterrupt):
        committing.commit(BASE, [], ended)
    assert not asked.sent


def test_a_conflict_tells_the_way_out():
    commit, _, _ = committer(*[lambda _: Conflict("busy", "wait")] * 5)
    with pytest.raises(CommitConflict) as caught:
        commit.commit(BASE, [], owned)
    assert (caught.value.message, caught.value.hint) == ("busy", "wait")
