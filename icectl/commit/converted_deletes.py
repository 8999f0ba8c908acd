"""Equality deletes that become deletes by position, on whatever head their commit finds.

What was found in a data file holds as long as it is live and the deletes are. So on each head the
rows found are combined with those that are deleted by position there, files that another
rewrite brought with an older sequence number are looked into, and those that are gone left out.
An equality delete goes only where all data files of the head that it applies to were looked into.
New deletes have the highest sequence number of those that they stand for: a rewrite that began
before these must fail, and one that applied them must not.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from icectl import __version__
from icectl.commit.carried_positions import joined
from icectl.commit.rewritten_groups import GroupResult
from icectl.commit.transaction import DataOutputs
from icectl.entries.deletes import newest_among, sharing_deletes
from icectl.entries.rows import Entries, are_at, by_row, take
from icectl.files.deletion_vectors import Positions, read_dv, write_dv
from icectl.format.manifest import Content
from icectl.rows.compact_job import FoundDeletes, MergeJob, deletes_by_position, partition_of
from icectl.rows.merge_deletes import (
    MergedDeletes,
    delete_file_entries,
    merged_positions,
    write_delete_file,
    write_vectors,
)
from icectl.rows.write_data import FileOutputs
from icectl.storage.store import Store
from icectl.table.equality_scopes import DeleteChains
from icectl.table.live_files import LiveFiles, check_deletes
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import (
    ConvertTask,
    DeleteFile,
    InputFile,
    MergeDeletesTask,
    TaskMaker,
)

_STATED = ("location", "record_count", "spec_id", "partition_key", "sequence_number")
"""Members of a data file's entry by which it is the one that was looked into."""

_POSITIONS_AT_ONCE = 8_000_000
"""Positions in memory, and in one file of vectors, as far as data files allow."""

Find = Callable[[Sequence[ConvertTask]], Iterable[FoundDeletes]]
"""Looks rows up in equality deletes, wherever it reads them."""


@dataclass(slots=True)
class Conversion:
    """Equality deletes, and the rows that they delete in each data file, as far as they were found.

    `found` has their number and a vector of them, by what the entry of the file states. `merging`
    are data files whose deletes by position are merged in any case.
    """

    number: int
    deletes: tuple[DeleteFile, ...]
    merging: frozenset[str] = frozenset()
    found: dict[tuple[Any, ...], tuple[int, bytes]] = field(default_factory=dict)

    def add(self, tasks: Sequence[ConvertTask], found: Iterable[FoundDeletes]) -> None:
        """Take over what tasks have found, beside what others have found of the same files."""
        by_id = {of_task.task_id: of_task for of_task in found}
        for task in tasks:
            vectors = by_id[task.task_id].by_file(task)
            for file in task.inputs:
                key, new = stated_of(file), vectors.get(file.location, NOTHING)
                known = self.found.get(key, NOTHING)
                if known[0] and new[0]:
                    positions = np.union1d(read_dv(known[1]), read_dv(new[1]))
                    new = len(positions), write_dv(positions)
                self.found[key] = new if new[0] else known

    def keep_live(self, files: LiveFiles, global_spec_ids: Collection[int]) -> None:
        """Forget deletes that a head does not have, and what was found with them.

        Others have converted them, or taken them back.
        """
        columns = ("content", "location", "sequence_number", "spec_id", "partition_key")
        live = {
            (location, number): (spec_id, key)
            for content, location, number, spec_id, key in by_row(files.deletes, *columns)
            if content == Content.EQUALITY_DELETES
        }
        gone = [
            file
            for file in self.deletes
            if live.get((file.location, file.sequence_number)) != (file.spec_id, file.partition_key)
        ]
        if not gone:
            return
        self.deletes = tuple(file for file in self.deletes if file not in gone)
        chains = DeleteChains(gone, global_spec_ids)
        for known in list(self.found):
            if chains.applying(*known[2:]):
                del self.found[known]


NOTHING = (0, b"")
"""What was found in a file without deleted rows."""


def stated_of(file: InputFile) -> tuple[Any, ...]:
    """Return the key of a data file in what was found."""
    return tuple(getattr(file, name) for name in _STATED)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The new deletes that a head needs.

    `task` names the data files with their deletes by position, `by_value` has the rows that are
    deleted otherwise, `newest` the highest number of the deletes that these stand for, by location.
    """

    task: MergeDeletesTask
    by_value: Mapping[str, tuple[int, bytes]]
    newest: Mapping[str, int]

    def key(self, file: InputFile) -> object:
        """Return all that the new deletes of a data file are made of."""
        deletes = tuple(self.task.delete_files[at] for at in file.position_deletes)
        found = self.by_value.get(file.location, NOTHING)
        newest = self.newest.get(file.location, 0)
        return replace(file, position_deletes=()), deletes, found, newest

    def sequence_number(self, file: InputFile) -> int:
        """Return the highest sequence number of the deletes that new ones stand for."""
        numbers = [self.task.delete_files[at].sequence_number for at in file.position_deletes]
        vector = [] if file.vector is None else [file.vector.sequence_number]
        return max(self.newest.get(file.location, 0), *numbers, *vector, 0)


@dataclass(slots=True)
class DeleteConverter:
    """Converts equality deletes in one commit; what an attempt has written serves the next one.

    The new deletes are those of the snapshot with `snapshot_id`. `has_found` says of the newest
    attempt whether the equality deletes delete any row.
    """

    store: Store
    job: MergeJob
    places: DataOutputs
    form: Literal["positions", "vectors"]
    global_spec_ids: frozenset[int]
    threads: int
    find: Find
    conversion: Conversion
    snapshot_id: int
    has_found: bool = False
    _written: dict[object, pa.Table] = field(default_factory=dict)

    def result(self, files: LiveFiles) -> GroupResult:
        """Write the new deletes for a head, and return what changes by them.

        Raises: CorruptTable, Unsupported, StorageError; SelfCheckFailed; those of `find`.
        Cost: memory for _POSITIONS_AT_ONCE, and a bitmap of the rows found.
        """
        wanted = self._wanted(files)
        for chunk in self._chunks(wanted):
            self._write(wanted, chunk)
        none = delete_file_entries({}, (), lambda _: 0)
        tables = [none, *(self._written[wanted.key(file)] for file in wanted.task.inputs)]
        return GroupResult(
            self.conversion.number,
            (wanted.task,),
            Entries(pa.concat_tables(tables)),
            converted=frozenset(file.location for file in self.conversion.deletes),
        )

    def _wanted(self, files: LiveFiles) -> _Wanted:
        """Look into files that no one has looked into, and return the deletes that are needed."""
        conversion = self.conversion
        conversion.keep_live(files, self.global_spec_ids)
        converted = are_at(files.deletes, {file.location for file in conversion.deletes})
        newest = newest_among(files.matches, converted)
        rows = np.flatnonzero(newest).tolist()
        stated = list(by_row(take(files.data, rows), *_STATED))
        of_files = {key[0]: int(newest[row]) for row, key in zip(rows, stated, strict=True)}
        unknown = [
            row for row, key in zip(rows, stated, strict=True) if key not in conversion.found
        ]
        if unknown:
            maker = TaskMaker(files.data, files.deletes, files.index, unknown)
            blank = ConvertTask(f"{conversion.number}-0", conversion.number, (), conversion.deletes)
            task = maker.convert(unknown, blank)
            conversion.add([task], self.find([task]))
        by_value = {key[0]: conversion.found[key] for key in stated if conversion.found[key][0]}
        self.has_found = bool(by_value)
        named = are_at(files.data, {*by_value, *conversion.merging})
        chosen = np.flatnonzero(named).tolist()
        if self.form == "positions":
            chosen = sorted(sharing_deletes(files.named, chosen))
        check_deletes(files, chosen)
        maker = TaskMaker(files.data, files.deletes, files.index, chosen)
        merging = MergeDeletesTask(f"{conversion.number}-0", conversion.number, (), (), self.form)
        return _Wanted(maker.merge(chosen, merging), by_value, of_files)

    def _chunks(self, wanted: _Wanted) -> Iterator[list[InputFile]]:
        """Yield the data files whose deletes are still to be written, not too many at a time."""
        chunk: list[InputFile] = []
        count = 0
        for file in wanted.task.inputs:
            if wanted.key(file) in self._written:
                continue
            chunk.append(file)
            count += wanted.by_value.get(file.location, NOTHING)[0]
            count += 0 if file.vector is None else file.vector.record_count
            if count >= _POSITIONS_AT_ONCE:
                yield chunk
                chunk, count = [], 0
        if chunk:
            yield chunk

    def _write(self, wanted: _Wanted, chunk: Sequence[InputFile]) -> None:
        """Write the new deletes of some data files."""
        positions = self._positions(wanted, chunk)
        inputs = {file.location: file for file in chunk}
        outputs = FileOutputs(
            lambda partition: self.places.next_file_location(wanted.task, partition),
            self.store.open_new,
            self.store.open,
        )
        new: Sequence[MergedDeletes]
        if self.form == "vectors":
            new = write_vectors(positions, f"icectl {__version__}", outputs, self.job.base)
        else:

            def write(location: str) -> MergedDeletes:
                file = inputs[location]
                path = partition_of(file.partition_key, self.job.specs[file.spec_id]).path
                return write_delete_file(
                    location, positions[location], path, self.job.parquet, outputs
                )

            sizes = [len(deleted) for deleted in positions.values()]
            new = list(in_threads(write, list(positions), sizes, threads=self.threads))
        entries = delete_file_entries(inputs, new, wanted.sequence_number)
        places = {deletes.data_file: at for at, deletes in enumerate(new)}
        for file in chunk:
            at = places.get(file.location)
            self._written[wanted.key(file)] = entries.slice(at or 0, 0 if at is None else 1)

    def _positions(self, wanted: _Wanted, files: Sequence[InputFile]) -> Mapping[str, Positions]:
        """Return all deleted rows of some data files, without files that have none.

        Order: that of the files, in which their entries are listed. DuckDB 1.5 takes one vector of
        a Puffin file for another if they are listed in another order than they lie in.
        """
        reading = FileOutputs.without_places(self.store)
        task = replace(wanted.task, inputs=tuple(files))
        deletes = deletes_by_position(task, self.job.scheme)
        by_position = merged_positions([file.location for file in files], deletes, reading)
        by_value = {
            file.location: read_dv(wanted.by_value[file.location][1])
            for file in files
            if file.location in wanted.by_value
        }
        found = joined(by_position, by_value)
        return {file.location: found[file.location] for file in files if file.location in found}
