"""Manifest lists of format versions 1 to 3: bytes to ManifestFile rows and back."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

from icectl.errors import CorruptTable
from icectl.files.avro.container import (
    Block,
    decode_records,
    encode_records,
    in_batches,
    read_blocks,
    read_header,
    write_file,
)
from icectl.files.avro.schema import SCHEMAS, AvroType, fields_by_id, nameless
from icectl.files.manifest.scan import UnusualSchemaError, record_ends
from icectl.files.manifest.schema import check_list_known, optional_field
from icectl.format.manifest import FieldSummary, ManifestContent, ManifestFile

_IDS: Mapping[str, int] = {
    "manifest_path": 500, "manifest_length": 501, "partition_spec_id": 502, "content": 517,
    "sequence_number": 515, "min_sequence_number": 516, "added_snapshot_id": 503,
    "added_files_count": 504, "existing_files_count": 505, "deleted_files_count": 506,
    "added_rows_count": 512, "existing_rows_count": 513, "deleted_rows_count": 514,
    "partitions": 507, "key_metadata": 519, "first_row_id": 520,
}  # fmt: skip
LOCATION_IDS: Mapping[str, int] = {
    name: _IDS[name] for name in ("manifest_path", "manifest_length")
}
"""Field ids of what a row says of a manifest's place and size."""

_OLD_NAMES: Mapping[str, int] = {
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
}
_SUMMARY_IDS: Mapping[str, int] = {
    "contains_null": 509, "contains_nan": 518, "lower_bound": 510, "upper_bound": 511,
}  # fmt: skip
_REQUIRED = ("manifest_path", "manifest_length", "partition_spec_id")
_COUNTS = tuple(name for name in _IDS if name.endswith("_count"))
_INTEGERS = frozenset({"int", "long"})
_KINDS: Mapping[str, frozenset[str]] = {
    "manifest_path": frozenset({"string"}),
    "partitions": frozenset({"array"}),
    "key_metadata": frozenset({"bytes"}),
}
_SUMMARY_KINDS: Mapping[str, frozenset[str]] = {
    "contains_null": frozenset({"boolean"}),
    "contains_nan": frozenset({"boolean"}),
    "lower_bound": frozenset({"bytes"}),
    "upper_bound": frozenset({"bytes"}),
}
_SUMMARY_SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "r508",
    "fields": [
        {"name": "contains_null", "type": "boolean", "field-id": 509},
        optional_field("contains_nan", "boolean", 518),
        optional_field("lower_bound", "bytes", 510),
        optional_field("upper_bound", "bytes", 511),
    ],
}


def read_manifest_list(content: bytes, *, to_show: bool = False) -> tuple[ManifestFile, ...]:
    """Read the manifests of a snapshot; in one that is only shown two fields may have one id.

    Order: as stored.
    Raises: CorruptTable R-008, R-050, R-053; Unsupported for an encrypted list.
    """
    file = read_header(content)
    fields = _positions(file.schema, to_show=to_show)
    summaries = _summary_positions(file.schema, to_show=to_show)
    unknown = _unknown_ids(file.schema)
    return tuple(
        _manifest_file({name: row[at] for name, at in fields.items()}, summaries, unknown)
        for batch in in_batches(file.schema, read_blocks(file))
        for row in decode_records(file.schema, batch)
    )


class ManifestListReader:
    """A reader of many manifest lists: a row that several hold, byte for byte, is decoded once.

    Lists of a table's snapshots repeat most of their rows. Safe to share among threads.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[bytes, ManifestFile]] = {}

    def read(self, content: bytes) -> tuple[ManifestFile, ...]:
        file = read_header(content)
        known = self._known.setdefault(file.metadata["avro.schema"], {})
        try:
            stored = []
            for block in read_blocks(file):
                ends = record_ends(file.schema, block).tolist()
                stored += [block.content[start:end] for start, end in pairwise([0, *ends])]
        except UnusualSchemaError:
            return read_manifest_list(content)
        fields = _positions(file.schema)
        new = list(dict.fromkeys(record for record in stored if record not in known))
        if new:
            summaries, unknown = _summary_positions(file.schema), _unknown_ids(file.schema)
            batches = in_batches(file.schema, [Block(len(new), b"".join(new))])
            decoded = decode_records(file.schema, chain.from_iterable(batches))
            for record, row in zip(new, decoded, strict=True):
                members = {name: row[at] for name, at in fields.items()}
                known[record] = _manifest_file(members, summaries, unknown)
        return tuple([known[record] for record in stored])


def read_list_properties(content: bytes) -> Mapping[str, str]:
    """Return the key-value metadata of a manifest list (R-054). Raises: CorruptTable R-008."""
    return read_header(content).metadata


def write_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
    codec: str = "deflate",
    sync_marker: bytes,
) -> bytes:
    """Write the manifests of a snapshot; equal arguments give equal bytes.

    Raises: ValueError where a version 1 row is of deletes (R-048), one has no snapshot id (R-050),
    or a version 2 row lacks a count (R-171); Unsupported where fields of its list would be lost.
    """
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
        "format-version": str(format_version),
    }
    if format_version > 1:
        metadata["sequence-number"] = str(sequence_number)
    if format_version > 2:
        metadata["first-row-id"] = "null" if first_row_id is None else str(first_row_id)
    rows = list(manifests)
    check_list_known(rows)
    for row in rows:
        if format_version == 1 and row.content != ManifestContent.DATA:
            raise ValueError(row.manifest_path)
        if row.added_snapshot_id is None:
            raise ValueError(row.manifest_path)
        if format_version > 1 and any(getattr(row, name) is None for name in _COUNTS):
            raise ValueError(row.manifest_path)
    schema = _write_schema(format_version)
    records = encode_records(schema, (_record(row, format_version) for row in rows))
    blocks = [Block(len(records), b"".join(records))] if records else []
    return write_file(schema, metadata, blocks, codec=codec, sync_marker=sync_marker)


@lru_cache(SCHEMAS)
def _positions(schema: AvroType, *, to_show: bool = False) -> Mapping[str, int]:
    by_id = fields_by_id(schema, {**_IDS, **_OLD_NAMES}, to_show=to_show)
    positions = {name: by_id[field_id] for name, field_id in _IDS.items() if field_id in by_id}
    for name in _REQUIRED:
        if name not in positions:
            raise CorruptTable(f"the manifest list has no field {name}", rule="R-050")
    for name, at in positions.items():
        if schema.fields[at].type.present.kind not in _KINDS.get(name, _INTEGERS):
            raise _wrong_type(name)
    return positions


@lru_cache(SCHEMAS)
def _summary_positions(schema: AvroType, *, to_show: bool = False) -> Mapping[str, str]:
    fields = _positions(schema, to_show=to_show)
    if "partitions" not in fields:
        return {}
    item = schema.fields[fields["partitions"]].type.present.parts[0].present
    by_id = fields_by_id(item, _SUMMARY_IDS, to_show=to_show)
    positions = {
        name: by_id[field_id] for name, field_id in _SUMMARY_IDS.items() if field_id in by_id
    }
    for name, at in positions.items():
        if item.fields[at].type.present.kind not in _SUMMARY_KINDS[name]:
            raise _wrong_type(name)
    if "contains_null" not in positions:
        raise CorruptTable("the manifest list has no field contains_null", rule="R-053")
    return {name: str(at) for name, at in positions.items()}


@lru_cache(SCHEMAS)
def _unknown_ids(schema: AvroType) -> tuple[int, ...]:
    ids = {field.field_id for field in schema.fields} - {*_IDS.values()}
    ids |= nameless(schema, {**_IDS, **_OLD_NAMES})
    at = _positions(schema, to_show=True).get("partitions")
    if at is not None:
        item = schema.fields[at].type.present.parts[0].present
        ids |= {field.field_id for field in item.fields} - {*_SUMMARY_IDS.values()}
        ids |= nameless(item, _SUMMARY_IDS)
    return tuple(sorted(id_ for id_ in ids if id_ is not None))


def _manifest_file(
    row: dict[str, Any], summaries: Mapping[str, str], unknown: tuple[int, ...]
) -> ManifestFile:
    for name in _REQUIRED:
        if row[name] is None:
            raise CorruptTable(f"a row of the manifest list has no {name}", rule="R-050")
    content = row.get("content") or 0
    if content not in tuple(ManifestContent):
        raise CorruptTable(f"a manifest has the content {content}", rule="R-050")
    stored = row.get("partitions")
    partitions: list[FieldSummary] = []
    for summary in stored or ():
        if summary is None or summary[summaries["contains_null"]] is None:
            raise CorruptTable("a partition summary has no contains_null", rule="R-053")
        partitions.append(FieldSummary(**{name: summary[at] for name, at in summaries.items()}))
    members: dict[str, Any] = {name: row.get(name) for name in _IDS}
    return ManifestFile(
        **members
        | {
            "content": ManifestContent(content),
            "sequence_number": row.get("sequence_number") or 0,
            "min_sequence_number": row.get("min_sequence_number") or 0,
            "partitions": None if stored is None else tuple(partitions),
            "unknown_field_ids": unknown,
        }
    )


def _wrong_type(name: str) -> CorruptTable:
    message = f"the field {name} of the manifest list has an unexpected type"
    return CorruptTable(message, rule="R-050")


def _record(row: ManifestFile, format_version: int) -> dict[str, Any]:
    stored = {name: getattr(row, name) for name in _IDS} | {"content": int(row.content)}
    if row.partitions is not None:
        stored["partitions"] = [
            {name: getattr(summary, name) for name in _SUMMARY_IDS} for summary in row.partitions
        ]
    return {name: stored[name] for name in _names(format_version)}


def _names(format_version: int) -> list[str]:
    """Return fields in the order of the reference implementation's writers."""
    names = list(_IDS)
    if format_version < 3:
        names.remove("first_row_id")
    if format_version == 1:
        for name in ("content", "sequence_number", "min_sequence_number"):
            names.remove(name)
        names.remove("partitions")
        names.insert(names.index("added_rows_count"), "partitions")
    return names


def _write_schema(format_version: int) -> dict[str, Any]:
    types: dict[str, Any] = dict.fromkeys(_IDS, "long")
    types |= dict.fromkeys(("partition_spec_id", "content", *_COUNTS[:3]), "int")
    types |= {"manifest_path": "string", "key_metadata": "bytes"}
    types["partitions"] = {"type": "array", "items": _SUMMARY_SCHEMA, "element-id": 508}
    optional = {"partitions", "key_metadata", "first_row_id"}
    if format_version == 1:
        optional |= set(_COUNTS)
    return {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            optional_field(name, types[name], _IDS[name])
            if name in optional
            else {"name": name, "type": types[name], "field-id": _IDS[name]}
            for name in _names(format_version)
        ],
    }
