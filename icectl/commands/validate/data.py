"""Levels `footers` and `data` of `validate`: contents of files against their manifest entries."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import IO, Any, Literal, cast

import pyarrow.compute as pc

from icectl.checks.rule import Finding
from icectl.checks.rules import READ_AGAIN, finding
from icectl.entries.conditions import Predicate
from icectl.entries.inherit import inherit
from icectl.entries.may_match import files_may_match
from icectl.entries.partition_key import decode_key
from icectl.entries.rows import (
    ALL_COLUMNS,
    Entries,
    by_row,
    data_files,
    delete_files,
    live,
    sample,
    where,
    with_manifest_number,
)
from icectl.env import SystemEnv
from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.files.puffin import read_blob, read_puffin_footer
from icectl.format.layout import Layout, layout_of_table
from icectl.format.locations import named_in_vector
from icectl.format.manifest import Content, FileFormat, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.schema import FILE_PATH
from icectl.format.snapshot import Snapshot, StatisticsFile
from icectl.progress import SilentProgress
from icectl.rows.check_data_file import RecordedFile, TableFacts, check_data_file
from icectl.rows.check_delete_file import (
    RecordedDeletes,
    check_equality_deletes,
    check_position_deletes,
    check_vectors,
)
from icectl.rows.spark import Spark
from icectl.rows.workers import Ask, Kernel, KernelCrashed, WorkerPool
from icectl.storage.local.scan import regular
from icectl.storage.location import comparison_key, is_local, loosest_key
from icectl.storage.open import StorageOptions, open_store, requests_at_once
from icectl.storage.store import Store
from icectl.storage.streams import CountingReader, ReadAhead
from icectl.table.live_files import every_column, name_mapping
from icectl.table.manifests import try_manifests
from icectl.table.reader import Reader
from icectl.table.reading import in_threads, of_one_file

_FORMATS = list(FileFormat)
_MAX_WAITING, _TASK_BYTES = 4, 64 << 20
_BUNDLE, _BUNDLE_OF_SPARK = 1000, 20_000
"""Files whose entries are kept while they are checked; those of one manifest at least."""

_MISSPELT = "rewrite these deletes with the engine that made them"

_WORTH_A_WORKER_BYTES = 8 << 20
"""What is read in the time that a worker takes to start."""

_UNREAD = frozenset({"R-099", "R-118", "R-119"})
"""Rules of files that were not read to their end, or that are not what they say."""

_COLUMNS = ALL_COLUMNS - {"key_metadata", "split_offsets", "column_sizes"}
_MAPS = (
    "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
)  # fmt: skip


_DESCRIBING = (
    "location", "content_offset", "content_size_in_bytes", "record_count", "spec_id",
    "partition_key", "sequence_number", "referenced_data_file", "equality_ids", *_MAPS,
)  # fmt: skip
"""What of an entry its file is compared with."""


@dataclass(frozen=True, slots=True)
class FileChecked:
    """The result of reading one file; `is_read` where the reader came to its end."""

    findings: tuple[Finding, ...]
    bytes_read: int
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class _Task:
    """A file to check, how many bytes it has, and where it is if its rows are read in order.

    `check` is the name of a check of `_Checks`.
    """

    location: str | None
    size_bytes: int
    check: Literal["data_file", "position_deletes", "equality_deletes", "vectors"]
    what: Any

    @property
    def is_for_anywhere(self) -> bool:
        """Whether its check asks nothing that is known here alone."""
        return self.check in ("data_file", "equality_deletes")


@dataclass(frozen=True, slots=True)
class RemoteReaders:
    """Workers of Spark for files that are checked out of sight, and what opens the storage there.

    Spark is opened when there are files for it.
    """

    open: Callable[[], AbstractContextManager[Spark]]
    storage: StorageOptions


def check_data(
    reader: Reader,
    manifests: Sequence[ManifestFile],
    entries: Entries,
    snapshots: Sequence[Snapshot],
    *,
    part: float | None,
    within: Predicate | None,
    by_footers: bool,
    elsewhere: RemoteReaders | None,
) -> Generator[FileChecked, None, None]:
    """Read the files of live entries, or a part of them, and the statistics of snapshots.

    Files that have no row `within` a condition are left out.

    Every column of every row is decoded; `by_footers` only what footers do not tell. `entries` are
    the planning columns of all live entries. Manifests are read again, one after the other, for
    the metrics of their entries. What is checked elsewhere comes to the same.
    Order: that of the manifests. Close the iterator to stop early.
    Raises: StorageError where the store itself fails; EngineError; Incomplete at the deadline.
    Cost: memory for a row group in each worker.
    """
    metadata = reader.metadata
    table = TableFacts(
        every_column(metadata),
        name_mapping(metadata),
        metadata.format_version,
        metadata.next_row_id,
    )
    facts = _Facts(table, by_footers, layout_of_table(metadata) is not Layout.SFC_1)
    check = reader.context.deadline.check
    if elsewhere is None:
        total = None
        if part is None and within is None:  # many manifests may list one file
            total = pc.count_distinct(entries.table["location"]).as_py()
        reader.context.progress.phase(
            "reading footers" if by_footers else "decoding files", total=total
        )
    with WorkerPool((Finding,), check) as workers, ExitStack() as stack:
        named = partial(named_in_vector, reader.metadata)
        checks = _Checks(reader.context.store, facts, workers, _data_files(entries), named)
        spark: Spark | None = None
        deleted = _deleted_counts(entries)
        count = _BUNDLE if elsewhere is None else _BUNDLE_OF_SPARK
        for tasks in _bundles(_tasks(reader, manifests, deleted, part, within), count):
            if elsewhere is None:
                checked_files = _checked_here(reader, checks, tasks)
            else:
                spark = spark or stack.enter_context(elsewhere.open())
                checked_files = _checked_there(spark, elsewhere.storage, checks, tasks)
            for checked in checked_files:
                check()
                yield checked
    ids = {snapshot.snapshot_id for snapshot in snapshots}
    for statistics in reader.metadata.statistics:
        if statistics.snapshot_id in ids:
            yield checks.statistics(statistics)


def _checked_here(
    reader: Reader, checks: "_Checks", tasks: Sequence[_Task]
) -> Iterator[FileChecked]:
    """Check files in processes of this machine. Order: that of the tasks."""
    # A worker has a row group in memory, however large its file is.
    sizes = [0] * len(tasks)
    processors = os.cpu_count() or 1
    most = max(_MAX_WAITING, processors)
    if is_local(reader.metadata.location):  # each thread has a costly worker process
        worth = 1 + sum(task.size_bytes for task in tasks) // _WORTH_A_WORKER_BYTES
        most = min(processors, worth)
    threads = min(reader.context.concurrency, most)
    with (
        checks.ahead(tasks, reader.context.concurrency),
        closing(in_threads(checks.run, tasks, sizes, threads=threads)) as done,
    ):
        for checked in done:
            reader.context.progress.advance(1)
            yield checked


def _checked_there(
    spark: Spark, storage: StorageOptions, checks: "_Checks", tasks: Sequence[_Task]
) -> Iterator[FileChecked]:
    """Check files on Spark, those whose checks ask here. Order: that of the tasks."""
    batches: list[list[_Task]] = []
    size_bytes = _TASK_BYTES
    for task in tasks:
        if not task.is_for_anywhere:
            continue
        if size_bytes >= _TASK_BYTES:
            batches.append([])
            size_bytes = 0
        batches[-1].append(task)
        size_bytes += task.size_bytes
    spark.progress.phase("checking files on Spark", total=len(batches))
    kernel = partial(_check, storage.crossing(), checks.facts)
    done = spark.each(kernel, batches, (FileChecked, Finding)) if batches else []
    there = chain.from_iterable(done)
    for task in tasks:
        yield next(there) if task.is_for_anywhere else checks.run(task)


def _check(storage: StorageOptions, facts: "_Facts", tasks: Sequence[_Task]) -> list[FileChecked]:
    """Check files on a worker of Spark, whose reader may crash too."""
    with WorkerPool((Finding,)) as workers:
        checks = _Checks(open_store(storage, SystemEnv()), facts, workers, {})
        at_once = requests_at_once(storage.concurrency, tasks[0].location or "")
        with checks.ahead(tasks, at_once):
            return [checks.run(task) for task in tasks]


def _bundles(found: Iterator[Sequence[_Task]], count: int) -> Iterator[Sequence[_Task]]:
    """Yield tasks of several manifests together, if one would not keep all workers busy."""
    bundle: list[_Task] = []
    for tasks in found:
        bundle += tasks
        if len(bundle) >= count:
            yield bundle
            bundle = []
    if bundle:
        yield bundle


def _tasks(
    reader: Reader,
    manifests: Sequence[ManifestFile],
    deleted: "_DeletedCounts",
    part: float | None,
    within: Predicate | None,
) -> Iterator[Sequence[_Task]]:
    """Yield the files of each manifest that no manifest before it lists alike."""
    metadata = reader.metadata
    seed = reader.context.env.new_snapshot_id()
    seen: set[int] = set()
    quiet = replace(reader.context, progress=SilentProgress())  # the files count, as they are done
    read = try_manifests(quiet, metadata, manifests, _COLUMNS)
    with closing(read):
        for manifest_read in read:
            if manifest_read.problem is not None:
                continue  # level metadata reports it
            try:
                entries = inherit(
                    with_manifest_number(manifest_read.content[1], 0),
                    [manifests[manifest_read.index]],
                )
            except CorruptTable:
                continue  # level metadata reports it
            chosen = live(entries)
            if within is not None:
                specs, schemas = metadata.partition_specs, metadata.schemas
                chosen = where(chosen, files_may_match(chosen, within, specs, schemas))
            if part is not None:
                chosen = sample(chosen, part, seed + manifest_read.index)
            yield list(_of_manifest(chosen, metadata, deleted, seen))


def _of_manifest(
    entries: Entries, metadata: TableMetadata, deleted: "_DeletedCounts", seen: set[int]
) -> Iterator[_Task]:
    vectors: dict[str, list[RecordedDeletes]] = {}
    sizes: dict[str, int] = {}
    names = entries.table.column_names
    for values in by_row(entries, *names):
        row = dict(zip(names, values, strict=True))
        # Two manifests may describe one file differently, and then both are checked.
        key = hash(tuple(str(row[name]) for name in _DESCRIBING))
        if key in seen:
            continue
        seen.add(key)
        recorded = _recorded(row, metadata)
        sizes[recorded.location] = size = row["file_size_in_bytes"]
        deletes = RecordedDeletes(
            recorded,
            tuple(row["equality_ids"] or ()),
            row["referenced_data_file"],
            row["content_offset"],
            row["content_size_in_bytes"],
        )
        if row["content"] == Content.DATA:
            count = deleted.get(loosest_key(recorded.location), deleted[""])
            recorded = replace(recorded, deleted_count=count)
            yield _Task(recorded.location, size, "data_file", recorded)
        elif recorded.file_format is FileFormat.PUFFIN:
            vectors.setdefault(recorded.location, []).append(deletes)
        elif row["content"] == Content.POSITION_DELETES:
            yield _Task(recorded.location, size, "position_deletes", deletes)
        else:
            yield _Task(recorded.location, size, "equality_deletes", deletes)
    for location, vector in vectors.items():
        yield _Task(None, sizes[location], "vectors", vector)


def _recorded(row: Mapping[str, Any], metadata: TableMetadata) -> RecordedFile:
    spec = metadata.spec(row["spec_id"])  # a leaf of version 4 has rows of several
    metrics: dict[str, Any] = {name: dict(row[name] or ()) for name in _MAPS}
    partition: list[tuple[Any, Any]] = []
    if spec is not None:
        types = result_types(spec, metadata.schemas)
        try:
            values = decode_key(row["partition_key"], types)
        except CorruptTable:
            values = ()  # level metadata reports it
        partition = list(zip(spec.fields, values, strict=False))
    return RecordedFile(
        location=row["location"],
        file_format=_FORMATS[row["file_format"]],
        record_count=row["record_count"],
        sequence_number=row["sequence_number"],
        partition=partition,
        **metrics,
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """What checks go by that is not of one file."""

    table: TableFacts
    by_footers: bool
    compares_to_the_letter: bool


_DataFiles = Mapping[str, tuple[tuple[str, ...], int]]
"""Locations, as they are spelled in entries, and rows of data files by loosest key."""


def _data_files(entries: Entries) -> _DataFiles:
    """Return the facts of data files that deletes need; empty without deletes."""
    data = data_files(entries)
    rows_of_files = by_row(data, "location", "record_count") if len(data) < len(entries) else ()
    by_key: dict[str, tuple[tuple[str, ...], int]] = {}
    for location, count in rows_of_files:
        key = loosest_key(location)
        known = by_key[key][0] if key in by_key else ()
        by_key[key] = (known if location in known else (*known, location)), count
    return by_key


_DeletedCounts = Mapping[str, int | None]
"""How many rows of data files are deleted at most, by loosest key; "" is any other file."""


def _deleted_counts(entries: Entries) -> _DeletedCounts:
    """Return how many rows deletes remove; None if these do not name their data file."""
    counts: dict[str, int | None] = {"": 0}
    for name, count in by_row(delete_files(entries), "referenced_data_file", "record_count"):
        if name is None:
            return {"": None}
        key = loosest_key(name)
        counts[key] = max(counts.get(key) or 0, count)
    return counts


class _Checks:
    """The checks of single files of one table."""

    def __init__(
        self,
        store: Store,
        facts: _Facts,
        workers: WorkerPool,
        known: _DataFiles,
        named: Callable[[str], str] = str,
    ) -> None:
        self.facts = facts
        self._named = named
        self._store = store
        self._open = store.open
        self._workers = workers
        self._data_files = known

    def run(self, task: _Task) -> FileChecked:
        check: Callable[[Any], FileChecked] = getattr(self, task.check)
        return check(task.what)

    @contextmanager
    def ahead(self, tasks: Sequence[_Task], concurrency: int) -> Iterator[None]:
        """Read the files of tasks before these begin, in their order, if all of each is read."""
        files = [(task.location, task.size_bytes) for task in tasks if task.location is not None]
        if self.facts.by_footers:
            yield
            return
        with ReadAhead(self._store, files, concurrency) as ahead:
            self._open = ahead.open
            yield
        self._open = self._store.open

    def record_count(self, location: str) -> int | None:
        """Return rows of a live data file, however its location is spelled.

        None where there is none.
        """
        data_file = self._data_files.get(loosest_key(location))
        return None if data_file is None else data_file[1]

    def data_file(self, recorded: RecordedFile) -> FileChecked:
        return self._opened(recorded.location, check_data_file, recorded, self.facts.table)

    def position_deletes(self, deletes: RecordedDeletes) -> FileChecked:
        names = list(_names_in_entry(deletes))

        def ask(name: str) -> int | None:
            """Return what is known of a data file that the deletes name, and note the name."""
            names.append(name)
            return self.record_count(name)

        location = deletes.file.location
        checked = self._opened(location, check_position_deletes, deletes, ask=ask)
        return replace(checked, findings=(*checked.findings, *self._misspelt(location, names)))

    def equality_deletes(self, deletes: RecordedDeletes) -> FileChecked:
        return self._opened(
            deletes.file.location, check_equality_deletes, deletes, self.facts.table
        )

    def vectors(self, vectors: Sequence[RecordedDeletes]) -> FileChecked:
        location = vectors[0].file.location
        status = self._store.stat(location)
        if status is None:
            return FileChecked((), 0)  # level files reports it
        ranges = _Ranges(partial(self._store.read_range, location))
        read, size, count = ranges.read, status.size_bytes, self.record_count
        names = [name for vector in vectors for name in _names_in_entry(vector)]
        findings = (
            *check_vectors(read, size, vectors, count, self._named),
            *self._misspelt(location, names),
        )
        return FileChecked(findings, ranges.bytes_read, is_read=_is_read(findings))

    def _misspelt(self, location: str, names: Iterable[str]) -> Iterator[Finding]:
        """Find a data file that deletes name otherwise than its entry does (R-121).

        Readers of layout sfc-1 take all spellings of a local path for one file.
        """
        for name in names if self.facts.compares_to_the_letter else ():
            entries = self._data_files.get(loosest_key(name), ((), 0))[0]
            alike = [entry for entry in entries if comparison_key(entry) == comparison_key(name)]
            if alike and name not in alike:
                message = (
                    f"it names `{name}`, the manifest entry of that data file says `{alike[0]}`:"
                    " engines compare them to the letter, and read the deleted rows again"
                )
                yield finding("R-121", location, message, severity="error", hint=_MISSPELT)
                return

    def statistics(self, statistics: StatisticsFile) -> FileChecked:
        """Check that a statistics file has the blobs that the table says, each whole (R-140)."""
        location = statistics.statistics_path
        status = self._store.stat(location)
        if status is None:
            return FileChecked((), 0)  # level files reports it
        ranges = _Ranges(partial(self._store.read_range, location))
        problem = None
        try:
            puffin = read_puffin_footer(ranges.read, status.size_bytes)
            types = sorted(blob.type for blob in puffin.blobs)
            blob_types = sorted(str(blob.get("type")) for blob in statistics.blob_metadata)
            if types != blob_types:
                problem = f"it has the blobs {types}, the table says {blob_types}"
            for blob in () if self.facts.by_footers else puffin.blobs:
                read_blob(ranges.read(blob.offset, blob.length), blob)
        except (CorruptTable, Unsupported) as error:
            problem = error.message
        findings = (
            [] if problem is None else [finding("R-140", location, problem, severity="warning")]
        )
        return FileChecked(tuple(findings), ranges.bytes_read)

    def _opened(
        self,
        location: str,
        check: Kernel,
        *arguments: Any,
        ask: Callable[[str], int | None] | None = None,
    ) -> FileChecked:
        kernel = partial(check, by_footer=self.facts.by_footers)
        try:
            with CountingReader(self._open(location)) as file:
                try:
                    findings, bytes_read = self._run_kernel(kernel, file, arguments, ask)
                except KernelCrashed as crash:
                    findings, bytes_read = (finding("R-099", location, str(crash)),), 0
                bytes_read += file.bytes_read
                return FileChecked(findings, bytes_read, is_read=_is_read(findings))
        except FileNotFoundError:
            return FileChecked((), 0)  # level files reports it
        except OSError as error:  # of the disk, in the middle of the file
            return _unreadable(location, error.strerror or str(error))
        except StorageError as error:
            of_one_file(error)
            return _unreadable(location, error.message)

    def _run_kernel(
        self, kernel: Kernel, file: CountingReader, arguments: Sequence[Any], ask: Ask | None
    ) -> tuple[tuple[Finding, ...], int]:
        """Run a kernel on a file; second: the bytes that a worker has read by itself."""
        path = getattr(file.file, "name", None)
        if not isinstance(path, str):  # the bytes of other stores come from this process
            opened = cast("IO[bytes]", file)  # it has what readers use
            return self._workers.call(kernel, opened, *arguments, ask=ask), 0
        result = self._workers.call(_read_by_path, None, kernel, path, *arguments, ask=ask)
        ((findings, bytes_read),) = result
        return findings, bytes_read


def _read_by_path(
    kernel: Kernel, path: str, *arguments: Any
) -> Iterator[tuple[tuple[Finding, ...], int]]:
    """Run a kernel on a file of this machine, in a worker; second: the bytes that it read."""
    with CountingReader(open(path, "rb", opener=regular)) as file:
        yield tuple(kernel(file, *arguments)), file.bytes_read


def _names_in_entry(deletes: RecordedDeletes) -> Iterator[str]:
    """Yield the data file that a delete entry names, itself or by equal path bounds."""
    if deletes.referenced_data_file is not None:
        yield deletes.referenced_data_file
    bound = deletes.file.lower_bounds.get(FILE_PATH)
    if bound is not None and bound == deletes.file.upper_bounds.get(FILE_PATH):
        yield bound.decode(errors="replace")


def _unreadable(location: str, why: str) -> FileChecked:
    message = f"it cannot be read: {why}"
    return FileChecked((finding("R-034", location, message, hint=READ_AGAIN),), 0)


def _is_read(findings: Sequence[Finding]) -> bool:
    return all(item.rule not in _UNREAD for item in findings)


@dataclass(slots=True)
class _Ranges:
    """Ranges of one file, and how many bytes they were."""

    source: Callable[[int, int], bytes]
    bytes_read: int = 0

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes from an offset on, from the end where it is negative."""
        content = self.source(offset, length)
        self.bytes_read += len(content)
        return content
