"""The reader of snapshots of layout sfc-1."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from icectl.checks.rule import Finding
from icectl.entries.conditions import Predicate
from icectl.entries.rows import Entries, RawEntries
from icectl.errors import CorruptTable, StorageError, Unsupported
from icectl.format.manifest import ManifestFile, ManifestHeader, RootManifest
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.sfc1.checks.live import PlannedTree
from icectl.sfc1.listed import decode_tree_manifest, tree_manifests, tree_manifests_of
from icectl.sfc1.manifests import TreeFacts
from icectl.sfc1.rules import SFC1_RULES
from icectl.sfc1.views import deleted_only, manifests_for_views, marked_manifests, root_manifest
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.manifest_lists import ManifestListRead, MarkedManifest, SnapshotReader
from icectl.table.reading import of_one_file


def reader(metadata: TableMetadata, snapshots: int) -> SnapshotReader:
    """Return a reader, which is the same for any number of snapshots."""
    del snapshots
    return RootReader(metadata)


@dataclass(frozen=True)
class RootReader:
    """Reads the snapshots of one table that have roots."""

    metadata: TableMetadata

    @cached_property
    def _facts(self) -> TreeFacts:
        return TreeFacts(self.metadata)

    def manifests(
        self, store: Store, snapshot: Snapshot, *, sound: bool = True
    ) -> tuple[ManifestFile, ...]:
        """Read the leaves of a root, and the root itself for the files that it lists."""
        return tree_manifests(store, self._facts, snapshot, sound=sound)

    def manifests_of(
        self, store: Store, snapshot: Snapshot, within: Predicate
    ) -> tuple[tuple[ManifestFile, ...], bool]:
        """Read the same, but for leaves whose statistics exclude the condition (sfc-1 8.2)."""
        return tree_manifests_of(store, self._facts, snapshot, within)

    def try_manifests(self, store: Store, snapshot: Snapshot) -> ManifestListRead:
        """Read the same, damaged and missing roots included."""
        try:
            return ManifestListRead(snapshot, self.manifests(store, snapshot, sound=False))
        except (CorruptTable, Unsupported, StorageError) as error:
            problem = of_one_file(error)
            return ManifestListRead(snapshot, problems=((snapshot.root_manifest or "", problem),))

    def described(
        self, store: Store, snapshot: Snapshot, manifests: Sequence[ManifestFile]
    ) -> tuple[ManifestFile, ...]:
        """Fill in summaries of partition fields, and the size of the root."""
        return manifests_for_views(store, self._facts, snapshot, manifests)

    def root(self, store: Store, snapshot: Snapshot) -> RootManifest:
        """Read what a root says beside what it lists."""
        return root_manifest(store, self._facts, snapshot)

    def marked(self, store: Store, snapshot: Snapshot) -> Sequence[MarkedManifest]:
        """Find the manifests with what a snapshot changed (sfc-1 9.2)."""
        return marked_manifests(store, self._facts, snapshot)

    def deleted_only(self, manifest: ManifestFile) -> ManifestFile:
        """Return the same leaf with what is dead in it alive, and the other way round."""
        return deleted_only(manifest)

    def decode(
        self,
        contents: Sequence[bytes],
        manifest: ManifestFile,
        *,
        columns: frozenset[str],
        indices: Sequence[int],
        threads: int = 1,
    ) -> tuple[Sequence[ManifestHeader], RawEntries]:
        """Decode one leaf, or the root as the manifest of its own files, without dead rows."""
        del threads  # pyarrow has its own
        (content,), (index,) = contents, indices
        header, rows = decode_tree_manifest(
            content, self._facts, manifest, columns=columns, index=index
        )
        return [header], rows

    def risks(
        self, snapshot: Snapshot, manifests: Sequence[ManifestFile], entries: Entries
    ) -> Iterator[Finding]:
        """Find vectors and files that do not fit each other, and partitions that nobody knows."""
        places = {comparison_key(one.manifest_path): at for at, one in enumerate(manifests)}
        affiliated = {
            at: places[home]
            for at, one in enumerate(manifests)
            if (home := comparison_key(one.affiliated_to or "")) in places
        }
        tree = PlannedTree(entries, self._facts.metadata, snapshot, affiliated=affiliated)
        return SFC1_RULES.findings(tree)
