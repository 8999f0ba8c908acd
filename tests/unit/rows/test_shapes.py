"""Shapes of data files that are not Parquet: rewritten to Parquet, and checked."""

import io

import pyarrow.parquet as pq
import pytest

from icectl.files.parquet.schema import arrow_schema
from icectl.format.bounding_box import box_text, decode_box
from icectl.format.manifest import FileFormat
from icectl.format.schema import Schema
from icectl.format.types import GeographyType, GeometryType, ListType, NestedField, PrimitiveType
from icectl.rows.check_data_file import RecordedFile, TableFacts, check_data_file
from tests.builders.shapes import line, point
from tests.unit.rows.test_rewrite_data import Group

AREA = GeographyType(None, "karney")
COLUMNS = Schema(
    0,
    (
        NestedField(1, "id", PrimitiveType("long"), required=False),
        NestedField(2, "place", GeometryType("srid:7"), required=False),
        NestedField(3, "areas", ListType(4, AREA, element_required=False), required=False),
    ),
)
ROWS = [(1, line((1, 2), (3, 0)), [point(179, 1), None]), (2, None, None), (3, point(0, 5), [])]


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_r095_shapes_in_avro_and_orc_are_checked_and_written_to_parquet(file_format):
    """They are `bytes` of Avro and `binary` of ORC there."""
    fields = list(arrow_schema(COLUMNS))
    group = Group(COLUMNS, version=3)
    group.add(ROWS, fields, file_format)
    assert found(group, "f0", file_format) == []
    (made,) = group.run().files
    file = pq.ParquetFile(io.BytesIO(group.store.content[made.location]))
    assert [tuple(row.values()) for row in file.read(["id", "place", "areas"]).to_pylist()] == ROWS
    types = [str(file.schema.column(at).logical_type) for at in (1, 2)]
    assert types == ["Geometry(crs=srid:7)", "Geography(crs=OGC:CRS84, algorithm=karney)"]
    box = decode_box(made.metrics.lower_bounds[2], made.metrics.upper_bounds[2])
    assert box_text(box) == "POINT (0 0) to POINT (3 5)"
    group.add([(4, b"\1", [b"\2"])], fields, file_format)
    assert [one[:2] for one in found(group, "f1", file_format)] == [
        ("R-095", "`place`"),
        ("R-095", "`areas.element`"),
    ]


def found(group: Group, location: str, file_format: str) -> list[tuple[str, str]]:
    """Return the rules of findings, and the columns that they name."""
    count = len(ROWS) if location == "f0" else 1
    told = RecordedFile(location, FileFormat[file_format.upper()], count, 1)
    content = io.BytesIO(group.store.content[location])
    findings = check_data_file(content, told, TableFacts(COLUMNS, (), 3, None))
    return [(one.rule, one.message.split()[0]) for one in findings]
