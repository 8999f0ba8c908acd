"""Which metrics of a column a manifest entry has, and how long its bounds are."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from icectl.format.properties import (
    MAX_INFERRED_METRICS,
    METRICS_DEFAULT,
    METRICS_OF_COLUMN,
    read,
    read_or_default,
)
from icectl.format.schema import Schema, children
from icectl.format.types import NestedField, PrimitiveType, Type, is_nested

_UNLIMITED = 2**31 - 1
_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Whether values are counted, and the longest bound in code points or bytes; 0 is none."""

    has_counts: bool
    longest_bound: int


NONE, COUNTS = MetricsMode(has_counts=False, longest_bound=0), MetricsMode(True, 0)  # noqa: FBT003
FULL, TRUNCATE_16 = MetricsMode(True, _UNLIMITED), MetricsMode(True, 16)  # noqa: FBT003


def metrics_modes(
    properties: Mapping[str, str], schema: Schema, sorted_ids: Collection[int]
) -> Mapping[int, MetricsMode]:
    """Return the mode of each column without fields of its own, as the table's properties say.

    `sorted_ids` are the columns of the table's sort order, whose bounds are always worth having.
    Texts that name no mode are passed over, as the reference implementation does.
    """
    everywhere = _parsed(properties.get(METRICS_DEFAULT.name))
    columns = [id_ for id_, item in schema.all_fields.items() if not is_nested(item.type)]
    limit = read(properties, MAX_INFERRED_METRICS)
    inferred = set(islice(_by_depth(schema.fields), limit))
    default = everywhere or (TRUNCATE_16 if len(inferred) == len(columns) else NONE)
    modes = {}
    for id_ in columns:
        mode = everywhere or (TRUNCATE_16 if id_ in inferred else NONE)
        if id_ in sorted_ids and not default.longest_bound:
            mode = TRUNCATE_16
        text = properties.get(f"{METRICS_OF_COLUMN}{schema.name_of(id_)}")
        modes[id_] = mode if text is None else _parsed(text) or default
    return modes


def _parsed(text: str | None) -> MetricsMode | None:
    mode = read_or_default({METRICS_DEFAULT.name: text or ""}, METRICS_DEFAULT)
    if mode is not None and mode.startswith("truncate"):
        return MetricsMode(True, int(mode[len("truncate(") : -1]))  # noqa: FBT003
    return {"none": NONE, "counts": COUNTS, "full": FULL}.get(mode or "")


def _by_depth(fields: tuple[NestedField, ...]) -> Iterator[int]:
    """Yield the ids of columns: those of a struct itself before those of structs inside."""
    yield from (item.id for item in fields if not is_nested(item.type))
    for item in fields:
        yield from _by_depth(children(item.type))


def lower_bound(type_: Type, bound: bytes, longest: int) -> bytes:
    """Return the single-value bytes of a bound at or below a value, cut to a length."""
    if type_ == PrimitiveType("string"):
        return bound.decode()[:longest].encode()
    return bound[:longest] if type_ == PrimitiveType("binary") else bound


def upper_bound(type_: Type, bound: bytes, longest: int) -> bytes | None:
    """Return a bound at or above a value, cut to a length; None where none of the length is."""
    if type_ == PrimitiveType("string"):
        text = bound.decode()
        if len(text) <= longest:
            return bound
        stem = text[:longest].rstrip(chr(_LAST_CODE_POINT))
        if not stem:
            return None
        following = ord(stem[-1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        return (stem[:-1] + chr(following)).encode()
    if type_ != PrimitiveType("binary") or len(bound) <= longest:
        return bound
    kept = bound[:longest].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
