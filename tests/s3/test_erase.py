"""Rows in a bucket are erased; what nobody can look at there is said, and nothing is proved."""

import json
from typing import Any

import pytest

from icectl.cli import app, engines
from tests.builders.byte_scanner import hits_below
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.table_builder import TableBuilder
from tests.s3.conftest import Bucket
from tests.stores.fixed_env import FixedEnv

pytestmark = pytest.mark.s3

MARK = b"note 4712"


def test_no_object_holds_the_row_and_previous_versions_are_told_of(bucket, capsys, monkeypatch):
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    location = bucket.location("t")
    table = TableBuilder(bucket.directory / "t", format_version=3, location=location)
    table.append([*range(10), 4712])
    table.delete_rows([4712])
    table.append(range(10, 15))
    bucket.upload("t")
    assert hits_below(bucket.download("t"), [MARK])
    where = ("--where", "id = 4712", "--json", *bucket.arguments)

    def erase(bucket: Bucket, *words: str) -> tuple[int, dict[str, Any]]:
        env = FixedEnv(NOW_MS, uuids=5_000, snapshot_ids=5_000)
        code = app.main(["erase", location, *where, *words], env=env)
        return code, json.loads(capsys.readouterr().out)["result"]

    code, done = erase(bucket, "--expire-history", "--yes")
    assert [one["reason"] for one in done["left"]] == [
        "previous versions of its objects were not looked at"
    ]
    assert (code, done["is_proved"]) == (3, False)
    assert hits_below(bucket.download("t"), [MARK]) == []
    code, looked = erase(bucket, "--verify")
    assert (code, looked["left"]) == (4, done["left"])
