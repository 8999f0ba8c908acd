"""What writes snapshots: one interface, with a writer for each layout, chosen here."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from icectl.commit.outputs import Outputs
from icectl.commit.rewritten_groups import Changes
from icectl.commit.transaction import Proposal
from icectl.format.layout import Layout
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.table.context import TableContext
from icectl.table.manifest_groups import ManifestsWithEntries, RewritePlan
from icectl.table.rewritable_files import LiveFiles

_WRITERS: Mapping[Layout, str] = {
    Layout.MANIFEST_LISTS: "icectl.commit.list_writer",
    Layout.SFC_1: "icectl.sfc1.commit.writer",
}
"""Modules with a function `writer`: loaded where such a snapshot is written."""


@dataclass(frozen=True, slots=True)
class ManifestRewrite:
    """Which manifests of a snapshot are written anew: a plan, and what it was made from."""

    plan: RewritePlan
    listed: ManifestsWithEntries
    snapshot: Snapshot | None


class SnapshotWriter(Protocol):
    """Writes the files of one snapshot of one branch, for each attempt to commit it."""

    @property
    def written(self) -> tuple[ManifestFile, ...]:
        """The new manifests of the newest attempt."""

    def replace_files(
        self,
        metadata: TableMetadata,
        snapshot_id: int,
        files: LiveFiles,
        changes: Changes,
    ) -> Proposal:
        """Write a snapshot in which some files have taken the place of others.

        `files` are those of the branch's head. What an earlier attempt has written is not written
        again where it holds.
        Raises: CommitConflict where the branch or a removed file is gone; StorageError;
        CorruptTable; Unsupported for manifests with fields that would be lost.
        """

    def begin_rewrite(self, metadata: TableMetadata, rewrite: ManifestRewrite) -> None:
        """Write what a rewrite of manifests needs whatever the newest metadata are.

        Raises: Unsupported, StorageError, Incomplete, before anything has changed.
        """

    def rewrite_manifests(
        self, metadata: TableMetadata, snapshot_id: int, rewrite: ManifestRewrite
    ) -> Proposal:
        """Write a snapshot of the same files in new manifests; nothing where none is left to do.

        Where another commit has changed some of the manifests since, only others are replaced.
        Raises: as replace_files.
        """


def writer_of(
    context: TableContext, layout: Layout, branch: str, outputs: Outputs
) -> SnapshotWriter:
    """Return the writer of a new snapshot of a branch."""
    writer: SnapshotWriter = import_module(_WRITERS[layout]).writer(context, branch, outputs)
    return writer
