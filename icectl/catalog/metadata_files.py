"""Reading one metadata file of a table, and whether the next one may be written where it lies."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from icectl.catalog.protocol import (
    Capabilities,
    LoadedTable,
)
from icectl.catalog.versions import (
    MetadataVersion,
    is_metadata_file_name,
    list_versions,
    metadata_version,
)
from icectl.errors import (
    CorruptTable,
    OtherFile,
    Refused,
    TableNotFound,
)
from icectl.files.metadata_file import read_metadata, read_metadata_to_show
from icectl.format.file_names import VERSION_HINT
from icectl.format.metadata import TableMetadata
from icectl.format.properties import METADATA_COMPRESSION, METADATA_PATH, read
from icectl.storage import location as locations
from icectl.storage.identity import irregular_files, is_link
from icectl.storage.open import PathMapStore, add_root
from icectl.storage.store import Store, check_creatable

METADATA_FOLDER = "metadata"

_STORE_ALIASES = re.compile(r"^s3[an]:", re.IGNORECASE)


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
        what = error.message.removesuffix(f" ({error.rule})")
        raise CorruptTable(
            f"{locations.redacted(location)}: {what}", rule=error.rule, hint=error.hint
        ) from error


def no_metadata_file(location: str) -> TableNotFound:
    """Make the error for a metadata file that is not there."""
    return TableNotFound(
        f"no metadata file {locations.redacted(location)}",
        hint="a table's metadata files lie in its metadata/ directory",
    )


def loaded_from(metadata: TableMetadata, location: str, capabilities: Capabilities) -> LoadedTable:
    """Make a loaded table of the contents of a metadata file.

    The file's location is spelled as the table's own is: the metadata log will hold it.
    """
    directory = locations.parent(location)
    own = metadata.location
    if (
        (locations.scheme(own) or own.startswith("/"))
        and locations.name(directory) == METADATA_FOLDER
        and _place(locations.parent(directory)) == _place(own)
    ):
        location = locations.join(own, METADATA_FOLDER, locations.name(location))
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
            f"the table in {locations.redacted(table_location)} says that it lies in "
            f"{locations.redacted(loaded.metadata.location)}: it is a copy, or was moved, and the "
            "files it names are those of the original",
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
    above, own = locations.parent(folder), loaded.metadata.location
    links: Sequence[str] = ()
    if locations.name(folder) != METADATA_FOLDER:
        add_root(store, folder)
    else:
        add_root(store, above)
        if _place(above) == _place(own):
            add_root(store, own)
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
            hint="put the file or the folder itself in its place; what only reads follows links",
            id="metadata-link",
        )


def check_original(store: Store, loaded: LoadedTable) -> None:
    """Refuse a copy that a catalog has: its metadata lie in one directory and name another.

    Raises: Refused.
    """
    check_metadata_folder(store, loaded)
    folder, own = locations.parent(loaded.metadata_location), loaded.metadata.location
    is_told = METADATA_PATH.name in loaded.metadata.properties
    if is_told or locations.name(folder) != METADATA_FOLDER:
        return
    if _place(locations.parent(folder)) != _place(own):
        raise Refused(
            f"the catalog's metadata file lies in {locations.redacted(folder)}, and says that the "
            f"table lies in {locations.redacted(own)}: it is a copy, or was moved, and the files "
            "it names are those of the original",
            hint=relocation_hint(locations.parent(folder), loaded),
            id="moved-table",
        )


def moved_from(loaded: LoadedTable) -> str | None:
    """Return where a table's metadata say that it lies, if they lie elsewhere; else None.

    Where `write.metadata.path` puts them somewhere, nobody can tell.
    """
    folder, own = locations.parent(loaded.metadata_location), loaded.metadata.location
    if (
        METADATA_PATH.name in loaded.metadata.properties
        or locations.name(folder) != METADATA_FOLDER
    ):
        return None
    place = locations.parent(folder)
    is_here = is_same_place(place, own) or locations.loosest_key(place) == locations.loosest_key(
        own
    )
    return None if is_here else own


def relocation_hint(place: str, loaded: LoadedTable) -> str:
    """Return the hint for a table that says that it lies elsewhere than its metadata do."""
    shown = quote(locations.redacted(place))
    named = ""
    if not loaded.capabilities.numbers_versions:
        named = f" --metadata-file {quote(locations.name(loaded.metadata_location))}"
    return (
        f"`icectl relocate {shown}{named}` writes metadata for the files that lie there, with "
        "`--new-uuid` for a copy beside the original"
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
    own = metadata_version(location)
    if not metadata.metadata_log or own.kind != "file-system":
        return
    before = metadata_version(metadata.metadata_log[-1].metadata_file)
    if before.kind == "file-system" and (before.version or 0) + 1 != own.version:
        message = (
            f"`{location}`: its log ends with {before.name}, so it is not the file that was "
            "written under this name"
        )
        hint = "restore it from a copy; `icectl repair TABLE` goes back to the version before"
        raise OtherFile(message, rule="R-024", hint=hint)


def newer_than(base: LoadedTable, versions: Sequence[MetadataVersion]) -> Sequence[MetadataVersion]:
    """List the files with a higher number than the loaded one has."""
    assert base.version is not None
    return [v for v in versions if v.version is not None and v.version > base.version]


def rivals(store: Store, loaded: LoadedTable) -> Iterator[str]:
    """What to tell of files beside the current one of a catalog's table that may be taken for it.

    Raises: StorageError.
    """
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
            f"{_listed(doubled)} and {current} in the metadata directory are one version; {who} is "
            "current"
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - 1
    return names[-1] if not more else f"{names[-1]} (and {more} more)"


def wants_gzip(base: LoadedTable, *, otherwise: bool) -> bool:
    """Whether the table wants its metadata files compressed; `otherwise`, where it does not say.

    Raises: Refused, where the property is none that is known.
    """
    if METADATA_COMPRESSION.name not in base.metadata.properties:
        return otherwise
    return read(base.metadata.properties, METADATA_COMPRESSION) == "gzip"
