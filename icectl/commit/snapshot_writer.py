"""Writing snapshots: one interface, with a writer for each layout.

The writer here is that of versions 1 to 3. It rewrites manifests whose entries change, writes new
manifests for new entries, keeps all others, and writes the manifest list.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Protocol

from icectl.commit.manifests import EncodedEntries, ManifestWriter, form_for
from icectl.commit.rewritten_groups import Changes
from icectl.commit.snapshot import NewSnapshot, carried_totals, head, propose_snapshot
from icectl.commit.transaction import Outputs, Proposal
from icectl.entries.inherit import inherit
from icectl.entries.partition_key import one_cluster, per_manifest, pieces
from icectl.entries.rows import (
    Entries,
    RawEntries,
    are_among,
    as_existing,
    by_row,
    by_spec,
    concat,
    count_by_manifest,
    count_by_value,
    data_files,
    delete_files,
    in_manifests,
    in_order,
    live,
    with_snapshot,
    with_some_deleted,
)
from icectl.files.manifest.write import ManifestForm
from icectl.format.layout import Layout
from icectl.format.manifest import FileFormat, ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.properties import TARGET_MANIFEST_SIZE_BYTES, read
from icectl.format.snapshot import Snapshot
from icectl.table.context import TableContext
from icectl.table.live_files import LiveFiles
from icectl.table.manifest_groups import (
    PIECES_OF_TARGET,
    ManifestGroup,
    ManifestsWithEntries,
    RewritePlan,
    group_pieces,
    live_in,
)
from icectl.table.manifest_lists import read_snapshot_manifests

_OTHER_WRITERS: Mapping[Layout, str] = {Layout.SFC_1: "icectl.sfc1.commit.writer"}
"""Modules with a function `writer`, by layout: loaded only for tables that need them."""


@dataclass(frozen=True, slots=True)
class ManifestRewrite:
    """A plan to rewrite manifests of a snapshot, and the snapshot's manifests with entries."""

    plan: RewritePlan
    listed: ManifestsWithEntries
    snapshot: Snapshot | None


class SnapshotWriter(Protocol):
    """Writes the files of one snapshot of one branch, for each attempt to commit it."""

    @property
    def written(self) -> tuple[ManifestFile, ...]:
        """The new manifests of the newest attempt."""

    def replace_files(
        self, metadata: TableMetadata, snapshot_id: int, files: LiveFiles, changes: Changes
    ) -> Proposal:
        """Write a snapshot in which some files replace others.

        `files` are those of the branch's head. Manifests of earlier attempts that are still valid
        are not written again.
        Raises: CommitConflict, if the branch or a removed file is gone; StorageError;
        CorruptTable; Unsupported for manifests with fields that would be lost.
        """

    def begin_rewrite(self, metadata: TableMetadata, rewrite: ManifestRewrite) -> None:
        """Write the files of a rewrite of manifests that any attempt needs.

        Raises: Unsupported, StorageError, Incomplete, before anything has changed.
        """

    def rewrite_manifests(
        self, metadata: TableMetadata, snapshot_id: int, rewrite: ManifestRewrite
    ) -> Proposal:
        """Write a snapshot of the same files in new manifests; none if nothing is left to do.

        Only manifests that no other commit has changed since are replaced.
        Raises: as replace_files.
        """


def writer_of(
    context: TableContext, layout: Layout, branch: str, outputs: Outputs
) -> SnapshotWriter:
    """Return the writer of a new snapshot of a branch."""
    if layout in _OTHER_WRITERS:
        module = import_module(_OTHER_WRITERS[layout])
        writer: SnapshotWriter = module.writer(context, branch, outputs)
        return writer
    return ListWriter(context, branch, outputs)


_Kind = tuple[int, ManifestContent]
"""Spec and content: entries of different ones never share a manifest (R-061)."""

_MOST_ENCODED_BYTES = 32 << 20
"""Encoded entries of each kind that an attempt keeps for the next one."""


@dataclass(frozen=True, slots=True)
class _Regrouped:
    """A new manifest, its entries, and the manifests that they come from."""

    group: ManifestGroup
    manifest: ManifestFile
    sources: frozenset[str]
    entries: Entries


@dataclass(slots=True)
class ListWriter:
    """Writes the manifests and manifest lists of one snapshot; `outputs` names them."""

    context: TableContext
    branch: str
    outputs: Outputs
    _by_key: dict[tuple[object, ...], list[ManifestFile]] = field(default_factory=dict)
    _encoded: dict[_Kind, tuple[ManifestForm, EncodedEntries]] = field(default_factory=dict)
    _regrouped: list[_Regrouped] = field(default_factory=list)

    @property
    def written(self) -> tuple[ManifestFile, ...]:
        return tuple(output.manifest for output in self._regrouped)

    # -- replacing files --------------------------------------------------------------------------

    def replace_files(
        self, metadata: TableMetadata, snapshot_id: int, files: LiveFiles, changes: Changes
    ) -> Proposal:
        """Write manifests of added entries, and rewrite manifests of removed ones."""
        written = [
            *self._added(metadata, snapshot_id, changes.added),
            *self._rewritten(metadata, snapshot_id, files, changes.removed),
        ]
        touched = set(count_by_value(changes.removed, "manifest"))
        counts = count_by_manifest(live(files.entries), len(files.manifests))
        kept = [  # without removed entries, and with live ones
            item
            for at, (item, count) in enumerate(zip(files.manifests, counts, strict=True))
            if count and at not in touched
        ]
        kept += files.unread
        current = head(metadata, self.branch)
        summary = {
            **changes.summary(None if current is None else current.summary),
            **_counts(written, kept, files.listed),
        }
        return self._listed(metadata, snapshot_id, written, kept, summary, changes.operation)

    def _added(
        self, metadata: TableMetadata, snapshot_id: int, added: Entries
    ) -> list[ManifestFile]:
        """Write manifests of added entries, once for all attempts."""
        manifests = []
        entries = with_snapshot(added, snapshot_id)
        for content in ManifestContent:
            of_content = data_files if content is ManifestContent.DATA else delete_files
            for spec_id, spec_entries in by_spec(of_content(entries)):
                kind = (spec_id, content)
                key = (kind, snapshot_id, *by_row(spec_entries, "location", "content_offset"))
                if key not in self._by_key:
                    new_manifests = self._writer(metadata, kind).add(spec_entries)
                    self._by_key[key] = [output.manifest for output in new_manifests]
                manifests += self._by_key[key]
        return manifests

    def _rewritten(
        self, metadata: TableMetadata, snapshot_id: int, files: LiveFiles, removed: Entries
    ) -> list[ManifestFile]:
        """Rewrite manifests with removed entries, which stay as DELETED ones (R-064)."""
        kinds: dict[_Kind, list[int]] = {}
        for at in sorted(count_by_value(removed, "manifest")):
            manifest = files.manifests[at]
            kinds.setdefault((manifest.partition_spec_id, manifest.content), []).append(at)
        rewritten = []
        for kind, manifests in kinds.items():
            entries = in_manifests(live(files.entries), manifests)
            to_remove = are_among(entries, removed)
            paths = tuple(files.manifests[at].manifest_path for at in manifests)
            key = (kind, snapshot_id, paths, to_remove.tobytes())
            if key not in self._by_key:
                marked = with_some_deleted(entries, to_remove, snapshot_id)
                self._by_key[key] = self._write_marked(metadata, files, kind, marked)
            rewritten += self._by_key[key]
        return rewritten

    def _write_marked(
        self, metadata: TableMetadata, files: LiveFiles, kind: _Kind, entries: Entries
    ) -> list[ManifestFile]:
        """Write entries of one kind, and keep none of them in memory but the encoded ones."""
        writer = self._writer(metadata, kind)
        form, encoded = self._encoded.get(kind, (None, None))
        if form != writer.form or encoded is None:
            encoded = EncodedEntries(_MOST_ENCODED_BYTES)
            self._encoded[kind] = writer.form, encoded
        writer = replace(writer, encoded=encoded)
        counts = enumerate(count_by_manifest(entries, len(files.manifests)))
        lengths = {at: files.manifests[at].manifest_length / count for at, count in counts if count}
        sizes = per_manifest(entries, lengths)
        cut = pieces(one_cluster(entries), sizes, writer.target_size_bytes / PIECES_OF_TARGET)
        return [written.manifest for written in writer.write(files.manifests, entries, cut)]

    # -- rewriting manifests ----------------------------------------------------------------------

    def begin_rewrite(self, metadata: TableMetadata, rewrite: ManifestRewrite) -> None:
        """Write the new manifests, valid while the replaced ones are listed."""
        for group in rewrite.plan.chosen:
            entries = live_in(rewrite.listed, group.rewritten)
            self._regrouped += self._regroup(metadata, rewrite, group, entries)
            self.context.deadline.check()

    def rewrite_manifests(
        self, metadata: TableMetadata, snapshot_id: int, rewrite: ManifestRewrite
    ) -> Proposal:
        """List the new manifests; those with changed sources are written again first."""
        current = head(metadata, self.branch)
        listed = rewrite.listed.manifests
        if current is not None and current != rewrite.snapshot:
            listed = read_snapshot_manifests(self.context.store, metadata, current)
            self._renew(metadata, rewrite, {item.manifest_path: item for item in listed})
        replaced = set().union(*(output.sources for output in self._regrouped))
        counts = rewrite.listed.live_counts
        replaced |= {  # those without a live entry, which nothing replaces
            rewrite.listed.manifests[at].manifest_path
            for group in rewrite.plan.chosen
            for at in group.rewritten
            if not counts[at]
        }
        kept = [item for item in listed if item.manifest_path not in replaced]
        if len(kept) == len(listed):
            return Proposal(())
        processed = sum(len(output.entries) for output in self._regrouped)
        return self._listed(
            metadata,
            snapshot_id,
            self.written,
            kept,
            {
                **_counts(self.written, kept, listed),
                "entries-processed": str(processed),
                **carried_totals(None if current is None else current.summary),
            },
        )

    def _regroup(
        self,
        metadata: TableMetadata,
        rewrite: ManifestRewrite,
        group: ManifestGroup,
        entries: Entries,
    ) -> list[_Regrouped]:
        if not len(entries):
            return []
        options, manifests = rewrite.plan.options, rewrite.listed.manifests
        assert group.spec_id is not None  # only leaves of sfc-1 are of any spec
        kind = (group.spec_id, group.content)
        form = rewrite.listed.file_format(group.rewritten, options.file_format)
        writer = self._writer(metadata, kind, options.target_size_bytes, form)
        cut = group_pieces(metadata, group, rewrite.listed, entries, options)
        outputs = []
        with closing(writer.write(manifests, as_existing(entries), cut)) as stored:
            for written in stored:
                places = count_by_value(written.entries, "manifest")
                sources = frozenset(manifests[at].manifest_path for at in places)
                outputs.append(_Regrouped(group, written.manifest, sources, written.entries))
        return outputs

    def _renew(
        self, metadata: TableMetadata, rewrite: ManifestRewrite, present: Mapping[str, ManifestFile]
    ) -> None:
        """Write new manifests again whose sources are not all listed as they were.

        Entries of sources that are gone are dropped: their replacements are listed, and kept. Those
        of sources that have got row ids since keep these (R-102).
        """
        sources = [present.get(item.manifest_path) for item in rewrite.listed.manifests]
        pairs = list(zip(rewrite.listed.manifests, sources, strict=True))
        same = {
            old.manifest_path
            for old, now in pairs
            if now is not None and now.first_row_id == old.first_row_id
        }
        stale = [output for output in self._regrouped if not output.sources <= same]
        self._regrouped = [output for output in self._regrouped if output.sources <= same]
        indices = [at for at, now in enumerate(sources) if now is not None]
        manifests = [now or old for old, now in pairs]
        for group in dict.fromkeys(output.group for output in stale):
            parts = [output.entries for output in stale if output.group == group]
            entries = in_order(in_manifests(concat(parts), indices))
            entries = inherit(RawEntries(entries.table), manifests)
            self._regrouped += self._regroup(metadata, rewrite, group, entries)

    # -- common -----------------------------------------------------------------------------------

    def _listed(
        self,
        metadata: TableMetadata,
        snapshot_id: int,
        written: Sequence[ManifestFile],
        kept: Sequence[ManifestFile],
        summary: Mapping[str, str],
        operation: str = "replace",
    ) -> Proposal:
        location = self.outputs.manifest_list(snapshot_id)
        new_manifests = frozenset(item.manifest_path for item in written)
        new = NewSnapshot(
            snapshot_id, self.branch, operation, (*written, *kept), new_manifests, summary
        )
        return propose_snapshot(self.context, metadata, new, location)

    def _writer(
        self,
        metadata: TableMetadata,
        kind: _Kind,
        target_size_bytes: int | None = None,
        file_format: FileFormat | None = None,
    ) -> ManifestWriter:
        if target_size_bytes is None:
            target_size_bytes = read(metadata.properties, TARGET_MANIFEST_SIZE_BYTES)
        return ManifestWriter(
            context=self.context,
            form=form_for(metadata, *kind, file_format),
            target_size_bytes=target_size_bytes,
            new_location=self.outputs.manifest,
        )


def _counts(
    written: Sequence[ManifestFile], kept: Sequence[ManifestFile], before: Sequence[ManifestFile]
) -> Mapping[str, str]:
    return {
        "manifests-created": str(len(written)),
        "manifests-kept": str(len(kept)),
        "manifests-replaced": str(len(before) - len(kept)),
    }
