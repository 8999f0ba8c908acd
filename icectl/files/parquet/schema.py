"""Iceberg schemas and the Arrow schemas of Parquet files, field ids included."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa
from pyarrow import types as arrow_types

from icectl.errors import Unsupported
from icectl.files.parquet.footer import logical_type, shape_type
from icectl.format.schema import Schema, children
from icectl.format.types import (
    DEFAULT_ALGORITHM,
    DEFAULT_CRS,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    type_text,
)
from icectl.units import read_count

FIELD_ID = b"PARQUET:field_id"
"""Arrow metadata key under which pyarrow keeps the field id of a Parquet column."""

_SHAPE = b"icectl:shape"
"""Arrow metadata key of the logical type that a column of shapes gets in Parquet."""

_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
"""The algorithms of geography that Parquet knows, by their numbers."""

NameMapping = Sequence[Mapping[str, Any]]
"""The JSON of `schema.name-mapping.default` (R-181)."""

Places = Mapping[int | None, tuple[int, pa.DataType]]

Shredding = Mapping[int, pa.DataType]
"""The types of shredded variants in files, by field id."""

_UNSHREDDED: Shredding = MappingProxyType({})

METADATA, VALUE, TYPED_VALUE = "metadata", "value", "typed_value"
"""The fields of a variant in files; the last is there where it is shredded."""

VARIANT_TYPE = pa.struct(
    [pa.field(METADATA, pa.binary(), nullable=False), pa.field(VALUE, pa.binary(), nullable=False)]
)
"""A variant that is not shredded; its fields have no field ids (R-095)."""

_VARIANT_1 = logical_type(16, (1, 3, b"\x01"))
"""The logical type VARIANT, of version 1 of its specification."""

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "uuid": pa.uuid(),
    "binary": pa.binary(),
    "unknown": pa.null(),
    "variant": VARIANT_TYPE,
}

_Test = Callable[[pa.DataType], bool]
_ICEBERG: tuple[tuple[_Test, str], ...] = (
    (arrow_types.is_boolean, "boolean"),
    (arrow_types.is_int8, "int"),
    (arrow_types.is_int16, "int"),
    (arrow_types.is_int32, "int"),
    (arrow_types.is_uint8, "int"),
    (arrow_types.is_uint16, "int"),
    (arrow_types.is_int64, "long"),
    (arrow_types.is_uint32, "long"),
    (arrow_types.is_float32, "float"),
    (arrow_types.is_float64, "double"),
    (arrow_types.is_date32, "date"),
    (arrow_types.is_time, "time"),
    (arrow_types.is_string, "string"),
    (arrow_types.is_large_string, "string"),
    (arrow_types.is_string_view, "string"),
    (arrow_types.is_binary, "binary"),
    (arrow_types.is_large_binary, "binary"),
    (arrow_types.is_binary_view, "binary"),
    (arrow_types.is_null, "unknown"),
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column of a Parquet file: its field id, None without one, type, whether it repeats.

    A `part` of a variant has the field id of the variant; it is named by the path inside of it.
    `is_shape` is known of schemas made by arrow_schema.
    """

    field_id: int | None
    is_repeated: bool
    type: pa.DataType
    part: str | None = None
    is_shape: bool = False


_First = TypeVar("_First")
_Others = ParamSpec("_Others")
_Found = TypeVar("_Found")


def remembered(
    function: Callable[Concatenate[_First, _Others], _Found],
) -> Callable[Concatenate[_First, _Others], _Found]:
    """Let a function recall its last result: files of a table are mostly alike.

    Schemas as first arguments are compared with their metadata, others by identity. Further
    arguments are compared too; keywords are not for it.
    """
    last: tuple[_First, tuple[Any, ...], _Found] | None = None

    @wraps(function)
    def recalled(first: _First, /, *others: _Others.args, **keywords: _Others.kwargs) -> _Found:
        nonlocal last
        known = last  # another thread may replace it
        if known is None or known[1] != others or not _is_same(known[0], first):
            known = last = first, others, function(first, *others, **keywords)
        return known[2]

    return recalled


def _is_same(known: object, first: object) -> bool:
    if isinstance(known, pa.Schema) and known is not first:
        return bool(known.equals(first, check_metadata=True))
    return known is first


def arrow_schema(schema: Schema, shredding: Shredding = _UNSHREDDED) -> pa.Schema:
    """Return the Arrow schema of files, with field ids, variants as in `shredding` (R-095)."""
    return pa.schema([_arrow_field(field, shredding) for field in schema.fields])


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; Schema.empty_table knows no UUIDs inside of other types."""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema=schema)


def arrow_type(type_: Type, shredding: Shredding = _UNSHREDDED) -> pa.DataType:
    """Return the Arrow type, nested fields with their ids. Raises: as arrow_schema."""
    inner = [_arrow_field(field, shredding) for field in children(type_)]
    match type_:
        case PrimitiveType(name) if name in _ARROW:
            return _ARROW[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case FixedType(length):
            return pa.binary(length)
        case GeometryType() | GeographyType():
            return pa.binary()
        case StructType():
            return pa.struct(inner)
        case ListType():
            return pa.list_(*inner)
        case MapType():
            return pa.map_(*inner)
        case _:
            raise Unsupported(f"columns of type {type_text(type_)} can't be written")


def arrow_values(type_: Type, values: Sequence[Any]) -> pa.Array:
    """Return Python values as a column, as single_value has them. Raises: as arrow_schema."""
    wanted = arrow_type(type_)
    if wanted == pa.uuid():
        stored = [None if value is None else value.bytes for value in values]
        return pa.ExtensionArray.from_storage(wanted, pa.array(stored, wanted.storage_type))
    if arrow_types.is_temporal(wanted):
        width = pa.int32() if arrow_types.is_date32(wanted) else pa.int64()
        return pa.array(list(values), width).view(wanted)
    return pa.array(list(values), wanted)


def schema_from_arrow(schema: pa.Schema) -> Schema:
    """Return the Iceberg schema of a Parquet file, as stored: a promoted column has its old type.

    Shape: fields without a field id, or with a nested field without one, are left out.
    Raises: Unsupported, for a type that Iceberg lacks.
    """
    fields = (_field(field) for field in schema)
    return Schema(schema_id=0, fields=tuple(field for field in fields if field is not None))


@remembered
def leaves(schema: pa.Schema) -> tuple[Leaf, ...]:
    """Return the columns of a Parquet file that has this Arrow schema, in their order."""
    return tuple(leaf for field in schema for leaf in _leaves(field, is_repeated=False))


def is_variant(field: pa.Field) -> bool:
    """Whether a field is a variant: names without field ids; Arrow drops the annotation."""
    kind = field.type
    return field_id(field) is not None and is_variant_type(kind) and not any(map(_any_id, kind))


def is_variant_type(kind: pa.DataType) -> bool:
    """Whether the fields of a type have the names of those of a variant."""
    names = {child.name for child in kind} if arrow_types.is_struct(kind) else set[str]()
    return METADATA in names and len(names) > 1 and names <= {METADATA, VALUE, TYPED_VALUE}


def logical_types(schema: pa.Schema) -> Mapping[int, bytes]:
    """Return logical types that pyarrow does not write, by element as in FooterChanges."""
    types = {}
    for number, field in enumerate((element for top in schema for element in _elements(top)), 1):
        if field is not None and is_variant(field):
            types[number] = _VARIANT_1
        elif field is not None and (shape := (field.metadata or {}).get(_SHAPE)):
            types[number] = shape
    return types


def _elements(field: pa.Field) -> Iterator[pa.Field | None]:
    """Yield elements of a Parquet schema, depth first; None for groups of lists and maps."""
    yield field
    kind = field.type
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if arrow_types.is_nested(stored) and not arrow_types.is_struct(stored):
        yield None
    for child in child_fields(stored):
        yield from _elements(child)


def has_field_ids(schema: pa.Schema) -> bool:
    """Return whether any column, at any depth, has a field id."""
    return any(_any_id(field) for field in schema)


def with_mapped_ids(schema: pa.Schema, mapping: NameMapping) -> pa.Schema:
    """Give fields of a file without ids those of a mapping, where it has them (R-181)."""
    return pa.schema([_mapped(field, mapping) for field in schema])


def schema_with_ids(schema: pa.Schema, mapping: NameMapping) -> pa.Schema:
    """The schema of a file with field ids: its own, or where it has none those of a mapping."""
    return schema if has_field_ids(schema) else with_mapped_ids(schema, mapping)


def field_id(field: pa.Field) -> int | None:
    """Return the field id of an Arrow field; None where it has none, or a text that is none."""
    return read_count((field.metadata or {}).get(FIELD_ID, b"").decode("ascii", "replace"))


def places_by_id(fields: Sequence[pa.Field]) -> Places:
    """Return where the field of each id stands among others, and its type; the first of one id."""
    places = reversed(range(len(fields)))
    return {field_id(fields[place]): (place, fields[place].type) for place in places}


def child_fields(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields directly inside an Arrow type."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if arrow_types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(place) for place in range(kind.num_fields)]


def with_children(kind: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Return a type with other fields inside; one without fields, or an extension, as it is."""
    if not fields or isinstance(kind, pa.BaseExtensionType):
        return kind
    if arrow_types.is_map(kind):
        return pa.map_(*fields)
    if arrow_types.is_struct(kind):
        return pa.struct(fields)
    if arrow_types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return (pa.large_list if arrow_types.is_large_list(kind) else pa.list_)(fields[0])


def without_extensions(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type with what extension types are stored as, at any depth."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    fields = [field.with_type(without_extensions(field.type)) for field in child_fields(kind)]
    return with_children(kind, fields)


def is_same_type(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether two Arrow types are the same, fields inside by name, field id and nullability too.

    How parts of lists and maps are called does not count: files differ in it.
    """
    if not left.equals(right):
        return False
    pairs = zip(child_fields(left), child_fields(right), strict=True)
    is_struct = bool(arrow_types.is_struct(left))
    return all(
        field_id(a) == field_id(b)
        and a.nullable == b.nullable
        and (a.name == b.name or not is_struct)
        and is_same_type(a.type, b.type)
        for a, b in pairs
    )


def is_same_schema(left: pa.Schema, right: pa.Schema) -> bool:
    """Return whether two Arrow schemas have the same fields, as is_same_type compares them."""
    return is_same_type(pa.struct(list(left)), pa.struct(list(right)))


def _arrow_field(field: NestedField, shredding: Shredding) -> pa.Field:
    return pa.field(
        field.name,
        shredding.get(field.id) or arrow_type(field.type, shredding),
        nullable=not field.required,
        metadata={FIELD_ID: str(field.id), **_shape_metadata(field.type)},
    )


def _shape_metadata(type_: Type) -> Mapping[bytes, bytes]:
    """Return what the field of geometry or geography has for logical_types; of others nothing.

    Defaults are spelled out, as Java does: DuckDB takes a file without them for another type. An
    algorithm that Parquet does not know leaves the column without a logical type.
    """
    match type_:
        case GeometryType(crs):
            return {_SHAPE: shape_type(17, crs or DEFAULT_CRS)}
        case GeographyType(crs, algorithm):
            name = (algorithm or DEFAULT_ALGORITHM).lower()
            if name not in _ALGORITHMS:
                return {_SHAPE: b""}
            return {_SHAPE: shape_type(18, crs or DEFAULT_CRS, _ALGORITHMS.index(name))}
        case _:
            return {}


def _field(field: pa.Field) -> NestedField | None:
    number = field_id(field)
    type_ = PrimitiveType("variant") if is_variant(field) else _type(field.type)
    if number is None or type_ is None:
        return None
    return NestedField(number, field.name, type_, not field.nullable)


def _type(kind: pa.DataType) -> Type | None:
    """Return the Iceberg type; None where a nested field has no id."""
    if not arrow_types.is_nested(kind):
        return flat_type(kind)
    fields = [_field(field) for field in child_fields(kind)]
    known = [field for field in fields if field is not None]
    if len(known) != len(fields):
        return None
    if arrow_types.is_struct(kind):
        return StructType(tuple(known))
    if arrow_types.is_map(kind):
        key, value = known
        return MapType(key.id, key.type, value.id, value.type, value.required)
    (element,) = known
    return ListType(element.id, element.type, element.required)


def flat_type(kind: pa.DataType) -> Type:
    """Return the Iceberg type of an Arrow type that holds no other. Raises: Unsupported."""
    for test, name in _ICEBERG:
        if test(kind):
            return PrimitiveType(name)
    if arrow_types.is_dictionary(kind):
        return flat_type(kind.value_type)
    if arrow_types.is_timestamp(kind):
        zone = "timestamptz" if kind.tz else "timestamp"
        return PrimitiveType(f"{zone}_ns" if kind.unit == "ns" else zone)
    if arrow_types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if kind == pa.uuid():
        return PrimitiveType("uuid")
    if arrow_types.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    raise Unsupported(f"a data file has a column of type {kind}, which Iceberg lacks")


def _leaves(
    field: pa.Field, *, is_repeated: bool, variant: int | None = None, part: str | None = None
) -> Iterator[Leaf]:
    """Yield the columns of a field, inside of a variant with the id of that."""
    kind = field.type
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if not arrow_types.is_nested(stored):
        id_ = field_id(field) if variant is None else variant
        yield Leaf(id_, is_repeated, kind, part, _SHAPE in (field.metadata or {}))
        return
    repeats = is_repeated or not arrow_types.is_struct(stored)
    inside = field_id(field) if variant is None and is_variant(field) else variant
    for child in child_fields(stored):
        path = None
        if inside is not None:
            path = child.name if part is None else f"{part}.{child.name}"
        yield from _leaves(child, is_repeated=repeats, variant=inside, part=path)


def _any_id(field: pa.Field) -> bool:
    if field_id(field) is not None:
        return True
    return any(map(_any_id, child_fields(field.type)))


def _mapped(field: pa.Field, mapping: NameMapping) -> pa.Field:
    entry = next((entry for entry in mapping if field.name in entry["names"]), {})
    children = child_fields(field.type)
    if arrow_types.is_map(field.type):
        key, item = children
        children = [key.with_name("key"), item.with_name("value")]
    elif not arrow_types.is_struct(field.type):
        children = [child.with_name("element") for child in children]
    inner = [_mapped(child, entry.get("fields") or ()) for child in children]
    mapped = field.with_type(with_children(field.type, inner))
    number = entry.get("field-id")
    return mapped if number is None else mapped.with_metadata({FIELD_ID: str(number)})
