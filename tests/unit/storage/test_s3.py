"""S3: options for s3fs and for obstore, settings of AWS, and complete listings."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.errors import StorageError, UsageError
from icectl.storage.buckets.client import client_options
from icectl.storage.buckets.s3 import s3_source
from icectl.storage.credentials import Renewed
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
        "key": "123", "secret": "true", "anon": "True", "endpoint_url": "http://localhost:9000",
        "client_kwargs.region_name": "eu-west-1", "config_kwargs.connect_timeout": "5",
        "config_kwargs.s3.addressing_style": "path", "config_kwargs.retries.mode": "standard",
    }  # fmt: skip
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


KEYS = {"key": "k", "secret": "a-secret"}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    import os

    for name in list(os.environ):
        if name.startswith(("AWS_", "FSSPEC_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def access(options, bucket="lake", region=None):
    source = s3_source(bucket, Renewed(lambda: options))
    return None if source is None else source.access(region)


@pytest.mark.parametrize(
    ("options", "bucket", "url"),
    [
        ({}, "lake", "https://lake.s3.us-east-1.amazonaws.com"),
        ({"client_kwargs.region_name": "eu-west-1"}, "a.b", "https://s3.eu-west-1.amazonaws.com/a.b"),
        ({"endpoint_url": "http://minio:9000/"}, "lake", "http://minio:9000/lake"),
        (
            {"endpoint_url": "https://s3.x", "config_kwargs.s3.addressing_style": "virtual"},
            "lake",
            "https://lake.s3.x",
        ),
        (
            {"config_kwargs.s3.addressing_style": "path"},
            "lake",
            "https://s3.us-east-1.amazonaws.com/lake",
        ),
        (
            {"client_kwargs.region_name": "cn-north-1"},
            "lake",
            "https://lake.s3.cn-north-1.amazonaws.com.cn",
        ),
        (
            {"client_kwargs.region_name": "us-iso-east-1"},
            "lake",
            "https://lake.s3.us-iso-east-1.c2s.ic.gov",
        ),
    ],
)  # fmt: skip
def test_a_bucket_is_where_botocore_looks_for_it(options, bucket, url):
    assert access(KEYS | options, bucket).url == url


@pytest.mark.parametrize(
    "options",
    [
        {"default_block_size": "5"},
        {"config_kwargs.signature_version": "s3"},
        {"s3_additional_kwargs.StorageClass": "STANDARD_IA"},
        {"anon": "perhaps"},
        {"config_kwargs.read_timeout": "soon"},
    ],
)
def test_what_obstore_cannot_express_is_left_to_s3fs(options):
    assert access(KEYS | options) is None
    assert access({"key": "alone"}) is None
    assert access(KEYS, "lake--use1-az4--x-s3") is None


@pytest.mark.parametrize("name", ["AWS_USE_FIPS_ENDPOINT", "FSSPEC_S3_ANON"])
def test_an_environment_that_only_botocore_understands_is_left_to_s3fs(monkeypatch, name):
    monkeypatch.setenv(name, "true")
    assert access(KEYS) is None


def test_keys_come_from_options_then_from_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "env-token")
    found = {"access_key_id": "k", "secret_access_key": "a-secret", "token": None}
    assert access(KEYS).keys == found
    found = {"access_key_id": "env-key", "secret_access_key": "env-secret", "token": "env-token"}
    assert access({}).keys == found
    assert access({"anon": "true"}).keys == {}


def test_a_profile_has_keys_region_and_endpoint(monkeypatch, tmp_path):
    (tmp_path / "config").write_text(
        "[profile work]\nregion = eu-central-1\nendpoint_url = http://minio:9000\n"
        "[profile fips]\nuse_fips_endpoint = true\n"
    )
    (tmp_path / "keys").write_text(
        "[work]\naws_access_key_id = p\naws_secret_access_key = ps\n"
        "[fips]\naws_access_key_id = p\naws_secret_access_key = ps\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    found = access({})
    assert (found.url, found.region) == ("http://minio:9000/lake", "eu-central-1")
    assert found.keys == {"access_key_id": "p", "secret_access_key": "ps", "token": None}
    assert access({"profile": "fips"}) is None


def test_encryption_and_who_pays_are_passed_on():
    found = access(
        KEYS
        | {
            "requester_pays": "true",
            "s3_additional_kwargs.ServerSideEncryption": "aws:kms",
            "s3_additional_kwargs.SSEKMSKeyId": "arn:key",
        }
    ).settings
    assert found["request_payer"] is True
    assert (found["server_side_encryption"], found["sse_kms_key_id"]) == ("aws:kms", "arn:key")


def test_time_outs_are_passed_on_in_seconds():
    options = {"config_kwargs.connect_timeout": "5", "config_kwargs.read_timeout": "600"}
    found = client_options(access(KEYS | options))
    assert (found["connect_timeout"], found["read_timeout"]) == ("5s", "600s")
    found = client_options(access(KEYS))
    assert (found["connect_timeout"], found["read_timeout"]) == ("60s", "60s")


@pytest.mark.parametrize("tokens", [{}, {"NextContinuationToken": "again"}])
def test_a_listing_that_does_not_say_where_it_continues_is_told(tokens):
    class Broken(Bucket):
        def call_s3(self, method, **request):
            answer = super().call_s3(method, **{**request, "ContinuationToken": ""})
            answer.pop("NextContinuationToken", None)
            return {**answer, **tokens}

    with pytest.raises(StorageError, match="does not say where its list continues"):
        listed(Broken([f"t/{number}" for number in range(9)]), ListingPart("s3://b/t"))
