"""What becomes of the files of a run that ends, by where its commit was then."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from icectl.commit.deletion import remove_files
from icectl.commit.output_journal import DataPlaces
from icectl.commit.transaction import DataOutputs, Outputs, Transaction, data_places, outputs_of
from icectl.entries.files import FileKind, files
from icectl.errors import CommitConflict, IcectlError, Refused, StorageError
from icectl.progress import SilentProgress
from icectl.storage.local.store import LocalStore
from icectl.storage.many_files import FilesByKind
from icectl.storage.store import FailedRemoval, Store
from tests.builders.expiry import NOW_MS, Clock, context_of
from tests.builders.folders import files_of
from tests.builders.table_builder import TableBuilder, filled_table
from tests.stores.fixed_env import FixedEnv
from tests.stores.wrapped import CountingStore, WrappedStore
from tests.unit.commit.test_output_journal import loaded_by
from tests.unit.commit.test_rewritten_groups import FILE, rewrite


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return filled_table(tmp_path / "t", range(4))


def begun(table: TableBuilder, store: Store | None = None, data: Any = None) -> Outputs:
    """A run that has written a manifest and a manifest list."""
    made = outputs_of(
        store or LocalStore(), Clock(NOW_MS), loaded_by(table), "compact", data or DataPlaces()
    )
    for place in (made.manifest(), made.manifest_list(5)):
        LocalStore().create(place, b"Obj")
    return made


def abandon(outputs: Outputs) -> None:
    """Let another run take this one for dead."""
    journal = Path(outputs.journal.location)
    journal.write_text(json.dumps(json.loads(journal.read_text()) | {"abandoned": True}))


class Denying(WrappedStore):
    """Removes nothing whose name ends so; what was asked for is remembered."""

    def __init__(self, ending: str) -> None:
        super().__init__(LocalStore())
        self.ending = ending
        self.asked: list[list[str]] = []

    def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
        every = list(removed)
        self.asked.append(every)
        kept = [place for place in every if place.endswith(self.ending)]
        self.store.remove([place for place in every if place not in kept])
        return [FailedRemoval(place, "denied") for place in kept]


def ended(
    table: TableBuilder, outputs: Outputs, error: BaseException, *, sent: bool = False
) -> IcectlError | None:
    """End the run with an error, before its commit is asked for or in it; what is told instead."""
    opened = Transaction(context_of(table.location, outputs.store), loaded_by(table), outputs)
    opened.request.sent = sent
    return opened.close(error)


FAILURES = [Refused("no"), CommitConflict("lost"), StorageError("down"), OSError("disk")]


@pytest.mark.parametrize("error", [*FAILURES, KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_files_and_journal_go_where_the_commit_was_not_asked_for(table, error):
    before = files_of(table.directory)
    outputs = begun(table)
    assert len(files_of(table.directory)) == len(before) + 3
    assert ended(table, outputs, error) is None
    assert files_of(table.directory) == before


@pytest.mark.parametrize("error", [*FAILURES, KeyboardInterrupt()], ids=repr)
def test_r156_files_stay_where_the_commit_may_have_landed(table, error):
    outputs = begun(table)
    before = files_of(table.directory)
    assert ended(table, outputs, error, sent=True) is None
    assert files_of(table.directory) == before
    assert outputs.journal.location.rsplit("/", 1)[1] in {Path(name).name for name in before}


@pytest.mark.parametrize("error", [StorageError("gone"), OSError("gone")])
def test_a_file_that_another_run_removed_tells_that_this_one_was_taken_for_dead(table, error):
    outputs = begun(table)
    abandon(outputs)
    instead = ended(table, outputs, error)
    assert isinstance(instead, CommitConflict)
    assert "considered this one dead" in instead.message


def test_other_errors_stay_what_they_are_in_a_run_that_was_taken_for_dead(table):
    outputs = begun(table)
    abandon(outputs)
    assert ended(table, outputs, Refused("no")) is None


@pytest.mark.parametrize("failure", [StorageError("down"), OSError("disk")])
def test_an_error_stays_what_it_is_where_the_journal_cannot_be_looked_at(table, failure):
    class Silent(WrappedStore):
        def read(self, location: str) -> bytes:
            raise failure

    before = files_of(table.directory)
    outputs = begun(table, Silent(LocalStore()))
    opened = Transaction(context_of(table.location), loaded_by(table), outputs)
    assert opened.close(StorageError("first")) is None
    assert files_of(table.directory) == before


def test_a_run_that_was_taken_for_dead_does_not_commit(table):
    outputs = begun(table)
    outputs.check()
    abandon(outputs)
    with pytest.raises(CommitConflict, match="considered this one dead"):
        outputs.check()


def test_a_run_without_a_file_is_not_looked_for(table):
    store = CountingStore(LocalStore())
    outputs_of(store, Clock(NOW_MS), loaded_by(table), "compact").check()
    assert store.calls == []


def test_the_journal_stays_while_a_file_does(table):
    store = Denying(".avro")
    outputs = begun(table, store)
    outputs.keep(())
    assert store.asked == [outputs.locations]
    assert Path(outputs.journal.location).exists()


def test_the_journal_goes_with_the_last_file_but_those_that_are_used(table):
    store = Denying("nothing")
    outputs = begun(table, store)
    manifest, manifest_list = outputs.locations
    outputs.keep([f"file://{manifest}"])
    assert store.asked == [[manifest_list], [outputs.journal.location]]
    assert Path(manifest).exists()


def test_where_all_files_are_used_the_journal_alone_goes(table):
    store = Denying("nothing")
    outputs = begun(table, store)
    outputs.keep(outputs.locations)
    assert store.asked == [[outputs.journal.location]]


def test_a_store_that_fails_to_remove_is_no_error(table):
    class Down(WrappedStore):
        def remove(self, removed: Iterable[str]) -> Sequence[FailedRemoval]:
            raise StorageError("down")

    outputs = begun(table, Down(LocalStore()))
    before = files_of(table.directory)
    outputs.keep(())
    assert files_of(table.directory) == before


def test_a_run_is_recorded_once_before_its_first_file_has_a_name(table):
    store = CountingStore(LocalStore())
    outputs = outputs_of(store, Clock(NOW_MS), loaded_by(table), "compact")
    outputs.begin()
    assert store.counts == {"create": 1}
    outputs.manifest()
    outputs.add("/elsewhere/data.parquet")
    assert store.calls == [("create", outputs.journal.location)]
    assert outputs.locations[1:] == ["/elsewhere/data.parquet"]


def test_where_the_newest_version_is_not_sure_nothing_is_recorded(table):
    store = CountingStore(LocalStore())
    loaded = loaded_by(table)
    outputs = Outputs(store, FixedEnv(), "/t/metadata", begun(table).journal, is_journalled=False)
    assert loaded.capabilities.numbers_versions
    outputs.manifest()
    outputs.check()
    outputs.keep(outputs.locations)
    assert store.calls == []


def test_files_are_named_for_their_run_and_what_they_are(table):
    outputs = Outputs(
        LocalStore(), FixedEnv(), "/t/metadata", begun(table).journal, is_journalled=False
    )
    uuid = outputs.journal.uuid
    made = [outputs.manifest(), outputs.manifest_list(7), outputs.leaf(), outputs.bitmaps(),
            outputs.root(8)]  # fmt: skip
    assert made == [
        f"/t/metadata/{uuid}-m0.avro",
        f"/t/metadata/snap-7-1-{uuid}.avro",
        f"/t/metadata/{uuid}-m2.parquet",
        f"/t/metadata/{uuid}-3-mdv.puffin",
        f"/t/metadata/root-8-4-{uuid}.parquet",
    ]
    assert outputs.locations == made


def test_data_files_that_workers_wrote_are_found_by_the_name_of_the_run(table):
    folder = table.directory / "data"
    outputs = begun(table, data=DataPlaces((str(folder),)))
    written = folder / f"00000-1-{outputs.journal.uuid}-00001.parquet"
    written.write_bytes(b"PAR1")
    before = list(outputs.locations)
    outputs.find()
    assert outputs.locations == [*before, str(written)]


def test_data_files_are_named_by_task_and_recorded(table):
    outputs = begun(table)
    before, uuid = list(outputs.locations), outputs.journal.uuid
    made = DataOutputs(loaded_by(table).metadata, outputs)
    first, other = rewrite(FILE, task_id="0-3"), rewrite(FILE, task_id="0-4")
    named = [made.next_file_location(task, "k=1") for task in (first, first, other)]
    assert named == [
        f"{table.location}/data/k=1/00000-{task}-{uuid}-0000{count}.parquet"
        for task, count in ((3, 1), (3, 2), (4, 1))
    ]
    made.record(["/t/data/by a worker.parquet"])
    assert outputs.locations == [*before, *named, "/t/data/by a worker.parquet"]


def test_data_files_that_workers_named_are_found_for_the_record(table):
    folder = table.directory / "data"
    outputs = begun(table, data=DataPlaces((str(folder),)))
    written = folder / f"00000-1-{outputs.journal.uuid}-00001.parquet"
    written.write_bytes(b"PAR1")
    DataOutputs(loaded_by(table).metadata, outputs).find()
    assert outputs.locations[-1] == str(written)


def test_new_data_files_lie_in_the_folders_of_their_partitions_or_anywhere_below(table):
    metadata, data = loaded_by(table).metadata, f"{table.location}/data"
    assert data_places(metadata, ["k=2", "k=1", "k=2"]) == DataPlaces(
        (f"{data}/k=1", f"{data}/k=2")
    )
    assert data_places(metadata, ["k=1", None]) == DataPlaces((f"{data}/k=1",), (data,))
    assert data_places(metadata, []) == DataPlaces()


def test_progress_is_told_of_all_files_that_go():
    told: list[object] = []

    class Told(SilentProgress):
        def phase(self, name: str, *, total: int | None = None, unit: str = "count") -> None:
            told.append((name, total))

        def advance(self, amount: int) -> None:
            told.append(amount)

    data = files(["/a", "/b"], ["/a", "/b"], FileKind.DATA_FILES, [1, 1])
    doomed = FilesByKind([data, files(["/c"], ["/c"], FileKind.MANIFESTS, [1])])
    remove_files(context_of(progress=Told()), doomed)
    assert told == [("deleting files", 3), 2, 1]
