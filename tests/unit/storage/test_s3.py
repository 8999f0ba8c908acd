"""Options for s3fs, and listings by it: complete, without doubles."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.errors import UsageError
from icectl.storage.s3fs import list_objects, s3_options
from icectl.storage.store import ListingPart

MODIFIED = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
MODIFIED_MS = 1_767_323_045_678


class Bucket:
    """An S3 bucket as its listing shows it: sorted by UTF-8, a page at a time."""

    def __init__(self, keys, page_size=3, *, ordered=True):
        self.keys = sorted(keys, key=str.encode) if ordered else list(keys)
        self.page_size = page_size
        self.req_kw = {}
        self.requests = []

    def call_s3(self, method, **request):
        assert method == "list_objects_v2"
        self.requests.append(request)
        names = [key for key in self.keys if key.startswith(request["Prefix"])]
        if after := request.get("StartAfter"):
            names = [name for name in names if name.encode() > after.encode()]
        if token := request.get("ContinuationToken"):
            names = names[names.index(token) + 1 :]
        page = names[: self.page_size]
        answer = {
            "Contents": [
                {"Key": name, "Size": len(name), "LastModified": MODIFIED} for name in page
            ],
            "IsTruncated": len(page) < len(names),
        }
        if answer["IsTruncated"]:
            answer["NextContinuationToken"] = page[-1]
        return answer


def listed(bucket, part):
    batches = list_objects(bucket, part, lambda action: action())
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_small_table_is_one_request():
    bucket = Bucket(["t/data/a", "t/metadata/b", "t2/c"])
    assert listed(bucket, ListingPart("s3://b/t")) == [
        {"location": "s3://b/t/data/a", "size_bytes": 8, "modified_ms": MODIFIED_MS},
        {"location": "s3://b/t/metadata/b", "size_bytes": 12, "modified_ms": MODIFIED_MS},
    ]
    assert bucket.requests == [{"Bucket": "b", "Prefix": "t/"}]


def test_a_bucket_without_order_is_listed_page_by_page():
    keys = [f"t/{number % 7}/{number}" for number in range(50)]
    bucket = Bucket(keys, ordered=False)
    found = [row["location"] for row in listed(bucket, ListingPart("s3://b--use1-az4--x-s3/t"))]
    assert found == [f"s3://b--use1-az4--x-s3/{key}" for key in keys]
    assert not any("StartAfter" in request for request in bucket.requests)


def test_a_whole_bucket_can_be_listed():
    found = listed(Bucket(["a", "d/b"]), ListingPart("s3://b/"))
    assert [row["location"] for row in found] == ["s3://b/a", "s3://b/d/b"]


NAMES = st.lists(st.sampled_from(["a", "b", "é", "p=1", "\U0001f600", "-", ""]), min_size=1)


@given(
    st.sets(NAMES.map("/".join), max_size=60),
    st.integers(1, 7),
    st.sets(NAMES.map("/".join), max_size=3),
)
def test_whatever_the_keys_each_is_listed_once_in_ranges_too(names, page_size, bounds):
    keys = {f"t/{name}" for name in names if name}
    bucket = Bucket(keys | {"t2/x", "s/x"}, page_size)
    starts = ["", *sorted(f"t/{bound}" for bound in bounds)]
    found = [
        row["location"]
        for after, until in zip(starts, [*starts[1:], None], strict=True)
        for row in listed(bucket, ListingPart("s3://b/t/", after, until))
    ]
    expected = keys - set(starts)  # each range is behind its start, and before the next one
    assert found == [f"s3://b/{key}" for key in sorted(expected) if not key.endswith("/")]


def test_options_become_what_s3fs_takes():
    options = {
        "key": "123",
        "secret": "true",
        "anon": "True",
        "endpoint_url": "http://localhost:9000",
        "client_kwargs.region_name": "eu-west-1",
        "config_kwargs.connect_timeout": "5",
        "config_kwargs.s3.addressing_style": "path",
        "config_kwargs.retries.mode": "standard",
    }
    assert s3_options(options, concurrency=16) == {
        "use_listings_cache": False,
        "max_concurrency": 1,
        "key": "123",
        "secret": "true",
        "anon": True,
        "endpoint_url": "http://localhost:9000",
        "client_kwargs": {"region_name": "eu-west-1"},
        "config_kwargs": {
            "connect_timeout": 5,
            "s3": {"addressing_style": "path"},
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "max_pool_connections": 32,
        },
    }


def test_an_option_is_no_group_and_value_at_once():
    with pytest.raises(UsageError, match=r"storage option anon\.x: anon has a value already"):
        s3_options({"anon": "true", "anon.x": "1"}, concurrency=1)
