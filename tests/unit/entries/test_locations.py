"""Locations of version 4 as whole ones: columns of them, as single ones are."""

import pyarrow as pa
import pytest

from icectl.entries.locations import all_resolved
from icectl.errors import Unsupported

TABLE = "s3://b/wh/t/"


@pytest.mark.parametrize(
    "of", [pa.array, lambda values: pa.chunked_array([values[:2], values[2:]])]
)
def test_relative_locations_lie_below_the_table_and_others_stay(of):
    found = all_resolved(TABLE, of(["data/a.parquet", None, "file:/x/b", "gs://c/d", "e:f"]))
    assert found.to_pylist() == [
        "s3://b/wh/t/data/a.parquet", None, "file:/x/b", "gs://c/d", "s3://b/wh/t/e:f",
    ]  # fmt: skip


def test_locations_that_are_whole_are_not_copied():
    locations = pa.array(["s3://b/a", None])
    assert all_resolved(TABLE, locations) is locations
    assert all_resolved(TABLE, locations[:0]).to_pylist() == []


def test_v4_051_a_location_that_begins_with_a_slash_is_refused():
    with pytest.raises(Unsupported, match="`/wh/a` is neither absolute nor relative") as caught:
        all_resolved(TABLE, pa.array(["data/a", "/wh/a"]))
    assert caught.value.rule == "V4-051"
