"""Rows that Spark finds by filters that it pushes down to files of icectl: all that there are."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.builders.filtered import build, conditions, names
from tests.spark.conftest import icectl, peer
from tests.spark.engine import on_spark, skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SUSPECTS = ("uuid", "held.uuid", "double", "minus_zero", "plus_zero", "some_nan", "held.some_nan")
"""Columns that Spark did not find the rows of, before icectl left statistics out of footers."""

ORDERS = {
    "binpack": (),
    "sort": ("--sort-order", "uuid, double desc nulls last, text"),
    "zorder": ("--zorder", "double,text,uuid"),
}
PROPERTIES = {
    "small files": {"write.target-file-size-bytes": "10000"},
    "small row groups": {"write.parquet.row-group-size-bytes": "1"},
    "row groups and pages": {
        "write.parquet.row-group-size-bytes": "6000",
        "write.parquet.page-row-limit": "4",
        "write.metadata.metrics.default": "full",
    },
    "bloom filters": {
        f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in names()
    },
}


def differing(folder: Path, asked: Mapping[Path, list[str]]) -> dict[str, dict[str, object]]:
    """What Spark counts another number of rows of, with the numbers, by table."""
    path = folder / "asked.json"
    path.write_text(json.dumps({str(table): found for table, found in asked.items()}))
    lines = peer(str(path), script="spark_filters").splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    assert [one["asked"] for one in told] == [len(found) for found in asked.values()]
    return {Path(one["table"]).name: one["differing"] for one in told}


def test_filters_that_are_pushed_down_find_every_row(tmp_path):
    table = build(tmp_path, "small", PROPERTIES["small row groups"])
    parted = build(tmp_path, "parted", {}, by="uuid")
    asked = conditions(SUSPECTS, ("=", "<", ">"))
    outside = [name for name in names() if "." not in name]
    others = [one for one in conditions(outside, ("=",)) if one not in asked and " IN " not in one]
    asked = asked[::2] + others[::3]  # all, by every operator, in the full tier
    for one in (table, parted):
        assert icectl("compact", str(one), "--rewrite-all", "--engine", "local").exit_code == 0
    found = differing(tmp_path, {table: asked, parted: conditions(["uuid"], ("=",))})
    assert found == {"small": {}, "parted": {}}


@pytest.mark.full
def test_filters_find_every_row_of_every_type(tmp_path):
    skip_without_spark()
    ways = {
        "binpack, small row groups": "local", "binpack, bloom filters": "spark",
        "sort, row groups and pages": "local", "sort, small files": "spark",
        "zorder, bloom filters": "local", "zorder, row groups and pages": "spark",
    }  # fmt: skip
    tables = []
    for at, (way, engine) in enumerate(ways.items()):
        order, properties = way.split(", ")
        table = build(tmp_path, f"t{at}", PROPERTIES[properties])
        arguments = ("compact", str(table), "--rewrite-all", "--engine", engine, *ORDERS[order])
        if engine == "spark":
            done = on_spark("-m", "icectl", *arguments)
            assert done.returncode == 0, done.stderr[-4000:]
        else:
            assert icectl(*arguments).exit_code == 0
        tables.append(table)
    found = differing(tmp_path, dict.fromkeys(tables, conditions(names(), ("=", "<", ">"))))
    assert dict(zip(ways, found.values(), strict=True)) == {way: {} for way in ways}
