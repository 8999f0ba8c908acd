"""The current snapshot of a table as one file group, as a plan would make it."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from icectl.entries import deletes
from icectl.entries.partition_key import decode_key
from icectl.entries.rows import PLANNING_COLUMNS, by_row
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.schema import Schema
from icectl.rows.deleted_positions import DeletionVector, PositionDeletes
from icectl.rows.equality_deletes import EqualityDeletes
from icectl.rows.read_data import SourceFile, written_schema
from icectl.rows.rewrite_data import DeletesOfGroup, FileGroup, TableColumns
from icectl.storage.location import loosest_key
from icectl.storage.store import Store
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import load_entries
from tests.builders.expiry import context_of

Row = dict[str, Any]


def whole_table(store: Store, metadata: TableMetadata) -> FileGroup:
    """Every live row, to be written with the current schema and spec."""
    manifests = read_snapshot_manifests(store, metadata, metadata.current_snapshot)
    entries = load_entries(
        context_of(store=store),
        metadata,
        manifests,
        PLANNING_COLUMNS | {"equality_ids"},
        to_match=True,
    )
    specs = {spec.spec_id for spec in metadata.partition_specs if spec.is_unpartitioned}
    matches = deletes.match(entries, specs)
    ids = {row["location"]: row["equality_ids"] for row in _rows(entries)}
    data = list(_rows(matches.data))
    mapping = json.loads(metadata.properties.get("schema.name-mapping.default", "[]"))
    columns = TableColumns(
        written_schema(metadata.current_schema, metadata.format_version), _ever(metadata), mapping
    )
    return FileGroup(
        tuple(_source(row, metadata) for row in data),
        sum(row["file_size_in_bytes"] for row in data),
        _deletes(matches, data, ids),
        columns,
        metadata.default_spec,
        None,
    )


def _deletes(
    matches: deletes.DeleteMatches, data: list[Row], ids: dict[str, Any]
) -> DeletesOfGroup:
    found = list(_rows(matches.deletes))
    applies_to = defaultdict(set)
    for data_row, delete_row in zip(
        *(column.to_pylist() for column in deletes.pairs(matches).columns), strict=True
    ):
        applies_to[delete_row].add(data[data_row]["location"])
    by_key = {loosest_key(row["location"]): row["location"] for row in data}
    positions, vectors, equality = [], [], []
    for number, row in enumerate(found):
        named = frozenset(applies_to[number])
        if row["content"] == 2:
            equality.append(EqualityDeletes(_source(row, None), tuple(ids[row["location"]]), named))
        elif FileFormat(row["file_format"]) is FileFormat.PUFFIN:
            place = row["content_offset"], row["content_size_in_bytes"]
            for data_file in named:
                vector = DeletionVector(row["location"], *place, row["record_count"], data_file)
                vectors.append(vector)
        else:
            meant = by_key.get(loosest_key(row["referenced_data_file"] or ""))
            named |= {meant} if meant is not None else set()
            positions.append(PositionDeletes(_source(row, None), named))
    return DeletesOfGroup(tuple(positions), tuple(vectors), tuple(equality))


def _source(row: Row, metadata: TableMetadata | None) -> SourceFile:
    constants = {}
    spec = None if metadata is None else metadata.spec(row["spec_id"])
    if metadata is not None and spec is not None:
        values = decode_key(row["partition_key"], result_types(spec, metadata.schemas))
        constants = {
            item.source_ids[0]: value
            for item, value in zip(spec.fields, values, strict=True)
            if item.transform.name == "identity"
        }
    return SourceFile(
        row["location"],
        FileFormat(row["file_format"]).name,
        row["record_count"],
        row["sequence_number"],
        row["first_row_id"],
        constants,
    )


def _ever(metadata: TableMetadata) -> Schema:
    fields = {item.id: item for schema in metadata.schemas for item in schema.fields}
    return Schema(0, tuple(fields.values()))


def _rows(entries: Any) -> Iterator[Row]:
    names = entries.table.column_names
    for row in by_row(entries, *names):
        yield dict(zip(names, row, strict=True))
