"""Maintaining the tables of a bucket: found by a glob, kept in order as on a disk."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from icectl.cli import app
from tests.builders.table_builder import START_MS, TableBuilder
from tests.s3.conftest import Bucket
from tests.stores.fixed_env import FixedEnv

pytestmark = pytest.mark.s3

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `icectl maintain` with --json, thirty days after the tables were built."""

    def run_command(bucket: Bucket, *arguments: str) -> Any:
        words = ["maintain", *arguments, "--json", *bucket.arguments]
        code = app.main(words, env=FixedEnv(START_MS + 30 * 86_400_000))
        return code, json.loads(capsys.readouterr().out)

    return run_command


def test_tables_of_a_bucket_are_found_and_maintained(bucket, run):
    for name in ("db/a", "db/b", "other/c"):
        table = TableBuilder(bucket.directory / name, location=bucket.location(name))
        for start in range(0, 60, 5):
            table.append(range(start, start + 5))
        bucket.upload(name)
    code, document = run(bucket, f"s3://{bucket.name}/wh/*/[ac]", "--check")
    tables = {row["table"]: row["status"] for row in document["result"]["tables"]}
    assert (code, tables) == (
        4, {bucket.location("db/a"): "planned", bucket.location("other/c"): "planned"},
    )  # fmt: skip
    words = (f"s3://{bucket.name}/wh/**", "--exclude", "s3://*/wh/other/*")
    code, document = run(bucket, *words, "--only", "expire-snapshots", "--yes")
    tables = {row["table"]: row["after"]["snapshot_count"] for row in document["result"]["tables"]}
    assert (code, tables) == (0, {bucket.location("db/a"): 1, bucket.location("db/b"): 1})
    code, document = run(bucket, *words, "--only", "expire-snapshots", "--yes")
    assert (code, document["status"]) == (0, "nothing-to-do")
