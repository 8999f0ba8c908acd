"""Version 4 manifests, roots and leaves: Parquet files of content entries (V4-040 to V4-047).

Columns are found by field id alone. Files of the upstream draft have other ids under the same
names and are refused, never read as if they were this layout.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from icectl.errors import CorruptTable, Unsupported
from icectl.files.manifest.parquet_columns import (
    Field,
    Group,
    ManifestColumns,
    ParquetColumns,
    Shape,
    Struct,
    check_columns,
    read_rows,
    write_rows,
)
from icectl.files.parquet.schema import child_fields, field_id
from icectl.format.layout import LAYOUT_KEY, Layout
from icectl.format.manifest import Content, Status
from icectl.sfc1.content_stats import STATS_ID, group_id

COUNTS = (
    "added_files_count", "existing_files_count", "deleted_files_count",
    "added_rows_count", "existing_rows_count", "deleted_rows_count", "min_sequence_number",
)  # fmt: skip
"""Members of `manifest_stats`, null together on everything but manifests (V4-058)."""

_REQUIRED = ("content", "file_format", "status", "spec_id", "record_count")
_TYPES = {
    "content": pa.int8(), "location": pa.string(), "file_format": pa.int8(), "status": pa.int8(),
    "snapshot_id": pa.int64(), "sequence_number": pa.int64(), "file_sequence_number": pa.int64(),
    "first_row_id": pa.int64(), "content_offset": pa.int64(), "content_size_in_bytes": pa.int64(),
    "inline_content": pa.binary(), "spec_id": pa.int32(), "sort_order_id": pa.int32(),
    "record_count": pa.int64(), "file_size_in_bytes": pa.int64(),
    **{name: pa.int32() if name.endswith("files_count") else pa.int64() for name in COUNTS},
    "referenced_file": pa.string(), "key_metadata": pa.binary(),
    "split_offsets": pa.list_(pa.int64()), "equality_ids": pa.list_(pa.int32()),
}  # fmt: skip
TREE_ROWS = pa.schema(
    pa.field(name, kind, nullable=name not in _REQUIRED) for name, kind in _TYPES.items()
)
"""Every column but `content_stats`, whose members depend on the table's columns (sfc-1 5.1).

`content`, `status` and `file_format` are the codes of format/manifest.py. `content_offset`,
`content_size_in_bytes` and `inline_content` are the members of `deletion_vector`;
`referenced_file` is a data file, or for manifests and bitmaps over them a leaf."""

LEAF_MAX_ENTRIES = 2_097_152
"""No leaf has more (V4-115)."""

STATS = "content_stats"
"""The column of statistics, where a manifest has any: a struct, one member for each stats id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRow:
    """A row of a root that names a leaf, or is a delete vector over one, without statistics.

    What a damaged file lacks, or the kind of the row has not, is None.
    """

    content: int
    file_format: int
    status: int
    spec_id: int
    record_count: int
    location: str | None = None
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    first_row_id: int | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    inline_content: bytes | None = None
    file_size_in_bytes: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    min_sequence_number: int | None = None
    referenced_file: str | None = None
    key_metadata: bytes | None = None

    @property
    def name(self) -> str:
        """The location as messages call it."""
        return str(self.location)

    @property
    def kind(self) -> "TreeContent":
        """What the footer of a leaf has to say."""
        return TreeContent.DATA if self.content == Content.DATA_MANIFEST else TreeContent.DELETE

    @property
    def live_count(self) -> int:
        """Entries of a leaf that are ADDED or EXISTING. Raises: CorruptTable V4-058."""
        return number_of(self.added_files_count) + number_of(self.existing_files_count)


LISTED = [field.name for field in fields(ListedRow)]
"""The columns of ListedRow."""


def listed_rows(rows: pa.Table) -> list[ListedRow]:
    """Return the rows of a root that name leaves, or are vectors over these. Order: kept."""
    return [ListedRow(**row) for row in rows.select(LISTED).to_pylist()]


def text_of(value: str | None) -> str:
    """Return a location of a row. Raises: CorruptTable V4-051, where there is none."""
    if value is None:
        raise CorruptTable("a row of a manifest has no location", rule="V4-051")  # V4-051
    return value


def number_of(value: int | None) -> int:
    """Return a number of a row. Raises: CorruptTable V4-058, where there is none."""
    if value is None:
        raise CorruptTable("a row of a manifest lacks a number", rule="V4-058")  # V4-058
    return value


# -- the file -------------------------------------------------------------------------------------

_VERSION, _CONTENT = "format-version", "content"

_VECTOR, _LOCATION = 147, 100

_UPSTREAM_IDS = {157: "a column with the id 157", 500: "a column with the id 500"}


class TreeContent(StrEnum):
    """The kind of a version 4 manifest, by its footer."""

    ROOT = "root"
    DATA = "data"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A version 4 manifest: what its footer says, and its rows.

    `rows` has the columns of TREE_ROWS, and STATS where the file has statistics.
    """

    content: TreeContent
    footer: Mapping[str, str]
    rows: pa.Table
    unknown_field_ids: tuple[int, ...] = ()


def read_tree(
    content: bytes, *, columns: Collection[str] | None = None, stats: Collection[int] | None = None
) -> TreeFile:
    """Return a version 4 manifest; some of its `columns`, and the `stats` of some ids, where given.

    Shape: what is not asked for is not there.
    Order: of the file; a row's ordinal is the position that bitmaps name.
    Raises: CorruptTable where it is damaged, is no manifest or lacks a column (V4-040, V4-041);
    Unsupported for another version and for the upstream draft (V4-043).
    """
    stored = ParquetColumns(content)
    footer = stored.footer
    kind = _checked(stored, footer)
    members = None if stats is None else {STATS: [group_id(one) for one in stats]}
    rows = read_rows(stored, _COLUMNS, columns, members)
    return TreeFile(kind, footer, rows, _unknown(stored.shape))


def read_locations(content: bytes) -> pa.Array:
    """Return the locations of a manifest's rows, in half the time of read_tree, which checks more.

    Order: of the file.
    Raises: CorruptTable, where it is damaged or has no such column (V4-041).
    """
    column = ParquetColumns(content).read([(None, _LOCATION)]).get((None, _LOCATION))
    if column is None or not pa.types.is_string(column.type):  # V4-041
        raise CorruptTable(f"a manifest has no column {_LOCATION}", rule="V4-041")
    return column


def write_tree(
    rows: pa.Table, content: TreeContent, footer: Mapping[str, str] | None = None
) -> bytes:
    """Return a version 4 manifest of rows as `read_tree` gives them.

    `footer` has what the file says beside what every manifest does, in text.
    Order: kept.
    """
    own = {_VERSION: "4", _CONTENT: str(content), LAYOUT_KEY: str(Layout.SFC_1)}
    return write_rows(rows, _COLUMNS, own | dict(footer or {}))


def _checked(stored: ParquetColumns, footer: Mapping[str, str]) -> TreeContent:
    """Tell what the file is, once it is sure that it is one of this layout (sfc-1 4.2).

    Raises: Unsupported; CorruptTable.
    """
    for number, member in _UPSTREAM_IDS.items():
        if stored.find((None, number)) is not None:  # V4-043
            raise _dialect(member)
    if stored.find((_VECTOR, 0)) is not None:  # V4-043
        raise _dialect("tracking information under the id 147")
    version = footer.get(_VERSION)
    if version != "4":  # V4-040
        message = f"a manifest of format version {version} stands where version 4 should"
        raise Unsupported(message, rule="V4-040")
    stated = footer.get(_CONTENT)
    try:
        content = TreeContent("delete" if stated == "deletes" else str(stated))  # V4-112
    except ValueError:
        message = f"the footer of a manifest says content {stated!r}"
        raise CorruptTable(message, rule="V4-040") from None  # V4-040
    check_columns(stored, _COLUMNS)  # V4-041
    return content


def _dialect(difference: str, rule: str = "V4-043") -> Unsupported:
    return Unsupported(
        f"a manifest belongs to the upstream draft of version 4: it has {difference}",
        hint="maintain the table with the engine that wrote it",
        rule=rule,
    )


def _check_codes(name: str, values: pa.Array) -> None:
    """Check the codes of a column. Raises: Unsupported V4-050; CorruptTable V4-044."""
    if not len(values):
        return
    lowest, highest = pc.min(values).as_py(), pc.max(values).as_py()
    if name == "content" and not 0 <= lowest <= highest <= 5:  # V4-044
        raise CorruptTable("a manifest has a row of an unknown content type", rule="V4-044")
    if name == "status" and not 0 <= lowest <= highest <= max(Status):  # V4-050
        difference = f"a status of {highest if highest > max(Status) else lowest}"
        raise _dialect(difference, rule="V4-050")


@lru_cache
def _unknown(shape: Shape) -> tuple[int, ...]:
    """Ids that this layout does not know, outside of statistics (V4-042)."""
    ids: list[int] = []

    def walk(one: pa.Field) -> None:
        number = field_id(one)
        if number == STATS_ID:
            return
        if number is not None and number not in _KNOWN:
            ids.append(number)
        for child in child_fields(one.type):
            walk(child)

    for one in shape.schema:
        walk(one)
    return tuple(sorted(ids))


_COLUMNS = ManifestColumns(
    rule="V4-041",
    check=_check_codes,
    rows=TREE_ROWS,
    parts=(
        Field("content", 134, "content_type", required=True),
        Field("location", _LOCATION), Field("file_format", 101, required=True),
        Group("tracking_info", 5, (
            Field("status", 0, required=True), Field("snapshot_id", 1),
            Field("sequence_number", 3), Field("file_sequence_number", 4),
            Field("first_row_id", 142),
        ), required=True),
        Group("deletion_vector", _VECTOR, (
            Field("content_offset", 144, "offset"),
            Field("content_size_in_bytes", 145, "size_in_bytes"), Field("inline_content", 146),
        )),
        Field("spec_id", 148, "partition_spec_id", required=True), Field("sort_order_id", 140),
        Field("record_count", 103, required=True), Field("file_size_in_bytes", 104),
        Struct(STATS, STATS_ID),
        Group("manifest_stats", 521, tuple(
            Field(name, number, required=True)
            for name, number in zip(COUNTS, (504, 505, 506, 512, 513, 514, 516), strict=True)
        )),
        Field("referenced_file", 143), Field("key_metadata", 131),
        Field("split_offsets", 132, element_id=133), Field("equality_ids", 135, element_id=136),
    ),
)  # fmt: skip
"""The columns of sfc-1 3.1, in its order."""

_KNOWN = _COLUMNS.ids()
