"""Columns of geometry and geography in Parquet: their types, boxes, and no bounds by bytes."""

import io
import json
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.files.data_file import open_data_file
from icectl.files.parquet.schema import arrow_schema
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.files.wkb import Shapes
from icectl.format.bounding_box import decode_box, decode_corner
from icectl.format.schema import Schema, schema_from_json
from icectl.format.types import GeographyType, GeometryType, NestedField
from icectl.rows.read_data import SourceFile, open_source
from tests.builders.shapes import LINE, XYZ, point, wkb


class Wkb(pa.ExtensionType):
    """What pyarrow takes for geometry, and reads it as."""

    def __init__(self, said: bytes = b"{}") -> None:
        self.said = said
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.said

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, said: bytes) -> "Wkb":
        return cls(said)


@pytest.fixture
def geoarrow() -> Iterator[None]:
    pa.register_extension_type(Wkb())
    yield
    pa.unregister_extension_type("geoarrow.wkb")


SHAPES = schema_from_json(
    {
        "schema-id": 0,
        "type": "struct",
        "fields": [
            {"id": id_, "name": name, "required": False, "type": kind}
            for id_, name, kind in (
                (1, "id", "long"),
                (2, "place", "geometry(EPSG:3857)"),
                (3, "where", "geography(OGC:CRS84, vincenty)"),
                (
                    4,
                    "many",
                    {
                        "type": "list",
                        "element-id": 5,
                        "element": "geometry",
                        "element-required": False,
                    },
                ),
            )
        ],
    }
)


PLACES = [wkb(LINE, [(1, 2, 3), (4, 0, 5)], XYZ), None, point(-1, 9)]


def with_shapes() -> io.BytesIO:
    """Two row groups of shapes, the second without any."""
    arrow = arrow_schema(SHAPES)
    rows = [[1, 2, 3], PLACES, [point(179, 1), point(-179, 1), None], [[point(1, 1)], [], None]]
    arrays = [pa.array(values, kind) for values, kind in zip(rows, arrow.types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow)
    file = io.BytesIO()
    writer = ParquetWriter(file, arrow, ParquetOptions(), {})
    for some in (batch, batch.slice(1, 1)):
        shapes = {2: Shapes(is_geography=False), 3: Shapes(is_geography=True)}
        for id_, found in shapes.items():
            found.add(some.column(id_ - 1))
        writer.write_row_group([some], shapes=shapes)
    writer.close()
    return file


def test_shapes_have_their_types_and_boxes_and_no_bounds_by_bytes():
    metadata = pq.ParquetFile(with_shapes()).metadata
    types = [json.loads(metadata.schema.column(at).logical_type.to_json()) for at in range(1, 4)]
    assert [one["Type"] for one in types] == ["Geometry", "Geography", "Geometry"]
    assert [one.get("crs", "") for one in types] == ["EPSG:3857", "OGC:CRS84", "OGC:CRS84"]
    assert types[1]["algorithm"] == "vincenty"
    first, second = (
        [metadata.row_group(number).column(at) for at in range(1, 4)] for number in range(2)
    )
    for column in (*first, *second):
        assert not column.statistics.has_min_max
        assert not column.has_column_index
        assert column.has_offset_index
    assert [one.statistics.null_count for one in first] == [1, 1, 2]
    assert first[0].geo_statistics.to_dict() == {
        "geospatial_types": [1, 1002], "xmin": -1.0, "xmax": 4.0, "ymin": 0.0, "ymax": 9.0,
        "zmin": 3.0, "zmax": 5.0, "mmin": None, "mmax": None,
    }  # fmt: skip
    assert [one.geo_statistics for one in (*first[1:], *second)] == [None] * 5
    assert metadata.row_group(0).column(0).has_column_index


def test_defaults_are_spelled_out_as_those_of_java_which_duckdb_tells_from_none(tmp_path):
    """The types that Spark 4.3 and Iceberg 1.12 write of `geometry` and `geography`."""
    shapes = [("plane", GeometryType()), ("globe", GeographyType())]
    fields = [NestedField(at, *one, required=False) for at, one in enumerate(shapes)]
    path = tmp_path / "shapes.parquet"
    arrow = arrow_schema(Schema(0, tuple(fields)))
    with path.open("wb") as file:
        writer = ParquetWriter(file, arrow, ParquetOptions(), {})
        batch = pa.record_batch([pa.array([point(1, 1)])] * 2, schema=arrow)
        writer.write_row_group([batch])
        writer.close()
    schema = pq.ParquetFile(path).metadata.schema
    assert [str(schema.column(at).logical_type) for at in (0, 1)] == [
        "Geometry(crs=OGC:CRS84)", "Geography(crs=OGC:CRS84, algorithm=spherical)",
    ]  # fmt: skip
    kinds = duckdb.sql(f"select typeof(plane), typeof(globe) from '{path}'").fetchall()
    assert kinds == [("GEOMETRY('OGC:CRS84')",) * 2]


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ([((0, 1), (2, 3)), ((-1, 0), (2, 5))], ((-1, 0), (2, 5))),
        # Across the line at 180 degrees: Parquet has that of geometry, bounds of tables have not.
        ([((170, 0), (-170, 1))], None),
        ([((170, 0), (-170, 1)), ((0, 0), (1, 1))], None),
        ([((0, 3), (1, 2))], None),
    ],
)
def test_r093_boxes_of_geometry_that_are_no_bounds_are_not_made_some(boxes, expected):
    schema = Schema(0, SHAPES.fields[1:2])
    arrow = arrow_schema(schema)
    file = io.BytesIO()
    writer = ParquetWriter(file, arrow, ParquetOptions(), {})
    for ends in boxes:
        shapes = Shapes(is_geography=False, types={1})
        shapes.lower[:2], shapes.upper[:2] = ends
        batch = pa.record_batch([pa.array([point(1, 1)])], schema=arrow)
        writer.write_row_group([batch], shapes={2: shapes})
    writer.close()
    found = open_data_file(file.getvalue(), "parquet").metrics(schema)
    bounds = found.lower_bounds.get(2), found.upper_bounds.get(2)
    corners = [None if one is None else decode_corner(one)[:2] for one in bounds]
    assert corners == list(expected or (None, None))


def test_pyarrow_reads_shapes_as_geoarrow_and_its_own_are_read(geoarrow):
    read = pq.read_table(with_shapes())
    assert [read.schema.field(at).type.extension_name for at in (1, 2)] == ["geoarrow.wkb"] * 2
    assert b"EPSG:3857" in read.schema.field("place").type.said
    assert b"vincenty" in read.schema.field("where").type.said
    place = read.schema.field("place").with_metadata({"PARQUET:field_id": "2"})
    file = io.BytesIO()
    pq.write_table(read.select(["place"]).cast(pa.schema([place])), file)
    found = open_data_file(file.getvalue(), "parquet").metrics(SHAPES)
    box = decode_box(found.lower_bounds[2], found.upper_bounds[2])
    assert (box.lower[:3], box.upper[:3]) == ((-1, 0, 3), (4, 9, 5))
    source = open_source(
        io.BytesIO(file.getvalue()),
        SourceFile("f", "parquet", 4, 1),
        Schema(0, SHAPES.fields[1:2]),
        (),
    )
    (rows,) = source.stored()
    assert source.project(rows.batch, np.arange(4)).column(0).to_pylist() == [*PLACES, None]
