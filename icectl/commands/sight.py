"""Read a table's parts to judge what it needs: each part once, and only on request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from icectl.catalog.metadata_files import is_metadata_file_name
from icectl.cli.settings import Settings
from icectl.commands.bill import GETS_OF_RUN, PUTS_OF_RUN, PUTS_OF_SEARCH, READS_OF_METADATA, Work
from icectl.entries import deletes, rows
from icectl.entries.may_match import METRICS
from icectl.entries.rows import Entries
from icectl.entries.summary import Totals, summarise
from icectl.errors import CorruptTable, IcectlError
from icectl.format.manifest import FileFormat, ManifestFile, ManifestHeader
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.storage import location as locations
from icectl.storage.store import FileStatus
from icectl.table.context import TableContext
from icectl.table.guard import check_head_list, check_live, require_safe_base
from icectl.table.live_files import LiveFiles, check_unused_deletes, files_of_snapshot, with_names
from icectl.table.manifest_groups import ManifestsWithEntries
from icectl.table.manifests import ManifestsRead
from icectl.table.own_places import BEGINNING_BYTES
from icectl.table.reader import Reader

JUDGED_COLUMNS = frozenset({
    "content", "status", "location", "file_format", "spec_id", "partition_key",
    "record_count", "file_size_in_bytes", "sequence_number", "referenced_data_file",
    "content_offset", "content_size_in_bytes", "split_offsets", "first_row_id",
})  # fmt: skip
"""Columns that all plans together decide by."""

_MOST_NAMED_FILES = 2_000
"""Position delete files of whole partitions that are read; with more their entries must do."""


@dataclass(frozen=True)
class Sight:
    """A table as it is judged, at one snapshot.

    `is_exact` where manifests of older snapshots are read for what expiring frees, and data files
    for expired rows; else summaries and bounds must do. `other` connects to another table.
    """

    reader: Reader
    settings: Settings
    snapshot: Snapshot | None
    is_exact: bool = True
    other: Callable[[str], TableContext] | None = None
    _headers: dict[int, ManifestHeader] = field(default_factory=dict)

    @property
    def metadata(self) -> TableMetadata:
        return self.reader.metadata

    @cached_property
    def now_ms(self) -> int:
        return self.reader.context.env.now_ms()

    @cached_property
    def listed(self) -> Sequence[FileStatus]:
        """The files in the folder of the metadata file that was read."""
        return self.reader.context.store.list_directory(self.reader.loaded.metadata_folder)

    @cached_property
    def manifests(self) -> tuple[ManifestFile, ...]:
        return self.reader.manifests(self.snapshot)

    @cached_property
    def entries(self) -> Entries:
        """The entries of the manifests, to be matched, as far as they can be read.

        With bounds, if the table has an order.
        """
        columns = JUDGED_COLUMNS | (METRICS if self.metadata.default_sort_order_id else frozenset())
        return self.reader.load(self.manifests, columns, to_match=True, heed=self._keep)

    def _keep(self, part: ManifestsRead) -> None:
        self._headers.update(enumerate(part.headers, part.first))

    @property
    def headers(self) -> Mapping[int, ManifestHeader]:
        """The headers of the manifests, by their places; meaningless where part is not read."""
        _ = self.entries
        return self._headers

    @cached_property
    def files(self) -> LiveFiles:
        """The live files; position deletes of whole partitions are read unless they are many."""
        context = self.reader.context
        files = files_of_snapshot(self.metadata, self.manifests, self.entries)
        if 0 < len(files.matches.position_deletes[0].order) <= _MOST_NAMED_FILES and self.is_whole:
            from icectl.rows.named_files import read_names  # few tables have such deletes

            return with_names(context, self.metadata, files, partial(read_names, context))
        return files

    @cached_property
    def files_with_bounds(self) -> LiveFiles:
        """The live files with their bounds; manifests are read again if the table has no order."""
        if set(self.entries.table.column_names) >= METRICS:
            return self.files
        return self.files_with(METRICS)

    def files_with(self, columns: frozenset[str]) -> LiveFiles:
        """Return the live files with other columns, too, for which manifests are read again."""
        columns |= JUDGED_COLUMNS
        return replace(self.files, entries=self.reader.load(self.manifests, columns, to_match=True))

    @cached_property
    def dangling_count(self) -> int:
        """The number of delete files that apply to nothing."""
        return len(self.files.dangling)

    @cached_property
    def totals(self) -> Totals:
        return summarise(rows.live(self.entries))

    @cached_property
    def deleted_row_count(self) -> int:
        """The rows that vectors and position deletes remove; those that apply to nothing do not."""
        matches = self.files.matches
        applies = rows.without(matches.deletes, deletes.dangling_rows(matches, self.files.named))
        kinds = (rows.position_delete_files(applies), rows.deletion_vectors(applies))
        return sum(rows.total(part, "record_count") for part in kinds)

    @cached_property
    def listed_manifests(self) -> ManifestsWithEntries:
        """The manifests with their entries, as a rewrite of manifests is planned."""
        headers = self.headers
        return ManifestsWithEntries(
            self.manifests,
            self.entries,
            frozenset(at for at, header in headers.items() if header.has_lengths_of_fixed),
            frozenset(
                at for at, header in headers.items() if header.file_format is FileFormat.PARQUET
            ),
        )

    @property
    def is_whole(self) -> bool:
        """Whether all of the snapshot and the metadata could be read."""
        _ = self.entries
        gaps = self.reader.gaps
        has_gaps = gaps is not None and bool(gaps.problems or gaps.odd)
        return not has_gaps and not any(oddity.lost for oddity in self.metadata.oddities)

    @cached_property
    def damage(self) -> IcectlError | None:
        """What keeps every command from the table's current files; None where they are sound."""
        if not self.is_whole:
            gaps = self.reader.gaps
            problems = [] if gaps is None else [*gaps.problems.values(), *gaps.odd.values()]
            if problems:
                return problems[0]
            lost = next(oddity for oddity in self.metadata.oddities if oddity.lost)
            return CorruptTable(lost.message, rule=lost.rule)
        return None

    @cached_property
    def run_work(self) -> Work:
        """What any run that changes the table reads and writes: metadata, manifests, a commit."""
        size, lengths = self._size_of(self.reader.loaded.metadata_location), self._lengths
        return Work(
            other_bytes=READS_OF_METADATA * size + self._list_bytes(self.snapshot) + sum(lengths),
            written_bytes=size + self._list_bytes(self.snapshot),
            get_requests=GETS_OF_RUN + len(lengths),
            put_requests=PUTS_OF_RUN,
        )

    @property
    def history_work(self) -> Work:
        """What it takes to read older snapshots too, and to look for other tables.

        A snapshot whose manifests the current one has not got is taken to have one of its own.
        """
        kept = {item.added_snapshot_id for item in self.manifests}
        older = [item for item in self.metadata.snapshots if item != self.snapshot]
        own = sum(item.snapshot_id not in kept for item in older)
        lengths = self._lengths
        named = ((locations.name(file.location), file.size_bytes) for file in self.listed)
        sizes = [min(size, BEGINNING_BYTES) for name, size in named if is_metadata_file_name(name)]
        return Work(
            other_bytes=sum(map(self._list_bytes, older))
            + own * sum(lengths) // max(len(lengths), 1)
            + sum(sizes),
            get_requests=len(older) + own + len(sizes),
            put_requests=PUTS_OF_SEARCH,
        )

    @property
    def _lengths(self) -> Sequence[int]:
        return [item.manifest_length for item in self.manifests if not item.in_root]

    def _list_bytes(self, snapshot: Snapshot | None) -> int:
        return self._size_of((snapshot and snapshot.manifest_list) or "")

    def _size_of(self, location: str) -> int:
        return self._listed_sizes.get(locations.loosest_key(location), 0)

    @cached_property
    def _listed_sizes(self) -> Mapping[str, int]:
        return {locations.loosest_key(file.location): file.size_bytes for file in self.listed}

    def check_base(self) -> None:
        """Check that a commit may build on the snapshot, as commands that change the table do.

        Raises: Refused; CorruptTable; Unsupported.
        """
        if self.damage is not None:
            raise self.damage
        self.reader.context.catalog.check_writable(self.reader.loaded)
        require_safe_base(self.metadata)

    def check_files(self) -> None:
        """Check that the live entries agree with each other. Raises: CorruptTable."""
        if self.snapshot is not None:
            context = self.reader.context
            check_live(self.metadata, self.snapshot, self.manifests, self.entries)
            check_head_list(context, self.metadata, self.snapshot, self.manifests)

    def check_deletes(self) -> None:
        """Check that deletes which apply to nothing are left over. Raises: CorruptTable."""
        if self.snapshot is not None and self.dangling_count:
            from icectl.rows.named_files import read_names  # few tables have such deletes

            context, files = self.reader.context, self.files
            names = partial(read_names, context)
            check_unused_deletes(context, self.metadata, self.snapshot, files, names)
