"""Metadata files of a table: names, versions, reading, and the location of the next one."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Literal

from icectl.catalog.protocol import Capabilities, Conflict, LoadedTable
from icectl.env import Env
from icectl.errors import CommitConflict, CorruptTable, OtherFile, Refused, TableNotFound
from icectl.files.metadata_file import read_metadata, read_metadata_to_show
from icectl.format.file_names import VERSION_HINT, parse_metadata_file_name
from icectl.format.metadata import TableMetadata
from icectl.format.properties import METADATA_COMPRESSION, METADATA_PATH, read_or_default
from icectl.storage import location as locations
from icectl.storage.identity import irregular_files, is_link
from icectl.storage.open import PathMapStore, add_root
from icectl.storage.store import Store, check_creatable, dating_clock_ms
from icectl.units import print_duration

Kind = Literal["file-system", "catalog", "uncommitted", "other"]

_SUFFIXES = (".metadata.json", ".metadata.json.gz")
_LEADING_NUMBER = re.compile(r"v?([0-9]{1,18})(?![0-9a-f])")
_BARE_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.", re.IGNORECASE)
_UNCOMMITTED = re.compile(_BARE_UUID.pattern + r"(gz\.)?metadata\.json(\.gz)?", re.IGNORECASE)

METADATA_FOLDER = "metadata"

_STORE_ALIASES = re.compile(r"^s3[an]:", re.IGNORECASE)

COMMIT_TAKES_MS = 10 * 60_000
"""The age from which on a file that waits to be renamed is taken for left over."""

_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Between looks at a commit that is under way."""


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """One metadata file as its name tells of it; `version` is None where the name has no number.

    An `uncommitted` one is named with a UUID alone: engines that commit by renaming write such
    files, and then give them the name of a version. `modified_ms` is None if it is unknown.
    """

    location: str
    version: int | None
    kind: Kind
    modified_ms: int | None = None

    @property
    def name(self) -> str:
        return locations.name(self.location)


def is_metadata_file_name(name: str) -> bool:
    """Return whether a file of this name is a metadata file: hidden ones and checksums are not."""
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def metadata_version(location: str, modified_ms: int | None = None) -> MetadataVersion:
    """Read the name of a metadata file (R-160, R-162); a bare UUID's first digits are no number."""
    name = locations.name(location)
    if _BARE_UUID.match(name):
        kind: Kind = "uncommitted" if _UNCOMMITTED.fullmatch(name) else "other"
        return MetadataVersion(location, None, kind, modified_ms)
    parsed = parse_metadata_file_name(name)
    if parsed is not None:
        return MetadataVersion(location, parsed.version, parsed.kind, modified_ms)
    number = _LEADING_NUMBER.match(name)
    return MetadataVersion(location, int(number[1]) if number else None, "other", modified_ms)


def list_versions(store: Store, directory: str) -> tuple[MetadataVersion, ...]:
    """Return the metadata files directly in a directory. Order: by name."""
    return tuple(
        metadata_version(file.location, file.modified_ms)
        for file in store.list_directory(directory)
        if is_metadata_file_name(locations.name(file.location))
    )


def without_uncommitted(versions: Sequence[MetadataVersion]) -> tuple[MetadataVersion, ...]:
    """Return those that are versions; all of them where none looks like one. Order: kept."""
    versions_left = tuple(version for version in versions if version.kind != "uncommitted")
    return versions_left or tuple(versions)


def is_file_system_table(versions: Sequence[MetadataVersion]) -> bool:
    """Return whether all versions are named `v<N>.metadata.json`, so that no catalog has a say."""
    return all(v.kind == "file-system" for v in without_uncommitted(versions))


def doubled_versions(versions: Sequence[MetadataVersion]) -> tuple[int, ...]:
    """List the numbers that more than one file carries. Order: ascending."""
    counts = Counter(version.version for version in versions if version.version is not None)
    return tuple(sorted(number for number, count in counts.items() if count > 1))


def newest(
    versions: Sequence[MetadataVersion], last_updated_ms: Callable[[MetadataVersion], int]
) -> MetadataVersion:
    """Return the file of the highest number; among those of one number, the one updated last.

    A name that follows neither convention counts only where no other has its number.
    `last_updated_ms` reads a file and is called only where numbers do not decide.
    """
    number = max(_number(version) for version in versions)
    highest = [version for version in versions if _number(version) == number]
    rivals = [version for version in highest if version.kind != "other"] or highest
    return rivals[0] if len(rivals) == 1 else max(rivals, key=last_updated_ms)


def _number(version: MetadataVersion) -> int:
    return -1 if version.version is None else version.version


def uncommitted_files(
    versions: Sequence[MetadataVersion], store: Store, env: Env
) -> tuple[Sequence[MetadataVersion], Sequence[MetadataVersion]]:
    """Return files of commits under way, and those left over: old ones, by the storage's clock.

    A file without a time is never old.
    """
    waiting = [version for version in versions if version.kind == "uncommitted"]
    if not waiting:
        return (), ()
    limit_ms = dating_clock_ms(store, env, waiting[0].location) - COMMIT_TAKES_MS
    old = [v for v in waiting if v.modified_ms is not None and v.modified_ms < limit_ms]
    return [version for version in waiting if version not in old], old


def wait_for_end(store: Store, env: Env, directory: str) -> None:
    """Wait for the commits that are under way now. Raises: CommitConflict; StorageError."""

    def under_way() -> Sequence[MetadataVersion]:
        return uncommitted_files(list_versions(store, directory), store, env)[0]

    waiting = under_way()
    for seconds in _PAUSES_SECONDS:
        if not waiting:
            return
        env.sleep(seconds)
        now = {version.location for version in under_way()}
        waiting = [version for version in waiting if version.location in now]
    if waiting:
        conflict = busy(waiting[0])
        raise CommitConflict(conflict.reason, hint=conflict.hint)


def busy(version: MetadataVersion) -> Conflict:
    """Return the conflict with the commit that a file belongs to."""
    return Conflict(
        f"another writer is in the middle of a commit, as {version.name} shows",
        "nothing was changed; run the command again. If no writer is active, that file is left "
        f"over: it is ignored once it is {print_duration(COMMIT_TAKES_MS)} old",
    )


def left_over(version: MetadataVersion, table: str) -> str:
    """Return the message on a file that a commit has left over in a table's directory."""
    return (
        f"{version.name} in the metadata directory is left over from an unfinished commit, and is "
        f"ignored; `icectl remove-orphans {quote(locations.redacted(table))}` deletes it"
    )


def read_file(store: Store, location: str, *, to_show: bool = False) -> TableMetadata:
    """Read a metadata file; one that is only shown may have oddities.

    Raises: FileNotFoundError; CorruptTable, which names the file; Unsupported; StorageError.
    """
    content = store.read(location)
    try:
        if to_show:
            return read_metadata_to_show(content, locations.parent(locations.parent(location)))
        return read_metadata(content)
    except CorruptTable as error:
        what = error.what
        raise CorruptTable(
            f"{locations.redacted(location)}: {what}", rule=error.rule, hint=error.hint
        ) from error


def no_metadata_file(location: str) -> TableNotFound:
    """Make the error for a metadata file that is not there."""
    return TableNotFound(
        f"no metadata file {locations.redacted(location)}",
        hint="a table's metadata files are in its metadata/ directory",
    )


def loaded_from(metadata: TableMetadata, location: str, capabilities: Capabilities) -> LoadedTable:
    """Make a loaded table; its file is spelled as the table is, as the metadata log holds it."""
    directory = locations.parent(location)
    table_location = metadata.location
    if (
        (locations.scheme(table_location) or table_location.startswith("/"))
        and locations.name(directory) == METADATA_FOLDER
        and _place(locations.parent(directory)) == _place(table_location)
    ):
        location = locations.join(table_location, METADATA_FOLDER, locations.name(location))
    return LoadedTable(
        metadata,
        location,
        metadata_version(location).version,
        locations.parent(location),
        capabilities,
    )


def check_place(store: Store, table_location: str, loaded: LoadedTable) -> None:
    """Refuse where nothing can be committed, and a copy, which names the original's files."""
    if isinstance(store, PathMapStore):  # it refuses to write
        return
    check_creatable(table_location)
    if not is_same_place(table_location, loaded.metadata.location):
        raise Refused(
            f"the table in {locations.redacted(table_location)} says that it is in "
            f"{locations.redacted(loaded.metadata.location)}: it was copied or moved, and it names "
            "the files of the original",
            hint=relocation_hint(table_location, loaded),
            id="moved-table",
        )
    add_root(store, table_location)
    add_root(store, loaded.metadata.location)
    check_metadata_folder(store, loaded)


def check_metadata_folder(store: Store, loaded: LoadedTable) -> None:
    """Refuse links, pipes and devices where metadata are looked for, but on the way to the table.

    What only the catalog's pointer leads to counts as on the way. Raises: Refused.
    """
    folder = locations.parent(loaded.metadata_location)
    above, table_location = locations.parent(folder), loaded.metadata.location
    links: Sequence[str] = ()
    if locations.name(folder) != METADATA_FOLDER:
        add_root(store, folder)
    else:
        add_root(store, above)
        if _place(above) == _place(table_location):
            add_root(store, table_location)
        links = [folder] if is_link(folder) else ()
    for place in dict.fromkeys((folder, loaded.metadata_folder)):
        for path in irregular_files(place):
            name = locations.name(path)
            if name == VERSION_HINT or is_metadata_file_name(name):
                links = [*links, path]
    if links:
        raise Refused(
            f"{links[0]} is a link, a pipe or a device: icectl does not change a table with such "
            "metadata",
            hint="replace it with the file or folder itself; commands that only read follow links",
            id="metadata-link",
        )


def check_original(store: Store, loaded: LoadedTable) -> None:
    """Refuse a copy in a catalog: its metadata name another directory. Raises: Refused."""
    check_metadata_folder(store, loaded)
    folder, table_location = locations.parent(loaded.metadata_location), loaded.metadata.location
    is_told = METADATA_PATH.name in loaded.metadata.properties
    if is_told or locations.name(folder) != METADATA_FOLDER:
        return
    if _place(locations.parent(folder)) != _place(table_location):
        raise Refused(
            f"the catalog's metadata file is in {locations.redacted(folder)}, but says that the "
            f"table is in {locations.redacted(table_location)}: it was copied or moved, and it "
            "names the files of the original",
            hint=relocation_hint(locations.parent(folder), loaded),
            id="moved-table",
        )


def moved_from(loaded: LoadedTable) -> str | None:
    """Return where a table's metadata say that it lies, if they lie elsewhere; else None.

    Where `write.metadata.path` puts them somewhere, no one can know.
    """
    folder, table_location = locations.parent(loaded.metadata_location), loaded.metadata.location
    if (
        METADATA_PATH.name in loaded.metadata.properties
        or locations.name(folder) != METADATA_FOLDER
    ):
        return None
    place = locations.parent(folder)
    keys = {locations.loosest_key(place), locations.loosest_key(table_location)}
    is_here = is_same_place(place, table_location) or len(keys) == 1
    return None if is_here else table_location


def relocation_hint(place: str, loaded: LoadedTable) -> str:
    """Return the hint for a table that says that it lies elsewhere than its metadata do."""
    shown = quote(locations.redacted(place))
    named = ""
    if not loaded.capabilities.numbers_versions:
        named = f" --metadata-file {quote(locations.name(loaded.metadata_location))}"
    return (
        f"`icectl relocate {shown}{named}` writes metadata for the files there; add `--new-uuid` "
        "for a copy next to the original"
    )


def is_same_place(table_location: str, other: str) -> bool:
    """Return whether two locations of tables are spellings of one directory."""
    return _place(table_location) == _place(other)


def _place(location: str) -> str:
    """Spell the place of a table as one of all spellings that mean the same directory."""
    if locations.is_local(location):
        try:
            return str(Path(locations.local_path(location)).resolve())
        except ValueError:
            return location
    return _STORE_ALIASES.sub("s3:", location).rstrip("/")


def check_own_version(metadata: TableMetadata, location: str) -> None:
    """Do nothing where a file-system table's metadata file may be that of its number.

    An older one under its name ends its log with another version than the one before.
    Raises: OtherFile R-024.
    """
    version = metadata_version(location)
    if not metadata.metadata_log or version.kind != "file-system":
        return
    before = metadata_version(metadata.metadata_log[-1].metadata_file)
    if before.kind == "file-system" and (before.version or 0) + 1 != version.version:
        message = (
            f"its log ends with {before.name}, so it is not the file that was "
            "written under this name"
        )
        hint = "restore it from a copy; `icectl repair TABLE` rolls back to the previous version"
        raise OtherFile(
            f"`{location}`: {message}", rule="R-024", hint=hint, reason=message, location=location
        )


def newer_than(base: LoadedTable, versions: Sequence[MetadataVersion]) -> Sequence[MetadataVersion]:
    """List the files with a higher number than the loaded one has."""
    assert base.version is not None
    return [v for v in versions if v.version is not None and v.version > base.version]


def rivals(store: Store, loaded: LoadedTable) -> Iterator[str]:
    """Warnings of files that may be taken for a catalog's current one. Raises: StorageError."""
    if loaded.capabilities.numbers_versions or loaded.version is None:
        return
    current = locations.name(loaded.metadata_location)
    beside = [
        version
        for version in list_versions(store, locations.parent(loaded.metadata_location))
        if version.name != current
    ]
    newer = [version.name for version in newer_than(loaded, beside)]
    doubled = [version.name for version in beside if version.version == loaded.version]
    if newer and loaded.capabilities.is_certain:
        yield (
            f"{_listed(newer)} in the metadata directory is newer than {current}, which the "
            "catalog says is current: a commit is under way, or has failed, or another catalog has "
            "the table too"
        )
    if doubled:
        who = (
            "the catalog says that the last" if loaded.capabilities.is_certain else "here the last"
        )
        yield (
            f"{_listed(doubled)} and {current} in the metadata directory have the same version; "
            f"{who} is current"
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - 1
    return names[-1] if not more else f"{names[-1]} (and {more} more)"


def wants_gzip(base: LoadedTable, *, otherwise: bool) -> bool:
    """Whether the table wants metadata compressed, if it says so in a way that makes sense."""
    if METADATA_COMPRESSION.name not in base.metadata.properties:
        return otherwise
    return read_or_default(base.metadata.properties, METADATA_COMPRESSION) == "gzip"
