"""Variants from data frames to files and back; what is none is refused."""

from typing import Any

import pyarrow as pa
import pytest

from icectl.commands.rows import read as reading
from icectl.commands.rows.write import append
from icectl.errors import Refused
from icectl.storage.local.store import LocalStore
from tests.builders.inline_rows import InlineFrame, variant_tree, way_to
from tests.builders.rows import current_metadata
from tests.unit.commands.rows.test_shapes import Loader

PARTS = [pa.field("value", pa.binary()), pa.field("metadata", pa.binary())]
OF_SPARK = pa.struct([PARTS[0], PARTS[1].with_metadata({"variant": "true"})])
EMPTY = b"\x01\x00\x00"
ONE = {"value": b"\x0c\x01", "metadata": EMPTY}
DAMAGED = {**ONE, "value": b"\x18"}


def frame(kind: pa.DataType, **values: Any) -> InlineFrame:
    """A row of a table of variants, these of a type."""
    schema = pa.schema([("id", pa.int64()), ("v", kind), ("many", pa.list_(kind))])
    return InlineFrame(pa.Table.from_pylist([{"id": 1, **values}], schema), LocalStore())


@pytest.mark.parametrize("kind", [OF_SPARK, pa.struct(PARTS)], ids=["of Spark", "struct"])
def test_variants_are_appended_and_loaded(kind, tmp_path):
    table = variant_tree(tmp_path / "t")
    append(way_to(table), frame(kind, v=ONE, many=[None, ONE]), "main")
    (found,) = reading.load(way_to(table), Loader(), reading.Selection()).to_pylist()
    assert found == {"id": 1, "v": ONE, "many": [None, ONE]}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"v": DAMAGED}, "column `v` is not a variant: a value ends early"),
        (
            {"v": {**ONE, "metadata": b"\x02"}},
            "`v` is not a variant: its metadata is not of version",
        ),
        ({"v": {**ONE, "value": None}}, "`v` is not a variant: it has no value"),
        ({"many": [ONE, DAMAGED]}, "`many.element` is not a variant: a value ends early"),
    ],
)
def test_bytes_that_are_no_variant_are_refused_before_a_commit(values, told, tmp_path):
    table = variant_tree(tmp_path / "t")
    before = current_metadata(table)
    with pytest.raises(Refused, match=told):
        append(way_to(table), frame(pa.struct(PARTS), **values), "main")
    assert current_metadata(table) == before
