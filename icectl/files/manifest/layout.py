"""Where the columns of a manifest stand in its writer schema, found by field id (R-008)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from icectl.entries.schema import CARRIED, PLANNING
from icectl.errors import CorruptTable
from icectl.files.avro.schema import SCHEMAS, AvroType, fields_by_id
from icectl.files.manifest.schema import COLUMN_IDS, DATA_FILE, DATA_FILE_IDS, ENTRY_IDS, PARTITION

RULE_OF_REQUIRED: Mapping[str, str] = {
    "status": "R-062",
    "location": "R-063",
    "file_format": "R-063",
    "record_count": "R-063",
    "file_size_in_bytes": "R-063",
}
"""Columns that every version stores; `content` is missing in version 1 (R-004)."""

_INTEGERS = frozenset({"int", "long"})
_TEXTS = frozenset({"string", "bytes"})
_ARROW_TYPES = {field.name: str(field.type) for field in (*PLANNING, *CARRIED)}
_KINDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("int8", "int32", "int64"), _INTEGERS),
    **dict.fromkeys(("string", "binary"), _TEXTS),
}


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """The place where one column stands: in the entry, or in its data_file."""

    name: str
    in_data_file: bool
    position: int
    type: AvroType


@dataclass(frozen=True, slots=True, eq=False)
class ManifestLayout:
    """The writer schema of a manifest, as far as icectl reads it. Equal to itself only."""

    schema: AvroType
    data_file_position: int
    columns: Mapping[str, StoredColumn]
    partition_position: int | None
    unknown_field_ids: tuple[int, ...]
    """Ids of fields that no version up to 3 has: a rewrite would lose them."""

    @property
    def data_file(self) -> AvroType:
        """The record of the file."""
        return self.schema.fields[self.data_file_position].type

    @property
    def partition(self) -> AvroType:
        """The record of the partition; one without fields where the manifest has none."""
        if self.partition_position is None:
            return AvroType("record")
        return self.data_file.fields[self.partition_position].type


@lru_cache(SCHEMAS)
def find_layout(schema: AvroType) -> ManifestLayout:
    """Find the columns in a writer schema.

    Raises: CorruptTable R-062 or R-063 where a required field is missing or of another type.
    """
    entry = fields_by_id(schema, ENTRY_IDS)
    if DATA_FILE not in entry or schema.fields[entry[DATA_FILE]].type.kind != "record":
        raise CorruptTable("the file is no manifest: it has no data_file", rule="R-062")
    data_file = schema.fields[entry[DATA_FILE]].type
    file_fields = fields_by_id(data_file, DATA_FILE_IDS)
    columns = {}
    for name, field_id in COLUMN_IDS.items():
        in_data_file = name not in ENTRY_IDS
        record, positions = (data_file, file_fields) if in_data_file else (schema, entry)
        if field_id in positions:
            at = positions[field_id]
            columns[name] = _checked(StoredColumn(name, in_data_file, at, record.fields[at].type))
    for name, rule in RULE_OF_REQUIRED.items():
        if name not in columns:
            raise CorruptTable(f"the manifest has no field {name}", rule=rule)
    partition = file_fields.get(PARTITION)
    if partition is not None and data_file.fields[partition].type.kind != "record":
        raise CorruptTable("the partition of the manifest is no record", rule="R-063")
    known = {*ENTRY_IDS.values(), *DATA_FILE_IDS.values()}
    unknown = {*entry, *file_fields} - known
    return ManifestLayout(schema, entry[DATA_FILE], columns, partition, tuple(sorted(unknown)))


def metrics_positions(name: str, item: AvroType) -> tuple[int, int]:
    """Return positions of key and value in an item of a metrics map.

    Raises: CorruptTable R-063 where the item has no such fields.
    """
    positions = fields_by_id(item, {"key": 0, "value": 1})
    if len(item.fields) != 2 or len(positions) != 2:
        raise _wrong_type(name)
    # Ids of keys are smaller than ids of values in every metrics map.
    key, value = (positions[field_id] for field_id in sorted(positions))
    return key, value


def partition_order(
    stored_ids: Sequence[int | None], spec_field_ids: Sequence[int] | None
) -> tuple[int | None, ...]:
    """Find for each spec field its position in the stored partition; None where it has none.

    Raises: CorruptTable R-068 where record and spec have nothing in common.
    """
    if spec_field_ids is None:
        return tuple(range(len(stored_ids)))
    positions = {field_id: at for at, field_id in enumerate(stored_ids)}
    if any(field_id in positions for field_id in spec_field_ids):
        return tuple(positions.get(field_id) for field_id in spec_field_ids)
    if len(stored_ids) == len(spec_field_ids):
        return tuple(range(len(stored_ids)))  # version 1 may number them by position only
    if not stored_ids:
        return (None,) * len(spec_field_ids)
    raise CorruptTable("the partition of the manifest is not of its spec", rule="R-068")


def _checked(column: StoredColumn) -> StoredColumn:
    arrow = _ARROW_TYPES[column.name]
    present = column.type.present
    if column.name == "file_format":
        if present.kind not in _TEXTS:
            raise _wrong_type(column.name)
    elif arrow in _KINDS:
        if present.kind not in _KINDS[arrow]:
            raise _wrong_type(column.name)
    elif arrow.startswith("list"):
        if present.kind != "array" or present.parts[0].kind not in _INTEGERS:
            raise _wrong_type(column.name)
    else:
        _check_metrics(column.name, present, _TEXTS if "binary" in arrow else _INTEGERS)
    return column


def _check_metrics(name: str, type_: AvroType, values: frozenset[str]) -> None:
    if type_.kind == "map":
        value = type_.parts[0]
    elif type_.kind == "array" and type_.parts[0].kind == "record":
        item = type_.parts[0]
        key_position, value_position = metrics_positions(name, item)
        value = item.fields[value_position].type
        if item.fields[key_position].type.kind not in _INTEGERS:
            raise _wrong_type(name)
    else:
        raise _wrong_type(name)
    if value.kind not in values:
        raise _wrong_type(name)


def _wrong_type(name: str) -> CorruptTable:
    return CorruptTable(f"the field {name} of the manifest has an unexpected type", rule="R-063")
