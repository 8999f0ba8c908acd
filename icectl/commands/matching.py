"""The search for rows in the files that snapshots name: deleted rows, and deleted files, too."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from icectl.commands.rows.deletion import WantedRows
from icectl.commands.rows.read import blank_task, condition_ids, condition_job
from icectl.entries.conditions import And, Constant, Not, Or, Predicate, leaves
from icectl.entries.may_match import METRICS, manifests_may_match, may_match
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import (
    EMPTY,
    Entries,
    by_row,
    concat,
    data_files,
    equality_delete_files,
    live,
    position_delete_files,
    repeats,
    total,
    where,
)
from icectl.errors import CorruptTable, MissingFile, StorageError, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.parquet.schema import field_id
from icectl.format.manifest import Content, FileFormat, ManifestFile, ManifestIdentity, kind_of
from icectl.format.partition import PartitionSpec
from icectl.rows.compact_job import TypedSpec
from icectl.rows.find_job import FindJob, FoundRows, Keys, run_find
from icectl.rows.write_data import FileOutputs
from icectl.table.manifest_lists import distinct_manifests
from icectl.table.reader import Reader
from icectl.table.reading import in_threads, naming
from icectl.table.rewrite_tasks import InputFile, data_inputs

_SOURCES = METRICS | {
    "content", "status", "location", "file_format", "spec_id", "partition_key", "record_count",
    "file_size_in_bytes", "sequence_number", "first_row_id", "equality_ids",
}  # fmt: skip

WITH_ROWS = ("data", "equality-deletes")
"""The kinds of files that have columns of rows."""

_NO_SPEC = -1
_ROW_ID = 2147483544
"""The field of whole rows in position delete files."""
_POSITIONS = ("location", "file_format", "record_count", "file_size_in_bytes")
_FOOTER_BYTES = 64 << 10

_Problem = CorruptTable | StorageError | Unsupported


@dataclass(frozen=True, slots=True)
class MatchingFile:
    """A file that holds rows which match: `count` of them, None where the file is gone.

    `manifests` are those that list it.
    """

    location: str
    content: Content
    file_format: FileFormat
    record_count: int
    size_bytes: int
    count: int | None
    manifests: frozenset[ManifestIdentity]


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


@dataclass(slots=True)
class MatchSearch:
    """A search for rows; what was found in a file holds for every later look.

    With `deleted_files`, entries of any status count, and so do the dead rows of leaves: these name
    a file, and its bounds, even where it is gone. A file that can't be read is no error then.
    """

    wanted: WantedRows
    deleted_files: bool = False
    _counts: dict[str, int] = field(default_factory=dict)

    def look(self, reader: Reader) -> Matches:
        """Look for rows in the files that the manifests of all snapshots list.

        Deletes count for nothing: a row that is deleted still lies in its file. What cannot be read
        is a gap of the reader; without gaps it is raised.
        Cost: the manifests of all snapshots that may list such files, and the needed columns of the
        files that may hold a match.
        """
        metadata = reader.metadata
        lists = reader.manifests_by_snapshot(metadata.snapshots)
        stored = lists
        if self.deleted_files:
            lists = {
                id_: tuple(replace(item, dead=b"", dead_count=0) for item in listed)
                for id_, listed in lists.items()
            }
        manifests = chosen = distinct_manifests(lists.values())
        if not self.deleted_files:
            specs, schemas = metadata.partition_specs, metadata.schemas
            may = manifests_may_match(manifests, self.wanted.within, specs, schemas)
            chosen = tuple(manifests[at] for at in may.nonzero()[0])
        candidates = self._candidates(reader, chosen)
        unread = self._search(reader, candidates.files)
        gone = [location for location, problem in unread.items() if _is_missing(problem)]
        if self.deleted_files and gone:
            alive = _live_among(reader, distinct_manifests(stored.values()), gone)
            unread = {place: why for place, why in unread.items()
                      if place in alive or not _is_missing(why)}  # fmt: skip
        with_rows = self._position_deletes_with_rows(reader, candidates.positions, unread)
        for problem in () if self.deleted_files else unread.values():
            if reader.gaps is None:
                raise problem
            reader.gaps.problems.setdefault(problem.message, problem)
        files = []
        columns = ("location", "content", "file_format", "record_count", "file_size_in_bytes")
        for location, content, file_format, record_count, size in by_row(
            candidates.files, *columns
        ):
            if location in unread or self._counts.get(location) == 0:
                continue
            identities = frozenset(chosen[at].identity for at in candidates.places[location])
            kinds = Content(content), FileFormat(file_format)
            count = self._counts.get(location)
            files.append(MatchingFile(location, *kinds, record_count, size, count, identities))
        for location, form, record_count, size in with_rows:
            identities = frozenset(chosen[at].identity for at in candidates.places[location])
            kinds = Content.POSITION_DELETES, FileFormat(form)
            files.append(MatchingFile(location, *kinds, record_count, size, None, identities))
        return Matches(
            tuple(files),
            {id_: frozenset(item.identity for item in listed) for id_, listed in lists.items()},
            frozenset(candidates.places) & self._counts.keys(),
            {place: problem.message for place, problem in unread.items()},
            len(manifests),
            len(manifests) - len(chosen),
            candidates.listed,
            total(candidates.files, "file_size_in_bytes"),
        )

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
        job = _Jobs(reader, self.wanted).of(None)
        assert job is not None
        # Whatever partition it was for: what counts is in the file.
        whole = PartitionSpec(_NO_SPEC, ())
        specs = {**job.reading.specs, _NO_SPEC: TypedSpec(whole, ())}
        job = replace(job, reading=replace(job.reading, specs=specs))
        key = encode_key((), ())
        file = InputFile(location, form, size_bytes, count, _NO_SPEC, key, 0)
        store = reader.context.store
        outputs = FileOutputs.without_places(store)
        task = replace(blank_task(reader.metadata), inputs=(file,))
        return sum(rows.count for rows in run_find(task, job, outputs))

    def _candidates(self, reader: Reader, manifests: Sequence[ManifestFile]) -> "_Candidates":
        """Return the data and equality delete files that may hold a match, by their bounds."""
        metadata = reader.metadata
        parts: list[Entries] = []
        listed: dict[str, str] = {}
        places: dict[str, set[int]] = {}
        positions: dict[str, tuple[str, int, int, int]] = {}
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
            if self.deleted_files:
                of_positions = position_delete_files(named)
                for place, *deletes in by_row(of_positions, "manifest", *_POSITIONS):
                    positions.setdefault(deletes[0], tuple(deletes))
                    places.setdefault(deletes[0], set()).add(place)
        files = concat(parts) if parts else EMPTY
        named_again = repeats(files.table["location"])
        return _Candidates(where(files, ~named_again), places, listed, tuple(positions.values()))

    def _position_deletes_with_rows(
        self,
        reader: Reader,
        files: Sequence[tuple[str, int, int, int]],
        unread: dict[str, _Problem],
    ) -> list[tuple[str, int, int, int]]:
        """Return the position delete files that have a column of rows: these may be any.

        Those that cannot be read are added to `unread`; one that is gone names no row.
        Cost: the footer of each, once.
        """
        context = reader.context

        def has_rows(file: tuple[str, int, int, int]) -> bool | _Problem:
            location, form, _, _ = file
            if location in self._counts:
                return bool(self._counts[location])
            try:
                with context.store.open(location) as opened, naming(location):
                    schema = open_data_file(opened, FileFormat(form).name).schema
                return any(field_id(item) == _ROW_ID for item in schema)
            except FileNotFoundError:
                return False
            except (CorruptTable, StorageError, Unsupported) as error:
                return error

        sizes = [_FOOTER_BYTES] * len(files)
        found = list(in_threads(has_rows, list(files), sizes, threads=context.concurrency))
        with_rows = []
        for file, answer in zip(files, found, strict=True):
            if isinstance(answer, bool):
                self._counts[file[0]] = int(answer)
                with_rows += [file] if answer else []
            else:
                unread[file[0]] = answer
        return with_rows

    def _search(self, reader: Reader, files: Entries) -> dict[str, _Problem]:
        """Read files, several at a time; return those that cannot be read."""
        context = reader.context
        blank = blank_task(reader.metadata)
        outputs = FileOutputs.without_places(context.store)
        jobs = _Jobs(reader, self.wanted)

        def find(item: tuple[InputFile, FindJob | None]) -> list[FoundRows] | _Problem:
            file, job = item
            context.deadline.check()
            try:
                if job is None:
                    return []
                return run_find(replace(blank, inputs=(file,)), job, outputs)
            except FileNotFoundError:
                return MissingFile(file.location)
            except (CorruptTable, StorageError, Unsupported) as error:
                return error
            finally:
                context.progress.advance(1)

        of_deletes = (ids or () if kind == Content.EQUALITY_DELETES else None
                      for kind, ids in by_row(files, "content", "equality_ids"))  # fmt: skip
        items = [
            (file, jobs.of(ids))
            for file, ids in zip(data_inputs(files), of_deletes, strict=True)
            if file.location not in self._counts
        ]
        context.progress.phase("reading data files", total=len(items))
        sizes = [file.size_bytes for file, _ in items]
        problems: dict[str, _Problem] = {}
        found = in_threads(find, items, sizes, threads=context.concurrency)
        for (file, _), result in zip(items, found, strict=True):
            if isinstance(result, list):
                self._counts[file.location] = sum(rows.count for rows in result)
            else:
                problems[file.location] = result
        return problems


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Files that may hold a match, each once, of all `listed`; `places` are their manifests.

    `positions` are position delete files, which may have whole rows.
    """

    files: Entries
    places: Mapping[str, set[int]]
    listed: Mapping[str, str]
    positions: Sequence[tuple[str, int, int, int]]


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


class _Jobs:
    """What is looked for in data files, and in equality deletes by their columns."""

    def __init__(self, reader: Reader, wanted: WantedRows) -> None:
        self._metadata, self._wanted = reader.metadata, wanted
        whole = FindJob(condition_job(self._metadata, wanted.within), wanted.rows)
        self._jobs: dict[frozenset[int] | None, FindJob | None] = {None: whole}

    def of(self, equality_ids: Sequence[int] | None) -> FindJob | None:
        """Return what is looked for in a file; None where it has no column of the rows."""
        ids = None if equality_ids is None else frozenset(equality_ids)
        if ids not in self._jobs:
            self._jobs[ids] = self._of_deletes(ids or frozenset())
        return self._jobs[ids]

    def _of_deletes(self, ids: frozenset[int]) -> FindJob | None:
        rows = self._wanted.rows
        if isinstance(rows, Keys):
            own_ids = tuple(id_ for id_ in rows.field_ids if id_ in ids)
            own_keys = replace(rows, field_ids=own_ids)
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
