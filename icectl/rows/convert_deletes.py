"""The rows of data files that equality deletes delete, by position: one task, in any process.

Only columns that deletes compare are read, of row groups that may have one of the keys. Keys that
don't fit into memory, and the rows to compare with them, lie on disk.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pyarrow as pa

from icectl.files.deletion_vectors import write_dv
from icectl.files.parquet.data_file import ParquetDataFile
from icectl.files.row_hash import Hashes, row_hashes
from icectl.format.schema import Schema
from icectl.rows.compact_job import ConvertJob, FoundDeletes, delete_source, source_of
from icectl.rows.deleted_positions import DeletedPositions
from icectl.rows.equality_deletes import (
    Chain,
    EqualityDeletes,
    EqualityIndex,
    chain_of,
    encoded_keys,
    read_keys,
)
from icectl.rows.key_ranges import KeyRanges, groups_without
from icectl.rows.read_data import RowSource, open_source
from icectl.rows.spilled_keys import SpilledKeys
from icectl.rows.write_data import FileOutputs
from icectl.table.equality_scopes import DeleteChains
from icectl.table.rewrite_tasks import ConvertTask, InputFile

_FOUND = pa.schema([("input", pa.int32()), ("count", pa.int64()), ("positions", pa.binary())])
"""The place of a file in the task, how many of its rows are deleted, and a vector of them."""


def chains_of(task: ConvertTask, job: ConvertJob) -> list[Chain]:
    """Return the chains of a task's delete files, with the ranks of its data files.

    Raises: CorruptTable R-123; Unsupported.
    """
    grouped = DeleteChains(task.delete_files, job.global_spec_ids)
    least: list[dict[str, int]] = [{} for _ in grouped.chains]
    for file in task.inputs:
        stated = (file.spec_id, file.partition_key, file.sequence_number)
        for at, rank in grouped.applying(*stated):
            least[at][file.location] = rank
    chains = []
    for chain, ranks in zip(grouped.chains, least, strict=True):
        ids = chain.equality_ids
        deletes = [EqualityDeletes(delete_source(file), ids, frozenset()) for file in chain.files]
        chains.append(chain_of(ids, deletes, job.columns, ranks))
    return chains


def run_convert(task: ConvertTask, job: ConvertJob, outputs: FileOutputs) -> FoundDeletes:
    """Look the rows of a task's files up in its equality deletes.

    Raises: CorruptTable R-063, R-099, R-123; Unsupported. Errors of the files pass.
    Cost: memory for `most_keys` keys and a byte for each row of files with deleted ones. The
    compared columns are read once. Beyond that, disk for all keys, and rows that may have one.
    """
    with ExitStack() as stack:
        search = _Search(task, job, outputs, chains_of(task, job), stack)
        search.read_keys()
        search.read_rows()
        search.finish()
        return search.result()


class _Search:
    """A search under way: keys in memory, or `spilled`, and what was found."""

    def __init__(
        self,
        task: ConvertTask,
        job: ConvertJob,
        outputs: FileOutputs,
        chains: Sequence[Chain],
        stack: ExitStack,
    ) -> None:
        self._task, self._job, self._outputs, self._chains = task, job, outputs, chains
        self._stack = stack
        self._places = {file.location: at for at, file in enumerate(task.inputs)}
        self._deleted = DeletedPositions({file.location: file.record_count for file in task.inputs})
        self._ranges = [KeyRanges.empty(chain.fields) for chain in chains]
        self._indexes: dict[int, EqualityIndex] = {}
        self._spilled: SpilledKeys | None = None
        self._key_count = self._read_files = self._read_rows = 0

    def read_keys(self) -> None:
        """Read all keys, into memory as long as they fit."""
        parts: list[list[tuple[Hashes, pa.Array, int]]] = [[] for _ in self._chains]
        key_bytes = 0
        for number, chain in enumerate(self._chains):
            for rank, delete in enumerate(chain.deletes):
                for hashes, keys, columns in read_keys(delete, chain, self._outputs.reading):
                    self._ranges[number].add(columns)
                    self._key_count += len(keys)
                    key_bytes += keys.nbytes
                    if self._spilled is not None:
                        self._spilled.add(number, rank, hashes, keys)
                        continue
                    parts[number].append((hashes, keys, rank))
                    if (
                        self._key_count > self._job.most_keys
                        or key_bytes > self._job.most_key_bytes
                    ):
                        self._spill(parts, key_bytes / self._key_count)
        for number, of_chain in enumerate(parts):
            if of_chain:
                self._indexes[number] = EqualityIndex(self._chains[number], of_chain)
                of_chain.clear()
        pa.default_memory_pool().release_unused()

    def _spill(self, parts: list[list[tuple[Hashes, pa.Array, int]]], key_bytes: float) -> None:
        expected = sum(file.record_count for file in self._task.delete_files)
        spilled = SpilledKeys(self._chains, max(expected, self._key_count), key_bytes)
        self._spilled = self._stack.enter_context(spilled)
        for number, of_chain in enumerate(parts):
            for hashes, keys, rank in of_chain:
                spilled.add(number, rank, hashes, keys)
            of_chain.clear()

    def read_rows(self) -> None:
        """Read the compared columns of all files that may have one of the keys."""
        for file in self._task.inputs:
            applied = [
                number for number, chain in enumerate(self._chains) if file.location in chain.least
            ]
            stated = file.stated
            if stated is not None:
                applied = [
                    number for number in applied if self._ranges[number].may_be_in(stated.metrics)
                ]
            if applied:
                self._read_file(file, applied)

    def _read_file(self, file: InputFile, applied: Sequence[int]) -> None:
        ids = set[int]().union(*(self._chains[number].read_ids for number in applied))
        self._read_files += 1
        with self._outputs.reading(file.location) as handle:
            given = source_of(file, self._job.specs)
            source = open_source(handle, given, Schema(0, ()), self._job.name_mapping)
            source = self._needed(source, applied)
            for rows in source.stored(ids):
                self._read_rows += rows.batch.num_rows
                for number in applied:
                    self._look_up(number, source, rows.batch, rows.first_row)

    def _needed(self, source: RowSource, applied: Sequence[int]) -> RowSource:
        """Return a file without the row groups that can't have any of the keys."""
        opened = source.opened
        if not isinstance(opened, ParquetDataFile):
            return source
        skipped = groups_without(opened, [self._ranges[number] for number in applied])
        return replace(source, opened=replace(opened, skipped=skipped)) if skipped else source

    def _look_up(self, number: int, source: RowSource, batch: pa.RecordBatch, first: int) -> None:
        location = source.file.location
        if self._spilled is None:
            hits = self._indexes[number].deleted(source, batch)
            if len(hits):
                self._deleted.add(location, hits + first)
            return
        chain = self._chains[number]
        columns = [source.values(batch, line) for line in chain.lines]
        hashes = row_hashes(columns, batch.num_rows)
        rows = self._spilled.may_have(number, hashes)
        if len(rows):
            taken = [column.take(pa.array(rows)) for column in columns]
            keys = encoded_keys(chain.fields, taken)
            at = self._places[location]
            self._spilled.look_up(number, at, hashes[rows], rows + first, keys)

    def finish(self) -> None:
        """Look up what lies on disk."""
        if self._spilled is None:
            return
        locations = [file.location for file in self._task.inputs]
        most = np.iinfo(np.int32).max
        least = [
            np.array([chain.least.get(location, most) for location in locations], np.int32)
            for chain in self._chains
        ]
        for places, positions in self._spilled.found(least):
            for at in np.unique(places).tolist():
                self._deleted.add(locations[at], positions[places == at])

    def result(self) -> FoundDeletes:
        """Return what was found."""
        found = [(at, self._deleted.of(file.location)) for at, file in enumerate(self._task.inputs)]
        rows = [
            {"input": at, "count": int(flags.sum()), "positions": write_dv(np.flatnonzero(flags))}
            for at, flags in found
            if flags is not None and flags.any()
        ]
        return FoundDeletes(
            self._task.task_id,
            pa.Table.from_pylist(rows, schema=_FOUND),
            self._key_count,
            self._read_files,
            self._read_rows,
        )
