"""A table with columns of shapes: PyIceberg writes bytes, and the metadata says what they are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from tests.builders.broken import Broken, Record
from tests.builders.shapes import LINE, MULTI_POINT, XYZ, line, point, wkb

TYPES = {
    "place": "geometry(EPSG:3857)",
    "area": "geography(OGC:CRS84, karney)",
    "other": "geography(srid:7, euclid)",
}
"""Columns by the types that they get; the last algorithm is none that Parquet knows."""

ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "place": wkb(LINE, [(1, 2, 3), (4, -5, 6)], XYZ, ">"), "area": point(179, 10),
        "other": point(1, 1), "held": {"place": point(7, 8)}, "many": [point(1, 1), None],
        "named": [("a", line((0, 0), (9, 9)))],
    },
    {
        "id": 2, "place": wkb(LINE, []), "area": wkb(MULTI_POINT, [(-179, 11), (178, 9)]),
        "other": line((0, 0), (5, 5)), "held": None, "many": None, "named": [],
    },
    {"id": 3, "place": None, "area": None, "other": None, "held": {"place": None}, "many": []},
    {"id": 4, "place": point(-1, 9), "area": point(-170, 5), "other": point(2, 2)},
]  # fmt: skip


def shape_table(directory: Path, bounds: str = "none") -> Path:
    """A table of version 3 in a directory, two files of two rows; where it lies."""
    shape = pa.binary()
    schema = pa.schema(
        [
            ("id", pa.int64()),
            *((name, shape) for name in TYPES),
            ("held", pa.struct([("place", shape)])),
            ("many", pa.list_(shape)),
            ("named", pa.map_(pa.string(), shape)),
        ]
    )
    directory.mkdir(parents=True, exist_ok=True)
    place = {"uri": f"sqlite:///{directory}/catalog.db", "warehouse": str(directory)}
    catalog = SqlCatalog("shapes", **place)
    catalog.create_namespace("db")
    settings = {"write.metadata.metrics.default": bounds}
    table = catalog.create_table("db.shapes", schema, properties=settings)
    for some in (ROWS[:2], ROWS[2:]):
        table.append(pa.Table.from_pylist(some, schema))
    catalog.engine.dispose()
    return _as_shapes(Path(table.metadata_location.removeprefix("file://")))


def rewritten(table: Path, change: Callable[[Path], None]) -> None:
    """Have each live data file of a table written anew by others, with the same rows."""
    broken = Broken(table)
    files = {one["data_file"]["file_path"].removeprefix("file://") for one in broken.entries()}
    for file in map(Path, sorted(files)):
        change(file)
        broken.edit_manifest(_with_sizes, holding=lambda one, name=file.name: name in str(one))


def _with_sizes(entries: list[Record]) -> None:
    for entry in entries:
        file = entry["data_file"]
        file["file_size_in_bytes"] = Path(file["file_path"].removeprefix("file://")).stat().st_size


def _as_shapes(current: Path) -> Path:
    """Say in the metadata that bytes are shapes, and make a file-system table of it."""
    metadata = json.loads(current.read_text())
    where = current.parent.parent
    metadata |= {"location": str(where), "metadata-log": [], "format-version": 3, "next-row-id": 0}
    metadata["properties"] = {}
    for field in metadata["schemas"][0]["fields"]:
        if field["name"] in TYPES:
            field["type"] = TYPES[field["name"]]
        elif field["type"] != "long":
            text = json.dumps(field["type"]).replace('"binary"', f'"{TYPES["place"]}"')
            field["type"] = json.loads(text)
    for path in current.parent.glob("*.metadata.json"):
        path.unlink()
    (current.parent / "v1.metadata.json").write_text(json.dumps(metadata))
    (current.parent / "version-hint.text").write_text("1")
    return where
