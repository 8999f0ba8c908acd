"""The second before 1970 that ORC files lose.

ORC stores a timestamp as whole seconds and as nanoseconds that count up. Before 1970 writers cut
the seconds off toward zero, and readers take one off again where there are less than zero of them
and more than 999,999 nanoseconds. Where seconds come to zero that way the sign is lost: -1 µs is
stored just as 999,999 µs, and read as that. ORC's library for Java does so and the one for C++ too,
with and without a zone, in bounds and in rows; all other instants they read alike.

Arrow writes by the library for C++, but with nanoseconds that count down before 1970, and gets back
what it wrote. Nothing in a file tells it from what others write by that library: the footers of all
have 1 for the writer. So no writer is asked for. What is shown in the second after 1970 may be one
of the second before, and the partition tells which: its value was made of the row in memory.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Integers, Mask
from icectl.entries.partition_key import decode_key
from icectl.entries.rows import Entries
from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.single_value import UNITS_PER_SECOND
from icectl.format.types import PrimitiveType, Type

_LAST_PARTS = ("year", "month", "day", "hour")
"""Transforms by which the last second before 1970 has a value of its own, -1."""


def second_of(type_: Type) -> int | None:
    """Return a second in the units of a type of timestamps; None of other types."""
    return UNITS_PER_SECOND.get(type_.name) if isinstance(type_, PrimitiveType) else None


def may_be_earlier(values: pa.Array, second: int) -> pa.Array:
    """Return whether each stored value may belong to the previous second; false for nulls.

    `second` is how many units of theirs a second has.
    """
    after = pc.and_(pc.greater_equal(values, second // 1000), pc.less(values, second))
    return pc.fill_null(after, fill_value=False)


def may_leave(
    data: Entries, rows: Integers, spec: PartitionSpec, types: Sequence[Type | None], schema: Schema
) -> Mask:
    """Return whether rows of data files, by what is shown of them, may belong to other partitions.

    Shape: one for each of the rows `rows` of `data`; `types` are those of the spec's values.
    Raises: CorruptTable R-068.
    """
    timed: list[tuple[int, int | None]] = []  # fields of timestamps, and what such rows have there
    for at, item in enumerate(spec.fields):
        source = schema.field(item.source_ids[0])
        if source is not None and second_of(source.type) is not None:
            if item.transform.name in _LAST_PARTS:
                timed.append((at, -1))
            elif item.transform.name == "bucket":
                timed.append((at, None))  # any
    sources = [id_ for item in spec.fields for id_ in item.source_ids]
    if not timed or any(not schema.line_to(id_) for id_ in sources):
        return np.zeros(len(rows), np.bool_)
    table = data.table.select(["file_format", "spec_id", "partition_key"]).take(pa.array(rows))
    is_orc = pc.equal(table["file_format"], int(FileFormat.ORC))
    is_orc = pc.and_(is_orc, pc.equal(table["spec_id"], spec.spec_id))
    keys = pc.unique(table["partition_key"].filter(is_orc)).to_pylist()
    values = {key: decode_key(key, types) for key in keys}
    left = [
        key
        for key, partition in values.items()
        if any(value is None or partition[at] == value for at, value in timed)
    ]
    leaves = pc.is_in(table["partition_key"], value_set=pa.array(left, pa.binary()))
    return np.asarray(pc.and_(is_orc, leaves), np.bool_)
