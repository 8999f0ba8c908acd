"""Geometry and geography from data frames to files and back, as well-known binary."""

from pathlib import Path

import pyarrow as pa
import pytest

from icectl.commands.rows import read as reading
from icectl.commands.rows.write import append
from icectl.env import SystemEnv
from icectl.errors import Refused
from icectl.rows.spark_frames import LoadJob, _load
from icectl.storage.local.store import LocalStore
from icectl.storage.open import StorageOptions
from icectl.table.rewrite_tasks import RewriteTask
from tests.builders.inline_rows import InlineFrame, way_to
from tests.builders.rows import current_metadata
from tests.builders.shape_table import ROWS, shape_table
from tests.builders.shapes import line, point
from tests.builders.tree_table import upgrade

SHAPE = pa.binary()
KINDS = pa.schema(
    [
        ("id", pa.int64()), ("place", SHAPE), ("area", SHAPE),
        ("held", pa.struct([("place", SHAPE)])), ("many", pa.list_(SHAPE)),
    ]
)  # fmt: skip
NEW = {
    "id": 5, "place": line((0, 0), (7, 7)), "area": point(-180, 90),
    "held": {"place": point(1, 1)}, "many": [None, point(2, 2)],
}  # fmt: skip


class Loader:
    """Reads what is planned, in this process."""

    def load(self, tasks: list[RewriteTask], job: LoadJob) -> pa.Table:
        numbers = pa.RecordBatch.from_pydict({"id": range(len(tasks))})
        batches = _load(StorageOptions({}), job, tasks, iter([numbers]))
        return pa.Table.from_batches(batches, job.rows.schema)


def frame(**values: object) -> InlineFrame:
    return InlineFrame(pa.Table.from_pylist([NEW | values], KINDS), LocalStore())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    directory = shape_table(tmp_path)
    upgrade(directory, SystemEnv(), "--lazy")
    return directory


def test_shapes_are_appended_and_loaded_as_bytes(table):
    append(way_to(table), frame(), "main")
    found = reading.load(way_to(table), Loader(), reading.Selection())
    rows = {row["id"]: row for row in found.to_pylist()}
    assert [rows[at]["place"] for at in range(1, 6)] == [
        *(row["place"] for row in ROWS),
        NEW["place"],
    ]
    assert {name: rows[5][name] for name in NEW} == NEW


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"place": b"\x01\x02"},
            "column `place` is not a shape in well-known binary: it ends early",
        ),
        ({"held": {"place": point(1, 2) + b"\0"}}, "`held.place` is not a shape .* behind its end"),
        ({"many": [None, b"\x01"]}, "`many.element` is not a shape .* it ends early"),
    ],
)
def test_what_is_no_shape_is_refused_before_a_commit(table, values, told):
    before = current_metadata(table)
    with pytest.raises(Refused, match=told):
        append(way_to(table), frame(**values), "main")
    assert current_metadata(table) == before


def test_text_is_refused_with_the_type_to_cast_to(table):
    rows = InlineFrame(pa.table({"id": [5], "place": ["POINT (1 2)"]}), LocalStore())
    with pytest.raises(Refused, match="`place` is string in the DataFrame") as raised:
        append(way_to(table), rows, "main")
    assert raised.value.hint == "cast it to binary"
