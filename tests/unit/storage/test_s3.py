"""Options for s3fs, and listing in parallel: complete, without doubles, split where it can be."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.errors import UsageError
from icectl.storage.s3.store import list_objects, list_ranges, s3_options, split_objects
from icectl.storage.store import ListingPart, ListingSplit

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
        names = self._names(request)
        start = int(request.get("ContinuationToken", 0))
        if "ContinuationToken" not in request and "StartAfter" in request:
            after = request["StartAfter"].encode()
            names = [name for name in names if name.encode() > after]
            request = {**request, "ContinuationToken": None}
        page = names[start : start + self.page_size]
        answer = {
            "Contents": [
                {"Key": name, "Size": len(name), "LastModified": MODIFIED}
                for name in page
                if name in self.keys
            ],
            "CommonPrefixes": [{"Prefix": name} for name in page if name not in self.keys],
            "IsTruncated": start + self.page_size < len(names),
        }
        if answer["IsTruncated"]:
            first = self._names(request).index(page[-1]) + 1
            answer["NextContinuationToken"] = str(first)
        return answer

    def _names(self, request):
        prefix, delimiter = request["Prefix"], request.get("Delimiter")
        below = [key for key in self.keys if key.startswith(prefix)]
        if delimiter is None:
            return below
        cut = [
            prefix + rest.partition(delimiter)[0] + delimiter if delimiter in rest else key
            for key in below
            for rest in [key[len(prefix) :]]
        ]
        return list(dict.fromkeys(cut))


def listed(bucket, location="s3://b/t", concurrency=2):
    batches = list_objects(bucket, location, lambda action: action(), concurrency)
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_small_table_is_one_request():
    bucket = Bucket(["t/data/a", "t/metadata/b", "t2/c"])
    assert listed(bucket) == [
        {"location": "s3://b/t/data/a", "size_bytes": 8, "modified_ms": MODIFIED_MS},
        {"location": "s3://b/t/metadata/b", "size_bytes": 12, "modified_ms": MODIFIED_MS},
    ]
    assert bucket.requests == [{"Bucket": "b", "Prefix": "t/"}]


def test_many_objects_are_split_at_their_common_prefixes():
    keys = [f"t/data/p={part:02}/{file}" for part in range(40) for file in range(7)]
    bucket = Bucket(keys, page_size=5)
    found = [row["location"] for row in listed(bucket, concurrency=2)]
    assert sorted(found) == [f"s3://b/{key}" for key in sorted(keys)]
    starts = {request["StartAfter"] for request in bucket.requests if "StartAfter" in request}
    assert starts == {"t/data/p=00/4"} | {f"t/data/p={part:02}/" for part in range(1, 40, 5)}


def test_a_bucket_without_order_is_listed_page_by_page():
    keys = [f"t/{number % 7}/{number}" for number in range(50)]
    bucket = Bucket(keys, ordered=False)
    found = [row["location"] for row in listed(bucket, "s3://b--use1-az4--x-s3/t")]
    assert sorted(found) == sorted(f"s3://b--use1-az4--x-s3/{key}" for key in keys)
    assert not any("StartAfter" in request for request in bucket.requests)


def test_a_whole_bucket_can_be_listed():
    found = [row["location"] for row in listed(Bucket(["a", "d/b"]), "s3://b/")]
    assert sorted(found) == ["s3://b/a", "s3://b/d/b"]


def test_a_split_leaves_ranges_behind_the_first_page():
    keys = [f"t/data/p={part:02}/{file}" for part in range(40) for file in range(7)]
    bucket = Bucket(keys, page_size=5)
    begun = split_objects(bucket, "s3://b/t", lambda action: action(), 4)
    bounds = ["t/data/p=00/4", "t/data/p=01/", "t/data/p=11/", "t/data/p=21/", "t/data/p=31/"]
    assert list(begun.parts) == [
        ListingPart("s3://b/t", after, until)
        for after, until in zip(bounds, [*bounds[1:], None], strict=True)
    ]
    assert [batch.num_rows for batch in begun.batches] == [5]


def test_a_bucket_without_order_is_one_part():
    bucket = Bucket([f"t/{number % 7}/{number}" for number in range(50)], ordered=False)
    begun = split_objects(bucket, "s3://b--use1-az4--x-s3/t", lambda action: action(), 4)
    assert begun == ListingSplit([], [ListingPart("s3://b--use1-az4--x-s3/t")])
    assert bucket.requests == []


NAMES = st.lists(st.sampled_from(["a", "b", "é", "p=1", "\U0001f600", "-", ""]), min_size=1)


@given(st.sets(NAMES.map("/".join), max_size=60), st.integers(1, 7), st.integers(1, 4))
def test_whatever_the_keys_each_is_listed_once(names, page_size, concurrency):
    keys = {f"t/{name}" for name in names if name}
    bucket = Bucket(keys | {"t2/x", "s/x"}, page_size)
    found = [row["location"] for row in listed(bucket, concurrency=concurrency)]
    assert sorted(found) == sorted(f"s3://b/{key}" for key in keys if not key.endswith("/"))


@given(st.sets(NAMES.map("/".join), max_size=60), st.integers(1, 7), st.integers(1, 9))
def test_whatever_the_keys_a_split_and_its_parts_hold_each_once(names, page_size, count):
    keys = {f"t/{name}" for name in names if name}
    bucket = Bucket(keys | {"t2/x", "s/x"}, page_size)
    begun = split_objects(bucket, "s3://b/t", lambda action: action(), count)
    batches = list(begun.batches)
    for part in begun.parts:
        batches += list_ranges(bucket, [part], lambda action: action(), 2)
    found = [row["location"] for batch in batches for row in batch.to_pylist()]
    assert sorted(found) == sorted(f"s3://b/{key}" for key in keys if not key.endswith("/"))


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
