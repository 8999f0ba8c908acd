"""What the snapshots of a table list: manifests, by manifest list, by root or one by one."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from icectl.codec.manifest import read_manifest
from icectl.codec.manifest_list import (
    ManifestListReader,
    read_list_properties,
    read_manifest_list,
)
from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.progress import Progress
from icectl.spec.manifest import ManifestContent, ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.storage.store import Store
from icectl.table.reading import (
    OF_ONE_FILE,
    Problem,
    decode_file,
    read_file,
    read_in_threads,
    try_file,
)
from icectl.table.schemes import listed_with_scheme

ReadList = Callable[[bytes], tuple[ManifestFile, ...]]
"""Decodes a manifest list."""

_MANY_LISTS = 16
"""From so many on it pays to load the compiled scan for manifest lists."""


def trees(metadata: TableMetadata) -> Any:
    """What reads roots and leaves: loaded where there is one, since it takes its time."""
    return import_module("icectl.table.sfc1.reader").Trees(metadata)


def read_snapshot_manifests(
    store: Store,
    metadata: TableMetadata,
    snapshot: Snapshot,
    *,
    read_list: ReadList = read_manifest_list,
    sound: bool = True,
) -> tuple[ManifestFile, ...]:
    """Read the manifests that a snapshot lists; `read_list` decodes its manifest list.

    A root need not be `sound` where its files are only shown.
    Order: that of the manifest list.
    Raises: MissingFile; CorruptTable; Unsupported; StorageError.
    Spec: Snapshots; a version 1 snapshot may embed the locations instead (R-030), one of version 4
    has a root (V4-030).
    """
    if snapshot.root_manifest is not None:
        listed: tuple[ManifestFile, ...] = trees(metadata).listed(store, snapshot, sound=sound)
        return listed
    if snapshot.manifest_list is not None:
        location = snapshot.manifest_list
        found = decode_file(location, lambda: read_list(read_file(store, location)))
        return tuple(listed_with_scheme(metadata, item) for item in found)
    return tuple(
        _embedded_manifest(store, metadata, location) for location in snapshot.manifests or ()
    )


def described_manifests(
    store: Store, metadata: TableMetadata, snapshot: Snapshot, manifests: Sequence[ManifestFile]
) -> tuple[ManifestFile, ...]:
    """The manifests that a snapshot lists, with what only the view of them shows.

    Order: kept.
    Raises: as read_snapshot_manifests.
    """
    if snapshot.root_manifest is None:
        return tuple(manifests)
    found: tuple[ManifestFile, ...] = trees(metadata).described(store, snapshot, manifests)
    return found


@dataclass(frozen=True, slots=True)
class ManifestListRead:
    """What a snapshot lists, and the problems with it, by the location that has them.

    `properties` is the key-value metadata of a manifest list (R-054); None where there is no list.
    With `is_odd` all manifests are there, and the problems are good enough to be shown.
    """

    snapshot: Snapshot
    manifests: tuple[ManifestFile, ...] = ()
    properties: Mapping[str, str] | None = None
    size_bytes: int = 0
    problems: tuple[tuple[str, Problem], ...] = ()
    is_odd: bool = False


def try_manifest_lists(
    store: Store,
    metadata: TableMetadata,
    snapshots: Sequence[Snapshot],
    *,
    concurrency: int,
    progress: Progress,
) -> Generator[ManifestListRead, None, None]:
    """Read what snapshots list, damaged and missing manifest lists included.

    Order: that of `snapshots`.
    Raises: StorageError, where the store itself fails; Unsupported for a root manifest.
    """
    progress.phase("reading manifest lists", total=len(snapshots))
    read_list = _list_reader(snapshots)

    def read(snapshot: Snapshot) -> ManifestListRead:
        found = _try_manifest_list(store, metadata, snapshot, read_list)
        progress.advance(1)
        return found

    yield from read_in_threads(read, snapshots, [1] * len(snapshots), threads=concurrency)


def _list_reader(snapshots: Sequence[Snapshot]) -> ReadList:
    """The compiled scan takes its time to load: it is for many lists."""
    return read_manifest_list if len(snapshots) < _MANY_LISTS else ManifestListReader().read


def _try_manifest_list(
    store: Store, metadata: TableMetadata, snapshot: Snapshot, read_list: ReadList
) -> ManifestListRead:
    location = snapshot.manifest_list
    if snapshot.root_manifest is not None:
        return _try_root(store, metadata, snapshot, snapshot.root_manifest)
    if location is None:
        return _try_embedded_manifests(store, metadata, snapshot)
    content = try_file(store, location)
    if not isinstance(content, bytes):
        return ManifestListRead(snapshot, problems=((location, content),))
    try:
        manifests = decode_file(location, partial(read_list, content))
    except (CorruptTable, Unsupported) as error:
        problems = ((location, error),)
        found = ManifestListRead(snapshot, size_bytes=len(content), problems=problems)
        if isinstance(error, Unsupported):
            return found
        try:
            shown = read_manifest_list(content, to_show=True)
        except CorruptTable:
            return found
        return replace(
            found, manifests=shown, properties=read_list_properties(content), is_odd=True
        )
    return ManifestListRead(snapshot, manifests, read_list_properties(content), len(content))


def _try_root(
    store: Store, metadata: TableMetadata, snapshot: Snapshot, location: str
) -> ManifestListRead:
    try:
        found = read_snapshot_manifests(store, metadata, snapshot, sound=False)
        return ManifestListRead(snapshot, found)
    except (CorruptTable, Unsupported) as error:
        return ManifestListRead(snapshot, problems=((location, error),))
    except StorageError as error:
        if error.error_id not in OF_ONE_FILE:
            raise
        return ManifestListRead(snapshot, problems=((location, error),))


def _try_embedded_manifests(
    store: Store, metadata: TableMetadata, snapshot: Snapshot
) -> ManifestListRead:
    found: list[ManifestFile] = []
    problems: list[tuple[str, Problem]] = []
    for location in snapshot.manifests or ():
        try:
            found.append(_embedded_manifest(store, metadata, location))
        except (CorruptTable, Unsupported) as error:
            problems.append((location, error))
        except StorageError as error:
            if error.error_id not in OF_ONE_FILE:
                raise
            problems.append((location, error))
    return ManifestListRead(snapshot, tuple(found), problems=tuple(problems))


def load_manifest_lists(
    store: Store,
    metadata: TableMetadata,
    snapshots: Sequence[Snapshot],
    *,
    concurrency: int,
    progress: Progress,
) -> Mapping[int, tuple[ManifestFile, ...]]:
    """Read the manifests of several snapshots, by snapshot id.

    Order: that of `snapshots`.
    Raises: as read_snapshot_manifests.
    """
    progress.phase("reading manifest lists", total=len(snapshots))
    read_list = _list_reader(snapshots)

    def read(snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        manifests = read_snapshot_manifests(store, metadata, snapshot, read_list=read_list)
        progress.advance(1)
        return manifests

    lists = read_in_threads(read, snapshots, [1] * len(snapshots), threads=concurrency)
    return {
        snapshot.snapshot_id: manifests
        for snapshot, manifests in zip(snapshots, lists, strict=True)
    }


def distinct_manifests(lists: Iterable[Sequence[ManifestFile]]) -> tuple[ManifestFile, ...]:
    """Every manifest of several manifest lists once, by location.

    Order: first appearance.
    """
    # Lists that were read together share their rows, and to compare those takes longer.
    rows = {id(manifest): manifest for manifests in lists for manifest in manifests}
    distinct: dict[tuple[str, ManifestContent, bytes], ManifestFile] = {}
    for manifest in rows.values():
        distinct.setdefault(manifest.identity, manifest)
    return tuple(distinct.values())


def _embedded_manifest(store: Store, metadata: TableMetadata, location: str) -> ManifestFile:
    """Describe a manifest that a version 1 snapshot embeds; its counts are unknown (R-051)."""
    content = read_file(store, location)
    header, _ = decode_file(
        location,
        lambda: read_manifest(content, columns=frozenset(), manifest=0, spec=metadata.default_spec),
    )
    return ManifestFile(
        manifest_path=location,
        manifest_length=len(content),
        partition_spec_id=header.spec_id or 0,
        content=ManifestContent.DATA,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=None,
    )
