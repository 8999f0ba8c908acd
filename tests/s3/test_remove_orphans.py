"""Orphans in a bucket: aged by its server, moved within it, found by its inventory."""

import hashlib
import json
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.expiry import NOW_MS
from tests.builders.table_builder import TableBuilder
from tests.s3.conftest import Bucket
from tests.stores.fixed_env import FixedEnv

pytestmark = pytest.mark.s3

STRAYS = {"data/lost.parquet", "data/category=c 0/lost+%20.parquet", "metadata/ünï-m0.avro"}
AT_ONCE = ("--older-than", "0s", "--allow-recent", "--max-fraction", "1", "--yes")

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `icectl remove-orphans` with --json, now if at no other time."""

    def run_command(bucket: Bucket, *arguments: str, now_ms: int | None = None) -> Any:
        words = ["remove-orphans", *arguments, "--json", *bucket.arguments]
        code = app.main(words, env=FixedEnv(now_ms or time.time_ns() // 10**6))
        return code, json.loads(capsys.readouterr().out)

    return run_command


def build(bucket: Bucket, scheme: str = "s3") -> str:
    """A table and its strays, a second ago; the table's location."""
    location = bucket.location("t").replace("s3:", f"{scheme}:")
    table = TableBuilder(bucket.directory / "t", partitioning="identity", location=location)
    table.append(range(6))
    table.delete_rows([1])
    bucket.upload("t")
    for name in STRAYS:
        bucket.client.put_object(Bucket=bucket.name, Key=f"wh/t/{name}", Body=name.encode())
    wait_until_old(bucket)
    return location


def wait_until_old(bucket: Bucket) -> None:
    """Until the server's clock, in whole seconds and not quite fresh, is past every object."""
    while True:
        answer = bucket.client.list_objects_v2(Bucket=bucket.name)
        date = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
        if date > max(item["LastModified"] for item in answer["Contents"]):
            return
        time.sleep(0.1)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_orphans_of_a_bucket_go_and_rows_stay(bucket, run, monkeypatch, scheme):
    location = build(bucket, scheme)
    keys = bucket.keys("t")
    code, document = run(bucket, location, *AT_ONCE)
    found = document["result"]
    assert (code, found["removed"], found["failed"]) == (0, 3, []), document
    assert {item["path"].removeprefix(f"{location}/") for item in found["orphans"]} == STRAYS
    assert bucket.keys("t") == keys - STRAYS
    monkeypatch.setattr("tests.s3.conftest.Bucket.location", lambda *_: location)
    assert [len(rows) for rows in bucket.rows("t", monkeypatch).values()] == [6, 5]
    code, document = run(bucket, location, *AT_ONCE)
    assert (code, document["status"]) == (0, "nothing-to-do")


def test_objects_are_aged_by_the_clock_of_their_server(bucket, run):
    """This machine's clock, years ahead, would make orphans of what was written a second ago."""
    location = build(bucket)
    ahead_ms = NOW_MS + 10 * 365 * 86_400_000
    code, document = run(bucket, location, "--check", now_ms=ahead_ms)
    assert (code, document["result"]["left_alone"]["recent"]) == (0, 3)


def test_orphans_are_moved_to_another_bucket_and_back(bucket, run):
    location = build(bucket)
    keys = bucket.keys("t")
    away = f"{bucket.name}-away"
    bucket.client.create_bucket(Bucket=away)
    code, document = run(bucket, location, "--quarantine", f"s3://{away}/kept", *AT_ONCE)
    found = document["result"]
    assert (code, found["removed"], found["quarantined"]) == (0, 0, 3), document
    assert bucket.keys("t") == keys - STRAYS
    (listed,) = found["quarantine"]["lists"]
    key = listed.removeprefix(f"s3://{away}/")
    content = bucket.client.get_object(Bucket=away, Key=key)["Body"].read().decode()
    moved = [json.loads(line) for line in content.splitlines()]
    assert {line["from"].removeprefix(f"{location}/") for line in moved} == STRAYS
    purge = ("--quarantine", f"s3://{away}/kept", "--purge-quarantine-after", "1d", "--check")
    code, document = run(bucket, location, *purge)
    assert (code, document["result"]["purge"]["left_alone"]["young"]) == (0, 3), document
    for line in moved:
        source = {"Bucket": away, "Key": line["to"].removeprefix(f"s3://{away}/")}
        target = line["from"].removeprefix(f"s3://{bucket.name}/")
        bucket.client.copy_object(Bucket=bucket.name, Key=target, CopySource=source)
    assert bucket.keys("t") == keys
    for name in STRAYS:
        body = bucket.client.get_object(Bucket=bucket.name, Key=f"wh/t/{name}")["Body"].read()
        assert body == name.encode()


def write_inventory(bucket: Bucket) -> str:
    """An inventory of the bucket as S3 writes them: CSV without a header, and its manifest."""
    from urllib.parse import quote_plus

    rows = []
    for item in bucket.client.list_objects_v2(Bucket=bucket.name)["Contents"]:
        modified = item["LastModified"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
        rows.append(f'"{bucket.name}","{quote_plus(item["Key"])}","{item["Size"]}","{modified}"')
    content = ("\n".join(rows) + "\n").encode()
    manifest = {
        "sourceBucket": bucket.name,
        "destinationBucket": f"arn:aws:s3:::{bucket.name}",
        "version": "2016-11-30",
        "creationTimestamp": "1514944800000",
        "fileFormat": "CSV",
        "fileSchema": "Bucket, Key, Size, LastModifiedDate",
        "files": [
            {
                "key": "inventory/data/1.csv",
                "size": len(content),
                "MD5checksum": hashlib.md5(content).hexdigest(),
            }
        ],
    }
    for key, body in {
        "data/1.csv": content,
        "manifest.json": json.dumps(manifest).encode(),
    }.items():
        bucket.client.put_object(Bucket=bucket.name, Key=f"inventory/{key}", Body=body)
    return f"s3://{bucket.name}/inventory/manifest.json"


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_an_inventory_finds_the_same_orphans(bucket, run, scheme):
    location = build(bucket, scheme)
    keys = bucket.keys("t")
    inventory = write_inventory(bucket)
    code, document = run(bucket, location, "--inventory", inventory, *AT_ONCE)
    found = document["result"]
    assert (code, found["listed"], found["removed"]) == (0, len(keys), 3), document
    assert bucket.keys("t") == keys - STRAYS


def test_another_table_above_in_the_bucket_is_refused(bucket, run):
    location = build(bucket)
    for key in ("wh/metadata/v1.metadata.json", "metadata/00000-x.metadata.json"):
        bucket.client.put_object(Bucket=bucket.name, Key=key, Body=b"{}")
        code, document = run(bucket, location, *AT_ONCE)
        assert (code, document["error"]["id"]) == (5, "other-table")
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    assert bucket.keys("t") >= STRAYS
