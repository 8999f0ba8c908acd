"""Writing entries into new manifests, which are compared before they are stored."""

import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from icectl.checks.deletes import has_equality_ids
from icectl.checks.rules import ALL_RULES
from icectl.entries.columns import LOCATION_HASH, Integers, with_location_hashes
from icectl.entries.inherit import inherit
from icectl.entries.locations import with_whole_locations
from icectl.entries.partition_key import by_piece, pieces_of
from icectl.entries.rows import (
    Entries,
    RawEntries,
    count_by_manifest,
    data_files,
    delete_files,
    differing_column,
    numbers,
    of_status,
    part,
)
from icectl.entries.summary import describe_manifest
from icectl.errors import CorruptTable, SelfCheckFailed, Unsupported
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.move import Moved, PieceWriter, in_file_format, move_entries
from icectl.files.manifest.write import ManifestForm, encode_entries
from icectl.format.manifest import Content, FileFormat, ManifestContent, ManifestFile, Status
from icectl.format.metadata import TableMetadata
from icectl.storage.new_files import create_own
from icectl.table.context import TableContext
from icectl.table.manifest_groups import fill
from icectl.table.reading import in_threads, read_file

COMPARED = (
    "location", "content", "status", "partition_key", "record_count", "snapshot_id",
    "sequence_number", "file_sequence_number", "first_row_id", "content_offset",
    "content_size_in_bytes",
)  # fmt: skip
"""Columns of an entry that must be the same in a new manifest (R-069)."""

_KEYED = ("status", "content", "location", "equality_ids")
"""Columns that tell which equality deletes are live, and what they compare."""

_COMPARED_OF_ADDED = tuple(name for name in COMPARED if name != "file_sequence_number")
"""An added entry inherits its file sequence number from the commit (R-041)."""

_ROWS_OF_PIECE = 500
_KEY = ("status", "manifest_pos")

CODEC = "deflate"


def manifest_format(metadata: TableMetadata) -> FileFormat:
    """Return the file format of manifests that new lists name: Parquet from version 4 on."""
    return FileFormat.PARQUET if metadata.format_version >= 4 else FileFormat.AVRO


def form_for(
    metadata: TableMetadata,
    spec_id: int,
    content: ManifestContent,
    file_format: FileFormat | None = None,
) -> ManifestForm:
    """Return the form of a table's manifests of a spec: as new ones are, or in the given format.

    Avro manifests of version 4 have the form of version 3. They name the current schema, or the
    newest that has all of the spec's columns.
    Raises: CorruptTable R-052.
    """
    form = file_format or manifest_format(metadata)
    newest = metadata.format_version if form is FileFormat.PARQUET else 3
    location = metadata.location if metadata.format_version >= 4 else ""
    rest = min(metadata.format_version, newest), content, form, location
    spec = metadata.spec(spec_id)
    if spec is None:
        raise CorruptTable(f"the table has no partition spec {spec_id}", rule="R-052")
    sources = {id_ for item in spec.fields for id_ in item.source_ids}
    for schema in (metadata.current_schema, *reversed(metadata.schemas)):
        if all(schema.field(id_) is not None for id_ in sources):
            return ManifestForm(schema, spec, *rest)
    return ManifestForm(metadata.current_schema, spec, *rest)


def check_content(
    sources: Sequence[ManifestFile], entries: Entries, content: ManifestContent
) -> None:
    """Check that entries of some manifests are all of one content.

    Others have another meaning in a new manifest: readers look there for deletes, or for data.
    Raises: CorruptTable R-061.
    """
    others = (delete_files if content is ManifestContent.DATA else data_files)(entries)
    if len(others):
        path = sources[int(numbers(others, "manifest")[0])].manifest_path
        message = f"`{path}`: data and delete files in one manifest"
        raise CorruptTable(message, rule="R-061", location=path)


def _check_keys(entries: RawEntries) -> None:
    """Check that live equality deletes name columns to compare.

    Without, readers skip them or stop: they are position deletes by another name, or damaged.
    Raises: CorruptTable R-123.
    """
    is_live = numbers(entries, "status") != Status.DELETED
    is_equality = numbers(entries, "content") == Content.EQUALITY_DELETES
    lacking = np.flatnonzero(is_live & is_equality & ~has_equality_ids(entries))
    if len(lacking):
        path = entries.table["location"][int(lacking[0])].as_py()
        message = f"`{path}`: an equality delete file without columns to compare"
        raise CorruptTable(message, rule="R-123", hint=ALL_RULES["R-123"].fix)


@dataclass(frozen=True, slots=True)
class WrittenManifest:
    """A new manifest and its entries, in its order."""

    manifest: ManifestFile
    entries: Entries


_New = tuple[str, bytes, Entries]
"""The location and content of a new manifest, and the entries that it must have."""


@dataclass(slots=True)
class EncodedEntries:
    """Entries of manifests in one form, encoded once for all attempts, in `most_bytes` at most."""

    most_bytes: int = 0
    _by_key: dict[object, list[Moved]] = field(default_factory=dict)
    _size_bytes: int = 0

    def of(self, key: object) -> list[Moved] | None:
        return self._by_key.get(key)

    def keep(self, key: object, moved: list[Moved]) -> None:
        size = sum(len(encoded) for _, encoded, _ in moved)
        if self._size_bytes + size <= self.most_bytes:
            self._size_bytes += size
            self._by_key[key] = moved


@dataclass(frozen=True, slots=True)
class ManifestWriter:
    """Writes manifests of one form, each to a `new_location`.

    Entries in `encoded` are not read from their manifests again.
    """

    context: TableContext
    form: ManifestForm
    target_size_bytes: int
    new_location: Callable[[FileFormat], str]
    encoded: EncodedEntries = field(default_factory=EncodedEntries)

    def write(
        self, sources: Sequence[ManifestFile], entries: Entries, pieces: Integers
    ) -> Generator[WrittenManifest, None, None]:
        """Write entries of some manifests into new ones, piece after piece.

        `entries` index `sources` and have their new status; `pieces` numbers the piece of each.
        Each manifest is read again and compared with the entries before it is stored.
        Order: that of the pieces.
        Raises: Unsupported for stored fields that would be lost; CorruptTable; StorageError;
        SelfCheckFailed R-069, for a difference.
        Cost: every source once; memory for the entries, not for their metrics.
        """
        check_content(sources, entries, self.form.content)
        with tempfile.TemporaryFile() as spool:
            marker = bytes.fromhex(self.context.env.new_uuid().replace("-", ""))
            writer = PieceWriter(self.form, spool, codec=CODEC, sync_marker=marker)
            with closing(self._moved(sources, entries, pieces)) as moved:
                for piece, encoded, row_ends in moved:
                    writer.add(piece, encoded, row_ends)
            yield from self._stored(writer, entries, pieces, COMPARED)

    def add(
        self, entries: Entries, compared: Sequence[str] = ()
    ) -> Generator[WrittenManifest, None, None]:
        """Write entries, which have every column and a snapshot id, into new manifests.

        `compared` names further columns to compare. Order: that of the entries.
        Raises: CorruptTable; StorageError; SelfCheckFailed R-069.
        """
        with tempfile.TemporaryFile() as spool:
            marker = bytes.fromhex(self.context.env.new_uuid().replace("-", ""))
            writer = PieceWriter(self.form, spool, codec=CODEC, sync_marker=marker)
            cut = pieces_of(entries, _ROWS_OF_PIECE)
            for piece, start in enumerate(range(0, len(entries), _ROWS_OF_PIECE)):
                part_of_piece = part(entries, start, min(start + _ROWS_OF_PIECE, len(entries)))
                for encoded, row_ends in encode_entries(part_of_piece, self.form):
                    writer.add(piece, memoryview(encoded), row_ends)
            columns = _COMPARED_OF_ADDED if len(of_status(entries, Status.ADDED)) else COMPARED
            yield from self._stored(writer, entries, cut, (*columns, *compared))

    def _moved(
        self, sources: Sequence[ManifestFile], entries: Entries, pieces: Integers
    ) -> Generator[Moved, None, None]:
        """Yield encoded entries, source after source; threads read and threads encode."""
        ends = [0]
        for count in count_by_manifest(entries, len(sources)):
            ends.append(ends[-1] + count)
        used = [at for at in range(len(sources)) if ends[at + 1] > ends[at]]
        parts_of_source = {
            at: (part(entries, ends[at], ends[at + 1]), pieces[ends[at] : ends[at + 1]])
            for at in used
        }
        # Keys are all that encoded entries depend on.
        keys = {
            at: (sources[at], *(numbers(rows, name).tobytes() for name in _KEY), cut.tobytes())
            for at, (rows, cut) in parts_of_source.items()
        }
        unread = [at for at in used if self.encoded.of(keys[at]) is None]
        self.context.progress.phase("rewriting manifests", total=len(unread))
        sizes = [sources[at].manifest_length for at in unread]

        def read(at: int) -> tuple[int, bytes]:
            return at, read_file(self.context.store, sources[at].manifest_path)

        def move(stored: tuple[int, bytes]) -> list[Moved]:
            at, content = stored
            try:
                return list(move_entries(content, *parts_of_source[at], self.form))
            except Unsupported as error:
                message = f"`{sources[at].manifest_path}`: {error.message}"
                raise Unsupported(message, hint=error.hint) from error
            finally:
                self.context.progress.advance(1)

        stored = in_threads(read, unread, sizes, threads=self.context.concurrency)
        with (
            closing(stored),
            closing(in_threads(move, stored, sizes, threads=self._processors)) as newly_moved,
        ):
            for at in used:
                moved = self.encoded.of(keys[at])
                if moved is None:
                    moved = next(newly_moved)
                    self.encoded.keep(keys[at], moved)
                yield from moved

    @property
    def _processors(self) -> int:
        return min(os.cpu_count() or 1, self.context.concurrency)

    def _stored(
        self, writer: PieceWriter, entries: Entries, pieces: Integers, columns: Sequence[str]
    ) -> Generator[WrittenManifest, None, None]:
        """Yield the manifests of the pieces; threads compare and threads store."""
        held_by = by_piece(entries, pieces)
        piece_sizes = list(writer.sizes().values())
        chosen = fill(piece_sizes, self.target_size_bytes)
        sizes = [sum(piece_sizes[numbers.start : numbers.stop]) for numbers in chosen]

        def encoded() -> Iterator[_New]:
            for cut in chosen:
                content = in_file_format(writer.manifest(cut), self.form)
                yield self.new_location(self.form.file_format), content, held_by(cut)

        def compare(new: _New) -> tuple[_New, ManifestFile]:
            return new, self._compared(new, columns)

        def store(compared_manifest: tuple[_New, ManifestFile]) -> WrittenManifest:
            (location, content, rows), manifest = compared_manifest
            create_own(self.context.store, self.context.env, location, content)
            return WrittenManifest(manifest, rows)

        compared = in_threads(compare, encoded(), sizes, threads=self._processors)
        with closing(compared):
            yield from in_threads(store, compared, sizes, threads=self.context.concurrency)

    def _compared(self, new: _New, columns: Sequence[str]) -> ManifestFile:
        """Compare a manifest with its entries in some columns, and return its row in the list.

        Locations are compared by their hashes if the entries have only these.
        """
        location, content, expected = new
        types, spec = self.form.types, self.form.spec
        manifest = describe_manifest(
            expected, types, location=location, length=len(content), spec_id=spec.spec_id
        )
        holds_deletes = self.form.content is ManifestContent.DELETES
        read = frozenset((*columns, *_KEYED) if holds_deletes else columns)
        try:
            _, stored = read_manifest(content, columns=read, manifest=0, spec=spec)
        except CorruptTable as error:
            raise SelfCheckFailed(f"a new manifest can't be read: {error.message}") from error
        if holds_deletes:
            _check_keys(stored)
        if self.form.table_location:  # its locations may be relative
            stored = RawEntries(with_whole_locations(self.form.table_location, "", stored.table))
        entries = inherit(stored, [manifest])
        if self.form.format_version == 1:  # it stores none
            columns = [name for name in columns if not name.endswith("sequence_number")]
        if LOCATION_HASH in expected.table.column_names:
            entries = Entries(with_location_hashes(entries.table))
            columns = [LOCATION_HASH if name == "location" else name for name in columns]
        differs = differing_column(entries, expected, columns)
        if differs is not None or len(stored) != len(expected):
            column = "location" if differs == LOCATION_HASH else differs
            raise SelfCheckFailed(
                f"a new manifest does not match its entries in {column}", rule="R-069"
            )
        return manifest
