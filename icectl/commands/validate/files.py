"""Level `files` of `validate`: what the store holds against what the table names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from icectl.catalog.metadata_files import MetadataVersion, list_versions, metadata_version
from icectl.checks.rule import Breach, Finding
from icectl.checks.stored_files import (
    MetadataFile,
    check_metadata_files,
    check_stored_file,
)
from icectl.entries.files import content_files, distinct, sized_keys, together
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable, StorageError
from icectl.files.metadata_file import read_metadata_json
from icectl.format.snapshot import Snapshot
from icectl.sfc1.rules import EVERY_RULE
from icectl.storage import location as locations
from icectl.table.reachable import statistics_files
from icectl.table.reader import Reader
from icectl.table.stored import compare_with_store

_MOST_FOREIGN = 100
"""Metadata files that are neither current nor logged and whose table is looked at, newest first."""


@dataclass(frozen=True, slots=True)
class FilesChecked:
    """The result of a look at the store."""

    findings: tuple[Finding, ...]
    files: int


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
    """Find files that are only listed as DELETED, and are not there any more (V4-183)."""
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
    folder = loaded.metadata_folder
    beside = list_versions(reader.context.store, folder)
    logged = {entry.metadata_file for entry in metadata.metadata_log}
    known = {locations.loosest_key(place) for place in (*logged, loaded.metadata_location)}
    here = {locations.loosest_key(version.location) for version in beside}
    lost = [
        place
        for place in sorted(logged)
        if locations.loosest_key(place) not in here and reader.context.store.stat(place) is None
    ]
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
            MetadataFile(version.location, version.version, metadata.table_uuid)
            for version in known_files
        ]
    yield from check_metadata_files(metadata.table_uuid, files, lost, numbered=numbered)


def _described(reader: Reader, version: MetadataVersion) -> MetadataFile:
    """Return a metadata file with the uuid of its table; None where it does not tell."""
    uuid = None
    try:
        members = read_metadata_json(reader.context.store.read(version.location))
        uuid = members.get("table-uuid")
    except (CorruptTable, StorageError, FileNotFoundError):
        pass  # one that nobody reads does no harm
    beside = locations.parent(version.location) == reader.loaded.metadata_folder
    number = version.version if beside and version.kind == "file-system" else None
    return MetadataFile(version.location, number, uuid if isinstance(uuid, str) else None)
