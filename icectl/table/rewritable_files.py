"""The live files of a snapshot, as compactions and changes of rows are planned with them: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from icectl.entries.columns import Integers
from icectl.entries.deletes import (
    DeleteIndex,
    Matches,
    NamedFiles,
    NamedPositionDeletes,
    dangling_rows,
    match,
    resolve_names,
)
from icectl.entries.file_verdicts import of_specs
from icectl.entries.rows import Entries, data_files, delete_files, live
from icectl.errors import CorruptTable, Unsupported
from icectl.format.manifest import ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec, result_types

_OTHER_DELETES = (
    "`--where` without these files, or rewrite the deletes with the engine that made them"
)


@dataclass(frozen=True)
class LiveFiles:
    """A snapshot's manifests and live entries, whose `manifest` indexes them.

    `entries` are those of load_entries, to be matched, with LOADED_COLUMNS; `named_files` are
    position delete files that were read, `spelling` the locations of data files that are named in
    another way. Manifests of other specs than `known_spec_ids` cannot be rewritten.
    """

    manifests: tuple[ManifestFile, ...]
    entries: Entries
    known_spec_ids: frozenset[int]
    unpartitioned_spec_ids: frozenset[int]
    named_files: NamedFiles
    spelling: Mapping[str, str]

    @cached_property
    def data(self) -> Entries:
        """Live data files."""
        return data_files(live(self.entries))

    @cached_property
    def deletes(self) -> Entries:
        """Live delete files."""
        return delete_files(live(self.entries))

    @cached_property
    def matches(self) -> Matches:
        """The deletes that apply to data files, with rows of `data` and `deletes`."""
        return match(self.entries, self.unpartitioned_spec_ids)

    @cached_property
    def named(self) -> NamedPositionDeletes:
        """The position delete files that were read, and the data files that they name."""
        return resolve_names(self.matches, self.named_files, self.spelling)

    @cached_property
    def index(self) -> DeleteIndex:
        """The deletes of each data file."""
        return DeleteIndex(self.matches, self.named)

    @cached_property
    def dangling(self) -> Integers:
        """Rows of `deletes` that apply to no live data file, and whose manifests can do without."""
        rows = dangling_rows(self.matches, self.named)
        return rows[of_specs(self.deletes, self.known_spec_ids)[rows]]


def files_of_snapshot(
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    entries: Entries,
    named_files: NamedFiles,
    spelling: Mapping[str, str],
) -> LiveFiles:
    """Return the files of a snapshot, ready to be planned with."""
    specs = metadata.partition_specs
    return LiveFiles(
        tuple(manifests),
        entries,
        known_spec_ids=frozenset(spec.spec_id for spec in specs if _is_known(spec, metadata)),
        unpartitioned_spec_ids=frozenset(spec.spec_id for spec in specs if spec.is_unpartitioned),
        named_files=named_files,
        spelling=spelling,
    )


def _is_known(spec: PartitionSpec, metadata: TableMetadata) -> bool:
    """Return whether all values of a spec have a type: transforms and columns are known (R-007)."""
    return None not in result_types(spec, metadata.schemas)


def check_deletes(files: LiveFiles, rows: Sequence[int]) -> None:
    """Refuse to rewrite data files of which readers disagree on the deleted rows.

    Raises: Unsupported; CorruptTable R-114.
    """
    misspelt = int(files.named.misspelt[list(rows)].sum())
    if misspelt:
        message = (
            f"position deletes of {misspelt:,} rows name their data file in another spelling "
            "than its manifest entry: not all readers apply them"
        )
        raise Unsupported(message, hint=_OTHER_DELETES)
    if (files.matches.vectors.counts[list(rows)] > 1).any():
        message = "a data file has more than one deletion vector"
        raise CorruptTable(message, rule="R-114")
    misplaced = len(set(files.named.misplaced[1].tolist()).intersection(rows))
    if misplaced:
        message = (
            f"position deletes or vectors of {misplaced:,} data files lie in another partition "
            "than these: not all readers apply them (R-211)"
        )
        raise Unsupported(message, hint=_OTHER_DELETES)
