"""Which options and settings of AWS obstore is trusted with, and what becomes of them."""

import pytest

from icectl.storage.buckets.client import client_options
from icectl.storage.buckets.s3 import s3_source
from icectl.storage.credentials import Renewed

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
