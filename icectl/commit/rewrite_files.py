"""A `replace` snapshot of rewritten files.

Up to version 3, manifests whose entries go are written anew, new manifests hold what comes, and all
others are listed as they are. From version 4 on a new root says what goes and comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from icectl.commit.changes import Changes, changes
from icectl.commit.conflicts import GroupResult, conflict, head_of
from icectl.commit.manifests import ManifestWriter, form_for
from icectl.commit.outputs import Outputs
from icectl.commit.sfc1.rewrite import tree_change
from icectl.commit.sfc1.writer import TreeWriter
from icectl.commit.snapshot import NewSnapshot, compose, head
from icectl.commit.transaction import Proposal
from icectl.entries.clusters import one_cluster, per_manifest, pieces
from icectl.entries.rows import (
    Entries,
    are_among,
    by_row,
    by_spec,
    count_by_manifest,
    count_by_value,
    data_files,
    delete_files,
    in_manifests,
    live,
    with_snapshot,
    with_some_deleted,
)
from icectl.env import Env
from icectl.errors import CommitConflict
from icectl.plan.compact import LiveFiles
from icectl.plan.rewrite_manifests import PIECES_OF_TARGET
from icectl.spec.manifest import ManifestContent, ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.properties import TARGET_MANIFEST_SIZE_BYTES, read
from icectl.spec.updates import Update
from icectl.table.live_files import LiveFilesReader

_Kind = tuple[int, ManifestContent]
"""Spec and content: entries of different ones never share a manifest (R-061)."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What groups were planned on: a snapshot of a branch, and its live files."""

    branch: str
    snapshot_id: int | None
    format_version: int
    files: LiveFiles


@dataclass(slots=True)
class FileRewrite:
    """One commit of some groups, or of none, where deletes are dangling.

    After a try `changes` is what it changes, and `lost` says why groups are not among it.
    """

    reader: LiveFilesReader
    env: Env
    planned: Planned
    results: Sequence[GroupResult]
    snapshot_id: int
    outputs: Outputs
    lost: dict[int, str] = field(default_factory=dict)
    changes: Changes | None = None
    _metadata_files: set[str] = field(default_factory=set)
    _written: dict[tuple[object, ...], list[ManifestFile]] = field(default_factory=dict)

    def propose(self, metadata: TableMetadata) -> Proposal:
        """Propose the snapshot on the newest metadata, and the files of what of it still holds.

        Raises: as `updates`.
        """
        updates = self.updates(metadata)
        return Proposal(updates, self._written_files)

    def updates(self, metadata: TableMetadata) -> Sequence[Update]:
        """The snapshot on the newest metadata; nothing where there is nothing left to change.

        Raises: CommitConflict, where no group holds any more; StorageError; CorruptTable;
        Unsupported for manifests with fields that would be lost.
        """
        if metadata.format_version != self.planned.format_version:
            raise CommitConflict("the table's format version has changed meanwhile")
        files = self._files(metadata)
        results = self._holding(files)
        self.changes = changes(files, results)
        if not len(self.changes.removed) and not len(self.changes.added):
            return ()
        if metadata.format_version >= 4:
            return self._put_on_tree(metadata, self.changes)
        numbers = tuple(result.number for result in results)
        added = self._added(metadata, self.changes.added, numbers)
        rewritten = self._rewritten(metadata, files, self.changes.removed)
        kept = self._kept(files, self.changes.removed)
        written = [*added, *rewritten]
        new_manifests = frozenset(item.manifest_path for item in written)
        new = NewSnapshot(
            self.snapshot_id,
            self.planned.branch,
            "replace",
            (*written, *kept),
            new_manifests,
            {
                **self.changes.summary,
                "manifests-created": str(len(written)),
                "manifests-kept": str(len(kept)),
                "manifests-replaced": str(len(files.manifests) - len(kept)),
            },
        )
        location = self.outputs.manifest_list(self.snapshot_id)
        composed = compose(metadata, new, manifest_list=location, env=self.env)
        self._metadata_files = {*new_manifests, location}
        self.reader.store.create(location, composed.manifest_list)
        return composed.updates

    def _put_on_tree(self, metadata: TableMetadata, changes: Changes) -> Sequence[Update]:
        """The snapshot of a version 4 table."""
        writer = TreeWriter(self.reader.store, self.env, self.planned.branch, self.outputs)
        updates = writer.write(
            metadata, self.snapshot_id, lambda facts, _: tree_change(facts, changes), {}
        )
        assert writer.last is not None  # it has just been written
        self._metadata_files = writer.last.files
        return updates

    @property
    def _written_files(self) -> frozenset[str]:
        """Files that the last try needs: those of its metadata, and data files of its groups."""
        if self.changes is None:
            return frozenset()
        data = (location for (location,) in by_row(self.changes.added, "location"))
        return frozenset((*self._metadata_files, *data))

    def _files(self, metadata: TableMetadata) -> LiveFiles:
        """The live files of the branch's head, which most often is the one planned on."""
        snapshot = head(metadata, self.planned.branch)
        if snapshot is not None and snapshot.snapshot_id == self.planned.snapshot_id:
            return self.planned.files
        return self.reader.load(metadata, snapshot, self.planned.files.named_files)

    def _holding(self, files: LiveFiles) -> list[GroupResult]:
        """The groups that may be committed on a head; why others may not is noted."""
        view = head_of(files, self.results)
        reasons = {result.number: conflict(result, view) for result in self.results}
        self.lost = {number: reason for number, reason in reasons.items() if reason is not None}
        if self.results and len(self.lost) == len(self.results):
            raise CommitConflict(next(iter(self.lost.values())))
        return [result for result in self.results if result.number not in self.lost]

    def _added(
        self, metadata: TableMetadata, added: Entries, numbers: tuple[int, ...]
    ) -> list[ManifestFile]:
        """New manifests of what comes; written once, however often the commit is tried."""
        if numbers not in self._written:
            entries = with_snapshot(added, self.snapshot_id)
            self._written[numbers] = [
                written.manifest
                for content in ManifestContent
                for spec_id, part in by_spec(_of_content(entries, content))
                for written in self._writer(metadata, (spec_id, content)).add(part)
            ]
        return self._written[numbers]

    def _rewritten(
        self, metadata: TableMetadata, files: LiveFiles, removed: Entries
    ) -> list[ManifestFile]:
        """New manifests of those whose entries go, which stay as DELETED ones (R-064)."""
        kinds: dict[_Kind, list[int]] = {}
        for at in sorted(count_by_value(removed, "manifest")):
            manifest = files.manifests[at]
            kinds.setdefault((manifest.partition_spec_id, manifest.content), []).append(at)
        found = []
        for kind, manifests in kinds.items():
            entries = in_manifests(live(files.entries), manifests)
            gone = are_among(entries, removed)
            paths = tuple(files.manifests[at].manifest_path for at in manifests)
            key = (kind, paths, gone.tobytes())
            if key not in self._written:
                marked = with_some_deleted(entries, gone, self.snapshot_id)
                self._written[key] = self._write(metadata, files, kind, marked)
            found += self._written[key]
        return found

    def _write(
        self, metadata: TableMetadata, files: LiveFiles, kind: _Kind, entries: Entries
    ) -> list[ManifestFile]:
        writer = self._writer(metadata, kind)
        counts = count_by_manifest(entries, len(files.manifests))
        of_manifest = {
            at: files.manifests[at].manifest_length / count
            for at, count in enumerate(counts)
            if count
        }
        sizes = per_manifest(entries, of_manifest)
        cut = pieces(one_cluster(entries), sizes, writer.target_size_bytes / PIECES_OF_TARGET)
        return [written.manifest for written in writer.write(files.manifests, entries, cut)]

    def _writer(self, metadata: TableMetadata, kind: _Kind) -> ManifestWriter:
        return ManifestWriter(
            store=self.reader.store,
            env=self.env,
            progress=self.reader.progress,
            concurrency=self.reader.concurrency,
            form=form_for(metadata, *kind),
            target_size_bytes=read(metadata.properties, TARGET_MANIFEST_SIZE_BYTES),
            new_location=self.outputs.manifest,
        )

    @staticmethod
    def _kept(files: LiveFiles, removed: Entries) -> list[ManifestFile]:
        """Manifests that are listed as they are: no entry goes, and some are live (R-056)."""
        touched = set(count_by_value(removed, "manifest"))
        counts = count_by_manifest(live(files.entries), len(files.manifests))
        return [
            item
            for at, (item, count) in enumerate(zip(files.manifests, counts, strict=True))
            if count and at not in touched
        ]


def _of_content(entries: Entries, content: ManifestContent) -> Entries:
    return data_files(entries) if content is ManifestContent.DATA else delete_files(entries)
