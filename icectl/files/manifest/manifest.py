"""Manifests that manifest lists name: bytes to RawEntries and back.

Those of Avro are told from those of Parquet by their first bytes. Avro has two ends behind
read_manifest and write_manifest: the compiled scan, and fastavro where that was not built or the
schema is unusual.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import from_integers
from icectl.entries.rows import COLUMNS, RawEntries, format_codes
from icectl.errors import CorruptTable
from icectl.files.avro.container import (
    AvroFile,
    Block,
    StoredBlock,
    read_blocks,
    read_header,
    stored_blocks,
)
from icectl.files.manifest.layout import ManifestLayout, partition_order, stored_layout
from icectl.files.manifest.records import Order, decode_columns
from icectl.files.manifest.scan import UnusualSchemaError, scan_columns
from icectl.files.manifest.schema import PARQUET_MAGIC, header_of, spec_field_ids
from icectl.format.manifest import Content, ManifestContent, ManifestHeader, Status
from icectl.format.partition import PartitionSpec

if TYPE_CHECKING:  # a kind of manifest that few tables have: imported where one is met
    from icectl.files.manifest.parquet import ParquetManifest

_ALWAYS = frozenset({"content", "status", "spec_id", "manifest", "manifest_pos"})
_READ_ALONG = {"first_row_id": "record_count", "file_sequence_number": "sequence_number"}
"""Inheritance of the first needs the second."""

_WORTH_THREADS = 2**20
"""Bytes as stored from which a manifest is decoded by several threads."""

_SHARED_ROWS = 2**17
"""Rows of a column of nulls that is made once: 1 MiB of numbers."""


def read_manifest(
    content: bytes, *, columns: frozenset[str], manifest: int, spec: PartitionSpec | None
) -> tuple[ManifestHeader, RawEntries]:
    """Read the entries of a manifest.

    Shape: content, status, spec_id, manifest and manifest_pos, and the columns asked for;
    record_count comes with first_row_id, sequence_number with file_sequence_number. `manifest`
    fills the column of that name. `spec` is the one that the manifest list names; without it the
    manifest's own word is taken.
    Order: as stored.
    Raises: CorruptTable R-008, R-060 to R-064, R-068, R-212; Unsupported for an encrypted manifest.
    """
    (header,), rows = read_manifests([content], columns=columns, manifests=[manifest], spec=spec)
    return header, rows


def read_manifests(
    contents: Sequence[bytes],
    *,
    columns: frozenset[str],
    manifests: Sequence[int],
    spec: PartitionSpec | None,
    threads: int = 1,
) -> tuple[Sequence[ManifestHeader], RawEntries]:
    """Read the entries of several manifests into one table; those alike are decoded as one.

    A large one alone may take several `threads`.
    Shape: as read_manifest, `manifests` filling the column of that name: rising numbers.
    Order: that of `contents`, then as stored.
    Raises: as read_manifest.
    """
    wanted = _ALWAYS | columns | {_READ_ALONG[name] for name in columns if name in _READ_ALONG}
    names = [name for name in COLUMNS.names if name in wanted]
    opened: list[_Opened] = []
    by_form: dict[object, list[_Opened]] = {}
    for content, manifest in zip(contents, manifests, strict=True):
        # An upsert adds two manifests, one of data and one of deletes: every second is alike.
        one = _open(content, manifest, spec, opened[-2:])
        opened.append(one)
        by_form.setdefault(one.form, []).append(one)
    table = pa.concat_tables([_read(alike, names, threads) for alike in by_form.values()])
    if sum(1 for _ in groupby(one.form for one in opened)) > len(by_form):
        order = np.argsort(table["manifest"].to_numpy(), kind="stable")
        table = table.take(pa.array(order))
    return [one.header for one in opened], RawEntries(table)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A manifest of which only the header was read, and how it is decoded.

    `form` is what manifests that are decoded as one have in common.
    """

    file: "AvroFile | ParquetManifest"
    form: "tuple[ManifestLayout | ParquetManifest, Order, ManifestContent]"
    header: ManifestHeader
    manifest: int
    spec_id: int


def _open(
    content: bytes, manifest: int, spec: PartitionSpec | None, others: Sequence[_Opened]
) -> _Opened:
    if content.startswith(PARQUET_MAGIC):
        from icectl.files.manifest.parquet import ParquetManifest

        file = ParquetManifest(content)
        return _opened(file, file, file.header(), file.partition_field_ids, manifest, spec)
    like: _Opened | None = None
    before: AvroFile | None = None
    for other in others:
        if isinstance(other.file, AvroFile) and other.file.has_header_of(content):
            like, before = other, other.file
    avro = read_header(content, before)
    layout = stored_layout(avro)
    if like is not None and like.form[0] is layout:
        return replace(like, file=avro, manifest=manifest)
    stored_ids = [field.field_id for field in layout.partition.fields]
    return _opened(avro, layout, _header(avro, layout), stored_ids, manifest, spec)


def _opened(
    file: "AvroFile | ParquetManifest",
    layout: "ManifestLayout | ParquetManifest",
    header: ManifestHeader,
    stored_ids: Sequence[int | None],
    manifest: int,
    spec: PartitionSpec | None,
) -> _Opened:
    order = partition_order(stored_ids, spec_field_ids(header, spec))
    spec_id = spec.spec_id if spec is not None else header.spec_id or 0
    return _Opened(file, (layout, order, header.content), header, manifest, spec_id)


def _read(alike: Sequence[_Opened], names: Sequence[str], threads: int) -> pa.Table:
    layout, order, _ = alike[0].form
    stored = [name for name in names if name == "partition_key" or name in layout.columns]
    decoded: Mapping[str, pa.Array | pa.ChunkedArray]
    if isinstance(layout, ManifestLayout):
        files = [opened.file for opened in alike if isinstance(opened.file, AvroFile)]
        stored_as = [(file, list(stored_blocks(file))) for file in files]
        counts = [sum(count for count, _, _ in blocks) for _, blocks in stored_as]
        try:
            decoded = scan_columns(layout, _parts(stored_as, threads), stored, order)
        except UnusualSchemaError:
            (blocks_of_all,) = _parts(stored_as, 1)
            decoded = decode_columns(layout, blocks_of_all, stored, order)
    else:  # Parquet: of a form of its own
        counts = [layout.row_count]
        decoded = layout.decode(stored, order)
    starts = np.cumsum(counts) - counts
    columns = {
        "spec_id": np.repeat([opened.spec_id for opened in alike], counts),
        "manifest": np.repeat([opened.manifest for opened in alike], counts),
        "manifest_pos": np.arange(sum(counts)) - np.repeat(starts, counts),
    }
    return _finish(names, decoded, alike[0].header, columns)


def _parts(
    stored: Sequence[tuple[AvroFile, Sequence[StoredBlock]]], count: int
) -> Sequence[Iterable[Block]]:
    """Return the blocks of manifests in order, those of a large one alone in several parts."""
    if len(stored) == 1:
        ((file, blocks),) = stored
        if count > 1 and len(blocks) > 1 and len(file.content) >= _WORTH_THREADS:
            length = -(-len(blocks) // count)
            starts = range(0, len(blocks), length)
            return [read_blocks(file, blocks[start : start + length]) for start in starts]
    return [chain.from_iterable(read_blocks(file, blocks) for file, blocks in stored)]


def _header(file: AvroFile, layout: ManifestLayout) -> ManifestHeader:
    header = header_of(
        file.metadata,
        codec=file.codec,
        # Some writers leave all of R-060 out; version 1 has no content in its files.
        assumed_version=1 if "content" not in layout.columns else 2,
        partition_record=tuple(
            (field.field_id, field.type.present.kind) for field in layout.partition.fields
        ),
        unknown_field_ids=layout.unknown_field_ids,
    )
    return replace(header, has_lengths_of_fixed=layout.schema is not file.schema)


def _finish(
    names: Sequence[str],
    decoded: Mapping[str, pa.Array | pa.ChunkedArray],
    header: ManifestHeader,
    computed: Mapping[str, npt.NDArray[np.int64]],
) -> pa.Table:
    """Check the decoded columns and give them the types of the entries table."""
    row_count = len(decoded["status"])
    columns = []
    for name in names:
        field = COLUMNS.field(name)
        if name in computed:
            column = from_integers(computed[name]).cast(pa.int32())
        elif name == "content" and name not in decoded:
            if header.content != ManifestContent.DATA:
                message = "entries of a delete manifest have no content"
                raise CorruptTable(message, rule="R-063")
            column = pa.repeat(pa.scalar(Content.DATA, pa.int8()), row_count)
        elif name not in decoded:
            is_shared = row_count <= _SHARED_ROWS
            nulls = _shared_nulls(field.type) if is_shared else pa.nulls(row_count, field.type)
            column = nulls.slice(0, row_count)
        elif name == "file_format":
            column = format_codes(decoded[name])
        else:
            column = decoded[name]
            try:
                column = column if column.type == field.type else column.cast(field.type)
            except pa.ArrowInvalid as error:
                message = f"a value of {name} is out of range"
                raise CorruptTable(message, rule="R-063") from error
        if not field.nullable and column.null_count:
            raise CorruptTable(f"an entry has no {name}", rule="R-063")
        columns.append(column)
    table = pa.Table.from_arrays(columns, schema=pa.schema([COLUMNS.field(n) for n in names]))
    _check_codes(table)
    return table


@lru_cache
def _shared_nulls(type_: pa.DataType) -> pa.Array:
    """Return nulls whose memory the columns of many manifests share."""
    return pa.nulls(_SHARED_ROWS, type_)


def _check_codes(table: pa.Table) -> None:
    for name, largest, rule in (
        ("status", max(Status), "R-064"),
        ("content", Content.EQUALITY_DELETES, "R-063"),
    ):
        smallest, greatest = pc.min_max(table[name]).as_py().values()
        if table.num_rows and not 0 <= smallest <= greatest <= largest:
            raise CorruptTable(f"an entry has an unknown {name}", rule=rule)
