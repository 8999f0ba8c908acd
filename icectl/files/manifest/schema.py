"""The columns of manifests by field id, Avro schemas to write, and key-value metadata (R-060).

Spec: Manifests; Data File Fields. Avro names are those of the reference implementation.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from icectl.errors import CorruptTable, Unsupported
from icectl.files.avro.schema import NO_ID
from icectl.format.json_members import parse_json
from icectl.format.manifest import ManifestContent, ManifestFile, ManifestHeader
from icectl.format.partition import PartitionSpec
from icectl.format.single_value import unscaled_integer
from icectl.format.types import DecimalType, FixedType, PrimitiveType, Type

STATUS, SNAPSHOT_ID, DATA_FILE, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER = range(5)
CONTENT, PARTITION = 134, 102
ENTRY_IDS: Mapping[str, int] = {
    "status": STATUS,
    "snapshot_id": SNAPSHOT_ID,
    "data_file": DATA_FILE,
    "sequence_number": SEQUENCE_NUMBER,
    "file_sequence_number": FILE_SEQUENCE_NUMBER,
}
"""Field ids of an entry by Avro name."""
DATA_FILE_IDS: Mapping[str, int] = {
    "content": CONTENT, "file_path": 100, "file_format": 101, "partition": PARTITION,
    "record_count": 103, "file_size_in_bytes": 104, "block_size_in_bytes": 105,
    "file_ordinal": 106, "sort_columns": 107, "column_sizes": 108, "value_counts": 109,
    "null_value_counts": 110, "distinct_counts": 111, "nan_value_counts": 137,
    "lower_bounds": 125, "upper_bounds": 128, "key_metadata": 131, "split_offsets": 132,
    "equality_ids": 135, "sort_order_id": 140, "first_row_id": 142, "referenced_data_file": 143,
    "content_offset": 144, "content_size_in_bytes": 145,
}  # fmt: skip
"""Field ids of a data_file by Avro name."""
_NOT_READ = {"partition", "block_size_in_bytes", "file_ordinal", "sort_columns", "distinct_counts"}
COLUMN_IDS: Mapping[str, int] = {
    **{name: ENTRY_IDS[name] for name in ENTRY_IDS if name != "data_file"},
    **{
        "location" if name == "file_path" else name: field_id
        for name, field_id in DATA_FILE_IDS.items()
        if name not in _NOT_READ
    },
}
"""Field ids of the stored columns of an entries table; `partition_key` is made from field 102."""

BLOCK_SIZE_IN_BYTES = 64 * 2**20
"""What version 1 writers put into the required field 105; readers ignore it (R-012)."""

MAP_IDS: Mapping[str, tuple[int, int]] = {
    "column_sizes": (117, 118), "value_counts": (119, 120), "null_value_counts": (121, 122),
    "nan_value_counts": (138, 139), "lower_bounds": (126, 127), "upper_bounds": (129, 130),
}  # fmt: skip
ELEMENT_IDS: Mapping[str, tuple[str, int]] = {
    "split_offsets": ("long", 133), "equality_ids": ("int", 136),
}  # fmt: skip
REQUIRED: Mapping[str, str] = {
    "content": "int", "file_path": "string", "file_format": "string", "record_count": "long",
    "file_size_in_bytes": "long", "block_size_in_bytes": "long",
}  # fmt: skip
OPTIONAL: Mapping[str, str] = {
    "key_metadata": "bytes", "sort_order_id": "int", "first_row_id": "long",
    "referenced_data_file": "string", "content_offset": "long", "content_size_in_bytes": "long",
}  # fmt: skip
_METRICS = (*MAP_IDS, "key_metadata", "split_offsets")
_FILE = ("file_path", "file_format", "partition", "record_count", "file_size_in_bytes")
DATA_FILE_FIELDS: Mapping[int, Sequence[str]] = {
    1: (*_FILE, "block_size_in_bytes", *_METRICS, "sort_order_id"),
    2: ("content", *_FILE, *_METRICS, "equality_ids", "sort_order_id", "referenced_data_file"),
    3: (
        "content", *_FILE, *_METRICS, "equality_ids", "sort_order_id", "first_row_id",
        "referenced_data_file", "content_offset", "content_size_in_bytes",
    ),
}  # fmt: skip
"""Fields that each version's writer writes, in the order of the reference implementation."""

_PRIMITIVES: Mapping[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "unknown": "int",  # always null: Avro has no type of its own for it
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    "timestamptz_ns": {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}
PARQUET_MAGIC = b"PAR1"
"""The first bytes of a manifest in Parquet."""


def header_of(
    metadata: Mapping[str, str],
    *,
    codec: str,
    assumed_version: int,
    partition_record: tuple[tuple[int | None, str], ...],
    unknown_field_ids: tuple[int, ...],
) -> ManifestHeader:
    """Read what a manifest says of itself; `assumed_version` is its version where it says none.

    Raises: CorruptTable R-060.
    """
    version = _number(metadata, "format-version")
    content = metadata.get("content", "data")
    if content not in ("data", "deletes"):
        raise CorruptTable(f"the manifest has the content `{content}`", rule="R-060")
    fields, schema = _json(metadata, "partition-spec"), _json(metadata, "schema")
    if isinstance(fields, dict):
        fields = fields.get("fields")  # a whole spec, as some writers store
    is_list = isinstance(fields, list) and all(isinstance(item, dict) for item in fields)
    return ManifestHeader(
        format_version=assumed_version if version is None else version,
        content=ManifestContent.DELETES if content == "deletes" else ManifestContent.DATA,
        spec_id=_number(metadata, "partition-spec-id"),
        schema_id=_number(metadata, "schema-id"),
        partition_fields=tuple(fields) if is_list else None,
        schema=schema if isinstance(schema, dict) else None,
        metadata=metadata,
        codec=codec,
        partition_record=partition_record,
        unknown_field_ids=unknown_field_ids,
        has_lengths_of_fixed=False,
    )


def _number(metadata: Mapping[str, str], key: str) -> int | None:
    try:
        return int(metadata[key]) if key in metadata else None
    except ValueError as error:
        message = f"the manifest's {key} is not a number"
        raise CorruptTable(message, rule="R-060") from error


def _json(metadata: Mapping[str, str], key: str) -> Any:
    try:
        return parse_json(metadata[key]) if key in metadata else None
    except ValueError as error:
        raise CorruptTable(f"the manifest's {key} is not JSON", rule="R-060") from error


def spec_field_ids(header: ManifestHeader, spec: PartitionSpec | None) -> Sequence[int] | None:
    """List the field ids of a spec, or of the one that the manifest names; None of neither."""
    if spec is not None:
        return [field.field_id for field in spec.fields]
    if header.partition_fields is None:
        return None
    return [
        int(field.get("field-id", 1000 + at)) for at, field in enumerate(header.partition_fields)
    ]


def ids_text(field_ids: Sequence[int]) -> str:
    """Name fields by their ids, as far as they have any."""
    known = [id_ for id_ in field_ids if id_ != NO_ID]
    texts = [f"field ids {', '.join(map(str, known))}"] if known else []
    return ", and ".join([*texts, *(["without ids"] if NO_ID in field_ids else [])])


def check_known(unknown_field_ids: Sequence[int], file: str = "a manifest") -> None:
    """Check that writing a file again would lose no field. Raises: Unsupported."""
    if unknown_field_ids:
        message = f"{file} has fields that icectl does not know and would lose ("
        message += f"{ids_text(unknown_field_ids)})"
        raise Unsupported(message, hint="maintain it with the engine that wrote it")


def check_list_known(manifests: Iterable[ManifestFile]) -> None:
    """Check that a new list of manifests would lose no field of theirs. Raises: Unsupported."""
    for ids in {manifest.unknown_field_ids for manifest in manifests}:
        check_known(ids, "the manifest list")


def entry_schema(
    spec: PartitionSpec, types: Sequence[Type | None], format_version: int
) -> dict[str, Any]:
    """Return the Avro schema of an entry; `types` are results of the spec's fields."""
    partition = {"type": "record", "name": "r102", "fields": partition_fields(spec, types)}
    data_file = [
        {"name": "partition", "type": partition, "field-id": PARTITION}
        if name == "partition"
        else _data_file_field(name)
        for name in DATA_FILE_FIELDS[min(format_version, 3)]
    ]
    fields: list[dict[str, Any]] = [{"name": "status", "type": "int", "field-id": STATUS}]
    if format_version == 1:
        fields.append({"name": "snapshot_id", "type": "long", "field-id": SNAPSHOT_ID})
    else:
        names = ("snapshot_id", "sequence_number", "file_sequence_number")
        fields += [optional_field(name, "long", ENTRY_IDS[name]) for name in names]
    record = {"type": "record", "name": "r2", "fields": data_file}
    fields.append({"name": "data_file", "type": record, "field-id": DATA_FILE})
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def partition_fields(spec: PartitionSpec, types: Sequence[Type | None]) -> list[dict[str, Any]]:
    """Avro fields of the partition record: optional, ids of the spec's fields (R-068)."""
    named: set[str] = set()
    fields = []
    for field, type_ in zip(spec.fields, types, strict=True):
        stored, name = avro_type(type_), avro_name(field.name)
        if isinstance(stored, dict) and "name" in stored:
            # Avro takes each name once, and PyIceberg no reference to one: the next has its own.
            if stored["name"] in named:
                stored = stored | {"name": f"{stored['name']}_{field.field_id}"}
            named.add(stored["name"])
        entry = optional_field(name, stored, field.field_id)
        fields.append(entry if name == field.name else entry | {"iceberg-field-name": field.name})
    return fields


def avro_type(type_: Type | None) -> Any:
    """Return the Avro type of a partition value (R-095); None is a field that only holds null."""
    if isinstance(type_, DecimalType):
        return {
            "type": "fixed",
            "name": f"decimal_{type_.precision}_{type_.scale}",
            "size": _decimal_size(type_.precision),
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    if isinstance(type_, FixedType):
        # The reference implementation reads a length before every fixed, and bytes have one for
        # everybody who goes by the Avro schema.
        return "bytes"
    if isinstance(type_, PrimitiveType) and type_.name == "uuid":
        return {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    if isinstance(type_, PrimitiveType) and type_.name in _PRIMITIVES:
        return _PRIMITIVES[type_.name]
    if type_ is None:
        return "int"
    raise ValueError(type_)


def partition_value(type_: Type | None, value: Any) -> Any:
    """Return a partition value as its Avro type holds it, without logical types.

    Raises: Unsupported for a value of a field of unknown type; OverflowError for a decimal that has
    more digits than its type.
    """
    if value is None:
        return None
    if isinstance(type_, DecimalType):
        size = _decimal_size(type_.precision)
        return unscaled_integer(value, type_.scale).to_bytes(size, "big", signed=True)
    if type_ is None:
        raise Unsupported(
            "a partition value has no known type: its column or its transform is not known",
            hint="maintain it with the engine that wrote it",
        )
    return value.bytes if isinstance(value, UUID) else value


def avro_name(name: str) -> str:
    """Return a name as Avro allows it, spelled as the reference implementation does."""
    spelled = "".join(
        character
        if character.isascii() and (character.isalnum() or character == "_")
        else f"_x{ord(character):X}"
        for character in name
    )
    return f"_{spelled}" if spelled[:1].isdigit() else spelled


def _decimal_size(precision: int) -> int:
    """Fewest bytes whose two's complement holds every number of `precision` digits."""
    largest: int = 10**precision
    return (largest.bit_length() + 8) // 8


def _data_file_field(name: str) -> dict[str, Any]:
    field_id = DATA_FILE_IDS[name]
    if name in REQUIRED:
        return {"name": name, "type": REQUIRED[name], "field-id": field_id}
    if name in MAP_IDS:
        key_id, value_id = MAP_IDS[name]
        value = "bytes" if name in ("lower_bounds", "upper_bounds") else "long"
        pair = [
            {"name": "key", "type": "int", "field-id": key_id},
            {"name": "value", "type": value, "field-id": value_id},
        ]
        items: Any = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": pair}
        stored: Any = {"type": "array", "logicalType": "map", "items": items}
        return optional_field(name, stored, field_id)
    if name in ELEMENT_IDS:
        element, element_id = ELEMENT_IDS[name]
        stored = {"type": "array", "items": element, "element-id": element_id}
        return optional_field(name, stored, field_id)
    return optional_field(name, OPTIONAL[name], field_id)


def optional_field(name: str, type_: Any, field_id: int) -> dict[str, Any]:
    """Return an Avro field that may be null."""
    return {"name": name, "type": ["null", type_], "default": None, "field-id": field_id}
