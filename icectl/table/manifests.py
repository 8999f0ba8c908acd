"""Manifest lists and manifests of a table: read in parallel, with bounded memory, in order."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from icectl.codec.manifest import read_manifest
from icectl.codec.manifest_list import (
    ManifestListReader,
    read_list_properties,
    read_manifest_list,
)
from icectl.entries.inherit import inherit
from icectl.entries.rows import EMPTY, Entries, RawEntries, numbered
from icectl.entries.stats import with_referenced_data_files
from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.progress import Progress
from icectl.spec.manifest import ManifestContent, ManifestFile, ManifestHeader
from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot
from icectl.storage.failures import ACCESS_DENIED
from icectl.storage.store import Store

FILE_MISSING = "file-missing"
"""Id of the error where the metadata names a file that is not there."""

_STORED_BYTES_IN_FLIGHT = 64 * 2**20
"""Manifest bytes, as stored, that may be read ahead of the consumer; inflated they are up to ten
times as much, which keeps a scan of any table well below 1 GiB."""

_OF_ONE_FILE = frozenset({FILE_MISSING, ACCESS_DENIED})
"""Ids of storage errors that say something of a file, not of the store."""

Problem = StorageError | CorruptTable | Unsupported
"""What can be wrong with one file."""

ReadList = Callable[[bytes], tuple[ManifestFile, ...]]
"""Decodes a manifest list."""

_MANY_LISTS = 16
"""From so many on it pays to load the compiled scan for manifest lists."""

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class ManifestRead:
    """A manifest as it was read, or the problem with it.

    `index` is its place in the list that was asked for; `size_bytes` is as stored, None where it
    could not be read.
    """

    index: int
    size_bytes: int | None = None
    header: ManifestHeader | None = None
    rows: RawEntries | None = None
    problem: Problem | None = None

    @property
    def content(self) -> tuple[ManifestHeader, RawEntries]:
        """Header and rows of a manifest without a problem."""
        if self.header is None or self.rows is None:
            raise ValueError(self.index)
        return self.header, self.rows


def read_snapshot_manifests(
    store: Store,
    metadata: TableMetadata,
    snapshot: Snapshot,
    *,
    read_list: ReadList = read_manifest_list,
) -> tuple[ManifestFile, ...]:
    """Read the manifests that a snapshot lists; `read_list` decodes its manifest list.

    Order: that of the manifest list.
    Raises: StorageError where a file is missing; CorruptTable; Unsupported for a root manifest.
    Spec: Snapshots; a version 1 snapshot may embed the locations instead (R-030).
    """
    if snapshot.root_manifest is not None:
        message = f"snapshot {snapshot.snapshot_id} has a version 4 root manifest"
        raise Unsupported(message, hint="this version of icectl reads format versions 1 to 3")
    if snapshot.manifest_list is not None:
        location = snapshot.manifest_list
        return _decoded(location, lambda: read_list(read_file(store, location)))
    return tuple(
        _embedded_manifest(store, metadata, location) for location in snapshot.manifests or ()
    )


@dataclass(frozen=True, slots=True)
class ManifestListRead:
    """What a snapshot lists, and the problems with it, by the location that has them.

    `properties` is the key-value metadata of a manifest list (R-054); None where there is no list.
    """

    snapshot: Snapshot
    manifests: tuple[ManifestFile, ...] = ()
    properties: Mapping[str, str] | None = None
    size_bytes: int = 0
    problems: tuple[tuple[str, Problem], ...] = ()


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

    yield from in_threads(read, snapshots, [1] * len(snapshots), threads=concurrency)


def _list_reader(snapshots: Sequence[Snapshot]) -> ReadList:
    """The compiled scan takes its time to load: it is for many lists."""
    return read_manifest_list if len(snapshots) < _MANY_LISTS else ManifestListReader().read


def _try_manifest_list(
    store: Store, metadata: TableMetadata, snapshot: Snapshot, read_list: ReadList
) -> ManifestListRead:
    location = snapshot.manifest_list
    if location is None:
        return _try_embedded_manifests(store, metadata, snapshot)
    content = _try_file(store, location)
    if not isinstance(content, bytes):
        return ManifestListRead(snapshot, problems=((location, content),))
    try:
        manifests = _decoded(location, partial(read_list, content))
    except (CorruptTable, Unsupported) as error:
        return ManifestListRead(snapshot, size_bytes=len(content), problems=((location, error),))
    return ManifestListRead(snapshot, manifests, read_list_properties(content), len(content))


def _try_embedded_manifests(
    store: Store, metadata: TableMetadata, snapshot: Snapshot
) -> ManifestListRead:
    if snapshot.root_manifest is not None:
        read_snapshot_manifests(store, metadata, snapshot)  # says what it is
    found: list[ManifestFile] = []
    problems: list[tuple[str, Problem]] = []
    for location in snapshot.manifests or ():
        try:
            found.append(_embedded_manifest(store, metadata, location))
        except (CorruptTable, Unsupported) as error:
            problems.append((location, error))
        except StorageError as error:
            if error.error_id not in _OF_ONE_FILE:
                raise
            problems.append((location, error))
    return ManifestListRead(snapshot, tuple(found), problems=tuple(problems))


def _try_file(store: Store, location: str) -> bytes | StorageError:
    """The file's bytes, or what is wrong with this one file. Raises: StorageError of the store."""
    try:
        return read_file(store, location)
    except StorageError as error:
        if error.error_id not in _OF_ONE_FILE:
            raise
        return error


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

    lists = in_threads(read, snapshots, [1] * len(snapshots), threads=concurrency)
    return {
        snapshot.snapshot_id: manifests
        for snapshot, manifests in zip(snapshots, lists, strict=True)
    }


def distinct_manifests(lists: Iterable[Sequence[ManifestFile]]) -> tuple[ManifestFile, ...]:
    """Every manifest of several manifest lists once, by location.

    Order: first appearance.
    """
    distinct: dict[str, ManifestFile] = {}
    for manifests in lists:
        for manifest in manifests:
            distinct.setdefault(manifest.manifest_path, manifest)
    return tuple(distinct.values())


def scan_manifests(
    store: Store,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    *,
    columns: frozenset[str],
    concurrency: int,
    progress: Progress,
) -> Iterator[tuple[int, ManifestHeader, RawEntries]]:
    """Read manifests one by one as (index in `manifests`, header, rows as stored).

    Order: that of `manifests`; close the iterator to stop early.
    Raises: StorageError where a manifest is missing; CorruptTable, naming the file; Unsupported.
    Cost: `concurrency` reads and as many inflations as there are processors run ahead of the
    consumer, over at most 64 MiB of stored manifests.
    """
    wanted = [columns] * len(manifests)
    return _scan(store, metadata, manifests, wanted, concurrency=concurrency, progress=progress)


def scan_entries(
    store: Store,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    *,
    columns: frozenset[str],
    concurrency: int,
    progress: Progress,
) -> Iterator[tuple[int, Entries]]:
    """Read manifests one by one as (index in `manifests`, entries with inheritance resolved).

    Order: that of `manifests`; close the iterator to stop early.
    Raises: as scan_manifests.
    Cost: as scan_manifests.
    """
    scanned = scan_manifests(
        store, metadata, manifests, columns=columns, concurrency=concurrency, progress=progress
    )
    for index, _, rows in scanned:
        # Against its own row of the list only: a table may have very many manifests.
        entries = inherit(numbered(rows, 0), manifests[index : index + 1])
        yield index, numbered(entries, index)


def load_entries(
    store: Store,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    *,
    columns: frozenset[str],
    concurrency: int,
    progress: Progress,
) -> Entries:
    """Read all entries of some manifests into one table.

    Order: (`manifest`, `manifest_pos`); `manifest` indexes `manifests`.
    Raises: as scan_manifests.
    """
    scanned = scan_manifests(
        store, metadata, manifests, columns=columns, concurrency=concurrency, progress=progress
    )
    return _inherited([rows for _, _, rows in scanned], manifests)


def load_entries_to_match(
    store: Store,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    *,
    columns: frozenset[str],
    concurrency: int,
    progress: Progress,
) -> Entries:
    """Read all entries of some manifests, ready for entries.deletes.match.

    Shape: referenced_data_file is filled from the path bounds of older position delete files.
    Order: (`manifest`, `manifest_pos`); `manifest` indexes `manifests`.
    Raises: as scan_manifests.
    """
    of_deletes = columns | {"lower_bounds", "upper_bounds"}
    wanted = [
        of_deletes if manifest.content is ManifestContent.DELETES else columns
        for manifest in manifests
    ]
    scanned = _scan(store, metadata, manifests, wanted, concurrency=concurrency, progress=progress)
    parts: list[RawEntries] = []
    for index, _, stored in scanned:
        if wanted[index] is of_deletes:
            named = with_referenced_data_files(stored).table
            parts.append(RawEntries(named.drop_columns(sorted(of_deletes - columns))))
        else:
            parts.append(stored)
    return _inherited(parts, manifests)


def _inherited(parts: Sequence[RawEntries], manifests: Sequence[ManifestFile]) -> Entries:
    if not parts:
        return EMPTY
    return inherit(RawEntries(pa.concat_tables([part.table for part in parts])), manifests)


def try_manifests(
    store: Store,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    *,
    columns: frozenset[str],
    concurrency: int,
    progress: Progress,
) -> Generator[ManifestRead, None, None]:
    """Read manifests one by one, damaged and missing ones included.

    Order: that of `manifests`; close the iterator to stop early.
    Raises: StorageError, where the store itself fails.
    Cost: as scan_manifests.
    """
    wanted = [columns] * len(manifests)
    return _read_all(store, metadata, manifests, wanted, concurrency=concurrency, progress=progress)


def _scan(
    store: Store,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    wanted: Sequence[frozenset[str]],
    *,
    concurrency: int,
    progress: Progress,
) -> Iterator[tuple[int, ManifestHeader, RawEntries]]:
    """Scan manifests with the columns that are `wanted` of each; the first problem is raised."""
    found = _read_all(
        store, metadata, manifests, wanted, concurrency=concurrency, progress=progress
    )
    with closing(found):
        for manifest in found:
            if manifest.problem is not None:
                raise manifest.problem
            yield manifest.index, *manifest.content


def _read_all(
    store: Store,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    wanted: Sequence[frozenset[str]],
    *,
    concurrency: int,
    progress: Progress,
) -> Generator[ManifestRead, None, None]:
    """Read manifests with the columns that are `wanted` of each.

    Reading waits for the store, decoding for a processor: each has threads of its own, as many as
    it can use, which also keeps the decoders' memory to few threads.
    """
    progress.phase("reading manifests", total=len(manifests))
    sizes = [manifest.manifest_length for manifest in manifests]

    def read(index: int) -> tuple[int, bytes | StorageError]:
        return index, _try_file(store, manifests[index].manifest_path)

    def decode(stored: tuple[int, bytes | StorageError]) -> ManifestRead:
        index, content = stored
        if isinstance(content, StorageError):
            return ManifestRead(index, problem=content)
        spec = metadata.spec(manifests[index].partition_spec_id)
        read_ = partial(read_manifest, columns=wanted[index], manifest=index, spec=spec)
        try:
            header, rows = _decoded(manifests[index].manifest_path, partial(read_, content))
        except (CorruptTable, Unsupported) as error:
            return ManifestRead(index, len(content), problem=error)
        progress.advance(1)
        return ManifestRead(index, len(content), header, rows)

    processors = min(os.cpu_count() or 1, concurrency)
    stored = in_threads(read, range(len(manifests)), sizes, threads=concurrency)
    with closing(stored), closing(in_threads(decode, stored, sizes, threads=processors)) as decoded:
        yield from decoded


def read_file(store: Store, location: str) -> bytes:
    """Read a file that the table's metadata names.

    Raises: StorageError where it is missing.
    """
    try:
        return store.read(location)
    except FileNotFoundError as error:
        message = f"`{location}` is missing, although the table's metadata names it"
        hint = "`--path-map FROM=TO` reads a table that was moved or copied"
        raise StorageError(message, hint=hint, id=FILE_MISSING) from error


def _embedded_manifest(store: Store, metadata: TableMetadata, location: str) -> ManifestFile:
    """Describe a manifest that a version 1 snapshot embeds; its counts are unknown (R-051)."""
    content = read_file(store, location)
    header, _ = _decoded(
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


def _decoded(location: str, decode: Callable[[], _Done]) -> _Done:
    """Run a decoder and name the file in what it raises: codecs know no locations."""
    try:
        return decode()
    except CorruptTable as error:
        message = error.message.removesuffix(f" ({error.rule})")
        raise CorruptTable(f"`{location}`: {message}", rule=error.rule) from error
    except Unsupported as error:
        raise Unsupported(
            f"`{location}`: {error.message}", hint=error.hint, id=error.error_id
        ) from error


def in_threads(
    work: Callable[[_Item], _Done], items: Iterable[_Item], sizes: Sequence[int], *, threads: int
) -> Generator[_Done, None, None]:
    """Apply `work` in threads and yield its results in the order of `items`.

    Runs ahead of the consumer by twice the number of threads, within the byte budget.
    """
    if threads == 1 or len(sizes) <= 1:
        for item in items:
            yield work(item)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="icectl-read")
    running: deque[tuple[Future[_Done], int]] = deque()
    bytes_in_flight = 0
    try:
        for item, size in zip(items, sizes, strict=True):
            while running and (
                len(running) >= 2 * threads or bytes_in_flight + size > _STORED_BYTES_IN_FLIGHT
            ):
                done, released = running.popleft()
                bytes_in_flight -= released
                yield done.result()
            running.append((pool.submit(work, item), size))
            bytes_in_flight += size
        while running:
            yield running.popleft()[0].result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
