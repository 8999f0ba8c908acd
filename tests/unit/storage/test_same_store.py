"""Whether two locations are of one store, and which references leave that open."""

import pyarrow as pa
import pytest

from icectl.storage.identity import SameStore

PLAIN = SameStore()
VOUCHED = SameStore({"nfs": "file", "oss": "s3"}, {"old": "new", "filer": "localhost"})


@pytest.mark.parametrize(
    ("location", "other", "same"),
    [
        ("s3://b/x", "s3a://b/y", True),
        ("s3n://b/x", "s3a://b/y", True),
        ("S3://b/x", "s3://b/y", True),
        ("s3://b/x", "s3://c/x", False),
        ("s3://b/x", "gs://b/x", False),
        ("/x", "file:///x", True),
        ("file:/x", "file://localhost/x", True),
        ("file://host/x", "/x", False),
        ("hdfs:/x", "hdfs://nn:8020/x", True),
        ("hdfs://nn:8020/x", "hdfs://nn/x", False),
        ("hdfs://nn/x", "/x", False),
        ("nfs://filer/x", "/x", False),
    ],
)
def test_only_what_is_proven_is_one_store(location: str, other: str, same: bool):
    assert PLAIN.holds(location, other) is same
    assert PLAIN.holds(other, location) is same


@pytest.mark.parametrize(
    ("location", "other", "same"),
    [
        ("nfs://filer/x", "/x", True),
        ("nfs:/x", "/x", True),
        ("nfs://other/x", "/x", False),
        ("oss://b/x", "s3a://b/x", True),
        ("s3://old/x", "s3://new/x", True),
        ("s3://old/x", "s3://other/x", False),
    ],
)
def test_a_caller_may_vouch_for_more(location: str, other: str, same: bool):
    assert VOUCHED.holds(location, other) is same
    assert VOUCHED.holds(other, location) is same


@pytest.mark.parametrize(
    ("location", "base", "respelled"),
    [
        ("/wh/t/data", "file:///wh/t", "file:///wh/t/data"),
        ("file:///wh/t/", "/wh/t", "/wh/t"),
        ("s3://b/wh/t/a/b/", "s3a://b/wh/t", "s3a://b/wh/t/a/b"),
        ("s3://b/wh/t2", "s3://b/wh/t", None),
        ("s3://b/wh", "s3://b/wh/t", None),
        ("s3://c/wh/t/data", "s3://b/wh/t", None),
        ("/wh/t/../u", "/wh/t", None),
        ("/wh/t/..a/u", "/wh/t", "/wh/t/..a/u"),
    ],
)
def test_a_location_is_respelled_as_the_one_it_lies_in(
    location: str, base: str, respelled: str | None
):
    assert PLAIN.respelled(location, base) == respelled


def doubtful(stored: list[str], *places: str, same_store: SameStore = PLAIN) -> dict[str, str]:
    return same_store.doubtful(pa.array(stored, pa.string()), places)


def test_references_in_the_listed_store_or_elsewhere_are_beyond_doubt():
    stored = [
        "s3://b/wh/t/data/a", "s3a://b/wh/t/data/b", "s3://c/elsewhere/c", "hdfs://nn/wh/t2/d",
    ]  # fmt: skip
    assert doubtful(stored, "s3://b/wh/t") == {}
    assert doubtful([], "s3://b/wh/t") == {}


def test_a_path_in_the_place_but_of_another_store_is_in_doubt():
    stored = [
        "s3://b/wh/t/a", "s3://c/wh/t/a", "s3://c/wh/t/b", "hdfs://nn/wh//t/%61", "/wh/t/c",
        "s3://c/wh/t",
    ]  # fmt: skip
    assert doubtful(stored, "s3://b/wh/t") == {
        "s3://c": "s3://c/wh/t/a", "hdfs://nn": "hdfs://nn/wh//t/%61", "": "/wh/t/c",
    }  # fmt: skip
    vouched = SameStore({"hdfs": "s3"}, {"c": "b", "nn": "b"})
    assert doubtful(stored, "s3://b/wh/t", same_store=vouched) == {"": "/wh/t/c"}


def test_every_place_counts():
    assert doubtful(["s3://c/u/x"], "s3://b/wh/t", "s3://b/u") == {"s3://c": "s3://c/u/x"}
    assert doubtful(["s3://c/u/x"], "s3://b/wh/t", "s3://c/u") == {}
