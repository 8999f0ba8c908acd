"""Reading what an expiry has to know: which files go with snapshots, which stay with others."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from icectl.catalog.protocol import LoadedTable
from icectl.checks.identity import difference
from icectl.checks.snapshots import counts_changes
from icectl.commands.expire_snapshots.parts import FileParts, KeptFiles
from icectl.commands.expire_snapshots.plan import (
    ManifestCounts,
    ReachedFiles,
    UnreadablePart,
    lost_statistics,
)
from icectl.entries.files import SCHEMA, Files, are_content, distinct, in_order, together, without
from icectl.errors import CorruptTable, StorageError
from icectl.format.manifest import ManifestFile, ManifestIdentity
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage.location import is_local, loosest_key, loosest_keys
from icectl.storage.many_files import FilesByKind
from icectl.table.context import TableContext
from icectl.table.guard import check_lists
from icectl.table.live_file_check import check_copies
from icectl.table.manifest_lists import distinct_manifests, divided, manifests_by_snapshot
from icectl.table.reachable import (
    Live,
    all_manifests,
    every_statistics_file,
    files_of_live_entries,
    key_hashes,
    log_files,
    metadata_files,
    names_files,
    statistics_files,
)
from icectl.table.retention import Retention
from icectl.units import read_count

_AT_ONCE = 200_000
"""Files that are looked for together; of more the listing of the table is kept, on disk."""


def read_reached(
    context: TableContext,
    metadata: TableMetadata,
    retention: Retention,
    sizes: Mapping[str, int],
    *,
    recorded: Iterable[Files] = (),
    trusted: bool = False,
    every: bool = False,
) -> ReachedFiles:
    """Return the files that snapshots reach, those which go and those which stay.

    Of files that stay those are in the result that matter to files that go, or to `recorded` ones
    of earlier runs. `sizes` in bytes by loosest key, where known. Lists with fewer files than
    summaries say may be `trusted`. `spec_ids`, `schema_ids` and equality deletes are known if
    `every` manifest that stays is read.
    Raises: StorageError, CorruptTable, when anything that stays cannot be read (R-192), or names a
    file twice; Refused.
    Cost: the manifests that only what goes or only what stays has. Where these leave a data or
    delete file to go, all that stay, some MiB at a time: it may be live in any of them.
    """
    going_ids = {decision.snapshot_id for decision in retention.expired}
    kept_snapshots = [item for item in metadata.snapshots if item.snapshot_id not in going_ids]
    lists = manifests_by_snapshot(context, metadata, kept_snapshots)
    staying = all_manifests(lists, kept_snapshots)
    going = _ExpiredReach(context, metadata)
    files = going.read(going_ids, staying, sizes)
    of_earlier_runs = FileParts(recorded)
    kept = KeptFiles(files, of_earlier_runs, local=is_local(metadata.location))
    kept.add_each([metadata_files(metadata, kept_snapshots, staying, sizes)])
    replacements = FileParts()
    rewriters = _rewriters(metadata, lists.keys())
    live = Live(context, metadata, sources=rewriters, add_files_of_sources=replacements.add)
    changed, shared = _changed(staying, going.lists, sizes)
    live.read(changed, kept.add)
    if every or _has_content(files, kept.matter, of_earlier_runs):
        live.read(shared, kept.add).check(lists)
        shared = ()
    else:
        live.once.check(context, metadata, lists)
    if not trusted:
        check_lists(metadata, {**lists, **going.lists})
    unread = {item.identity for item in shared}
    return ReachedFiles(
        files,
        kept.matter,
        of_earlier_runs,
        replacements,
        has_equality_deletes=kept.has_equality_deletes,
        spec_ids=_specs_of(context, metadata, staying) | live.spec_ids if every else frozenset(),
        schema_ids=frozenset(live.schema_ids),
        unread=tuple(going.unread),
        read=frozenset(item.identity for item in staying) - unread,
        manifests=_counts([*staying, *distinct_manifests(going.lists.values())], unread),
    )


def _counts(
    manifests: Iterable[ManifestFile], unread: Collection[ManifestIdentity]
) -> ManifestCounts:
    """Count the files of manifests, and those of them that were read."""
    in_files = [item for item in manifests if not item.in_root]
    read = {item.manifest_path for item in in_files if item.identity not in unread}
    return ManifestCounts(len({item.manifest_path for item in in_files}), len(read))


def _changed(
    staying: Sequence[ManifestFile],
    going: Mapping[int, Sequence[ManifestFile]],
    sizes: Mapping[str, int],
) -> tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]]:
    """Return the manifests that no list which goes describes alike, and the others.

    Those that are not there, or not as large as said, are among the former: they are read, and the
    expiry ends (R-192). So are manifests of delete vectors: data manifests are searched for these.
    """
    described = {item.identity: item for item in distinct_manifests(going.values())}

    def is_changed(item: ManifestFile) -> bool:
        other = described.get(item.identity)
        is_there = sizes.get(loosest_key(item.manifest_path)) == item.manifest_length
        is_alike = other is not None and difference(item, other) is None
        return names_files(item) or not (is_there and is_alike)

    return divided(staying, [*map(is_changed, staying)])


def _has_content(files: FileParts, staying: FileParts, recorded: FileParts) -> bool:
    """Return whether there are data or delete files to go, but for those known to stay."""
    unsettled = (
        without(going, kept.table["key"])
        for going, kept in zip(files, staying, strict=True)
        if len(going)
    )
    return any(are_content(part).any() for part in chain(recorded, unsettled))


def check_replacements(
    context: TableContext,
    metadata: TableMetadata,
    to_delete: FilesByKind,
    replacements: Iterable[Files],
) -> None:
    """Do nothing where files are there that may hold copied rows of files to delete.

    The files to delete would have the last copies. `replacements` are `FileParts`, or none.
    Raises: CorruptTable R-034, R-063; StorageError.
    Cost: as compare_with_store, with memory for 200,000 files; of more one listing, kept on disk.
    """
    if not to_delete.content_count:
        return
    waiting: list[Files] = []
    for part in map(distinct, filter(len, replacements)):
        waiting.append(part)
        if sum(map(len, waiting)) > _AT_ONCE:
            break
    else:
        if waiting:
            check_copies(context, metadata, in_order(together(waiting)))
        return
    waiting.clear()
    listed = FileParts()
    with closing(batch for batch in context.store.list(metadata.location)) as batches:
        for batch in batches:
            context.deadline.check()
            keys = loosest_keys(pa.chunked_array([batch["location"]]))
            columns = [batch["location"], keys, pa.array(np.zeros(len(batch), np.int8))]
            shown = pa.Table.from_arrays([*columns, batch["size_bytes"]], schema=SCHEMA)
            listed.add(Files(shown), key_hashes(keys))
    for expected, shown in zip(replacements, listed, strict=True):
        if len(expected):
            check_copies(context, metadata, distinct(expected), [shown.table])


def _rewriters(metadata: TableMetadata, kept_ids: Collection[int]) -> frozenset[int]:
    """Return the snapshots whose files may hold copies of what is in files that go.

    What a snapshot replaced whose parent has expired before went with that.
    """
    going_ids = metadata.snapshots_by_id.keys() - set(kept_ids)
    return frozenset(
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.parent_snapshot_id in going_ids and may_copy(snapshot)
    )


_REPLACED = ("deleted-data-files", "removed-delete-files", "removed-dvs")


def may_copy(snapshot: Snapshot) -> bool:
    """Return whether a snapshot may have put rows, or deletes, into other files."""
    summary = snapshot.summary or {}
    if snapshot.operation == "append":
        return False
    if snapshot.operation in ("replace", None) or not any(map(counts_changes, summary)):
        return True
    return any(read_count(summary.get(counter, "0")) != 0 for counter in _REPLACED)


def _specs_of(
    context: TableContext, metadata: TableMetadata, staying: Sequence[ManifestFile]
) -> frozenset[int]:
    """Return the specs of manifests, and of dead rows, which may have others than their leaf."""
    spec_ids = frozenset(manifest.partition_spec_id for manifest in staying)
    if spec_ids.issuperset(spec.spec_id for spec in metadata.partition_specs):
        return spec_ids
    whole = [replace(item, dead=b"") for item in staying if item.dead]
    return spec_ids | Live(context, metadata).read(whole).spec_ids


def read_reached_since(
    context: TableContext,
    newest: LoadedTable,
    read_ids: Collection[int],
    to_delete: FilesByKind,
    read: Collection[ManifestIdentity] = (),
) -> Iterable[Files]:
    """Read what the newest metadata reaches, but for what was `read` before.

    `read_ids` are snapshots whose lists were. Returns the files that matter to those to delete.
    Raises: StorageError, CorruptTable, when anything of it cannot be read (R-192).
    """
    metadata = newest.metadata
    unseen = [item for item in metadata.snapshots if item.snapshot_id not in read_ids]
    manifests = all_manifests(manifests_by_snapshot(context, metadata, unseen), unseen)
    kept = KeptFiles(to_delete, local=is_local(metadata.location))
    if to_delete.content_count:
        unread = [item for item in manifests if item.identity not in read]
        Live(context, metadata).read(unread, kept.add)
    kept.add_each(
        [
            metadata_files(metadata, metadata.snapshots, manifests, {}),
            every_statistics_file(metadata),
            log_files(metadata, newest.metadata_location),
        ]
    )
    return kept.matter


def _require_lost(error: StorageError | CorruptTable) -> None:
    """Accept a file that is missing or damaged for good; raise passing errors of the store."""
    if isinstance(error, StorageError):
        raise error


@dataclass(frozen=True, slots=True)
class _ExpiredReach:
    """Reads what expired snapshots reach; `unread` has lost parts, whose files stay unknown."""

    context: TableContext
    metadata: TableMetadata
    unread: list[UnreadablePart] = field(default_factory=list)
    lists: dict[int, tuple[ManifestFile, ...]] = field(default_factory=dict)

    def read(
        self, going_ids: Collection[int], staying: Sequence[ManifestFile], sizes: Mapping[str, int]
    ) -> FileParts:
        """Read what the snapshots that go reach, but for the contents of manifests that stay."""
        going = [item for item in self.metadata.snapshots if item.snapshot_id in going_ids]
        kept_paths = {manifest.identity for manifest in staying}
        manifests = self._manifests(going)
        only_going = [manifest for manifest in manifests if manifest.identity not in kept_paths]
        # A vector of the same rows may be in another file.
        vectors = [manifest for manifest in manifests if manifest.dead_locations]
        files = self._live_files(only_going)
        named = [metadata_files(self.metadata, going, [*only_going, *vectors], sizes)]
        if going:
            named.append(statistics_files(self.metadata, lost_statistics(self.metadata)))
        for part in named:
            files.add(part, key_hashes(part.table["key"]))
        return files

    def _manifests(self, going: Sequence[Snapshot]) -> tuple[ManifestFile, ...]:
        try:
            self.lists.update(manifests_by_snapshot(self.context, self.metadata, going))
        except (StorageError, CorruptTable) as error:
            _require_lost(error)
            for snapshot in going:
                with self._noted(f"snapshot {snapshot.snapshot_id}"):
                    self.lists.update(
                        manifests_by_snapshot(self.context, self.metadata, [snapshot])
                    )
        return distinct_manifests(self.lists.values())  # one that is wrong may go

    def _live_files(self, manifests: Sequence[ManifestFile]) -> FileParts:
        files = FileParts()
        try:
            Live(self.context, self.metadata).read(manifests, files.add)
        except (StorageError, CorruptTable) as error:
            _require_lost(error)
            files = FileParts()
            for manifest in manifests:
                with self._noted(f"manifest {manifest.manifest_path}"):
                    read = files_of_live_entries(self.context, self.metadata, [manifest])
                    files.add(read, key_hashes(read.table["key"]))
        return files

    @contextmanager
    def _noted(self, subject: str) -> Iterator[None]:
        try:
            yield
        except (StorageError, CorruptTable) as error:
            _require_lost(error)
            self.unread.append(UnreadablePart(subject, error.message))
