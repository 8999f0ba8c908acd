"""Paths elsewhere that end as one below the listed place."""

import pyarrow as pa
import pytest

from icectl.table.reachable import OtherWays


def ways(base: str, *stored: str) -> set[str]:
    return set(OtherWays(base).of(pa.array(stored, pa.string())))


@pytest.mark.parametrize("base", ["s3://b/wh/t", "s3://b/wh/t/", "/wh/t", "file:/wh/t"])
def test_what_lies_below_the_place_has_no_other_way(base):
    below = ["s3://b/wh/t/a", "s3a://c//wh/t/t/a", "/wh/t/a.b/..c/d.", "file:///wh/t/x/t/a"]
    assert ways(base, *below) == set()


@pytest.mark.parametrize("stored", ["s3://b/x/a", "s3://b/wh/t2/a", "s3://b/t", "/wh/at/a", "t/a"])
def test_what_has_not_the_name_of_the_place_has_no_other_way(stored):
    assert ways("s3://b/wh/t", stored) == set()


@pytest.mark.parametrize(
    ("base", "stored", "found"),
    [
        ("s3://lake/wh/t", "dbfs:/mnt/lake/wh/t/data/a", {"s3://lake/wh/t/data/a"}),
        ("s3://lake/wh/t", "https://host:9000/lake/wh/t/a", {"s3://lake/wh/t/a"}),
        ("/wh/t", "/mnt/nas/wh/t/data/k=1/a b", {"/wh/t/data/k=1/a b"}),
        ("/wh/t/", "/old/t/x/t/a", {"/wh/t/x/t/a", "/wh/t/a"}),
        ("s3://b/wh/1.1/t(1)", "/mnt/b/wh/1.1/t(1)/a", {"s3://b/wh/1.1/t(1)/a"}),
    ],
)
def test_a_path_that_goes_on_as_one_below_the_place_may_be_it(base, stored, found):
    assert ways(base, stored) == found


def test_a_bucket_is_no_name_that_a_path_can_have():
    assert ways("s3://t", "s3://b/t/a", "/t/a") == set()
