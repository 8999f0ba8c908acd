"""The search for rows in the files that snapshots name: deleted rows, and deleted files, too."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from typing import IO, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.commands.rows.deletion import WantedRows
from icectl.commands.rows.read import blank_task, condition_ids, condition_job
from icectl.entries.columns import Mask
from icectl.entries.conditions import And, Column, Compare, Constant, Not, Or, Predicate, leaves
from icectl.entries.may_match import METRICS, all_match, manifests_may_match, may_match
from icectl.entries.partition_key import decode_key, encode_key
from icectl.entries.rows import (
    EMPTY,
    GROUP_KEYS,
    Entries,
    are_at,
    by_row,
    concat,
    data_files,
    delete_files,
    deletion_vectors,
    equality_delete_files,
    live,
    part,
    position_delete_files,
    repeats,
    total,
    where,
)
from icectl.entries.stats import column_bytes, flat
from icectl.errors import CorruptTable, MissingFile, StorageError, Unsupported
from icectl.files.data_file import DataFile, open_data_file
from icectl.files.deletion_vectors import REFERENCED_DATA_FILE
from icectl.files.parquet.schema import child_fields, field_id
from icectl.files.parquet.value_filters import RuledOutBy
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.format.manifest import Content, FileFormat, ManifestFile, ManifestIdentity, kind_of
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec, result_types
from icectl.rows.compact_job import TypedSpec
from icectl.rows.deleted_positions import puffin_blobs
from icectl.rows.find_job import (
    FindJob,
    FoundRows,
    Keys,
    Tried,
    find_or_rule_out,
    matches,
    try_find,
)
from icectl.rows.write_data import FileOutputs
from icectl.storage.location import comparison_key, is_local, parent
from icectl.storage.open import AT_ONCE_LOCALLY
from icectl.table.context import TableContext
from icectl.table.live_files import every_column
from icectl.table.manifest_lists import distinct_manifests
from icectl.table.reader import Reader
from icectl.table.reading import in_threads, naming
from icectl.table.rewrite_tasks import InputFile, RewriteTask, data_inputs

_SOURCES = METRICS | {
    "content", "status", "location", "file_format", "spec_id", "partition_key", "record_count",
    "file_size_in_bytes", "sequence_number", "first_row_id", "equality_ids", "column_sizes",
}  # fmt: skip

WITH_ROWS = ("data", "equality-deletes")
"""The kinds of files that have columns of rows."""

_BOUNDS = ("lower_bounds", "upper_bounds")
_NO_SPEC = -1
_ROW_ID = 2147483544
"""The field of whole rows in position delete files."""
_MEMBERS = ("location", "content", "file_format", "record_count", "file_size_in_bytes")
_FOOTER_BYTES = 64 << 10
_LIGHT_BYTES = 1 << 20
"""Bytes of a local file up to which threads only wait for one another."""

_FILES_AT_ONCE = 100_000
"""Files that are described in memory while they are looked into."""

_Members = tuple[str, int, int, int, int]
"""The members of an entry that _MEMBERS names."""

_Problem = CorruptTable | StorageError | Unsupported


@dataclass(frozen=True, slots=True)
class MatchingFile:
    """A file that holds rows which match: `count` of them, None where the file is gone.

    `manifests` are those that list it. A Puffin file of deletions counts if it `has_paths` of data
    files that may name a value of such rows; its `count` is None, too.
    """

    location: str
    content: Content
    file_format: FileFormat
    record_count: int
    size_bytes: int
    count: int | None
    manifests: frozenset[ManifestIdentity]
    has_paths: bool = False


@dataclass(frozen=True, slots=True)
class Matches:
    """The files that hold a match, and what was looked at to find them.

    `manifests` are those of each snapshot, in the order of the snapshots. `read` are the locations
    of files whose rows were looked at, `unread` those that could not be, each with the reason. The
    others of `listed`, which has the kind of each file, were ruled out by bounds or partitions.
    """

    files: tuple[MatchingFile, ...]
    manifests: Mapping[int, frozenset[ManifestIdentity]]
    read: frozenset[str]
    unread: Mapping[str, str]
    manifest_count: int
    skipped_manifest_count: int
    listed: Mapping[str, str]
    read_bytes: int

    @property
    def listed_count(self) -> int:
        """Files that may have rows."""
        return sum(kind in WITH_ROWS for kind in self.listed.values())

    def snapshots_of(self, files: Sequence[MatchingFile]) -> tuple[int, ...]:
        """Return the snapshots that name any of some files. Order: of the snapshots."""
        named = frozenset[ManifestIdentity]().union(*(file.manifests for file in files))
        return tuple(id_ for id_, listed in self.manifests.items() if listed & named)


class Searcher(Protocol):
    """What looks into files, wherever it reads them."""

    def search(self, tasks: Sequence[RewriteTask], job: FindJob) -> Iterable[Tried]:
        """Find rows in the file of each task, or say why it can't be read. Order: of the tasks."""


@dataclass(frozen=True, slots=True)
class _ThreadSearcher:
    """Looks into files in threads of this process."""

    context: TableContext

    def search(self, tasks: Sequence[RewriteTask], job: FindJob) -> Iterable[Tried]:
        """Find rows in the file of each task, or say why it can't be read. Order: of the tasks."""
        context, outputs = self.context, FileOutputs.without_places(self.context.store)

        def find(task: RewriteTask) -> Tried:
            context.deadline.check()
            found = try_find(task, job, outputs)
            context.progress.advance(1)
            return found

        sizes = [task.expected_bytes for task in tasks]
        threads = context.concurrency
        if threads <= AT_ONCE_LOCALLY and all(map(_is_light, tasks)):
            threads = 1
        context.progress.phase("reading data files", total=len(tasks))
        return in_threads(find, tasks, sizes, threads=threads)


def _is_light(task: RewriteTask) -> bool:
    """Return whether it takes longer to have a thread read a file than to read it."""
    is_here = all(is_local(file.location) for file in task.inputs)
    return is_here and task.expected_bytes <= _LIGHT_BYTES


@dataclass(slots=True)
class MatchSearch:
    """A search for rows; what was found in a file holds for every later look.

    With `deleted_files`, entries of any status count, and so do the dead rows of leaves: these name
    a file, and its bounds, even where it is gone. A file that can't be read is no error then.
    `searcher` looks into files, threads of this process by default. `rows` are those found, by the
    locations of their data files; deletes count for nothing in them. `ruled_out` are files without
    a match whose rows were not read: their own bounds, dictionaries or Bloom filters tell.
    """

    wanted: WantedRows
    deleted_files: bool = False
    searcher: Searcher | None = None
    rows: dict[str, FoundRows] = field(default_factory=dict)
    ruled_out: dict[str, RuledOutBy] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _named: dict[str, frozenset[str]] = field(default_factory=dict)
    _last: "tuple[object, _Candidates] | None" = None

    def look(self, reader: Reader, sifted: "Sifted | None" = None) -> Matches:
        """Look for rows in the files that the manifests of all snapshots list.

        Deletes count for nothing: a row that is deleted still lies in its file. What cannot be read
        is a gap of the reader; without gaps it is raised.
        Cost: the manifests of all snapshots that may list such files, and the needed columns of the
        files that may hold a match; none of the former if these are `sifted`.
        """
        stored, lists, manifests, chosen, candidates, _ = sifted or self.sift(reader)
        unread = self._search(reader, candidates.files)
        gone = {location for location, problem in unread.items() if _is_missing(problem)}
        silent: Collection[str] = ()
        if self.deleted_files and gone:
            gone -= _live_among(reader, distinct_manifests(stored.values()), gone)
            unread = {place: why for place, why in unread.items() if place not in gone}
            if bare := candidates.bare & gone:
                silent = bare - _telling_among(reader, manifests, bare)
        self._search_positions(reader, candidates.positions, unread)
        for problem in () if self.deleted_files else unread.values():
            if reader.gaps is None:
                raise problem
            reader.gaps.problems.setdefault(problem.message, problem)
        files = []
        members = [*by_row(candidates.files, *_MEMBERS), *candidates.positions]
        for location, content, file_format, record_count, size in {
            **{item[0]: item for item in members if self._counts.get(item[0]) != 0},
            **candidates.telling,
        }.values():
            if location in unread or location in silent:
                continue
            identities = frozenset(chosen[at].identity for at in candidates.places[location])
            kinds = Content(content), FileFormat(file_format)
            count = self._counts.get(location)
            files.append(MatchingFile(location, *kinds, record_count, size, count, identities))
        matching = {file.location: file for file in files}
        for location in self._search_vectors(reader, candidates, matching.keys(), unread):
            member, places = candidates.vectors[location]
            file = MatchingFile(
                location,
                Content.POSITION_DELETES,
                FileFormat.PUFFIN,
                *member,
                None,
                frozenset(chosen[at].identity for at in places),
                has_paths=True,
            )
            matching[location] = file
        return Matches(
            tuple(matching.values()),
            {id_: frozenset(item.identity for item in listed) for id_, listed in lists.items()},
            frozenset(candidates.places) & self._counts.keys(),
            {place: problem.message for place, problem in unread.items()},
            len(manifests),
            len(manifests) - len(chosen),
            candidates.listed,
            total(candidates.files, "file_size_in_bytes"),
        )

    def sift(self, reader: Reader) -> "Sifted":
        """Find the files that may hold a match, by partitions and bounds alone.

        Cost: the manifests of all snapshots that may list such files.
        """
        metadata = reader.metadata
        lists = stored = reader.manifests_by_snapshot(metadata.snapshots)
        if self.deleted_files:
            lists = {
                id_: tuple(replace(item, dead=b"", dead_count=0) for item in listed)
                for id_, listed in stored.items()
            }
        manifests = chosen = distinct_manifests(lists.values())
        if not self.deleted_files:
            specs, schemas = metadata.partition_specs, metadata.schemas
            may = manifests_may_match(manifests, self.wanted.within, specs, schemas)
            chosen = tuple(manifests[at] for at in may.nonzero()[0])
        candidates = self._sifted(reader, chosen)
        size = int(column_bytes(candidates.files, [*self.field_ids]).sum())
        return Sifted(stored, lists, manifests, chosen, candidates, size)

    def _sifted(self, reader: Reader, chosen: Sequence[ManifestFile]) -> "_Candidates":
        """Return the files that may hold a match; the same manifests are read once."""
        metadata, identities = reader.metadata, tuple(item.identity for item in chosen)
        key = metadata.schemas, metadata.partition_specs, identities
        if self._last is None or self._last[0] != key or reader.gaps is not None:
            self._last = key, self._candidates(reader, chosen)
        return self._last[1]

    def count_sifted(self, reader: Reader, sifted: "Sifted") -> int:
        """Count the files that may hold a match; position deletes do only with whole rows.

        Cost: the footers of position delete files, and the rows of those that have some.
        """
        candidates = sifted.candidates
        self._search_positions(reader, candidates.positions, {})
        ruled_out = {file[0] for file in candidates.positions if self._counts.get(file[0]) == 0}
        return len(candidates.places.keys() - (ruled_out - candidates.telling.keys()))

    @property
    def field_ids(self) -> frozenset[int]:
        """The columns that rows are looked for by."""
        rows = self.wanted.rows
        return frozenset(rows.field_ids) if isinstance(rows, Keys) else condition_ids(rows)

    def look_into(
        self, reader: Reader, location: str, form: FileFormat, count: int, size_bytes: int
    ) -> int:
        """Count the matches in a file of `count` rows that no snapshot names.

        Raises: FileNotFoundError; CorruptTable; StorageError; Unsupported.
        """
        # Whatever partition it was for: what counts is in the file.
        key = encode_key((), ())
        file = InputFile(location, form, size_bytes, count, _NO_SPEC, key, 0)
        return self._in_file(reader, file, reader.context.store.open)

    def _in_file(self, reader: Reader, file: InputFile, opens: Callable[[str], IO[bytes]]) -> int:
        """Count the matches in a file of no partition spec."""
        job = _Jobs(reader, self.wanted).of(None)
        assert job is not None
        whole = PartitionSpec(_NO_SPEC, ())
        specs = {**job.reading.specs, _NO_SPEC: TypedSpec(whole, ())}
        job = replace(job, reading=replace(job.reading, specs=specs))
        outputs = replace(FileOutputs.without_places(reader.context.store), open=opens)
        task = replace(blank_task(reader.metadata), inputs=(file,))
        found = find_or_rule_out(task, job, outputs)
        if isinstance(found, str):
            self.ruled_out[file.location] = found
            return 0
        return sum(rows.count for rows in found)

    def _candidates(self, reader: Reader, manifests: Sequence[ManifestFile]) -> "_Candidates":
        """Return the data and equality delete files that may hold a match, by their bounds."""
        metadata = reader.metadata
        parts: list[Entries] = []
        listed: dict[str, str] = {}
        places: dict[str, set[int]] = {}
        positions: dict[str, _Members] = {}
        telling: dict[str, _Members] = {}
        bare: set[str] = set()
        vectors: dict[str, tuple[tuple[int, int], set[int]]] = {}
        for entries in reader.scan(manifests, _SOURCES):
            named = entries if self.deleted_files else live(entries)
            for location, content, file_format in by_row(
                named, "location", "content", "file_format"
            ):
                listed.setdefault(location, kind_of(content, file_format))
            for files in (data_files(named), equality_delete_files(named)):
                specs, schemas = metadata.partition_specs, metadata.schemas
                kept = where(files, may_match(files, self.wanted.within, specs, schemas))
                for location, place in by_row(kept, "location", "manifest"):
                    places.setdefault(location, set()).add(place)
                parts.append(kept)
                bare.update(
                    place for (place,) in by_row(where(kept, ~_have_bounds(kept)), "location")
                )
            if self.deleted_files:
                of_positions = position_delete_files(named)
                for place, *file in by_row(of_positions, "manifest", *_MEMBERS):
                    positions.setdefault(file[0], tuple(file))
                    places.setdefault(file[0], set()).add(place)
                columns = ("location", "manifest", "record_count", "file_size_in_bytes")
                for location, place, *member in by_row(deletion_vectors(named), *columns):
                    vectors.setdefault(location, ((*member,), set()))[1].add(place)
                deletes = delete_files(named)
                are_told = of_wanted_partitions(deletes, self.wanted.rows, metadata)
                for place, *file in by_row(where(deletes, are_told), "manifest", *_MEMBERS):
                    telling.setdefault(file[0], tuple(file))
                    places.setdefault(file[0], set()).add(place)
        files = concat(parts) if parts else EMPTY
        named_again = repeats(files.table["location"])
        files = where(files, ~named_again)
        return _Candidates(
            files, places, listed, tuple(positions.values()), telling, frozenset(bare), vectors
        )

    def _search_positions(
        self, reader: Reader, files: Sequence[_Members], unread: dict[str, _Problem]
    ) -> None:
        """Count the matches among the whole rows that position delete files may have.

        Those that cannot be read are added to `unread`; one that is gone names no row.
        Cost: the footer of each, once; the rows of those that have some.
        """
        context = reader.context

        def count(file: _Members) -> int | _Problem:
            location, _, form, _, _ = file
            try:
                with context.store.open(location) as opened, naming(location):
                    return self._in_whole_rows(
                        reader, open_data_file(opened, FileFormat(form).name)
                    )
            except FileNotFoundError:
                return 0
            except (CorruptTable, StorageError, Unsupported) as error:
                return error

        fresh = [file for file in files if file[0] not in self._counts]
        sizes = [_FOOTER_BYTES] * len(fresh)
        found = in_threads(count, fresh, sizes, threads=context.concurrency)
        for (location, *_), answer in zip(fresh, found, strict=True):
            if isinstance(answer, int):
                self._counts[location] = answer
            else:
                unread[location] = answer

    def _search_vectors(
        self,
        reader: Reader,
        candidates: "_Candidates",
        matching: Collection[str],
        unread: dict[str, _Problem],
    ) -> list[str]:
        """Return the Puffin files with a path that may name a value of rows that match.

        It is of a data file that matches, or of one that snapshots no longer list, if what is
        looked for is in partitions. Its folder, that of a partition, has no other data file.
        Those that cannot be read are added to `unread`. Cost: the footer of each, once.
        """
        metadata, context = reader.metadata, reader.context
        sources = partition_sources(metadata)
        if not sources or not candidates.vectors:
            return []

        def names(place: str) -> frozenset[str] | _Problem:
            try:
                with context.store.open(place) as opened, naming(place):
                    blobs = puffin_blobs(opened).values()
            except FileNotFoundError:
                return frozenset()
            except (CorruptTable, StorageError, Unsupported) as error:
                return error
            paths = (blob.properties.get(REFERENCED_DATA_FILE) for blob in blobs)
            return frozenset(comparison_key(path) for path in paths if path is not None)

        fresh = [place for place in candidates.vectors if place not in self._named]
        sizes = [_FOOTER_BYTES] * len(fresh)
        for place, answer in zip(
            fresh, in_threads(names, fresh, sizes, threads=context.concurrency), strict=True
        ):
            if isinstance(answer, frozenset):
                self._named[place] = answer
            else:
                unread[place] = answer
        matched = frozenset(map(comparison_key, matching))
        others = {comparison_key(place) for place, kind in candidates.listed.items()
                  if kind == "data"} - matched  # fmt: skip
        folders = {parent(place) for place in others}
        is_named = not sources.isdisjoint(self.field_ids)

        def may_tell(path: str) -> bool:
            is_sought = path in matched or (is_named and path not in others)
            return is_sought and parent(path) not in folders

        vectors = candidates.vectors.keys() & self._named.keys()
        return sorted(it for it in vectors if any(map(may_tell, self._named[it])))

    def _in_whole_rows(self, reader: Reader, opened: DataFile) -> int:
        """Count the matches in the column of whole rows of a position delete file.

        All of its rows count if the column lacks one that is looked for.
        """
        columns = [item for item in opened.schema if field_id(item) == _ROW_ID]
        if not columns:
            return 0
        if not self.field_ids <= set(map(field_id, fields_in(child_fields(columns[0].type)))):
            return opened.record_count
        count = 0
        for rows in opened.batches({_ROW_ID}):
            whole = rows.batch.column(0).drop_null()
            if len(whole):
                parts = [whole.field(at) for at in range(whole.type.num_fields)]
                schema = pa.schema(child_fields(whole.type))
                content = BytesIO()
                writer = ParquetWriter(content, schema, ParquetOptions("none"), {})
                writer.write_row_group([pa.RecordBatch.from_arrays(parts, schema=schema)])
                writer.close()
                one = InputFile(
                    "rows of position deletes", FileFormat.PARQUET, content.tell(), len(whole),
                    _NO_SPEC, encode_key((), ()), 0,
                )  # fmt: skip
                count += self._in_file(reader, one, partial(_stored, content.getvalue()))
        return count

    def _search(self, reader: Reader, files: Entries) -> dict[str, _Problem]:
        """Look into files that were not looked into yet; return those that cannot be read."""
        searcher = self.searcher or _ThreadSearcher(reader.context)
        blank, jobs = blank_task(reader.metadata), _Jobs(reader, self.wanted)
        fresh = where(files, ~are_at(files, self._counts.keys()))
        problems: dict[str, _Problem] = {}
        for start in range(0, len(fresh), _FILES_AT_ONCE):
            some = part(fresh, start, start + _FILES_AT_ONCE)
            tasks: dict[frozenset[int] | None, list[RewriteTask]] = {}
            contents = by_row(some, "content", "equality_ids")
            sizes = column_bytes(some, [*self.field_ids]).tolist()
            for file, size, (content, ids) in zip(data_inputs(some), sizes, contents, strict=True):
                columns = frozenset(ids or ()) if content == Content.EQUALITY_DELETES else None
                task = replace(blank, inputs=(file,), expected_bytes=size)
                tasks.setdefault(columns, []).append(task)
            for columns, of_columns in tasks.items():
                job = jobs.of(columns)
                tried = searcher.search(of_columns, job) if job else ([] for _ in of_columns)
                for task, found in zip(of_columns, tried, strict=True):
                    location = task.inputs[0].location
                    if isinstance(found, str):
                        self._counts[location], self.ruled_out[location] = 0, found
                        continue
                    if not isinstance(found, list):
                        problems[location] = found
                        continue
                    self._counts[location] = sum(rows.count for rows in found)
                    if columns is None and found:
                        self.rows[location] = found[0]
        return problems


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Files that may hold a match, each once, of all `listed`; `places` are their manifests.

    `positions` are position delete files, which may have whole rows. `telling` are deletes whose
    partition is one of nothing but matches, by location. `bare` are those that an entry lists
    without any bound. `vectors` are Puffin files of deletions, each with the rows and bytes that an
    entry says, and its manifests.
    """

    files: Entries
    places: Mapping[str, set[int]]
    listed: Mapping[str, str]
    positions: Sequence[_Members]
    telling: Mapping[str, _Members]
    bare: frozenset[str]
    vectors: Mapping[str, tuple[tuple[int, int], set[int]]]


class Sifted(NamedTuple):
    """Manifests of snapshots by their ids, as stored and as looked at, all of these, and some.

    The last have the candidates, whose columns to look into take about `read_bytes`.
    """

    stored: Mapping[int, Sequence[ManifestFile]]
    lists: Mapping[int, Sequence[ManifestFile]]
    manifests: Sequence[ManifestFile]
    chosen: Sequence[ManifestFile]
    candidates: _Candidates
    read_bytes: int


def _is_missing(problem: _Problem) -> bool:
    return isinstance(problem, MissingFile)


def _live_among(
    reader: Reader, manifests: Sequence[ManifestFile], places: Collection[str]
) -> set[str]:
    """Return those of some files that an entry of a manifest lists as live."""
    alive, wanted = set[str](), frozenset(places)
    for entries in reader.scan(manifests, frozenset({"location", "status"})):
        alive.update(wanted.intersection(place for (place,) in by_row(live(entries), "location")))
    return alive


def _telling_among(
    reader: Reader, manifests: Sequence[ManifestFile], places: Collection[str]
) -> set[str]:
    """Return those of some files that are gone whose entries may name a value of a row.

    Such an entry has bounds, or is of a partition that no other file has. Nothing else of the file
    is left.
    """
    columns = frozenset({"location", "spec_id", "partition_key", *_BOUNDS})
    telling, partitions = set[str](), dict[str, tuple[int, bytes]]()
    of_others = set[tuple[int, bytes]]()
    for entries in reader.scan(manifests, columns):
        are_gone = are_at(entries, places)
        gone = where(entries, are_gone)
        telling.update(place for (place,) in by_row(where(gone, _have_bounds(gone)), "location"))
        for place, *partition in by_row(gone, "location", *GROUP_KEYS):
            partitions[place] = partition[0], partition[1]
        of_others.update(by_row(where(entries, ~are_gone), *GROUP_KEYS))
    return telling | {
        place
        for place, partition in partitions.items()
        if partition not in of_others and _has_values(reader.metadata, *partition)
    }


def partition_sources(metadata: TableMetadata) -> set[int]:
    """Return the columns that partitions are made of."""
    fields = (item for spec in metadata.partition_specs for item in spec.fields)
    return {id_ for item in fields for id_ in item.source_ids}


def _has_values(metadata: TableMetadata, spec_id: int, key: bytes) -> bool:
    """Return whether a partition has a value other than null."""
    spec = metadata.spec(spec_id)
    if spec is None:
        return True
    return any(value is not None for value in decode_key(key, result_types(spec, metadata.schemas)))


def _have_bounds(entries: Entries) -> Mask:
    """Return whether entries have a bound of any column."""
    mask = np.zeros(len(entries), np.bool_)
    for column in _BOUNDS:
        mask[flat(entries, column)["row"].to_numpy()] = True
    return mask


class _Jobs:
    """What is looked for in data files, and in equality deletes by their columns."""

    def __init__(self, reader: Reader, wanted: WantedRows) -> None:
        self._metadata, self._wanted = reader.metadata, wanted
        whole = FindJob(condition_job(self._metadata, wanted.within), wanted.rows)
        self._jobs: dict[frozenset[int] | None, FindJob | None] = {None: whole}

    def of(self, ids: frozenset[int] | None) -> FindJob | None:
        """Return what is looked for in a file; None where it has no column of the rows."""
        if ids not in self._jobs:
            self._jobs[ids] = self._of_deletes(ids or frozenset())
        return self._jobs[ids]

    def _of_deletes(self, ids: frozenset[int]) -> FindJob | None:
        rows = self._wanted.rows
        if isinstance(rows, Keys):
            own_ids = tuple(id_ for id_ in rows.field_ids if id_ in ids)
            own_keys = rows.of_columns(own_ids)
            everything = condition_job(self._metadata, Constant(value=True))
            return FindJob(everything, own_keys) if own_ids else None
        own = may_be_true(rows, ids)
        if not any(True for _ in leaves(own)):
            return None
        return FindJob(condition_job(self._metadata, own), own)


def may_be_true(predicate: Predicate, known: Collection[int], *, sign: bool = True) -> Predicate:
    """Return a condition on some columns alone that is true where another may be.

    Conditions on other columns hold; with `sign` false, where the result must not be true unless
    the other surely is, they do not.
    """
    match predicate:
        case Not(part):
            return Not(may_be_true(part, known, sign=not sign))
        case And(parts) | Or(parts):
            return type(predicate)(tuple(may_be_true(part, known, sign=sign) for part in parts))
        case Constant():
            return predicate
        case leaf:
            return leaf if leaf.column.field_id in known else Constant(value=sign)


def _stored(content: bytes, _: str) -> IO[bytes]:
    return BytesIO(content)


def of_wanted_partitions(deletes: Entries, rows: Predicate | Keys, metadata: TableMetadata) -> Mask:
    """Return whether each delete file, or count, is of a partition in which every row would match.

    Such a partition is named by what is looked for: its value, in an entry, is one of these.
    """
    specs, schemas = metadata.partition_specs, metadata.schemas
    if isinstance(rows, Keys):
        return _of_key_partitions(deletes, rows, metadata)
    # Bounds are of what it deletes by.
    bare = Entries(deletes.table.select(["spec_id", "partition_key"]))
    return all_match(bare, rows, specs, schemas)


def _of_key_partitions(deletes: Entries, keys: Keys, metadata: TableMetadata) -> Mask:
    """Return whether the partition of each delete file has all columns of a key, and is one."""
    mask = np.zeros(len(deletes), np.bool_)
    known: dict[tuple[int, bytes], bool] = {}
    for at, (spec_id, key) in enumerate(by_row(deletes, "spec_id", "partition_key")):
        if (spec_id, key) not in known:
            condition = _partition_condition(metadata, spec_id, key, keys.field_ids)
            known[spec_id, key] = condition is not None and _is_any(condition, keys)
        mask[at] = known[spec_id, key]
    return mask


def _is_any(condition: Predicate, keys: Keys) -> bool:
    with keys.open() as file:
        batches = open_data_file(file, "parquet").batches(None)
        return any(pc.any(matches(condition, rows.batch)).as_py() for rows in batches)


def _partition_condition(
    metadata: TableMetadata, spec_id: int, key: bytes, field_ids: Sequence[int]
) -> Predicate | None:
    """Return that columns have the values of a partition; None if it does not have them."""
    spec, schema = metadata.spec(spec_id), every_column(metadata)
    if spec is None:
        return None
    values = decode_key(key, result_types(spec, metadata.schemas))
    of_column = {
        item.source_ids[0]: value
        for item, value in zip(spec.fields, values, strict=True)
        if item.transform.name == "identity" and value is not None
    }
    if not of_column.keys() >= set(field_ids):
        return None
    fields = [schema.line_to(id_)[-1] for id_ in field_ids]
    columns = [Column(item.name, item.type, item.id) for item in fields]
    return And(tuple(Compare(it, "=", of_column[it.field_id or 0]) for it in columns))


def fields_in(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """Yield columns, at any depth."""
    for item in fields:
        yield item
        yield from fields_in(child_fields(item.type))
