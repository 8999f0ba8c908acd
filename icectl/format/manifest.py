"""One row of a manifest list, the header of a manifest, and the codes in entries."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Content(IntEnum):
    """The kind of an entry; 0 to 2 in versions 1 to 3, 3 to 5 only in roots (V4-100)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2
    DATA_MANIFEST = 3
    DELETE_MANIFEST = 4
    MANIFEST_DV = 5


class Status(IntEnum):
    """The status of an entry: what the commit that wrote the manifest did with it (R-064)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class ManifestContent(IntEnum):
    """The kind of files that a manifest tracks (manifest list field 517)."""

    DATA = 0
    DELETES = 1


class FileFormat(IntEnum):
    """Format of a content file; names are compared without case, others are UNKNOWN."""

    UNKNOWN = 0
    AVRO = 1
    ORC = 2
    PARQUET = 3
    PUFFIN = 4


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """Range of one partition field over a manifest, bounds as single-value bytes (R-053)."""

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


ManifestIdentity = tuple[str, ManifestContent, bytes]
"""Location, content and dead rows: what tells manifests apart."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One manifest as its manifest list describes it (R-050).

    A count of None is unknown and taken as non-zero (R-051). Sequence numbers and content of a
    version 1 list read as 0 (R-046).

    Fields that its list has and no version knows are told by their ids: a new list would lose them.

    A version 4 root describes its leaves so: `dead` is the bitmap of the `dead_count` positions
    that its delete vector names; `dead_locations` are the files of vectors of it that are not
    inline; `status` is the root's word, and `affiliated_to` the manifest of the data files that a
    manifest of delete vectors is for. `in_root` is true of the root itself, as the manifest of the
    files that it lists directly.
    """

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    content: ManifestContent
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int | None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[FieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None
    file_format: FileFormat = FileFormat.AVRO
    dead: bytes = b""
    dead_count: int = 0
    dead_locations: tuple[str, ...] = ()
    status: Status | None = None
    affiliated_to: str | None = None
    in_root: bool = False
    unknown_field_ids: tuple[int, ...] = ()

    @property
    def live_rows(self) -> int | None:
        """Return the rows that its list counts, which row ids go by (R-102); None if not known."""
        if self.added_rows_count is None or self.existing_rows_count is None:
            return None
        return self.added_rows_count + self.existing_rows_count

    @property
    def live_files(self) -> int | None:
        """Return the files that its list counts as live, without dead ones; None if not known."""
        if self.added_files_count is None or self.existing_files_count is None:
            return None
        return max(0, self.added_files_count + self.existing_files_count - self.dead_count)

    @property
    def identity(self) -> ManifestIdentity:
        """The key that tells it apart: a leaf with other dead rows is another one."""
        return self.manifest_path, self.content, self.dead


@dataclass(frozen=True, slots=True)
class ManifestVector:
    """A manifest delete vector as a version 4 root lists it.

    `fresh_count` of its positions are dead since this snapshot. `location` is None of an inline
    one; `size_bytes` are those of the bitmap, or of the blob.
    """

    manifest_path: str
    status: Status
    position_count: int
    fresh_count: int
    size_bytes: int
    location: str | None = None


@dataclass(frozen=True, slots=True)
class RootManifest:
    """A root, with what it says beside what it lists as manifests and files."""

    location: str
    size_bytes: int
    entry_count: int
    vectors: tuple[ManifestVector, ...]


@dataclass(frozen=True, slots=True)
class ManifestHeader:
    """The statements of a manifest about itself (R-060). Members are None where it says nothing."""

    format_version: int
    content: ManifestContent
    spec_id: int | None
    schema_id: int | None
    partition_fields: tuple[Mapping[str, Any], ...] | None
    schema: Mapping[str, Any] | None
    metadata: Mapping[str, str]
    codec: str
    partition_record: tuple[tuple[int | None, str], ...]
    """Field id and Avro type of each field that the partitions are stored with (R-068)."""
    unknown_field_ids: tuple[int, ...]
    """Ids of stored fields that no version up to 3 has: a rewrite would lose them."""
    has_lengths_of_fixed: bool
    """Whether fixed partition values have lengths that the Avro schema does not tell (R-212)."""
    file_format: FileFormat = FileFormat.AVRO
    """Parquet too, in version 4 as Iceberg 1.12 writes it."""


def kind_of(content: int, file_format: int) -> str:
    """Name the kind of a file, in words: content 1 is a vector where the file is Puffin (R-118)."""
    if content == Content.DATA:
        return "data"
    if content == Content.EQUALITY_DELETES:
        return "equality-deletes"
    return "deletion-vector" if file_format == FileFormat.PUFFIN else "position-deletes"
