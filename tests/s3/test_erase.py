"""Rows in a bucket are erased; what nobody can look at there is said, and nothing is proved."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from icectl.cli import app, engines
from tests.builders.byte_scanner import hits_below
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.table_builder import TableBuilder
from tests.s3.conftest import Bucket
from tests.stores.fixed_env import FixedEnv

pytestmark = pytest.mark.s3

MARK = b"note 4712"


Erase = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def erase(bucket: Bucket, capsys, monkeypatch: pytest.MonkeyPatch) -> Erase:
    """Run `icectl erase` on a table with the marked row, which is uploaded for the first run."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    location = bucket.location("t")
    table = TableBuilder(bucket.directory / "t", format_version=3, location=location)
    table.append([*range(10), 4712])
    table.delete_rows([4712])
    table.append(range(10, 15))
    where = ("--where", "id = 4712", "--json", *bucket.arguments)

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        if not bucket.keys("t"):
            bucket.upload("t")
            assert hits_below(bucket.download("t"), [MARK])
        env = FixedEnv(NOW_MS, uuids=5_000, snapshot_ids=5_000)
        code = app.main(["erase", location, *where, *words], env=env)
        return code, json.loads(capsys.readouterr().out)["result"]

    return run


def test_no_object_holds_the_row(bucket, erase):
    code, done = erase("--expire-history", "--yes")
    assert (code, done["left"], done["is_proved"]) == (0, [], True)
    assert hits_below(bucket.download("t"), [MARK]) == []
    assert erase("--verify")[0] == 0


def test_previous_versions_are_told_of(bucket, erase):
    try:
        bucket.client.put_bucket_versioning(
            Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"}
        )
    except ClientError:
        pytest.skip("the server keeps no versions")
    code, done = erase("--expire-history", "--yes")
    assert (code, done["is_proved"]) == (3, False)
    assert hits_below(bucket.download("t"), [MARK]) == []
    kept = {one["subject"] for one in done["left"]}
    assert all(one["reason"].startswith("the bucket keeps ") for one in done["left"]), done["left"]
    assert kept >= set(done["deleted_files"])
    code, looked = erase("--verify")
    assert (code, looked["left"]) == (4, done["left"])
    for page in bucket.client.get_paginator("list_object_versions").paginate(Bucket=bucket.name):
        for entry in page.get("Versions", []):
            if not entry["IsLatest"]:
                place = {"Key": entry["Key"], "VersionId": entry["VersionId"]}
                bucket.client.delete_object(Bucket=bucket.name, **place)
    assert erase("--verify")[0] == 0
