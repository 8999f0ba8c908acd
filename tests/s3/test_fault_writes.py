"""One failure of each kind of write in a run of a command: it waits them out and ends with 0."""

import json
from itertools import product
from typing import Any

import pytest

from icectl.cli import app, engines
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.table_builder import TableBuilder
from tests.s3.conftest import Bucket
from tests.stores.failing_proxy import told
from tests.stores.fixed_env import FixedEnv
from tests.stores.s3_servers import BY_S3FS, S3Server

pytestmark = pytest.mark.s3

FAILURES = {"503": told(503, "SlowDown"), "dropped": "dropped", "lost": "lost"}
COMPACT = ("compact", "--engine", "local")
RUNS = {
    "compact": (
        (*COMPACT, "--rewrite-all"),
        2,
        ("/.icectl-probe", "/icectl-compact-", "/data/", "-m1.avro", "/snap-", "version-hint"),
    ),
    "merge deletes": (
        (*COMPACT, "--deletes-only", "--rewrite-all"),
        3,
        ("/icectl-compact-", ".puffin", "-m1.avro", "/snap-"),
    ),
    "rewrite-manifests": (
        ("rewrite-manifests",),
        2,
        ("/.icectl-probe", "/icectl-rewrite-manifests-", "-m0.avro", "/snap-"),
    ),
    "expire-snapshots": (
        ("expire-snapshots", "--older-than", "1m", "--retain-last", "1"),
        2,
        ("/.icectl-probe", "/icectl-expire-snapshots-", "version-hint"),
    ),
    "upgrade-to-v4": (
        ("upgrade-to-v4", "--eager", "--layout", "sfc-1"),
        3,
        ("/icectl-upgrade-to-v4-", "-m1.parquet", "/root-"),
    ),
}
"""Command lines, the version of their table, and what is in the names of the files they write."""


CASES = [
    pytest.param(*case, marks=() if number % 4 == 0 else pytest.mark.full)
    for number, case in enumerate(product(("obstore", "s3fs"), RUNS, FAILURES))
]
"""All of them; by turns in the quick tier, where they meet each failure and each command."""


@pytest.mark.parametrize(("by", "name", "failure"), CASES)
def test_each_kind_of_write_may_fail_once(place, tmp_path, monkeypatch, capsys, by, name, failure):
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    (command, *words), version, kinds = RUNS[name]
    options = place.options if by == "obstore" else place.options | BY_S3FS
    server = S3Server(options["endpoint_url"], options, place.client)
    bucket = Bucket(server, place.bucket, tmp_path)
    table = TableBuilder(tmp_path / "t", format_version=version, location=bucket.location("t"))
    for start in range(0, 48, 12):
        table.append(range(start, start + 12))
    table.delete_rows([1, 2])
    table.delete_rows([13])
    bucket.upload("t")
    before = bucket.rows("t", monkeypatch) if name != "upgrade-to-v4" else {}
    place.proxy.failures = [("PUT", kind, FAILURES[failure]) for kind in kinds]
    arguments = [command, bucket.location("t"), *words, "--yes", "--json", *bucket.arguments]
    code = app.main(arguments, env=FixedEnv(NOW_MS))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (code, document["status"], place.proxy.failures) == (0, "done", []), document
    after = bucket.rows("t", monkeypatch) if before else {}
    assert {id_: after[id_] for id_ in after if id_ in before} == {
        id_: rows for id_, rows in before.items() if id_ in after
    }
    if before:
        assert after[max(after)] == before[max(before)]
    assert [key for key in bucket.keys("t") if "icectl-" in key] == []
    code = app.main(
        ["validate", bucket.location("t"), "--level", "data", *bucket.arguments],
        env=FixedEnv(NOW_MS),
    )
    assert code == 0, capsys.readouterr().out
