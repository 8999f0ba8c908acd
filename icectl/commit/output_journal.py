"""The journal of a run that writes files for a commit, from which a later run removes leftovers.

The journal is one JSON file in the metadata folder. The name of each file that the run writes has
its UUID; it names the table, and the folders of files elsewhere. Any user who may write to the
metadata folder may have created it, so it is only a hint. A journal that names another table, or
no table, is ignored. Removed files must be in the table's own locations, and are named.

No run can know that another run is dead, so removal does not depend on it. The later run marks the
journal as abandoned, and then reads the table's newest version. A run about to commit reads its
journal after loading its base, and gives up if it finds the mark. Its commit therefore builds at
most on that version. Once a newer version exists, the commit can no longer be applied: the file
name is taken, or the pointer names a later file. No commit will ever name files that the newest
metadata does not reach.

A REST server also applies changes to newer metadata than their base. There the sequence number of
the run's snapshot is taken once another snapshot was added. Servers add no snapshot whose number is
not above the table's last (R-040), nor one to a branch that has moved on. Statistics need no
snapshot of their own: such files are left to remove-orphans.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from icectl.catalog.protocol import LoadedTable
from icectl.commit import journals
from icectl.entries.files import Files, containing
from icectl.env import Env
from icectl.errors import CommitConflict, IcectlError, Refused, StorageError, TableNotFound
from icectl.format.json_members import parse_json
from icectl.storage.location import name, parent, redacted
from icectl.storage.new_files import create_own, old_temporaries
from icectl.storage.store import FileStatus, Store
from icectl.table.context import TableContext
from icectl.table.manifest_lists import manifests_by_snapshot
from icectl.table.own_places import OtherTables, OwnPlaces, own_places
from icectl.table.reachable import (
    all_manifests,
    every_statistics_file,
    files_of_live_entries,
    metadata_files,
)
from icectl.units import print_count

_METADATA = ".avro"
"""How names of manifests and manifest lists end."""

_OF_TREE = re.compile(r"-m[0-9]+\.parquet|-[0-9]+-mdv\.puffin|root-[0-9]+-[0-9]+-\.parquet")
"""Names of leaves, of bitmaps and of roots (version 4), the uuid cut out."""

_STATISTICS = re.compile(r"[0-9]+-[0-9]+-\.stats|partition-stats-[0-9]+-[0-9]+-\.parquet")
"""Names of statistics files, the uuid cut out."""

_DATA = (".parquet", ".puffin")
"""How names of data files, delete files and vectors end, as icectl writes them."""

_PROCESSES = Path("/proc/self/ns/pid")
"""Links to a name for the visible processes; only Linux has it."""

_ENDED: set[str] = set()
"""Where journals of this process's runs lie that are over: the process may go on for days."""


@dataclass(frozen=True, slots=True)
class DataPlaces:
    """The places of a run's data and delete files: in `folders`, or anywhere below `trees`."""

    folders: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()


NO_DATA = DataPlaces()


@dataclass(frozen=True, slots=True)
class OutputJournal:
    """One run, which writes files with `uuid` in their names for one commit.

    After the journal was marked as abandoned, the table had the version `newest_version`, the
    metadata file `newest_location` and the last sequence number `newest_sequence_number`.
    """

    location: str
    uuid: str
    table_uuid: str | None
    created_ms: int
    host: str
    pid: int
    data: DataPlaces
    abandoned: bool = False
    newest_version: int | None = None
    newest_location: str | None = None
    newest_sequence_number: int | None = None

    @property
    def is_dated(self) -> bool:
        """Whether it names the newest version after its mark."""
        return self.newest_version is not None or self.newest_location is not None


def new_journal(env: Env, loaded: LoadedTable, command: str, data: DataPlaces) -> OutputJournal:
    """Return the journal of this process, not written yet."""
    uuid, table = env.new_uuid(), loaded.metadata.table_uuid
    location = journals.journal_location(loaded.metadata_folder, command, uuid)
    return OutputJournal(location, uuid, table, env.now_ms(), _host(env), os.getpid(), data)


def _host(env: Env) -> str:
    """Name the host of process ids: containers may share their host's name."""
    try:
        return f"{env.host_name()} {_PROCESSES.readlink()}"
    except OSError:
        return env.host_name()


def write(store: Store, env: Env, journal: OutputJournal) -> None:
    """Record a run before its first output. Raises: what creating a file raises."""
    create_own(store, env, journal.location, _content(journal))


def end(journal: OutputJournal) -> None:
    """Let later runs of this process know that a run is over, whatever became of its commit."""
    _ENDED.add(journal.location)


def check_own(store: Store, journal: OutputJournal) -> None:
    """Check, after its base was loaded, that no other run considered this one dead.

    Raises: CommitConflict; FileNotFoundError, if the record is gone; StorageError.
    """
    try:
        abandoned = _read(store, journal.location).abandoned
    except journals.UNREADABLE:
        abandoned = True
    if abandoned:
        raise CommitConflict("another run considered this one dead, and removes its files")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Removes the files of killed runs of some commands.

    Never raises: files stay with their journal if they can't be removed, or may be needed.
    """

    context: TableContext
    commands: tuple[str, ...]

    @contextmanager
    def removed_after(self, loaded: LoadedTable) -> Iterator[None]:
        """Abandon dead runs before the block, and remove their files after it.

        Does nothing if their commits might still land later.
        """
        if not loaded.capabilities.rules_out_commits:
            yield
            return
        listed: Sequence[FileStatus] = ()
        taken_over: Sequence[OutputJournal] = ()
        with self._keeping_files():
            listed = self.context.store.list_directory(loaded.metadata_folder)
            taken_over = self._taken_over(loaded, listed)
        yield
        with self._keeping_files():
            self._remove_temporaries(listed)
        if taken_over:
            with self._keeping_files():
                self._remove(loaded, taken_over)

    def remove(self, loaded: LoadedTable) -> None:
        """Abandon dead runs and remove their files, for a run with nothing else to do."""
        with self.removed_after(loaded):
            pass

    @contextmanager
    def _keeping_files(self) -> Iterator[None]:
        """Warn about an error that keeps files of killed runs."""
        try:
            yield
        except IcectlError as error:
            self.context.progress.warn(f"files of killed runs are kept: {error.message}")

    def _remove_temporaries(self, listed: Sequence[FileStatus]) -> None:
        """Remove files that killed runs were writing a day ago."""
        context = self.context
        old = old_temporaries(context.store, context.env, listed, journals.ABANDONED_AFTER_MS)
        if old:
            newest = context.catalog.load()
            remove_own(context, newest, own_places(newest), old)

    def _taken_over(
        self, loaded: LoadedTable, listed: Sequence[FileStatus]
    ) -> Sequence[OutputJournal]:
        """Return all journals of the table; those of dead runs are marked as abandoned."""
        read = [
            journal
            for command in self.commands
            for journal in journals.read_each(
                self.context.store, listed, command, _read, self.context.progress
            )
        ]
        own_journals = journals.of_table(read, loaded, self.context.progress)
        marked = [
            journal if self._may_run(journal) else self._changed(journal, abandoned=True)
            for journal in own_journals
        ]
        if any(journal.abandoned and not journal.is_dated for journal in marked):
            dates: dict[str, Any] = {"newest_version": 0}
            with suppress(TableNotFound):  # a relocation has not brought it yet
                newest = self.context.catalog.load()
                dates = {
                    "newest_version": newest.version,
                    "newest_location": newest.metadata_location,
                    "newest_sequence_number": newest.metadata.last_sequence_number,
                }
            marked = [
                self._changed(journal, **dates)
                if journal.abandoned and not journal.is_dated
                else journal
                for journal in marked
            ]
        return marked

    def _changed(self, journal: OutputJournal, **members: Any) -> OutputJournal:
        changed = replace(journal, **members)
        if changed != journal:
            self.context.store.replace(journal.location, _content(changed))
        return changed

    def _may_run(self, journal: OutputJournal) -> bool:
        age_ms = self.context.env.now_ms() - journal.created_ms
        is_over = journal.abandoned or age_ms > journals.ABANDONED_AFTER_MS
        return not is_over and _is_running(self.context.env, journal)

    def _remove(self, loaded: LoadedTable, abandoned: Sequence[OutputJournal]) -> None:
        """Remove files that landed runs don't need, and those of runs that can't commit now."""
        self.context.catalog.settle()
        newest = self.context.catalog.load()
        metadata, own = newest.metadata, own_places(newest)
        snapshots = metadata.snapshots
        lists = manifests_by_snapshot(self.context, metadata, snapshots)
        manifests = all_manifests(lists, snapshots)
        of_snapshots = metadata_files(metadata, snapshots, manifests, {})
        reached = _names(of_snapshots) | _names(every_statistics_file(metadata))
        listed = self.context.store.list_directory(loaded.metadata_folder)
        locations = [status.location for status in listed]
        for journal in abandoned:
            outputs = [place for place in locations if is_output(name(place), journal.uuid)]
            surplus = [place for place in outputs if name(place) not in reached]
            has_landed = len(surplus) < len(outputs)
            if has_landed or _cannot_land(journal, newest, outputs):
                within = replace(journal, data=self._own_data(journal, own))
                data = list(data_outputs(self.context.store, within))
                if data:  # manifests are read only where live files matter
                    of_run = partial(containing, part=journal.uuid)
                    live = files_of_live_entries(self.context, metadata, manifests, of_run)
                    live_names = _names(live)
                    surplus += [place for place in data if name(place) not in live_names]
                if remove_own(self.context, newest, own, surplus):
                    self.context.store.remove([journal.location])

    def _own_data(self, journal: OutputJournal, own: OwnPlaces) -> DataPlaces:
        """Return the table's own places of a run's data; others are named and left alone."""
        data = journal.data
        for place in (*data.folders, *data.trees):
            if not own.holds(place):
                self.context.progress.warn(
                    f"the journal {name(journal.location)} names {redacted(place)}, which is "
                    "outside the table's own locations: its files there are kept"
                )
        return DataPlaces(
            tuple(filter(own.holds, data.folders)), tuple(filter(own.holds, data.trees))
        )


def remove_own(
    context: TableContext, loaded: LoadedTable, own: OwnPlaces, places: Sequence[str]
) -> bool:
    """Remove files of killed runs in the table's own places, and name them; false if some remain.

    Raises: Refused, if another table lies there, or for more than the limit; StorageError.
    """
    if not places:
        return True
    if not all(map(own.holds, places)):
        raise Refused(f"{redacted(places[0])} is outside the table's own locations")
    if not context.leftovers.allows(len(places)):
        raise Refused(
            f"{print_count(len(places), 'file')} would be deleted, but the budget allows "
            f"{context.leftovers.most:,}"
        )
    OtherTables(context).check_around(
        loaded, own.folders, list({parent(place) for place in places})
    )
    with context.shield():
        failed = {item.location for item in context.store.remove(places)}
    removed = [place for place in places if place not in failed]
    context.leftovers.removed += removed
    if removed:
        more = f" and {len(removed) - 1:,} more" if len(removed) > 1 else ""
        context.progress.warn(f"removed {redacted(removed[0])}{more}, which a killed run had left")
    return not failed


def _names(files: Files) -> frozenset[str]:
    """Return the names of files: a run's own hold its uuid, by whatever way to their folder."""
    return frozenset(map(name, files.table["key"].to_pylist()))


def running(store: Store, env: Env, loaded: LoadedTable) -> tuple[str, ...]:
    """Return the uuids of runs that may still commit, however long ago they began.

    These runs are not marked as abandoned, and neither they nor their processes are known to be
    over.
    Raises: StorageError, if the journals cannot be listed.
    """
    uuids = []
    for status in store.list_directory(loaded.metadata_folder):
        uuid = journals.uuid_of(status.location)
        if uuid is None:
            continue
        try:
            journal = _read(store, status.location)
        except FileNotFoundError:  # its run has ended since
            continue
        except (StorageError, *journals.UNREADABLE):  # of another kind, or of a newer icectl
            uuids.append(uuid)
            continue
        if not journal.abandoned and _is_running(env, journal):
            uuids.append(uuid)
    return tuple(uuids)


def _is_running(env: Env, journal: OutputJournal) -> bool:
    if journal.host != _host(env):
        return True
    if journal.location in _ENDED:
        return False
    try:
        os.kill(journal.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


def _cannot_land(journal: OutputJournal, newest: LoadedTable, outputs: Sequence[str]) -> bool:
    """Return whether an abandoned run's commit is too late (R-162).

    Its version exists already, its pointer names a later file, or its sequence number is taken,
    which statistics alone need none of. A pointer that was set back to an older file may name the
    run's base again.
    """
    if not journal.abandoned:
        return False
    known, version = journal.newest_version, newest.version
    is_newer = known is not None and version is not None and version > known
    if newest.capabilities.numbers_versions:
        return is_newer
    if newest.capabilities.commits_on_base:
        log = [entry.metadata_file for entry in newest.metadata.metadata_log]
        return is_newer or journal.newest_location in log
    rest = (name(place).replace(journal.uuid, "") for place in outputs)
    if outputs and all(map(_STATISTICS.fullmatch, rest)):
        return False
    taken = journal.newest_sequence_number
    return taken is not None and newest.metadata.last_sequence_number > taken


def is_output(file_name: str, uuid: str) -> bool:
    """Return whether a file of the run with a uuid belongs to the metadata: manifests, statistics.

    Data files also end in `.parquet`, and may lie in the same folder: the whole name counts.
    """
    if uuid not in file_name:
        return False
    rest = file_name.replace(uuid, "")
    kinds = (_OF_TREE, _STATISTICS)
    return file_name.endswith(_METADATA) or any(kind.fullmatch(rest) for kind in kinds)


def data_outputs(store: Store, journal: OutputJournal) -> Iterator[str]:
    """Yield data and delete files of a run, workers' too. Raises: as listing."""
    for folder in journal.data.folders:
        for status in store.list_directory(folder):
            if _is_data_output(name(status.location), journal.uuid):
                yield status.location
    for tree in journal.data.trees:
        for batch in store.list(tree):
            for location in batch["location"].to_pylist():
                if _is_data_output(name(location), journal.uuid):
                    yield location


def _is_data_output(file_name: str, uuid: str) -> bool:
    is_file = uuid in file_name and file_name.endswith(_DATA)
    return is_file and not is_output(file_name, uuid)


def _content(journal: OutputJournal) -> bytes:
    content = {
        "icectl-journal": journals.VERSION,
        "table-uuid": journal.table_uuid,
        "created-ms": journal.created_ms,
        "host": journal.host,
        "pid": journal.pid,
        "folders": journal.data.folders,
        "trees": journal.data.trees,
        "abandoned": journal.abandoned,
        "newest-version": journal.newest_version,
        "newest-location": journal.newest_location,
        "newest-sequence-number": journal.newest_sequence_number,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _read(store: Store, location: str) -> OutputJournal:
    """Read a journal. Raises: what reading raises; UNREADABLE, for another content."""
    content = parse_json(store.read(location))
    journals.check_version(content)
    version, taken = content["newest-version"], content.get("newest-sequence-number")
    pid = content["pid"]
    if not isinstance(pid, int) or not 0 < pid < 2**31:
        raise ValueError(f"{pid!r:.40} is not a process id")
    return OutputJournal(
        location,
        # Files are recognised by the uuid, so it has to be valid.
        str(UUID(name(location).removesuffix(".json")[-36:])),
        journals.text_or_none(content.get("table-uuid", journals.NOT_SAID)),
        int(content["created-ms"]),
        str(content["host"]),
        pid,
        DataPlaces(journals.texts(content["folders"]), journals.texts(content["trees"])),
        abandoned=content["abandoned"] is True,
        newest_version=None if version is None else int(version),
        newest_location=journals.text_or_none(content.get("newest-location")),
        newest_sequence_number=None if taken is None else int(taken),
    )
