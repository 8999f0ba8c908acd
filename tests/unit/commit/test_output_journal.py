"""Journals of outputs: what a killed run wrote goes when it can't be committed any more, not
before."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.files import FileSystemCatalog, NamedFileCatalog
from icectl.catalog.pointer import POINTED
from icectl.catalog.protocol import LoadedTable
from icectl.commit.output_journal import DataPlaces, Leftovers, is_output, write
from icectl.commit.transaction import Outputs, Transaction, outputs_of, transaction
from icectl.errors import CommitConflict, StorageError
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from tests.builders.commits import set_properties
from tests.builders.expiry import NOW_MS, Clock, context_of
from tests.builders.orphans import edit_metadata
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import run
from tests.stores.wrapped import CountingStore, FaultyStore
from tests.unit.commit.test_deletion_journal import Warnings

COMMAND = "rewrite-manifests"
DAY_MS = 24 * 3_600_000
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


class Elsewhere(Clock):
    """The same clock on another machine."""

    def host_name(self) -> str:
        return "another-host"


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return filled_table(tmp_path / "t", *(range(start, start + 4) for start in (0, 4)))


def loaded_by(table: TableBuilder, store: Store | None = None) -> LoadedTable:
    return FileSystemCatalog(store or LocalStore(), table.location, Clock(NOW_MS)).load()


def started(table: TableBuilder) -> Outputs:
    """A run of this process that has written a manifest and a manifest list."""
    outputs = outputs_of(LocalStore(), Clock(NOW_MS), loaded_by(table), COMMAND)
    for place in (outputs.manifest(), outputs.manifest_list(5)):
        LocalStore().create(place, b"Obj")
    return outputs


def leftovers(
    table: TableBuilder,
    *,
    store: Store | None = None,
    env: Clock | None = None,
    progress: Warnings | None = None,
) -> Leftovers:
    return Leftovers(context_of(table.location, store, env, progress or Warnings()), (COMMAND,))


def transaction_of(table: TableBuilder, outputs: Outputs) -> Transaction:
    """The transaction that the files are written for."""
    return Transaction(context_of(table.location), loaded_by(table), outputs)


def rerun(table: TableBuilder, *, commits: bool, **means: Any) -> None:
    """A later run of the command, which commits or not."""
    with leftovers(table, **means).removed_after(loaded_by(table)):
        if commits:
            table.set_properties({"rerun": "yes"})


def compacting(table: TableBuilder, data: DataPlaces) -> tuple[Outputs, Path]:
    """A dead run that has written a manifest, and a data file in a partition's folder."""
    outputs = outputs_of(LocalStore(), Clock(NOW_MS), loaded_by(table), COMMAND, data)
    LocalStore().create(outputs.manifest(), b"Obj")
    path = table.directory / f"data/a=1/00000-0-{outputs.journal.uuid}-00001.parquet"
    path.parent.mkdir()
    shutil.copy(min(table.directory.rglob("*.parquet")), path)
    return dead(outputs), path


def dead(outputs: Outputs) -> Outputs:
    """The run, as if its process had been another that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    changed(outputs, pid=process.pid)
    return outputs


def changed(outputs: Outputs, **members: object) -> None:
    path = Path(outputs.journal.location)
    path.write_text(json.dumps(json.loads(path.read_text()) | members))


def present(outputs: Outputs) -> list[bool]:
    """Whether the journal and each of the outputs are there."""
    return [Path(place).exists() for place in (outputs.journal.location, *outputs.locations)]


ALL, NONE, OUTPUTS_ONLY = [True, True, True], [False, False, False], [False, True, True]


def test_the_journal_is_there_before_the_first_output_and_names_every_one(table):
    outputs = outputs_of(LocalStore(), Clock(NOW_MS), loaded_by(table), COMMAND)
    assert not Path(outputs.journal.location).exists()
    first = outputs.manifest()
    assert Path(outputs.journal.location).name == (
        f"icectl-rewrite-manifests-{outputs.journal.uuid}.json"
    )
    assert Path(outputs.journal.location).exists()
    assert not Path(first).exists()
    names = [Path(place).name for place in (first, outputs.manifest_list(5), outputs.manifest())]
    uuid = outputs.journal.uuid
    assert names == [f"{uuid}-m0.avro", f"snap-5-1-{uuid}.avro", f"{uuid}-m2.avro"]


def test_what_a_dead_run_wrote_goes_with_a_commit(table):
    outputs = dead(started(table))
    rerun(table, commits=True)
    assert present(outputs) == NONE


PLACES = {
    "its folder": lambda directory: DataPlaces(folders=(f"{directory}/data/a=1",)),
    "a tree": lambda directory: DataPlaces(trees=(f"{directory}/data",)),
}


@pytest.mark.parametrize("places", PLACES)
def test_data_files_of_a_dead_run_go_with_a_commit(table, places):
    outputs, path = compacting(table, PLACES[places](table.directory))
    before = set(table.directory.rglob("*.parquet")) - {path}
    rerun(table, commits=False)
    assert path.exists()
    rerun(table, commits=True)
    assert (present(outputs), path.exists()) == ([False, False], False)
    assert set(table.directory.rglob("*.parquet")) == before


@pytest.mark.parametrize("end", ["-00001.parquet.crc", ".parquet-00001"])
def test_only_data_files_with_its_uuid_go(table, end):
    outputs, path = compacting(table, PLACES["a tree"](table.directory))
    others = [path.with_name(f"00000-0-{outputs.journal.uuid}{end}"), path.with_name("b.parquet")]
    for other in others:
        other.write_bytes(b"")
    rerun(table, commits=True)
    assert [other.exists() for other in others] == [True, True]


def test_without_a_commit_it_goes_once_another_writer_has_committed(table):
    """Until then the dead run might be a request that is still under way."""
    outputs = dead(started(table))
    for _ in range(2):
        rerun(table, commits=False)
        assert present(outputs) == ALL
    table.set_properties({"meanwhile": "yes"})
    rerun(table, commits=False)
    assert present(outputs) == NONE


class Pointed(NamedFileCatalog):
    """Stands for a catalog with a pointer, which names a metadata file."""

    def load(self, *, to_show: bool = False) -> LoadedTable:
        return replace(super().load(to_show=to_show), capabilities=POINTED)


@pytest.mark.parametrize("is_numbered", [True, False])
def test_a_pointer_that_was_set_back_may_name_the_base_of_a_dead_run_again(table, is_numbered):
    outputs = dead(started(table))

    def clear(metadata_file: Path) -> list[bool]:
        catalog = Pointed(LocalStore(), table.location, Clock(NOW_MS), str(metadata_file))
        context = replace(context_of(table.location), catalog=catalog)
        Leftovers(context, (COMMAND,)).remove(catalog.load())
        return present(outputs)

    newest = current_metadata(table.directory)
    assert clear(newest) == ALL
    if not is_numbered:
        changed(outputs, **{"newest-version": None})
    assert clear(newest.with_name("v1.metadata.json")) == ALL
    assert clear(newest) == ALL
    table.set_properties({"meanwhile": "yes"})
    assert clear(current_metadata(table.directory)) == NONE


class InSequence(FileSystemCatalog):
    """Stands for a REST server, which applies changes to newer metadata than their base."""

    def load(self) -> LoadedTable:
        loaded = super().load()
        capabilities = replace(
            loaded.capabilities,
            numbers_versions=False,
            commits_on_base=False,
            commits_in_sequence=True,
        )
        return replace(loaded, capabilities=capabilities)


@pytest.mark.parametrize("kind", ["manifest_list", "statistics", "partition_statistics"])
def test_statistics_that_a_late_commit_may_still_name_stay_where_commits_have_no_base(table, kind):
    """They are of a snapshot that is there, so that no number tells that they come too late."""
    catalog = InSequence(LocalStore(), table.location, Clock(NOW_MS))
    outputs = outputs_of(LocalStore(), Clock(NOW_MS), catalog.load(), COMMAND)
    place = getattr(outputs, kind)(5)
    LocalStore().create(place, b"")
    dead(outputs)
    context = replace(context_of(table.location), catalog=catalog)
    with Leftovers(context, (COMMAND,)).removed_after(catalog.load()):
        table.append(range(8, 12))
    is_kept = kind != "manifest_list"
    assert present(outputs) == [is_kept, is_kept]


def test_statistics_that_the_metadata_name_stay_when_their_snapshot_has_gone(table):
    """Some tools expire a snapshot, and leave the entry of its statistics (R-141)."""
    outputs = outputs_of(LocalStore(), Clock(NOW_MS), loaded_by(table), COMMAND)
    place = outputs.statistics(5)
    LocalStore().create(place, b"PFA1")
    entry = {"snapshot-id": 5, "statistics-path": place, "file-size-in-bytes": 4}
    details = {"file-footer-size-in-bytes": 0, "blob-metadata": []}
    edit_metadata(table.directory, statistics=[entry | details])
    dead(outputs)
    for _ in range(2):
        with leftovers(table).removed_after(loaded_by(table)):
            current = current_metadata(table.directory)
            number = int(current.name[1:].split(".")[0]) + 1
            shutil.copy(current, current.with_name(f"v{number}.metadata.json"))
    assert Path(place).exists()


@pytest.mark.parametrize("commits", [False, True])
def test_a_run_of_a_process_that_is_there_is_left_alone(table, commits):
    outputs = started(table)
    rerun(table, commits=commits)
    outputs.check()
    assert present(outputs) == ALL


def test_what_a_run_of_this_process_wrote_goes_once_the_run_is_over(table):
    """It was interrupted as its commit may have been sent; the process goes on."""
    runs = []

    def interrupted() -> None:
        with transaction(context_of(table.directory), loaded_by(table), COMMAND) as opened:
            runs.append(opened.outputs)
            LocalStore().create(opened.outputs.manifest(), b"Obj")
            opened.request.sent = True
            rerun(table, commits=True)
            assert present(opened.outputs) == [True, True]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (outputs,) = runs
    assert present(outputs) == [True, True]
    rerun(table, commits=True)
    assert present(outputs) == [False, False]


@pytest.mark.parametrize(("age_ms", "expected"), [(DAY_MS, ALL), (DAY_MS + 1, NONE)])
def test_a_run_on_another_machine_is_left_alone_for_a_day(table, age_ms, expected):
    outputs = dead(started(table))
    rerun(table, commits=True, env=Elsewhere(NOW_MS + age_ms))
    assert present(outputs) == expected


def test_a_process_id_of_another_container_says_nothing(table):
    outputs = dead(started(table))
    changed(outputs, host="fixed-host pid:[1]")
    rerun(table, commits=True)
    assert present(outputs) == ALL


def test_a_run_that_was_taken_for_dead_gives_up_and_removes_its_files(table):
    outputs = started(table)
    rerun(table, commits=False, env=Elsewhere(NOW_MS + DAY_MS + 1))
    with pytest.raises(CommitConflict, match="considered this one dead") as raised:
        outputs.check()
    transaction_of(table, outputs).close(raised.value)
    assert present(outputs) == NONE


@pytest.mark.parametrize("damage", ["no JSON", "of another version"])
def test_a_run_whose_journal_cannot_be_read_gives_up(table, damage):
    outputs = started(table)
    path = Path(outputs.journal.location)
    if damage == "no JSON":
        path.write_text("{")
    else:
        changed(outputs, **{"icectl-journal": 9})
    with pytest.raises(CommitConflict):
        outputs.check()


@pytest.mark.parametrize("is_dead", [False, True])
def test_of_a_run_that_has_landed_only_what_the_table_reaches_stays(table, is_dead):
    """Its commit is in the table, so that it will send no other, whether it is alive or not."""
    outputs = started(table)
    if is_dead:
        dead(outputs)
    path = current_metadata(table.directory)
    members = read_metadata(path)
    head = members["snapshots"][-1]
    manifest_list = outputs.locations[1]
    Path(manifest_list).write_bytes(Path(head["manifest-list"]).read_bytes())
    head["manifest-list"] = f"file://{manifest_list}"
    path.write_text(json.dumps(members))
    rerun(table, commits=False)
    assert present(outputs) == [False, False, True]


def test_what_has_landed_stays_by_any_name_of_its_folder(table, tmp_path):
    """A disk was mounted elsewhere, and the table says now that it lies there."""
    (tmp_path / "link").symlink_to(table.directory)
    outputs = dead(started(table))
    path = current_metadata(table.directory)
    members = read_metadata(path)
    head = members["snapshots"][-1]
    manifest_list = Path(outputs.locations[1])
    manifest_list.write_bytes(Path(head["manifest-list"]).read_bytes())
    head["manifest-list"] = f"{tmp_path}/link/metadata/{manifest_list.name}"
    path.write_text(json.dumps(members))
    with leftovers(table).removed_after(loaded_by(table)):
        set_properties(table.directory, Clock(NOW_MS), {"rerun": "yes"})
    assert present(outputs) == [False, False, True]


def test_live_data_files_stay_by_any_name_of_their_folder(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    table = TableBuilder(tmp_path / "disk/t", location=f"{tmp_path}/link/t")
    for start in (0, 4):
        table.append(range(start, start + 4))
    before = set(table.directory.rglob("*.parquet"))
    words = ["compact", f"{tmp_path}/link/t", "--rewrite-all", "--engine", "local", "--json"]
    assert run([*words, "--yes"])[0] == 0
    (new,) = set(table.directory.rglob("*.parquet")) - before
    edit_metadata(table.directory, location=str(table.directory))
    places = DataPlaces(trees=(f"{table.directory}/data",))
    journal = outputs_of(LocalStore(), Clock(NOW_MS), loaded_by(table), COMMAND, places).journal
    uuid = new.name[len("00000-0-") :][:36]
    place = journal.location.replace(journal.uuid, uuid)
    write(
        LocalStore(),
        Clock(NOW_MS),
        replace(journal, location=place, abandoned=True, newest_version=0),
    )
    with leftovers(table).removed_after(loaded_by(table)):
        set_properties(table.directory, Clock(NOW_MS), {"rerun": "yes"})
    assert (new.exists(), Path(place).exists()) == (True, False)


def test_a_journal_of_another_command_is_left_alone(table):
    outputs = outputs_of(LocalStore(), Clock(NOW_MS), loaded_by(table), "compact")
    LocalStore().create(outputs.manifest(), b"Obj")
    dead(outputs)
    rerun(table, commits=True)
    assert present(outputs) == [True, True]


NAMES = ["icectl-rewrite-manifests-a.json", "icectl-rewrite-manifests-.json"]


@pytest.mark.parametrize("name", NAMES)
def test_a_journal_whose_name_has_no_uuid_tells_no_files(table, name):
    """`a` is in the name of every Avro file."""
    path = Path(dead(started(table)).journal.location).rename(table.directory / "metadata" / name)
    before = sorted(table.directory.rglob("*.avro"))
    progress = Warnings()
    rerun(table, commits=True, progress=progress)
    assert sorted(table.directory.rglob("*.avro")) == before
    assert path.exists()
    assert len(progress.told) == 1
    assert f"the journal {name} cannot be read and is ignored" in progress.told[0]


def test_nothing_goes_where_a_manifest_list_cannot_be_read(table):
    outputs = dead(started(table))
    snapshot = table.metadata.snapshots[0]
    assert snapshot.manifest_list is not None
    Path(snapshot.manifest_list).write_bytes(b"")
    progress = Warnings()
    rerun(table, commits=True, progress=progress)
    assert present(outputs) == ALL
    assert [told.partition(":")[0] for told in progress.told] == ["files of killed runs are kept"]


def test_where_only_the_caller_knows_the_newest_version_there_is_no_journal(table):
    outputs = dead(started(table))
    named = current_metadata(table.directory)
    given = NamedFileCatalog(LocalStore(), table.location, Clock(NOW_MS), str(named)).load()
    with leftovers(table).removed_after(given):
        table.set_properties({"rerun": "yes"})
    assert present(outputs) == ALL
    others = outputs_of(LocalStore(), Clock(NOW_MS), given, COMMAND)
    LocalStore().create(others.manifest(), b"Obj")
    others.check()
    assert present(others) == [False, True]
    others.keep(())
    assert present(others) == [False, False]


def test_a_run_that_fails_removes_nothing_of_others(table):
    outputs = dead(started(table))
    with pytest.raises(CommitConflict), leftovers(table).removed_after(loaded_by(table)):
        raise CommitConflict("lost")
    assert present(outputs) == ALL


# Calls of a clearing; each folder above the table is listed in one more.
CALLS = 23
FOLDERS_ABOVE = 6


@pytest.mark.parametrize("failure", ["before", "after", "lost"])
@pytest.mark.parametrize("nth", range(1, CALLS + FOLDERS_ABOVE + 1))
def test_clearing_never_fails_and_the_next_run_goes_on_with_it(table, nth, failure):
    outputs = dead(started(table))
    store = FaultyStore(LocalStore(), nth, failure)
    before = set(table.directory.rglob("*.avro")) - set(map(Path, outputs.locations))
    rerun(table, commits=True, store=store)
    assert store.failed or nth > CALLS + len(table.directory.parents)
    assert set(table.directory.rglob("*.avro")) >= before
    rerun(table, commits=True)
    assert present(outputs) == NONE


def test_the_calls_of_a_clearing_are_those_that_fail_above(table):
    dead(started(table))
    store = CountingStore(LocalStore())
    rerun(table, commits=True, store=store)
    assert len(store.calls) == CALLS + len(table.directory.parents)


def test_outputs_that_cannot_be_removed_keep_their_journal(table):
    outputs = started(table)
    outputs.store = FaultyStore(LocalStore(), 1, "before", frozenset({"remove"}))
    transaction_of(table, outputs).close(StorageError("the store is ill"))
    assert present(outputs) == ALL
    rerun(table, commits=True)
    assert present(outputs) == ALL
    dead(outputs)
    rerun(table, commits=True)
    assert present(outputs) == NONE


def test_a_run_that_kept_what_it_committed_leaves_no_journal(table):
    outputs = started(table)
    outputs.keep(set(outputs.locations))
    assert present(outputs) == OUTPUTS_ONLY


@pytest.mark.parametrize(
    ("file_name", "expected"),
    [
        (f"{UUID}-m0.avro", True),
        (f"snap-5-1-{UUID}.avro", True),
        (f"{UUID}-m12.parquet", True),
        (f"{UUID}-3-mdv.puffin", True),
        (f"root-5-4-{UUID}.parquet", True),
        # Data files of the same run, which may lie in the same folder.
        (f"00000-1-{UUID}-00001.parquet", False),
        (f"00000-1-{UUID}-00001-deletes.puffin", False),
        ("0b8c1f0e-6f0e-4b8e-9a53-5b6b0a0d8f12-m0.avro", False),
    ],
)
def test_metadata_of_a_run_is_told_from_its_data_by_the_name(file_name, expected):
    assert is_output(file_name, UUID) is expected
