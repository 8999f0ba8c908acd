"""Tables with geometry and geography through whole commands."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.env import Env
from tests.builders.broken import Broken, in_first
from tests.builders.expiry import NOW_MS
from tests.builders.rows import head, local
from tests.builders.shape_table import ROWS, TYPES, rewritten, shape_table
from tests.builders.shapes import point
from tests.cli.conftest import Run, result
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def icectl(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run any command of icectl, compactions on this machine."""
    monkeypatch.setenv("ICECTL_COMPACT_ENGINE", "local")
    return prepared("validate", FixedEnv(NOW_MS))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return shape_table(tmp_path)


def bounds(icectl: Run, table: Path) -> list[dict[str, tuple[Any, Any]]]:
    """The bounds of each file's columns, by name, of those that have some."""
    rows = result(icectl(table, "files", "--json", command="inspect"))["rows"]
    found = []
    for row in rows:
        metrics = row["readable_metrics"].items()
        ends = {name: (one["lower_bound"], one["upper_bound"]) for name, one in metrics}
        found.append({name: one for name, one in ends.items() if one != (None, None)})
    return found


def stored(icectl: Run, table: Path) -> list[Path]:
    rows = result(icectl(table, "files", "--json", command="inspect"))["rows"]
    return [Path(row["file_path"].removeprefix("file:")) for row in rows]


def by_pyarrow(files: list[Path]) -> list[dict[str, Any]]:
    """The rows, with bytes of shapes, as the builder has them."""
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    names = ["id", *TYPES, "held", "many", "named"]
    return sorted(({name: row[name] for name in names} for row in rows), key=lambda row: row["id"])


EXPECTED = [dict.fromkeys((*TYPES, "held", "many", "named")) | row for row in ROWS]
BOXES = {
    "id": (1, 4),
    "place": ("POINT Z (-1 -5 3)", "POINT Z (4 9 6)"),
    "area": ("POINT (178 5)", "POINT (-170 11)"),  # across 180 degrees
    "held.place": ("POINT (7 8)", "POINT (7 8)"),
}
"""Of `other` there is none: it has an edge on a globe."""


def test_a_rewrite_keeps_shapes_and_finds_their_boxes(table, icectl):
    assert bounds(icectl, table) == [{}, {}]
    assert by_pyarrow(stored(icectl, table)) == EXPECTED
    done = result(icectl(table, "--rewrite-all", "--yes", "--json", command="compact"))
    assert done["added_data_files"] == 1
    (file,) = stored(icectl, table)
    assert by_pyarrow([file]) == EXPECTED
    assert bounds(icectl, table) == [BOXES]
    assert result(icectl(table, "--level", "data", "--json"))["findings"] == []

    metadata = pq.ParquetFile(file).metadata
    geometry = "Geometry(crs=EPSG:3857)"
    assert [str(metadata.schema.column(at).logical_type) for at in (1, 2, 3, 4)] == [
        geometry, "Geography(crs=OGC:CRS84, algorithm=karney)", "None", geometry,
    ]  # fmt: skip
    columns = [metadata.row_group(0).column(at) for at in range(1, metadata.num_columns)]
    shapes = [one for one in columns if one.physical_type == "BYTE_ARRAY"]
    assert [one.statistics.has_min_max for one in shapes] == [
        one.path_in_schema == "named.key_value.key" for one in shapes
    ]
    told = [one.geo_statistics and one.geo_statistics.geospatial_types for one in shapes]
    assert told == [[1, 2, 1002], None, None, [1], None, None, None]
    again = icectl(table, "--check", "--json", command="compact")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


def test_duckdb_reads_what_was_compacted(table, icectl):
    icectl(table, "--rewrite-all", "--yes", command="compact")
    (file,) = stored(icectl, table)
    columns = "typeof(place), place::varchar, area::varchar, held.place::varchar, other"
    found = duckdb.sql(f"select {columns} from '{file}' order by id").fetchall()
    assert found == [
        ("GEOMETRY", "LINESTRING Z (1 2 3, 4 -5 6)", "POINT (179 10)", "POINT (7 8)",
         ROWS[0]["other"]),
        ("GEOMETRY", "LINESTRING EMPTY", "MULTIPOINT (-179 11, 178 9)", None,
         ROWS[1]["other"]),
        ("GEOMETRY", None, None, None, None),
        ("GEOMETRY", "POINT (-1 9)", "POINT (-170 5)", None, ROWS[3]["other"]),
    ]  # fmt: skip


AS_GEOMETRY = """* REPLACE (
    place::geometry AS place, held::struct(place geometry) AS held, many::geometry[] AS many,
    named::map(varchar, geometry) AS named,
    nullif(area, ''::blob) AS area, nullif(other, ''::blob) AS other)"""
"""The last two may be null: of what can't be, DuckDB makes required columns, which do not merge."""
FIELD_IDS = """{id: 1, place: 2, area: 3, other: 4, held: {__duckdb_field_id: 5, place: 8},
    many: {__duckdb_field_id: 6, element: 9}, named: {__duckdb_field_id: 7, key: 10, value: 11}}"""


def by_duckdb(file: Path) -> None:
    """Write a file anew as DuckDB does, all but geography, which it lacks, as GEOMETRY."""
    made = file.with_suffix(".made")
    options = f"FORMAT parquet, FIELD_IDS {FIELD_IDS}, GEOPARQUET_VERSION 'NONE'"
    duckdb.sql(f"COPY (SELECT {AS_GEOMETRY} FROM '{file}') TO '{made}' ({options})")
    made.rename(file)


MERGED_BOXES = {name: box for name, box in BOXES.items() if name != "area"}
"""Footers have no boxes of geography."""


@pytest.mark.parametrize(
    ("way", "boxes"),
    [(["--rewrite-all"], BOXES), (["--method", "merge", "--min-input-files", "2"], MERGED_BOXES)],
    ids=["rewrite", "merge"],
)
def test_geometry_that_duckdb_wrote_is_compacted(table, icectl, way, boxes):
    assert icectl(table, "--yes", command="rewrite-manifests").code == 0  # gives rows their ids
    rewritten(table, by_duckdb)
    assert [geometries(file) for file in stored(icectl, table)] == [4, 4]
    values = {row["id"]: row for file in stored(icectl, table) for row in shown(file)}
    assert data_findings(icectl, table) == []
    done = result(icectl(table, *way, "--yes", "--json", command="compact"))
    assert done["added_data_files"] == 1
    (file,) = stored(icectl, table)
    assert geometries(file) == 4
    assert {row["id"]: row for row in shown(file)} == values
    assert bounds(icectl, table) == [boxes]
    assert data_findings(icectl, table) == []


def geometries(file: Path) -> int:
    return str(pq.ParquetFile(file).schema).count("(Geometry(crs=")


def shown(file: Path) -> list[dict[str, Any]]:
    """The rows of a file as DuckDB reads them, and what it takes their columns for."""
    kinds = "typeof(place) AS kind, typeof(held) AS of_held, typeof(many) AS of_many"
    columns = f"id, {', '.join(TYPES)}, held, many, named, {kinds}"
    return duckdb.sql(f"SELECT {columns} FROM '{file}'").to_arrow_table().to_pylist()


def data_findings(icectl: Run, table: Path) -> list[Any]:
    """What is found but for the sizes of files, which a summary has of before."""
    found = icectl(table, "--level", "data", "--json").document["result"]["findings"]
    return [one for one in found if one["rule"] != "R-031"]


def damaged(table: Path, icectl: Run, change: Callable[[bytes], bytes]) -> dict[str, Any]:
    """What is found once a value of `place` is another, and all else fits."""
    (file,) = stored(icectl, table)
    read = pq.read_table(file)
    at = read.schema.get_field_index("place")
    values = [None if one is None else change(one) for one in read["place"].to_pylist()]
    changed = read.set_column(at, read.schema.field(at), [values])
    pq.write_table(changed, file, store_schema=False)
    size = file.stat().st_size
    broken = Broken(table)
    broken.edit_manifest(in_first(lambda entry: entry["data_file"].update(file_size_in_bytes=size)))
    found = icectl(table, "--level", "data", "--json").document["result"]["findings"]
    (one,) = [one for one in found if one["rule"] in ("R-093", "R-095")]
    return {"rule": one["rule"], "severity": one["severity"], "message": one["message"]}


def test_r095_a_flipped_bit_is_a_finding_and_a_rewrite_keeps_it(table, icectl):
    icectl(table, "--rewrite-all", "--yes", command="compact")
    shape = ROWS[3]["place"]
    flipped = bytes([*shape[:2], shape[2] ^ 0x10, *shape[3:]])
    found = damaged(table, icectl, lambda one: flipped if one == shape else one)
    assert (found["rule"], found["severity"]) == ("R-095", "error")
    assert (
        "`place` has 1 values that are no shapes, one of them because its type is 4097"
        in (found["message"])
    )
    icectl(table, "--rewrite-all", "--yes", command="compact")
    assert flipped in [row["place"] for row in by_pyarrow(stored(icectl, table))]
    assert bounds(icectl, table) == [BOXES]  # joined of those that the inputs had


def test_r093_bounds_that_exclude_a_shape_are_a_finding(table, icectl):
    icectl(table, "--rewrite-all", "--yes", command="compact")
    far = point(5, 9)
    found = damaged(table, icectl, lambda one: far if one == ROWS[3]["place"] else one)
    assert (found["rule"], found["severity"]) == ("R-093", "error")
    assert "`place` has shapes in POINT Z (1 -5 3) to POINT Z (5 9 6)" in found["message"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--where", "place = x'01'"],
            "`place` is geometry(EPSG:3857); only `is null` works on it",
        ),
        (
            ["--sort-order", "place"],
            "there is no identity of `place`, which is geometry(EPSG:3857)",
        ),
        (
            ["--sort-order", "bucket(4, area)"],
            "there is no bucket[4] of `area`, which is geography",
        ),
        (["--zorder", "id, other"], "`other` is geography(srid:7, euclid), which has no order"),
    ],
)
def test_shapes_are_refused_where_values_are_compared(table, icectl, arguments, told):
    ended = icectl(table, *arguments, "--dry-run", command="compact")
    assert ended.code == 2
    assert told in " ".join(ended.err.split())


def test_types_are_kept_in_metadata_whatever_their_algorithm(table, icectl):
    icectl(table, "--rewrite-all", "--yes", command="compact")
    current = max((table / "metadata").glob("v*.metadata.json"))
    fields = json.loads(current.read_text())["schemas"][0]["fields"]
    assert {one["name"]: one["type"] for one in fields if one["name"] in TYPES} == TYPES


@pytest.mark.parametrize(
    ("layouts", "mode"),
    [
        (("sfc-1", "iceberg-1.12"), ["--lazy"]),
        (("sfc-1", "iceberg-1.12"), ["--eager"]),
        (("iceberg-1.12", "sfc-1"), []),
    ],
)
def test_upgrades_keep_types_and_their_parameters(table, icectl, layouts, mode):
    """In metadata alone: every data file stays, also without the columns that came after it."""
    path = table / "metadata/v1.metadata.json"
    metadata = json.loads(path.read_text())
    metadata["last-column-id"] += 2
    added = {"variant": "variant", "default": "geography"}
    metadata["schemas"][0]["fields"] += [
        {"id": metadata["last-column-id"] - at, "name": name, "required": False, "type": kind}
        for at, (name, kind) in enumerate(added.items())
    ]
    path.write_text(json.dumps(metadata))
    fields = metadata["schemas"][0]["fields"]
    files = {file: file.read_bytes() for file in stored(icectl, table)}
    for at, layout in enumerate(layouts):
        words = [] if at else mode
        done = icectl(table, "--layout", layout, *words, "--yes", command="upgrade-to-v4")
        assert done.code == 0, done.err
        assert result(icectl(table, "--json", command="inspect"))["layout"] == layout
        current = max((table / "metadata").glob("v*.metadata.json"), key=version_of)
        after = json.loads(current.read_text())
        assert after["format-version"] == 4
        assert [one["fields"] for one in after["schemas"]] == [fields]
    assert {file: file.read_bytes() for file in stored(icectl, table)} == files
    assert result(icectl(table, "--level", "data", "--json"))["findings"] == []


def version_of(path: Path) -> int:
    return int(path.name.split(".")[0].removeprefix("v"))


CORNERS = {"place": ((-1, -5, 3), (4, 9, 6)), "area": ((178, 5), (-170, 11))}


def corners_of(root: Path, content_type: int) -> dict[str, Any]:
    """The corners that the one entry of a kind in a root or leaf has, by field ids alone."""

    def members(values: pa.Array) -> dict[int, pa.Array]:
        ids = (int(field.metadata[b"PARQUET:field_id"]) for field in values.type)
        return dict(zip(ids, values.flatten(), strict=True))

    columns = members(pq.read_table(root).to_struct_array().combine_chunks())
    at = columns[134].to_pylist().index(content_type)
    groups, found = members(columns[10_000]), {}
    for number, name in enumerate(TYPES, 2):
        base = 10_000 + 200 * number
        bounds = members(groups[base])
        ends = []
        for bound, first in ((bounds[base + 1], 10), (bounds[base + 2], 14)):
            axes = members(bound)
            values = [axes[base + first + place][at].as_py() for place in range(4)]
            ends.append(tuple(value for value in values if value is not None))
        if any(ends):
            found[name] = tuple(ends)
    return found


def test_roots_have_the_boxes_of_shapes_by_the_ids_of_the_layout(table, icectl):
    """Of a manifest below a root, of a leaf, of a new file, and back in manifests."""
    icectl(table, "--rewrite-all", "--yes", command="compact")
    upgrade = (table, "--layout=sfc-1", "--yes", "--quiet")
    for mode, kinds in (("", "root"), ("--eager", "leaf")):
        assert icectl(*upgrade, *filter(None, [mode]), command="upgrade-to-v4").code == 0, kinds
        assert corners_of(local(head(table)["root-manifest"]), 3) == CORNERS, kinds
        assert bounds(icectl, table) == [BOXES]
        assert result(icectl(table, "--level", "data", "--json"))["findings"] == []
    leaf = result(icectl(table, "manifests", "--json", command="inspect"))["rows"][0]["path"]
    assert corners_of(local(leaf), 0) == CORNERS
    icectl(table, "--rewrite-all", "--yes", command="compact")
    assert by_pyarrow(stored(icectl, table)) == EXPECTED
    assert corners_of(local(head(table)["root-manifest"]), 0) == CORNERS
    found = result(icectl(table, "--level", "data", "--json"))["findings"]
    assert {one["rule"] for one in found} == {"V4-192"}  # of a leaf all is dead
    back = (table, "--layout=iceberg-1.12", "--yes", "--quiet")
    assert icectl(*back, command="upgrade-to-v4").code == 0
    assert bounds(icectl, table) == [BOXES]
