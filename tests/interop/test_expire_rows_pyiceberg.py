"""Rows that expire of tables that PyIceberg wrote: those of a model of values go, and no other."""

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    TimestampType,
    TimestamptzType,
)

from icectl.cli import app, engines
from tests.builders.inline_engine import InlineEngine
from tests.stores.fixed_env import FixedEnv

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

NOW_MS = 1_767_225_600_000  # 2026-01-01
SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "d", DateType(), required=False),
    NestedField(3, "t", TimestampType(), required=False),
    NestedField(4, "z", TimestamptzType(), required=False),
    NestedField(5, "x", DoubleType(), required=False),
)
START = datetime(2024, 1, 30)  # noqa: DTZ001 - a timestamp without a zone
SPECS: list[list[tuple[int, Transform[Any, Any]]]] = [
    [], [(3, DayTransform())], [(2, IdentityTransform())], [(4, MonthTransform())],
    [(2, YearTransform()), (1, BucketTransform(2))], [(1, IdentityTransform())],
]  # fmt: skip


def spec_of(fields: list[tuple[int, Transform[Any, Any]]]) -> PartitionSpec:
    items = (PartitionField(id_, 1000 + at, of, f"p{at}") for at, (id_, of) in enumerate(fields))
    return PartitionSpec(*items) if fields else UNPARTITIONED_PARTITION_SPEC


def rows(draw: random.Random, count: int, first: int) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    made = []
    center = START + timedelta(days=draw.randrange(60))
    for at in range(count):
        moment = center + timedelta(seconds=draw.randrange(5 * 86_400), microseconds=at)
        made.append(
            {
                "id": first + at,
                "d": maybe(moment.date()),
                "t": maybe(moment),
                "z": maybe(moment.replace(tzinfo=UTC)),
                "x": draw.choice([None, float("nan"), 1.0]),
            }
        )
    return made


def wanted(draw: random.Random) -> tuple[str, Any]:
    """A filter, and whether it is true of a row."""
    name, sign = draw.choice("dtz"), draw.choice(["<", "<="])
    moment = START + timedelta(seconds=draw.randrange(65 * 86_400))
    limit: Any = {"d": moment.date(), "t": moment, "z": moment.replace(tzinfo=UTC)}[name]
    text = f"{name} {sign} '{limit.isoformat()}'"
    if draw.random() < 0.3:  # relative to now
        age_s = NOW_MS // 1000 - int(moment.replace(tzinfo=UTC).timestamp())
        text = f"{name} {sign} 'now - {age_s}s'"
    fewer = draw.choice([None, None, 40])
    text += "" if fewer is None else f" and id < {fewer}"

    def holds(row: dict[str, Any]) -> bool:
        value = row[name]
        is_past = value is not None and (value < limit or (sign == "<=" and value == limit))
        return is_past and (fewer is None or row["id"] < fewer)

    return text, holds


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(at, marks=pytest.mark.full) for at in range(6, 60))]
)
def test_exactly_the_rows_of_the_filter_go(seed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    draw = random.Random(seed)
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec_of(draw.choice(SPECS)))
    model: list[dict[str, Any]] = []
    for number in range(4):
        new = rows(draw, draw.randrange(5, 30), len(model))
        model += new
        table.append(pa.Table.from_pylist(new, schema=table.schema().as_arrow()))
        if number == 1 and draw.random() < 0.5:
            with table.update_schema() as update:
                update.update_column("id", field_type=LongType())
        if number == 2 and draw.random() < 0.5 and table.spec().fields:
            with table.update_spec() as spec:
                spec.remove_field(table.spec().fields[0].name)
        if number == 2 and draw.random() < 0.3:
            with table.update_schema() as schema:
                schema.rename_column("x", "y")
    text, holds = wanted(draw)
    method, verify = draw.choice(["deletes", "rewrite"]), draw.choice(["footers", "rows"])
    place = table.metadata_location
    words = ["--where", text, "--method", method, "--verify", verify, "--max-fraction", "1"]
    code = app.main(
        ["expire-rows", table.location(), "--metadata-file", place, *words, "--yes", "--json"],
        env=FixedEnv(NOW_MS),
    )
    document = json.loads(capsys.readouterr().out)
    assert code == 0, document
    after = document["table"]["metadata_location_after"] or place
    kept = [row["id"] for row in model if not holds(row)]
    scanned = StaticTable.from_metadata(after).scan().to_arrow()
    assert sorted(scanned["id"].to_pylist()) == kept, (text, words)
    assert document["result"]["expired_row_count"] == len(model) - len(kept)
    dropped = [file for file in document["result"]["files"] if file["action"] == "drop"]
    paths = {str(Path(file["path"].removeprefix("file://"))) for file in dropped}
    for task in table.scan().plan_files():
        path = task.file.file_path.removeprefix("file://")
        if path in paths:  # no row of it stays
            assert set(_ids(path)).isdisjoint(kept)


def _ids(path: str) -> list[int]:
    found: list[int] = pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist()
    return found
