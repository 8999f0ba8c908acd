"""Searches for bounds that do not decode, or exclude what they should include (R-091, R-092)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.faults import Fault
from icectl.entries.rows import RawEntries
from icectl.entries.stats import flat
from icectl.spec.types import DecimalType, FixedType, PrimitiveType, Type

_WIDTHS: Mapping[str, tuple[int, ...]] = {
    "boolean": (1,),
    "int": (4,),
    "long": (4, 8),
    "float": (4,),
    "double": (4, 8),
    "date": (4,),
    "time": (8,),
    "timestamp": (4, 8),
    "timestamptz": (8,),
    "timestamp_ns": (4, 8),
    "timestamptz_ns": (8,),
    "uuid": (16,),
}
"""Bytes of a bound; narrower ones are of the type before a promotion (R-096)."""

_SIGNED = frozenset(
    {"int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
)
_REAL = frozenset({"float", "double"})
_LONGEST = 17
"""Longest fixed width, and one more: how lengths are told apart."""


@dataclass(frozen=True, slots=True)
class BoundTypes:
    """What is known of the columns that bounds may be of, in arrays that field ids index.

    `widths[id]` has a bit set for each allowed length, or all of them; `signed` and `real` tell how
    bounds compare; `text` that they are UTF-8.
    """

    widths: npt.NDArray[np.int64]
    signed: npt.NDArray[np.bool_]
    real: npt.NDArray[np.bool_]
    text: npt.NDArray[np.bool_]
    fixed: Mapping[int, int]


def bound_types(columns: Mapping[int, Sequence[Type]]) -> BoundTypes:
    """Prepare the types of columns; a column may have had several (R-097)."""
    size = max((id_ for id_ in columns if id_ < 1 << 20), default=0) + 1
    widths = np.full(size, -1, np.int64)
    signed, real, text = (np.zeros(size, np.bool_) for _ in range(3))
    fixed: dict[int, int] = {}
    for id_, types in columns.items():
        if id_ >= size:
            continue
        names = {type_.name for type_ in types if isinstance(type_, PrimitiveType)}
        if len(names) == len(types) and names <= _WIDTHS.keys():
            widths[id_] = sum(1 << width for width in {w for name in names for w in _WIDTHS[name]})
            signed[id_] = names <= _SIGNED
            real[id_] = names <= _REAL
        text[id_] = names == {"string"}
        lengths = {type_.length for type_ in types if isinstance(type_, FixedType)}
        if len(lengths) == 1 and len(types) == 1:
            fixed[id_] = lengths.pop()
        if any(isinstance(type_, DecimalType) for type_ in types):
            widths[id_] = ~1  # any length but none
    return BoundTypes(widths, signed, real, text, fixed)


@dataclass(frozen=True, slots=True)
class Bounds:
    """All bounds of one side, one after the other."""

    rows: npt.NDArray[np.int64]
    field_ids: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    content: npt.NDArray[np.uint8]
    values: pa.Array


def read_bounds(rows: RawEntries, column: str) -> Bounds:
    """The bounds of a column of entries as arrays. Order: row, then as stored."""
    found = flat(rows, column)
    values = found["value"].combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], pa.binary())
    values = pc.fill_null(values, b"")
    _, offsets, content = values.buffers()
    ends = np.zeros(1, np.int64)
    if len(values):
        stored_ends = np.frombuffer(offsets, np.int32)
        ends = stored_ends[values.offset : values.offset + len(values) + 1].astype(np.int64)
    stored = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    return Bounds(
        found["row"].to_numpy(),
        found["field_id"].to_numpy().astype(np.int64),
        ends[:-1],
        np.asarray(np.diff(ends), np.int64),
        stored,
        values,
    )


def undecodable(rows: RawEntries, found: Bounds, types: BoundTypes) -> Fault | None:
    """Entries with a bound whose length, or text, is none of its column's type (R-091)."""
    known = found.field_ids < len(types.widths)
    ids = np.where(known, found.field_ids, 0)
    allowed = types.widths[ids] >> np.minimum(found.lengths, _LONGEST) & 1
    wrong = known & (types.widths[ids] != -1) & (allowed == 0)
    for id_, length in types.fixed.items():
        wrong |= (found.field_ids == id_) & (found.lengths > length)
    texts = np.flatnonzero(known & types.text[ids])
    wrong[texts] |= _not_text(found, texts)
    return _fault(rows, found.rows[wrong])


def not_a_number(rows: RawEntries, found: Bounds, types: BoundTypes) -> Fault | None:
    """Entries with a bound that is NaN (R-092)."""
    wrong: list[npt.NDArray[np.int64]] = []
    for width in (4, 8):
        chosen = _of_kind(found, types.real, width)
        wrong.append(found.rows[chosen[np.isnan(_values(found, chosen, f"<f{width}"))]])
    return _fault(rows, np.concatenate(wrong))


def crossed(rows: RawEntries, lower: Bounds, upper: Bounds, types: BoundTypes) -> Fault | None:
    """Entries with a lower bound above the upper one, which would hide every row.

    Only bounds of numbers, whose columns come in the same order on both sides, are compared.
    """
    if len(lower.rows) != len(upper.rows) or not (
        np.array_equal(lower.field_ids, upper.field_ids) and np.array_equal(lower.rows, upper.rows)
    ):
        return None
    wrong: list[npt.NDArray[np.int64]] = []
    for kind, letter in ((types.signed, "i"), (types.real, "f")):
        for width in (4, 8):
            chosen = _of_kind(lower, kind, width)
            chosen = chosen[upper.lengths[chosen] == width]
            form = f"<{letter}{width}"
            above = _values(lower, chosen, form) > _values(upper, chosen, form)
            wrong.append(lower.rows[chosen[above]])
    return _fault(rows, np.concatenate(wrong))


def _of_kind(found: Bounds, kind: npt.NDArray[np.bool_], width: int) -> npt.NDArray[np.int64]:
    known = found.field_ids < len(kind)
    ids = np.where(known, found.field_ids, 0)
    return np.flatnonzero(known & kind[ids] & (found.lengths == width))


def _values(found: Bounds, chosen: npt.NDArray[np.int64], form: str) -> npt.NDArray[Any]:
    """Numbers of one width out of the bytes."""
    width = int(form[-1])
    places = found.starts[chosen][:, None] + np.arange(width)
    values: npt.NDArray[Any] = found.content[places].view(form).reshape(len(chosen))
    return values


def _not_text(found: Bounds, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the values are not UTF-8: all at once, and one by one where that fails."""
    values = found.values.take(pa.array(chosen))
    wrong = np.zeros(len(chosen), np.bool_)
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        for at, value in enumerate(values.to_pylist()):
            try:
                value.decode()
            except UnicodeDecodeError:
                wrong[at] = True
    return wrong


def _fault(rows: RawEntries, places: npt.NDArray[np.int64]) -> Fault | None:
    distinct = np.unique(places)
    if not len(distinct):
        return None
    return Fault(len(distinct), rows.table["location"][int(distinct[0])].as_py())
