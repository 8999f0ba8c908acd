"""The proof of an erasure: every file of a table, and why it holds no match."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter

import pyarrow as pa

from icectl.commands.erase.plan import Left
from icectl.commands.matching import (
    WITH_ROWS,
    Matches,
    MatchSearch,
    fields_in,
    of_wanted_partitions,
    partition_sources,
)
from icectl.commands.remove_orphans.purge import may_be_of_run, quarantined_runs
from icectl.commit.journals import uuid_of
from icectl.entries.files import FileKind, rows, together
from icectl.errors import CorruptTable, IcectlError, StorageError, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.metadata_file import read_metadata_json, read_version_hint
from icectl.files.parquet.schema import field_id
from icectl.format.file_names import VERSION_HINT, named_folders, parse_metadata_file_name
from icectl.format.manifest import FileFormat
from icectl.storage.identity import unlisted
from icectl.storage.location import comparison_key, is_within, loosest_key, name, redacted
from icectl.storage.new_files import PROBE
from icectl.storage.store import FileStatus, ObjectVersion
from icectl.storage.versions import read_version, versions_below
from icectl.table.manifest_lists import distinct_manifests
from icectl.table.partition_statistics import named_partitions
from icectl.table.reachable import every_statistics_file, log_files, metadata_files
from icectl.table.reader import Reader
from icectl.table.reading import in_threads, naming
from icectl.units import print_count

_MAGIC = {b"PAR1": FileFormat.PARQUET, b"ORC": FileFormat.ORC}
_KINDS = {
    FileKind.MANIFESTS: "manifest",
    FileKind.MANIFEST_LISTS: "manifest-list",
    FileKind.ROOT_MANIFESTS: "manifest-list",
    FileKind.STATISTICS_FILES: "statistics",
    FileKind.PARTITION_STATISTICS_FILES: "statistics",
    FileKind.METADATA_FILES: "metadata",
}
_CONTAINERS = (*_MAGIC, b"Obj\x01", b"PFA1")
_LOOSE = (
    "no snapshot names it; `erase --expire-history` deletes it once it is older than "
    "`remove-orphans.older-than`"
)
_AWAY = "it lies in the quarantine; `--expire-history` deletes it"
_STALE = (
    "its lists name files that are gone, by paths that may hold a value; `--expire-history` drops "
    "these lines"
)
_SUMMARIES = "its summaries name partitions by their values"
_OF_RUN = (
    "the journal of another run, which may name partitions by their values; a later run of its "
    "command deletes it"
)
_CHECK_SUM, _HINT_BYTES = b"crc\0", 1 << 10
_PARTITIONS = "partitions."
"""How members of summaries begin that name partitions with their values."""


@dataclass(frozen=True, slots=True)
class ProvedObject:
    """A file that holds no match, and how that is known; in S3 with its ETag and version."""

    location: str
    size_bytes: int
    kind: str
    known_by: str
    etag: str | None = None
    version_id: str | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What was looked at, and what is left: files that hold a match, or may hold one.

    Order: by location.
    `orphans` are those of them that no snapshot names, and `quarantined` those in the quarantine,
    folders whose lists name other files, too.
    """

    objects: tuple[ProvedObject, ...]
    left: tuple[Left, ...]
    orphans: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    has_unreadable: bool = False


def prove(
    reader: Reader, search: MatchSearch, found: Matches, quarantine: str | None = None
) -> Proof:
    """Look at each file below a table's location, and each that snapshots reach elsewhere.

    `found` is what snapshots hold. Files that no snapshot names are read, where they can be, and
    those that runs of the table have moved to the quarantine.
    Raises: StorageError, where a folder can't be listed.
    Cost: a listing, a request for each file elsewhere, and the rows of unnamed files.
    """
    judging, away = _judged(reader, search, found, quarantine)
    judging.elsewhere()
    location = reader.metadata.location
    judging.previous(location)
    if quarantine is not None and not is_within(quarantine, location):
        is_own = partial(may_be_of_run, quarantine=quarantine, loaded=reader.loaded)
        away.previous(quarantine, is_own)
    objects = sorted((*judging.tagged(), *away.tagged()), key=attrgetter("location"))
    left = sorted((*judging.left, *away.left), key=attrgetter("subject"))
    return Proof(
        tuple(objects),
        tuple(left),
        tuple(sorted(judging.orphans)),
        tuple(sorted(away.orphans)),
        has_unreadable=judging.has_unreadable or away.has_unreadable,
    )


def unnamed_matches(
    reader: Reader, search: MatchSearch, found: Matches, quarantine: str | None = None
) -> tuple[str, ...]:
    """Return the files that no snapshot names, or in the quarantine, that may hold a match.

    `found` are those that snapshots name. Raises, cost: as prove.
    """
    judging, away = _judged(reader, search, found, quarantine)
    return (*judging.orphans, *away.orphans)


def _judged(
    reader: Reader, search: MatchSearch, found: Matches, quarantine: str | None
) -> tuple["_Judging", "_Judging"]:
    """Look at the files of a table, and at its own ones in the quarantine."""
    context = reader.context
    held = {file.location for file in found.files} | found.unread.keys()
    held |= {path for file in found.files for path, _, _ in file.manifests}
    judging = _Judging(reader, search, found, _described(reader), frozenset(held))
    context.progress.phase("checking every file")
    judging.everything(reader.metadata.location)
    away = _Judging(reader, search, found, {}, frozenset(), hint=_AWAY)
    if quarantine is not None:
        for run in quarantined_runs(context.store, quarantine, reader.loaded):
            for file in run.files:
                away.judge(file.location, file.size_bytes)
            if run.gone and partition_sources(reader.metadata):
                away.orphans.append(run.folder)
                away.left.append(Left(run.folder, _STALE))
    return judging, away


def _described(reader: Reader) -> Mapping[str, str]:
    """Return the kind of each file that metadata, lists and manifests describe, by location."""
    metadata = reader.metadata
    lists = reader.manifests_by_snapshot(metadata.snapshots)
    manifests = distinct_manifests(
        [[replace(item, dead=b"") for item in listed] for listed in lists.values()]
    )
    dead = {place for listed in lists.values() for item in listed for place in item.dead_locations}
    described = together(
        [
            log_files(metadata, reader.loaded.metadata_location),
            metadata_files(metadata, metadata.snapshots, manifests, {}),
            every_statistics_file(metadata),
        ]
    )
    kinds = {place: _KINDS[kind] for place, kind, _ in rows(described)}
    return kinds | dict.fromkeys(dead, "deletion-vector")


@dataclass(slots=True)
class _Judging:
    """Files as they are judged: those that entries list, others that are `described`, and the rest.

    What snapshots hold (`held`) is listed with these; `outside` are names that no listing shows.
    `tags` are the ETags and versions of some, by location.
    """

    reader: Reader
    search: MatchSearch
    found: Matches
    known: Mapping[str, str]
    held: frozenset[str]
    hint: str = _LOOSE
    objects: list[ProvedObject] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    tags: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    has_unreadable: bool = False

    def everything(self, folder: str) -> None:
        """Judge each file below a folder by its name in the metadata, or by what is in it.

        A name that is spelled otherwise counts if no other file could be meant.
        """
        named = [*self.found.listed, *self.known]
        exact = {comparison_key(location): location for location in named}
        loose = {loosest_key(location): location for location in named}
        outside = {key: it for key, it in loose.items() if not is_within(it, folder)}
        otherwise: dict[str, list[tuple[str, int]]] = {}
        seen: set[str] = set()
        context = self.reader.context
        for batch in context.store.list(folder):
            files = zip(*(batch.column(at).to_pylist() for at in range(2)), strict=True)
            for location, size in files:
                context.deadline.check()
                name_of, key = exact.get(comparison_key(location)), loosest_key(location)
                outside.pop(key, None)
                if name_of is not None:
                    seen.add(name_of)
                    self.judge(location, size, name_of)
                elif key in loose:
                    otherwise.setdefault(loose[key], []).append((location, size))
                else:
                    self.judge(location, size)
        for name_of, spelled in otherwise.items():
            for location, size in spelled:
                is_it = name_of not in seen and len(spelled) == 1
                self.judge(location, size, name_of if is_it else None)
        for path, reason in unlisted(folder):
            self.left.append(Left(path, f"{reason}: not checked"))
        self.outside += outside.values()

    def judge(self, location: str, size: int, name_of: str | None = None) -> None:
        """Judge a file that metadata names so, or that nothing names."""
        try:
            if name_of is None:
                self._loose(location, size)
            else:
                self._named(location, size, name_of)
        except FileNotFoundError:  # it went meanwhile
            return
        except (CorruptTable, StorageError, Unsupported) as error:
            self._unreadable(location, error)

    def elsewhere(self) -> None:
        """Judge files that snapshots reach outside of the table's location, and tell of folders."""
        context = self.reader.context

        def status_of(location: str) -> FileStatus | IcectlError | None:
            context.deadline.check()
            try:
                return context.store.stat(location)
            except (StorageError, Unsupported) as error:
                return error

        no_bytes = [0] * len(self.outside)
        statuses = in_threads(status_of, self.outside, no_bytes, threads=context.concurrency)
        for location, status in zip(self.outside, statuses, strict=True):
            if isinstance(status, IcectlError):
                self._unreadable(location, status)
            elif status is not None:
                self.tags[location] = status.etag, status.version_id
                self.judge(location, status.size_bytes, location)
        metadata = self.reader.metadata
        for name_of, folder in named_folders(metadata.location, metadata.properties).items():
            if not is_within(folder, metadata.location):
                reason = f"`{name_of}` names it, outside of the table's location: not looked at"
                self.left.append(Left(redacted(folder), reason))

    def _named(self, location: str, size: int, name_of: str) -> None:
        """Judge a file that metadata names so."""
        if name_of in self.held:
            return
        kind = self.found.listed.get(name_of)
        if kind is not None:
            how = "bounds" if kind in WITH_ROWS else "no rows"
            if name_of in self.found.read:
                how = self.search.ruled_out.get(name_of, "rows")
            self.objects.append(ProvedObject(location, size, kind, how))
        elif (described := self.known[name_of]) == "metadata":
            self._metadata(location, size)
        elif self._counts_matches(name_of):
            reason = "it counts a partition of such rows, and goes with its snapshot"
            self.left.append(Left(location, reason))
        else:
            self.objects.append(ProvedObject(location, size, described, "entries"))

    def _counts_matches(self, name_of: str) -> bool:
        """Return whether a file of partition statistics counts one in which every row matches."""
        reader, metadata = self.reader, self.reader.metadata
        counted = [it for it in metadata.partition_statistics if it.statistics_path == name_of]
        if not self._seeks_partitions:
            return False
        parts = [named_partitions(reader.context, metadata, file) for file in counted]
        rows = self.search.wanted.rows
        return any(of_wanted_partitions(part, rows, metadata).any() for part in parts)

    def tagged(self) -> Iterator[ProvedObject]:
        """Yield the objects that hold no match, with their ETags and versions if these are told."""
        for one in self.objects:
            etag, version_id = self.tags.get(one.location, (None, None))
            yield replace(one, etag=etag, version_id=version_id)

    def previous(self, folder: str, is_own: Callable[[str], bool] = lambda _: True) -> None:
        """Judge previous versions of the own objects: what was deleted may be among them."""
        context, kept = self.reader.context, list[ObjectVersion]()
        try:
            versions = versions_below(context.store, folder)
            for one in versions or ():
                if not is_own(one.location):
                    continue
                if one.is_newest:
                    self.tags[one.location] = one.etag, one.id
                elif one.size_bytes and name(one.location) != PROBE:
                    kept.append(one)
            sizes = [version.size_bytes or 0 for version in kept]
            may_tell = in_threads(self._may_tell, kept, sizes, threads=context.concurrency)
            counts = Counter(
                one.location for one, tells in zip(kept, may_tell, strict=True) if tells
            )
        except StorageError as error:
            self._unreadable(f"previous versions below {redacted(folder)}", error)
            return
        if versions is None:
            reason = "previous versions of its objects were not looked at"
            self.left.append(Left(folder, reason))
        for location, count in sorted(counts.items()):
            versions_kept = print_count(count, "previous version")
            self.left.append(Left(location, f"the bucket keeps {versions_kept} of it"))

    def _may_tell(self, version: ObjectVersion) -> bool:
        """Return whether a previous version may hold a value of a row.

        Raises: StorageError. Cost: the content of metadata files and journals, if a key is a
        partition column.
        """
        context, file_name = self.reader.context, name(version.location)
        if not _is_named_as_metadata(file_name):
            return True
        if not self._seeks_partitions:
            return False
        context.deadline.check()
        try:
            return _names_partitions(file_name, read_version(context.store, version))
        except FileNotFoundError:  # it went meanwhile
            return False
        except CorruptTable:
            return True

    def _loose(self, location: str, size: int) -> None:
        """Judge a file that nothing names: what it holds decides, not what it is called."""
        kind = self._kind_by_name(location, size) if size else "metadata"
        if kind is None:
            self._data(location, size)
        elif kind == "metadata" and size:
            self._metadata(location, size)
        else:
            self.objects.append(ProvedObject(location, size, kind, "no rows"))

    def _kind_by_name(self, location: str, size: int) -> str | None:
        """Return what a file without rows is by its name, if what it holds bears that out."""
        store, file_name = self.reader.context.store, name(location)
        if file_name.startswith(".") and file_name.endswith(".crc"):
            return "check-sum" if store.read_range(location, 0, 4) == _CHECK_SUM else None
        if not _is_named_as_metadata(file_name):
            return None
        if file_name == VERSION_HINT:
            is_hint = size <= _HINT_BYTES and read_version_hint(store.read(location)) is not None
            return "metadata" if is_hint else None
        try:
            read_metadata_json(store.read(location))
        except CorruptTable:
            return None
        return "metadata"

    @property
    def _seeks_partitions(self) -> bool:
        """Whether partitions are made of a column that rows are looked for by."""
        return not partition_sources(self.reader.metadata).isdisjoint(self.search.field_ids)

    def _metadata(self, location: str, size: int) -> None:
        """Judge a metadata file or a journal: these may name partitions by their values."""
        if self._seeks_partitions:
            content = self.reader.context.store.read(location)
            if _names_partitions(name(location), content):
                is_journal = uuid_of(location) is not None
                self.left.append(Left(location, _OF_RUN if is_journal else _SUMMARIES))
                return
        self.objects.append(ProvedObject(location, size, "metadata", "no rows"))

    def _data(self, location: str, size: int) -> None:
        store, search = self.reader.context.store, self.search
        beginning = store.read_range(location, 0, 4)
        if not beginning.startswith(_CONTAINERS):
            self.left.append(Left(location, f"it can't be read as a data file; {self.hint}"))
            return
        form = next((kind for magic, kind in _MAGIC.items() if beginning.startswith(magic)), None)
        reason = "it may hold bounds of such rows"
        if form is not None:
            with store.open(location) as file, naming(location):
                opened = open_data_file(file, form.name)
            count = opened.record_count
            reason = "it lacks columns to look at"
            if self._has_columns(opened.schema):
                count = search.look_into(self.reader, location, form, count, size)
                if not count:
                    how = self.search.ruled_out.get(location, "rows")
                    self.objects.append(ProvedObject(location, size, "orphan", how))
                    return
                reason = f"{print_count(count, 'row')} match"
        self.orphans.append(location)
        self.left.append(Left(location, f"{reason}; {self.hint}"))

    def _has_columns(self, stored: pa.Schema) -> bool:
        """Return whether a file has the columns to look at: files of metadata have the same ids."""
        names = {field_id(item): item.name for item in fields_in(stored)}
        return all(
            any(line and line[-1].name == names.get(id_) for line in lines)
            for id_, lines in (
                (id_, [schema.line_to(id_) for schema in self.reader.metadata.schemas])
                for id_ in self.search.field_ids
            )
        )

    def _unreadable(self, location: str, error: IcectlError) -> None:
        self.left.append(Left(location, f"it can't be read: {error.message}"))
        self.has_unreadable = True


def _is_named_as_metadata(file_name: str) -> bool:
    """Return whether a file has the name of one of a table's metadata folder without rows."""
    is_metadata = parse_metadata_file_name(file_name) is not None
    return is_metadata or file_name == VERSION_HINT or uuid_of(file_name) is not None


def _names_partitions(file_name: str, content: bytes) -> bool:
    """Return whether a metadata file or a journal may name partitions by their values.

    Metadata files do in summaries of snapshots, journals in paths. Raises: CorruptTable.
    """
    if file_name == VERSION_HINT:
        return False
    members = read_metadata_json(content)
    if uuid_of(file_name) is not None:
        return bool(members.get("files")) or b"=" in content
    return any(
        str(member).startswith(_PARTITIONS)
        for snapshot in members.get("snapshots") or ()
        for member in snapshot.get("summary") or ()
    )
