"""The order of rows that a compaction is asked for: pure.

    category, bucket(16, id) desc nulls last, day(at)

Keys are names of columns, or transforms of them, as Iceberg's procedures spell them or as `inspect`
shows them: `bucket[16](id)`. Nulls go first where a key ascends, last where it descends.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema, container_of, similar_name_hint
from icectl.format.sort import SortField, SortOrder, order_text
from icectl.format.transforms import Transform, accepts, parse_transform
from icectl.format.types import NestedField, is_comparable, type_text

_PART_OF_NAME = r"(?:`(?:[^`]|``)+`|[^\W\d]\w*)"
_NAME = rf"{_PART_OF_NAME}(?:\s*\.\s*{_PART_OF_NAME})*"
_KEY = re.compile(
    rf"""\s*(?:
      (?P<transform>\w+)\s*(?:\[\s*(?P<shown>\d+)\s*\])?\s*
        \(\s*(?:(?P<before>\d+)\s*,\s*)?(?P<source>{_NAME})\s*(?:,\s*(?P<after>\d+)\s*)?\)
    | (?P<column>{_NAME})
    )
    (?:\s+(?P<direction>asc|desc)\b)?
    (?:\s+nulls\s+(?P<nulls>first|last)\b)?
    \s*(?P<end>,|$)""",
    re.VERBOSE | re.IGNORECASE,
)
_PART = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""A comma that is in no quoted name."""

_SPELLINGS = {
    "years": "year", "months": "month", "days": "day", "date": "day", "hours": "hour",
    "date_hour": "hour",
}  # fmt: skip
_SUPPORTED = (
    "an order is like `category, bucket(16, id) desc nulls last, day(at)`; there are identity, "
    "bucket, truncate, year, month, day and hour"
)
_FEWEST_ON_CURVE = 2


@dataclass(frozen=True, slots=True)
class ZOrder:
    """Rows along a z-curve through the values of these columns."""

    column_ids: tuple[int, ...]


RowOrder = SortOrder | ZOrder
"""How rows are sorted; the id of an order that is none of the table's is 0."""


def order_words(order: RowOrder, schema: Schema) -> str:
    """Return an order in words: `sorted by id asc nulls first`, `along a z-curve through id`."""
    if isinstance(order, ZOrder):
        names = ", ".join(schema.name_of(id_) or "" for id_ in order.column_ids)
        return f"along a z-curve through {names}"
    return f"sorted by {order_text(order, schema)}"


def table_order(metadata: TableMetadata) -> SortOrder:
    """Return the default sort order of a table. Raises: UsageError, where it has none."""
    order = metadata.sort_order(metadata.default_sort_order_id)
    if order is None or not order.fields:
        raise UsageError(
            "the table has no sort order of its own to sort by",
            hint="`--sort-order` says what to sort by",
        )
    return order


def parse_sort_order(text: str, metadata: TableMetadata) -> SortOrder:
    """Return the order that a text says; one of the table's own, with its id, where it is the same.

    Raises: UsageError, naming the position from 1 of what is wrong.
    """
    fields = tuple(_fields(text, metadata.current_schema))
    for order in metadata.sort_orders:
        if _meaning(order.fields) == _meaning(fields):
            return order
    return SortOrder(0, fields)


def parse_zorder(text: str, metadata: TableMetadata) -> ZOrder:
    """Return the columns that a z-curve goes through. Raises: UsageError."""
    schema = metadata.current_schema
    ids: list[int] = []
    for piece in _COMMA.split(text):
        name = piece.strip()
        if re.fullmatch(_NAME, name) is None:
            raise UsageError(f"`--zorder`: `{name}` is not a column name")
        item = _column("--zorder", name, schema)
        if not is_comparable(item.type):
            raise UsageError(f"`--zorder`: `{name}` is {type_text(item.type)}, which has no order")
        ids.append(item.id)
    if len(ids) < _FEWEST_ON_CURVE or len(set(ids)) < len(ids):
        hint = "rows are sorted by one column with `--sort-order`"
        raise UsageError("`--zorder` takes two or more different columns", hint=hint)
    return ZOrder(tuple(ids))


def _meaning(fields: Sequence[SortField]) -> list[tuple[object, ...]]:
    return [
        (item.source_ids, item.transform.name, item.transform.width, item.direction,
         item.null_order)
        for item in fields
    ]  # fmt: skip


def _fields(text: str, schema: Schema) -> Sequence[SortField]:
    fields: list[SortField] = []
    at = 0
    while True:
        match = _KEY.match(text, at)
        if match is None:
            message = (
                f"`--sort-order`: at position {at + 1}: `{text[at:].strip()}` is not a sort key"
            )
            raise UsageError(message, hint=_SUPPORTED)
        fields.append(_field(match, schema))
        at = match.end()
        if not match["end"]:
            return fields


def _field(match: re.Match[str], schema: Schema) -> SortField:
    name = match["source"] or match["column"]
    item = _column("--sort-order", name, schema)
    transform = _transform(match)
    if not accepts(transform, item.type):
        shown = f"{transform.text} of `{name}`, which is {type_text(item.type)}"
        raise UsageError(f"`--sort-order`: there is no {shown}", hint=_SUPPORTED)
    direction = (match["direction"] or "asc").lower()
    usual = "first" if direction == "asc" else "last"
    nulls = f"nulls-{(match['nulls'] or usual).lower()}"
    return SortField((item.id,), transform, direction, nulls)


def _transform(match: re.Match[str]) -> Transform:
    """Return the transform of a key. Raises: UsageError, where there is none like that."""
    name = (match["transform"] or "identity").lower()
    widths = [text for text in match.group("shown", "before", "after") if text is not None]
    spelled = _SPELLINGS.get(name, name) + "".join(f"[{width}]" for width in widths)
    transform = parse_transform(spelled)
    if transform.name in ("unknown", "void"):
        raise UsageError(f"`--sort-order`: there is no transform `{spelled}`", hint=_SUPPORTED)
    return transform


def _column(option: str, text: str, schema: Schema) -> NestedField:
    parts = _PART.findall(text)
    name = ".".join(quoted.replace("``", "`") or plain for quoted, plain in parts)
    item = schema.field_named(name)
    if item is None:
        names = [schema.name_of(id_) or "" for id_ in schema.all_fields]
        raise UsageError(
            f"`{option}`: the table has no column `{name}`", hint=similar_name_hint(name, names)
        )
    container = container_of(name, schema)
    if container is not None:
        raise UsageError(f"`{option}`: `{name}` lies in a {container}, of which a row has many")
    return item
