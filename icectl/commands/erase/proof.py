"""The proof of an erasure: every file below the table's location, and why it holds no match."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter

import pyarrow as pa

from icectl.commands.erase.plan import Left
from icectl.commands.matching import WITH_ROWS, Matches, MatchSearch
from icectl.commit.journals import uuid_of
from icectl.entries.files import FileKind, rows, together
from icectl.errors import CorruptTable, IcectlError, StorageError, Unsupported
from icectl.files.data_file import open_data_file
from icectl.files.metadata_file import read_metadata_json
from icectl.files.parquet.schema import child_fields, field_id
from icectl.format.file_names import VERSION_HINT, parse_metadata_file_name
from icectl.format.manifest import FileFormat
from icectl.storage.location import loosest_key, name, redacted
from icectl.storage.versions import versions_below
from icectl.table.manifest_lists import distinct_manifests
from icectl.table.reachable import every_statistics_file, log_files, metadata_files
from icectl.table.reader import Reader
from icectl.table.reading import naming
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
_PARTITIONS = "partitions."
"""How members of summaries begin that name partitions with their values."""


@dataclass(frozen=True, slots=True)
class ProvedObject:
    """A file below the table's location that holds no match, and how that is known."""

    location: str
    size_bytes: int
    kind: str
    known_by: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What was looked at, and what is left: files that hold a match, or may hold one.

    Order: by location.
    `orphans` are those of them that no snapshot names, and that hold one.
    """

    objects: tuple[ProvedObject, ...]
    left: tuple[Left, ...]
    orphans: tuple[str, ...] = ()
    has_unreadable: bool = False


def prove(reader: Reader, search: MatchSearch, found: Matches) -> Proof:
    """Look at each file below a table's location; `found` is what snapshots hold.

    Files that no snapshot names are read, where they can be.
    Raises: StorageError, where the location can't be listed.
    Cost: a listing, and the rows of files that no snapshot names.
    """
    metadata, context = reader.metadata, reader.context
    known = _described(reader)
    read = set(map(loosest_key, found.read))
    listed = {loosest_key(location): kind for location, kind in found.listed.items()}
    told = {loosest_key(file.location) for file in found.files}
    told |= {loosest_key(path) for file in found.files for path, _, _ in file.manifests}
    told |= set(map(loosest_key, found.unread))
    judging = _Judging(reader, search)
    context.progress.phase("looking at every file")
    for batch in context.store.list(metadata.location):
        for location, size in zip(*(batch.column(at).to_pylist() for at in range(2)), strict=True):
            context.deadline.check()
            key = loosest_key(location)
            if key in told:  # what snapshots hold is listed with these
                continue
            if key in listed:
                kind = listed[key]
                is_read = key in read
                how = "rows" if is_read else "bounds" if kind in WITH_ROWS else "no rows"
                judging.objects.append(ProvedObject(location, size, kind, how))
            elif key in known:
                judging.described(location, size, known[key])
            else:
                judging.loose(location, size)
    judging.previous(metadata.location)
    objects = sorted(judging.objects, key=attrgetter("location"))
    left = sorted(judging.left, key=attrgetter("subject"))
    judged = tuple(objects), tuple(left), tuple(sorted(judging.orphans))
    return Proof(*judged, has_unreadable=judging.has_unreadable)


def _described(reader: Reader) -> Mapping[str, str]:
    """Return the kind of each file that metadata, lists and manifests describe, by loosest key."""
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
    kinds = {loosest_key(place): _KINDS[kind] for place, kind, _ in rows(described)}
    return kinds | {loosest_key(place): "deletion-vector" for place in dead}


@dataclass(slots=True)
class _Judging:
    """Files as they are judged."""

    reader: Reader
    search: MatchSearch
    objects: list[ProvedObject] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    has_unreadable: bool = False

    def previous(self, folder: str) -> None:
        """Judge previous versions of objects: what was deleted may be among them."""
        try:
            versions = versions_below(self.reader.context.store, folder)
            counts = Counter(one.location for one in versions or () if one.size_bytes)
        except StorageError as error:
            self._unreadable(f"previous versions below {redacted(folder)}", error)
            return
        if versions is None:
            reason = "previous versions of its objects were not looked at"
            self.left.append(Left(folder, reason))
        for location, count in sorted(counts.items()):
            if not _is_named_as_metadata(name(location)):
                versions_kept = print_count(count, "previous version")
                self.left.append(Left(location, f"the bucket keeps {versions_kept} of it"))

    def described(self, location: str, size: int, kind: str) -> None:
        """Judge a file that metadata, lists or manifests describe."""
        if kind == "metadata":
            self._metadata(location, size)
        else:
            self.objects.append(ProvedObject(location, size, kind, "entries"))

    def loose(self, location: str, size: int) -> None:
        """Judge a file that nothing names: one that can't be read as data may hold anything."""
        file_name = name(location)
        if parse_metadata_file_name(file_name) is not None:
            self._metadata(location, size)
        elif not size or _is_named_as_metadata(file_name):
            self.objects.append(ProvedObject(location, size, "metadata", "no rows"))
        elif file_name.startswith(".") and file_name.endswith(".crc"):
            self.objects.append(ProvedObject(location, size, "check-sum", "no rows"))
        else:
            self._data(location, size)

    def _metadata(self, location: str, size: int) -> None:
        """Judge a metadata file: summaries of snapshots may name partitions by their values."""
        specs = self.reader.metadata.partition_specs
        sources = {id_ for spec in specs for item in spec.fields for id_ in item.source_ids}
        try:
            if sources & self.search.field_ids and _names_partitions(self.reader, location):
                self.left.append(Left(location, "its summaries name partitions by their values"))
                return
        except FileNotFoundError:
            return
        except (CorruptTable, StorageError) as error:
            self._unreadable(location, error)
            return
        self.objects.append(ProvedObject(location, size, "metadata", "no rows"))

    def _data(self, location: str, size: int) -> None:
        store = self.reader.context.store
        try:
            beginning = store.read_range(location, 0, 4)
            form = next(
                (kind for magic, kind in _MAGIC.items() if beginning.startswith(magic)), None
            )
            if form is None:
                self.left.append(Left(location, f"it can't be read as a data file; {_LOOSE}"))
                return
            with store.open(location) as file, naming(location):
                opened = open_data_file(file, form.name)
                count, ids = opened.record_count, set(_ids_in(opened.schema))
            if not self.search.field_ids <= ids:
                self.left.append(Left(location, f"it lacks columns to look at; {_LOOSE}"))
                return
            matching = self.search.look_into(self.reader, location, form, count, size)
        except FileNotFoundError:  # it went meanwhile
            return
        except (CorruptTable, StorageError, Unsupported) as error:
            self._unreadable(location, error)
            return
        if matching:
            self.orphans.append(location)
            self.left.append(Left(location, f"{print_count(matching, 'row')} match; {_LOOSE}"))
        else:
            self.objects.append(ProvedObject(location, size, "orphan", "rows"))

    def _unreadable(self, location: str, error: IcectlError) -> None:
        self.left.append(Left(location, f"it can't be read: {error.message}"))
        self.has_unreadable = True


_LOOSE = "no snapshot names it; `icectl remove-orphans` deletes it once it is old enough"


def _is_named_as_metadata(file_name: str) -> bool:
    """Return whether a file has the name of one of a table's metadata folder without rows."""
    is_metadata = parse_metadata_file_name(file_name) is not None
    return is_metadata or file_name == VERSION_HINT or uuid_of(file_name) is not None


def _names_partitions(reader: Reader, location: str) -> bool:
    """Return whether a metadata file has summaries of snapshots that name partitions by values."""
    snapshots = read_metadata_json(reader.context.store.read(location)).get("snapshots")
    return any(
        str(member).startswith(_PARTITIONS)
        for snapshot in snapshots or ()
        for member in snapshot.get("summary") or ()
    )


def _ids_in(fields: Iterable[pa.Field]) -> Iterator[int | None]:
    """Yield the field ids of columns, at any depth."""
    for item in fields:
        yield field_id(item)
        yield from _ids_in(child_fields(item.type))
