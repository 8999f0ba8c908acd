"""The search for rows to delete in the data files of one task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Mask
from icectl.entries.conditions import (
    And,
    Column,
    Compare,
    Constant,
    IsNan,
    IsNull,
    Leaf,
    Not,
    Or,
    Predicate,
    StartsWith,
    leaves,
)
from icectl.errors import CorruptTable, MissingFile, Refused, StorageError, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.deletion_vectors import Positions, read_dv, write_dv
from icectl.files.parquet.data_file import ParquetDataFile
from icectl.files.parquet.schema import arrow_schema, arrow_values, remembered
from icectl.files.parquet.value_filters import RuledOutBy, ValueFilters
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.files.row_hash import Hashes
from icectl.format.schema import Schema
from icectl.format.types import (
    DecimalType,
    NestedField,
    PrimitiveType,
    Type,
    is_comparable,
    is_nested,
    type_text,
)
from icectl.rows.columns import as_values, inside, path_to
from icectl.rows.compact_job import CompactJob, file_group
from icectl.rows.equality_deletes import (
    LARGEST_INDEX_ROWS,
    Chain,
    EqualityDeletes,
    EqualityIndex,
    chain_of,
    equality_indexes,
    read_keys,
)
from icectl.rows.key_ranges import KeyGlances, KeyRanges, groups_without
from icectl.rows.read_data import RowSource, SourceFile
from icectl.rows.rewrite_data import StoredRows, stored_rows
from icectl.rows.sorted_keys import map_keys, sort_keys_into
from icectl.rows.write_data import FileOutputs
from icectl.rows.write_job import IncomingRows, frame_schema
from icectl.storage.listing import temporary_file
from icectl.table.rewrite_tasks import InputFile, RewriteTask

_COMPARE: Mapping[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "<": pc.less,
    "<=": pc.less_equal,
    "=": pc.equal,
}


def matches(predicate: Predicate, batch: pa.RecordBatch) -> pa.Array:
    """Return whether a condition is true of each row of a batch with its columns.

    NaN is above every number and equal to none. Order: kept.
    """
    match predicate:
        case Constant(value):
            return pa.repeat(pa.scalar(value), batch.num_rows)
        case Not(part):
            return pc.invert(matches(part, batch))
        case And(parts):
            return reduce(pc.and_kleene, [matches(part, batch) for part in parts])
        case Or(parts):
            return reduce(pc.or_kleene, [matches(part, batch) for part in parts])
        case IsNull(column):
            return _values(column, batch).is_null()
        case IsNan(column):
            return pc.fill_null(pc.is_nan(_values(column, batch)), fill_value=False)
        case StartsWith(column, prefix):
            return pc.starts_with(_values(column, batch), prefix)
        case Compare(column, operator, value):
            stored, operand = _values(column, batch), arrow_values(column.type, [value])
            if column.type == PrimitiveType("uuid"):
                stored, operand = stored.storage, operand.storage
            if pa.types.is_fixed_size_binary(stored.type):
                stored, operand = stored.cast(pa.binary()), operand.cast(pa.binary())
            return _COMPARE[operator](stored, operand[0])


def _values(column: Column, batch: pa.RecordBatch) -> pa.Array:
    path = path_to(batch.schema, column.field_id or 0)
    assert path is not None
    return inside(batch.column(path[0]), path[1:])


_STORED = "keys.parquet"
MOST_KEPT_BYTES = 32 << 20
"""The largest file of keys that is sorted once, and kept so, for all files of a process."""

_RANGED = {"int", "long", "date", "timestamp", "timestamptz", "string"}


@dataclass(frozen=True, slots=True)
class Keys:
    """The values of some columns that rows are looked up by, as a Parquet file of `count` rows.

    Many of them are in a `folder`, sorted, for processes of this machine.
    """

    content: bytes
    count: int
    field_ids: tuple[int, ...]
    folder: str = ""

    def open(self, _: str = "") -> IO[bytes]:
        """Return the file, for readers of files at locations."""
        return Path(self.folder, _STORED).open("rb") if self.folder else BytesIO(self.content)

    def of_columns(self, field_ids: tuple[int, ...]) -> "Keys":
        """Return the values of some of the columns, in memory unless they are all."""
        return (
            self if field_ids == self.field_ids else replace(self.in_memory(), field_ids=field_ids)
        )

    def in_memory(self) -> "Keys":
        """Return the same keys without a folder, for other machines."""
        if not self.folder:
            return self
        with self.open() as file:
            return Keys(file.read(), self.count, self.field_ids)


@dataclass(frozen=True, slots=True)
class FindJob:
    """The rows that all tasks look for; `reading` has the columns of the condition.

    With `finds_deleted`, a file is found too where all such rows of it are deleted.
    """

    reading: CompactJob
    rows: Predicate | Keys
    finds_deleted: bool = False


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows found in one data file, `count` of them live so far.

    `deleted` is a bitmap of all deleted rows of the file, `live_count` the number of the others.
    """

    location: str
    deleted: bytes
    count: int
    live_count: int

    @property
    def positions(self) -> Positions:
        """The positions of deleted rows. Order: ascending."""
        return read_dv(self.deleted)


_Hits = Callable[[StoredRows], Mask]


def run_find(task: RewriteTask, job: FindJob, outputs: FileOutputs) -> list[FoundRows]:
    """Find rows in the files of a task; files without one are left out.

    Raises: as stored_rows, matches.
    """
    return _found(task, job, outputs, {})


def find_or_rule_out(
    task: RewriteTask, job: FindJob, outputs: FileOutputs
) -> list[FoundRows] | RuledOutBy:
    """Find rows in the one file of a task, or return by what they are ruled out without a look.

    Raises: as run_find.
    """
    ruled_out: dict[str, RuledOutBy] = {}
    found = _found(task, job, outputs, ruled_out)
    return ruled_out.get(task.inputs[0].location, found)


def _found(
    task: RewriteTask, job: FindJob, outputs: FileOutputs, ruled_out: dict[str, RuledOutBy]
) -> list[FoundRows]:
    """Find rows as run_find, and note which files are not read, and why."""
    task = _may_have_keys(task, job, outputs, ruled_out)
    if not task.inputs:
        return []
    group = file_group(task, job.reading)
    locations = [file.location for file in task.inputs]
    counts = {file.location: file.record_count for file in task.inputs}
    deleted: dict[str, Mask] = {}
    is_hit: dict[str, Mask] = {}
    may_have = _may_have(job, ruled_out)
    for hits, more in _searches(job):
        for rows in stored_rows(group, outputs, more, may_have):
            location = rows.source.file.location
            if location not in deleted:  # its footer bears out the count by now
                deleted[location] = np.zeros(counts[location], np.bool_)
                is_hit[location] = np.zeros(counts[location], np.bool_)
            deleted[location][rows.positions] = rows.is_deleted
            is_hit[location][rows.positions] |= hits(rows)
    found_rows = []
    for location in filter(deleted.__contains__, locations):
        before = deleted[location]
        after = before | is_hit[location]
        count = int(after.sum()) - int(before.sum())
        if count or (job.finds_deleted and is_hit[location].any()):
            vector = write_dv(np.flatnonzero(after))
            found_rows.append(FoundRows(location, vector, count, int((~after).sum())))
    return found_rows


def _may_have_keys(
    task: RewriteTask, job: FindJob, outputs: FileOutputs, ruled_out: dict[str, RuledOutBy]
) -> RewriteTask:
    """Return a task with those of its files that a glance can't rule out; all if it has deletes."""
    if not isinstance(job.rows, Keys) or task.delete_files:
        return task
    _, glances = _key_tests(job.rows, _columns(job))

    def may_have(file: InputFile) -> bool:
        is_bare = file.vector is None and file.split is None and file.stated is None
        if not is_bare or not glances.pay:
            return True
        with outputs.reading(file.location) as opened:
            is_absent = glances.rule_out(opened, file.size_bytes, file.record_count)
        if is_absent:
            ruled_out[file.location] = "bloom"
        return not is_absent

    inputs = tuple(filter(may_have, task.inputs))
    return task if len(inputs) == len(task.inputs) else replace(task, inputs=inputs)


Tried = list[FoundRows] | RuledOutBy | CorruptTable | StorageError | Unsupported
"""What a search has found in a file, by what it is ruled out, or why it can't be read."""


def try_find(task: RewriteTask, job: FindJob, outputs: FileOutputs) -> Tried:
    """Find rows in the one file of a task, rule them out, or return what is wrong with it."""
    try:
        return find_or_rule_out(task, job, outputs)
    except FileNotFoundError:
        return MissingFile(task.inputs[0].location)
    except (CorruptTable, StorageError, Unsupported) as error:
        return error


def _searches(job: FindJob) -> Iterator[tuple[_Hits, set[int]]]:
    """Yield each pass over the rows: its test, and the further columns that it needs."""
    target = job.rows
    if not isinstance(target, Keys):
        yield partial(_of_condition, target), set()
        return
    columns = _columns(job)
    is_large = target.folder or len(target.content) > MOST_KEPT_BYTES
    for index in [_mapped_index(target, columns)] if is_large else _indexes(target, columns):
        yield partial(_of_keys, index), index.read_ids


_Columns = tuple[tuple[int, str, Type, Any], ...]
"""The ids, names, types and defaults of key columns."""


@remembered
def _columns(job: FindJob) -> _Columns:
    assert isinstance(job.rows, Keys)
    chain = _chain(job.rows, job.reading.columns.ever)
    return tuple((it.id, it.name, it.type, it.initial_default) for it in chain.fields)


def _as_deletes(keys: Keys) -> EqualityDeletes:
    return EqualityDeletes(
        SourceFile("the keys", "parquet", keys.count, 0), keys.field_ids, frozenset()
    )


def _schema(columns: _Columns) -> Schema:
    fields = (
        NestedField(id_, name, type_, required=False, initial_default=default)
        for id_, name, type_, default in columns
    )
    return Schema(0, tuple(fields))


@lru_cache(maxsize=2)
def _indexes(keys: Keys, columns: _Columns) -> Sequence[EqualityIndex]:
    """Return few keys sorted, once for all files."""
    parts = equality_indexes([_as_deletes(keys)], keys.open, _schema(columns), LARGEST_INDEX_ROWS)
    return [index for part in parts for index in part]


@lru_cache(maxsize=2)
def _mapped_index(keys: Keys, columns: _Columns) -> EqualityIndex:
    """Return many keys that are sorted in files, which only this process has if they are its own.

    Raises: StorageError, without room for them.
    """
    schema = _schema(columns)
    if keys.folder:
        return map_keys(Path(keys.folder), _chain(keys, schema))
    with TemporaryDirectory(prefix="icectl-keys-") as folder:
        sort_keys_into(Path(folder), _chain(keys, schema), _hashed(keys, schema))
        return map_keys(Path(folder), _chain(keys, schema))  # without a name until the process ends


def _chain(keys: Keys, schema: Schema) -> Chain:
    return chain_of(keys.field_ids, [_as_deletes(keys)], schema, {})


@lru_cache(maxsize=2)
def _ranges(keys: Keys, columns: _Columns) -> KeyRanges:
    """Return the values of keys, which are read once for all files."""
    schema, deletes = _schema(columns), _as_deletes(keys)
    if keys.folder:
        with keys.open() as file:
            parts = open_data_file(file, "parquet").parts(schema)
        stated = (KeyRanges.stated(schema.fields, metrics) for metrics in parts)
        return reduce(KeyRanges.joined, stated)
    ranges = KeyRanges.empty(schema.fields)
    for _, _, values in read_keys(deletes, _chain(keys, schema), keys.open):
        ranges.add(values)
    return ranges


def sorted_in(folder: Path, keys: Keys, schema: Schema) -> Keys:
    """Move many keys into an empty folder, where they are sorted. Raises: StorageError."""
    with temporary_file():
        (folder / _STORED).write_bytes(keys.content)
    moved = replace(keys, content=b"", folder=str(folder))
    sort_keys_into(folder, _chain(moved, schema), _hashed(moved, schema))
    return moved


def _hashed(keys: Keys, schema: Schema) -> Iterator[tuple[Hashes, pa.Array]]:
    read = read_keys(_as_deletes(keys), _chain(keys, schema), keys.open)
    return ((hashes, encoded) for hashes, encoded, _ in read)


def _may_have(job: FindJob, ruled_out: dict[str, RuledOutBy]) -> Callable[[RowSource], bool]:
    """Return the test whether a file may have any of the rows; it notes by what it has none."""
    target, ever = job.rows, job.reading.columns.ever
    if isinstance(target, Keys):
        return partial(_may_have_key, *_key_tests(target, _columns(job)), ruled_out)
    if not any(_is_equality(leaf) for leaf in leaves(target)):
        return lambda _: True

    def may_have(source: RowSource) -> bool:
        opened = source.opened
        if not isinstance(opened, ParquetDataFile):
            return True
        filters = ValueFilters(opened)
        groups = range(int(opened.file.metadata.num_row_groups))
        if any(_may_be_true(target, partial(filters.may_have, at), ever) for at in groups):
            return True
        ruled_out[source.file.location] = filters.ruled_out_by
        return False

    return may_have


def _may_have_key(
    ranges: KeyRanges, glances: KeyGlances, ruled_out: dict[str, RuledOutBy], source: RowSource
) -> bool:
    opened = source.opened
    if not isinstance(opened, ParquetDataFile):
        return True
    filters = ValueFilters(opened)
    if len(groups_without(opened, [ranges], filters)) < opened.file.metadata.num_row_groups:
        return True
    ruled_out[source.file.location] = filters.ruled_out_by
    glances.learn(opened)
    return False


@lru_cache(maxsize=2)
def _key_tests(keys: Keys, columns: _Columns) -> tuple[KeyRanges, KeyGlances]:
    """Return what files may have keys by, for all files: glances learn from each."""
    ranges = _ranges(keys, columns)
    return ranges, KeyGlances(ranges)


_MayHave = Callable[[int, pa.Array], Mask]
"""Which values a part of a file may have in the column of an id."""


def _is_equality(leaf: Leaf) -> bool:
    return isinstance(leaf, Compare) and leaf.operator == "="


def _may_be_true(predicate: Predicate, may_have: _MayHave, ever: Schema) -> bool:
    """Return whether a condition may be true of a row of a part of a file.

    Columns that readers fill in by themselves, which `ever` lacks, may have any value.
    """
    match predicate:
        case And(parts):
            return all(_may_be_true(part, may_have, ever) for part in parts)
        case Or(parts):
            return any(_may_be_true(part, may_have, ever) for part in parts)
        case Compare(column, "=", value) if ever.field(column.field_id or 0) is not None:
            return bool(may_have(column.field_id or 0, arrow_values(column.type, [value]))[0])
        case _:
            return True


def _of_condition(condition: Predicate, rows: StoredRows) -> Mask:
    """Return the rows that a condition is true of: unknown is not true."""
    if isinstance(condition, Constant):  # without columns a batch has no rows
        return np.full(len(rows.positions), condition.value)
    mask = matches(condition, rows.source.project(rows.batch, rows.positions))
    return np.asarray(pc.fill_null(mask, fill_value=False).to_numpy(zero_copy_only=False), np.bool_)


def _of_keys(index: EqualityIndex, rows: StoredRows) -> Mask:
    flags = np.zeros(len(rows.positions), np.bool_)
    flags[index.equal(rows.source, rows.batch)] = True
    return flags


def keys_of(frame: pa.Table, schema: Schema) -> tuple[Keys, Predicate]:
    """Return keys to look for, and a condition that is true of each row with one of them.

    Raises: Refused, for unknown columns or none, those that don't compare, and for nulls, which
    equal nothing.
    """
    named = set(frame.column_names)
    if not named:
        raise Refused("the keys have no columns", hint="name the columns to find rows by")
    columns = Schema(
        schema.schema_id,
        tuple(replace(item, required=False) for item in schema.fields if item.name in named),
    )
    for item in columns.fields:
        if not is_nested(item.type) and not is_comparable(item.type):
            raise Refused(
                f"a key can't have `{item.name}`, which is {type_text(item.type)}",
                hint="choose key columns whose values can be compared",
            )
    incoming = IncomingRows(frame_schema(frame.schema, columns), columns)
    table = pa.Table.from_batches(
        incoming.of(frame.combine_chunks().to_batches()), arrow_schema(columns)
    )
    ranges: list[Predicate] = []
    for item, column in zip(columns.fields, table.columns, strict=True):
        if column.null_count:
            raise Refused(
                f"a key has no `{item.name}`, and null equals nothing",
                hint=f"`delete_where` with `{item.name} is null` deletes such rows",
            )
        is_named = isinstance(item.type, PrimitiveType) and item.type.name in _RANGED
        if len(column) and (is_named or isinstance(item.type, DecimalType)):
            ends = pc.min_max(as_values(column.combine_chunks(), item.type)).as_py()
            key = Column(item.name, item.type, item.id)
            ranges += [Not(Compare(key, "<", ends["min"])), Compare(key, "<=", ends["max"])]
    file = BytesIO()
    writer = ParquetWriter(file, arrow_schema(columns), ParquetOptions("none"), {})
    if len(table):
        writer.write_row_group(table.to_batches())
    writer.close()
    ids = tuple(item.id for item in columns.fields)
    predicate = And(tuple(ranges)) if ranges else Constant(value=True)
    return Keys(file.getvalue(), len(table), ids), predicate
