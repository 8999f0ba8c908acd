"""The second before 1970 that ORC loses: which values it may be, and which files."""

import numpy as np
import pyarrow as pa
import pytest

from icectl.entries.orc_seconds import may_be_earlier, may_leave, second_of
from icectl.entries.partition_key import encode_key
from icectl.format.manifest import FileFormat
from icectl.format.partition import PartitionField, PartitionSpec
from icectl.format.schema import Schema
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType
from tests.builders import java_orc
from tests.builders.entry_rows import data, entries

FIELDS = (("at", "timestamptz"), ("nano", "timestamp_ns"), ("day", "date"), ("id", "long"))
SCHEMA = Schema(
    0,
    tuple(
        NestedField(id_, name, PrimitiveType(type_), required=False)
        for id_, (name, type_) in enumerate(FIELDS, 1)
    ),
)
INT = PrimitiveType("int")


def test_what_java_reads_a_second_too_late_may_be_earlier():
    micros = zip(java_orc.MICROS, java_orc.MICROS_READ, strict=True)
    nanos = zip(java_orc.NANOS, java_orc.NANOS_READ, strict=True)
    for second, pairs in ((10**6, micros), (10**9, nanos)):
        written, read = zip(*pairs, strict=True)
        found = may_be_earlier(pa.array(read), second).to_pylist()
        assert {one for one, may in zip(written, found, strict=True) if may} == {
            one
            for one, shown in zip(written, read, strict=True)
            if one != shown or second // 1000 <= one < second
        }
    assert may_be_earlier(pa.array([999, 1000, 999_999, 10**6, None]), 10**6).to_pylist() == [
        False, True, True, False, False,
    ]  # fmt: skip


def test_only_timestamps_have_seconds():
    assert [second_of(PrimitiveType(type_)) for _, type_ in FIELDS] == [10**6, 10**9, None, None]


@pytest.mark.parametrize(
    ("source", "transform", "value", "may"),
    [
        (1, "year", -1, True), (1, "year", 0, False), (1, "month", -1, True),
        (2, "hour", -1, True), (2, "hour", -2, False), (2, "day", -1, True),
        (1, "bucket[8]", 5, True), (3, "day", -1, False), (4, "bucket[8]", 5, False),
        (9, "hour", -1, False),
    ],
)  # fmt: skip
def test_rows_may_leave_partitions_that_hold_the_last_second(source, transform, value, may):
    spec = PartitionSpec(3, (PartitionField((source,), 1000, "p", parse_transform(transform)),))
    types = [PrimitiveType("date") if transform == "day" else INT]
    placed = {"partition_key": encode_key(types, [value]), "spec_id": 3}
    orc = placed | {"file_format": FileFormat.ORC}
    rows = [
        data("a", **orc),
        data("b", **placed, file_format=FileFormat.PARQUET),
        data("c", **orc | {"spec_id": 2}),
    ]
    found = may_leave(entries(*rows), np.arange(3), spec, types, SCHEMA)
    assert found.tolist() == [may, False, False]
