"""Level `files` of `validate`: what the store holds against what the table names."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from icectl.catalog.metadata_files import MetadataVersion, list_versions, metadata_version
from icectl.checks.rule import Breach, Finding
from icectl.checks.rules import ALL_RULES, READ_AGAIN, finding
from icectl.entries.files import FileKind, content_files, distinct, sized_keys, together
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable, Refused, StorageError, Unsupported
from icectl.files.metadata_file import read_metadata_json
from icectl.format.file_names import VERSION_HINT, lost_versions
from icectl.format.rule import Severity
from icectl.format.snapshot import Snapshot
from icectl.sfc1.rules import EVERY_RULE
from icectl.storage import location as locations
from icectl.table.own_places import first_update_ms
from icectl.table.reachable import statistics_files
from icectl.table.reader import Reader
from icectl.table.stored import compare_with_store
from icectl.units import print_count

_KINDS: Mapping[FileKind, tuple[str, str]] = {
    FileKind.DATA_FILES: ("data file", "R-063"),
    FileKind.POSITION_DELETE_FILES: ("position delete file", "R-063"),
    FileKind.EQUALITY_DELETE_FILES: ("equality delete file", "R-063"),
    FileKind.DELETION_VECTOR_FILES: ("file of deletion vectors", "R-063"),
    FileKind.STATISTICS_FILES: ("statistics file", "R-140"),
    FileKind.PARTITION_STATISTICS_FILES: ("partition statistics file", "R-142"),
}
"""The names of kinds of files, and the rules of their sizes; no row depends on statistics."""

_MOST_FOREIGN = 100
"""Metadata files that are neither current nor logged and whose table is looked at, newest first."""


@dataclass(frozen=True, slots=True)
class FilesChecked:
    """The result of a look at the store."""

    findings: tuple[Finding, ...]
    files: int


@dataclass(frozen=True, slots=True)
class ListedMetadata:
    """A metadata file that lies in or below a table; what could not be told is None."""

    location: str
    version: int | None
    table_uuid: str | None
    updated_ms: int | None = None


def check_files(reader: Reader, entries: Entries, snapshots: Sequence[Snapshot]) -> FilesChecked:
    """Look for the files of entries, the statistics of snapshots, and the metadata files.

    Raises: StorageError where the store itself fails; Incomplete at the deadline.
    """
    metadata = reader.metadata
    ids = frozenset(snapshot.snapshot_id for snapshot in snapshots)
    content = content_files(entries, sized_keys(entries))
    expected = distinct(together([content, statistics_files(metadata, ids)]))
    compared = compare_with_store(reader.context, expected, metadata.location)
    findings = [
        check_stored_file(item.location, item.kind, item.expected, item.found, item.problem)
        for item in compared.discrepancies
    ]
    findings += _metadata_files(reader, compared.metadata_files)
    return FilesChecked(tuple(findings), len(expected))


def check_gone(reader: Reader, entries: Entries) -> Iterator[Finding]:
    """Find files that are only listed as DELETED, and are gone (V4-183)."""
    if not len(entries):
        return
    compared = compare_with_store(
        reader.context,
        distinct(content_files(entries, sized_keys(entries))),
        reader.metadata.location,
    )
    lost = [item.location for item in compared.discrepancies if item.found is None]
    if lost:
        breach = Breach(f"{len(lost):,} files of DELETED rows are gone; one is `{lost[0]}`")
        yield EVERY_RULE["V4-183"].finding("removed files", breach)


def _metadata_files(reader: Reader, met: Sequence[str]) -> Iterator[Finding]:
    loaded, metadata = reader.loaded, reader.metadata
    store = reader.context.store
    beside = list_versions(store, loaded.metadata_folder)
    logged = {entry.metadata_file for entry in metadata.metadata_log}
    known = {locations.loosest_key(place) for place in (*logged, loaded.metadata_location)}
    here = {locations.loosest_key(version.location) for version in beside}
    lost = []
    for place in sorted(logged):
        try:
            if locations.loosest_key(place) not in here and store.stat(place) is None:
                lost.append(place)
        except (StorageError, Refused, Unsupported) as error:  # where the table was before
            message = f"not all of its files can be looked up: {error.message}"
            yield finding("R-024", "metadata log", message, severity="info")
            break
    below = [metadata_version(place) for place in met if locations.loosest_key(place) not in here]
    strange = [
        version
        for version in (*reversed(beside), *below)
        if locations.loosest_key(version.location) not in known
    ]
    files = [_described(reader, version) for version in strange[:_MOST_FOREIGN]]
    numbered = loaded.capabilities.numbers_versions
    if numbered:
        known_files = [version for version in beside if version not in strange]
        files += [
            ListedMetadata(version.location, version.version, metadata.table_uuid)
            for version in known_files
        ]
    own_ms = [file.updated_ms for file in files if file.table_uuid == metadata.table_uuid]
    first_ms = first_update_ms(metadata, own_ms)
    yield from check_metadata_files(
        metadata.table_uuid, files, lost, numbered=numbered, first_ms=first_ms
    )


def _described(reader: Reader, version: MetadataVersion) -> ListedMetadata:
    """Return a metadata file with the uuid of its table and its time, None if it has none."""
    uuid = updated_ms = None
    # One that is never read does no harm.
    with suppress(CorruptTable, StorageError, FileNotFoundError):
        members = read_metadata_json(reader.context.store.read(version.location))
        uuid, updated_ms = members.get("table-uuid"), members.get("last-updated-ms")
    beside = locations.parent(version.location) == reader.loaded.metadata_folder
    number = version.version if beside and version.kind == "file-system" else None
    return ListedMetadata(
        version.location,
        number,
        uuid if isinstance(uuid, str) else None,
        updated_ms if isinstance(updated_ms, int) else None,
    )


# -- findings -------------------------------------------------------------------------------------


def check_stored_file(
    location: str, kind: FileKind, expected: int | None, size_bytes: int | None, problem: str | None
) -> Finding:
    """Return a file that is missing (`size_bytes` None) or of another size than the table says.

    `problem` says why the store would not tell.
    Spec: R-034, R-063, R-140, R-142.
    """
    name, rule = _KINDS.get(kind, ("file", "R-063"))
    severity: Severity = "error" if rule == "R-063" else "warning"
    if problem is not None:
        message = f"the {name} cannot be looked up: {problem}"
        return finding("R-034", location, message, hint=READ_AGAIN)
    if size_bytes is None:
        hint = ALL_RULES[rule].fix if severity == "warning" else None
        return finding("R-034", location, f"the {name} is missing", severity=severity, hint=hint)
    message = f"the {name} has {size_bytes:,} bytes, the table says {expected:,}"
    return finding(rule, location, message, severity=severity)


def check_metadata_files(
    table_uuid: str | None,
    files: Sequence[ListedMetadata],
    lost: Sequence[str],
    *,
    numbered: bool,
    first_ms: int,
) -> Iterator[Finding]:
    """Find the metadata files in and below a table, and those of its log that are gone (`lost`).

    `numbered` says that versions of files in one folder are unique, as in file-system tables. In a
    catalog, a table that was dropped before the table existed (`first_ms`) may have left files.
    Spec: R-002, R-024, R-162.
    """
    newest_ms: dict[str, float] = {}
    for file in files:
        if file.table_uuid is not None:
            updated_ms = float("inf") if file.updated_ms is None else file.updated_ms
            newest_ms[file.table_uuid] = max(updated_ms, newest_ms.get(file.table_uuid, 0))
    others = newest_ms.keys() - {table_uuid}
    is_known = table_uuid is not None and not numbered
    left = sorted(uuid for uuid in others if is_known and newest_ms[uuid] < first_ms)
    options = " ".join(f"--leftover-uuid {uuid}" for uuid in left)
    dropped = "that table was" if len(left) == 1 else "these tables were"
    hint = f"if {dropped} dropped, `icectl remove-orphans TABLE {options}` deletes what is left"
    for uuid in left:
        of_table = [file.location for file in files if file.table_uuid == uuid]
        count = print_count(len(of_table), "metadata file")
        message = f"{count} of another table, {uuid}, which was here before this one"
        yield finding("R-002", of_table[0], message, severity="warning", hint=hint)
    for file in files:
        if table_uuid is not None and file.table_uuid not in (None, table_uuid, *left):
            message = f"a metadata file of another table, {file.table_uuid}, is in this one"
            yield finding("R-002", file.location, message)
    versions = Counter(file.version for file in files if numbered and file.version is not None)
    for version, times in versions.items():
        if times > 1:
            message = f"{times} files are version {version}"
            yield finding("R-162", "metadata folder", message)
    if lost:
        message = f"{len(lost):,} of its files are gone; one is `{lost[-1]}`"
        yield finding("R-024", "metadata log", message)


def check_version_hint(
    hint: int | str | None, version: int | None, table: str
) -> Iterator[Finding]:
    """Find the version hint of a file-system table, `hint` None where it names nothing (R-163)."""
    if version is None:
        return
    if hint is None:
        yield finding("R-163", VERSION_HINT, "it names no version", severity="info")
    elif isinstance(hint, int) and hint > version:
        message, advice = lost_versions(hint, version, table)
        yield finding("R-163", VERSION_HINT, message, severity="warning", hint=advice)
    elif isinstance(hint, int) and hint != version:
        message = f"it says {hint}, the newest is {version}"
        yield finding("R-163", VERSION_HINT, message, severity="info")
