"""Rows in a bucket are erased; what nobody can look at there is said, and nothing is proved."""

import json
import time
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest

from icectl.catalog.protocol import LoadedTable
from icectl.cli import app, engines
from icectl.commands.erase import versions
from icectl.commands.erase.plan import Left
from icectl.commands.erase.run import _Erasing as Erasing
from icectl.commit.journals import uuid_of
from icectl.entries.files import FileKind, files
from icectl.format.partition import PartitionField
from icectl.format.transforms import parse_transform
from icectl.storage.location import loosest_key
from icectl.storage.many_files import FilesByKind
from icectl.storage.versions import remove_versions
from icectl.table.context import TableContext
from tests.builders.byte_scanner import hits_below, hits_in
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.spread_table import SpreadTable
from tests.builders.table_builder import PARTITIONINGS, TableBuilder
from tests.property.test_erased_rows import MARKS, live_through, table_of
from tests.property.test_erased_rows import WHERE as MARKED_ROWS
from tests.s3.conftest import Bucket
from tests.s3.test_remove_orphans import AT_ONCE, wait_until_old
from tests.stores.fixed_env import FixedEnv

pytestmark = pytest.mark.s3

MARK = b"note 4712"
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
_SMALL = (".json", ".text", ".icectl-probe")
"""How names of files end that hold no rows."""


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
    runs = count(1)

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        if not bucket.keys("t"):
            bucket.upload("t")
            assert hits_below(bucket.download("t"), [MARK])
        # Each run has other names: versitygw gives none of a deleted object to another one.
        first = 5_000 * next(runs)
        env = FixedEnv(NOW_MS, uuids=first, snapshot_ids=first)
        code = app.main(["erase", location, *where, *words], env=env)
        printed = capsys.readouterr().out
        return code, json.loads(printed)["result"] if printed else {}

    return run


def test_no_object_holds_the_row(bucket, erase):
    code, done = erase("--expire-history", "--yes")
    assert (code, done["left"], done["is_proved"]) == (0, [], True)
    assert hits_below(bucket.download("t"), [MARK]) == []
    assert erase("--verify")[0] == 0


def keep_versions(bucket: Bucket) -> None:
    bucket.client.put_bucket_versioning(
        Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"}
    )


def versions_of(bucket: Bucket, prefix: str = "") -> dict[str, list[str]]:
    """The ids of versions and of marks of deletion, by key, but for those of metadata files."""
    found: dict[str, list[str]] = {}
    pages = bucket.client.get_paginator("list_object_versions")
    for page in pages.paginate(Bucket=bucket.name, Prefix=prefix):
        for entry in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
            if not entry["Key"].endswith(_SMALL):
                found.setdefault(entry["Key"], []).append(entry["VersionId"])
    return found


def test_the_proof_names_the_version_of_each_object(bucket, erase):
    keep_versions(bucket)
    erase("--expire-history", "--delete-versions", "--yes")
    objects = erase("--verify")[1]["objects"]
    assert {one["path"] for one in objects} == {
        bucket.location(f"t/{it}") for it in bucket.keys("t")
    }
    for one in objects:
        key = one["path"].removeprefix(f"s3://{bucket.name}/")
        stored = bucket.client.head_object(Bucket=bucket.name, Key=key)
        told = (one["size_bytes"], one["etag"].strip('"'), one["version_id"])
        assert told == (stored["ContentLength"], stored["ETag"].strip('"'), stored["VersionId"])


def test_previous_versions_are_told_of(bucket, erase):
    keep_versions(bucket)
    code, done = erase("--expire-history", "--yes")
    assert (code, done["is_proved"]) == (3, False)
    assert hits_below(bucket.download("t"), [MARK]) == []
    kept = {one["subject"] for one in done["left"]}
    assert all(one["reason"].startswith("the bucket keeps ") for one in done["left"]), done["left"]
    assert kept >= set(done["deleted_files"])
    code, looked = erase("--verify")
    assert (code, looked["left"]) == (4, done["left"])


def test_previous_versions_of_what_is_deleted_go_too(bucket, erase, monkeypatch):
    keep_versions(bucket)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(versions, "remove_versions", stopped)
    assert erase("--expire-history", "--delete-versions", "--yes")[0] == 130
    bucket.client.put_object(Bucket=bucket.name, Key="wh/t/data/x.parquet", Body=b"1")
    bucket.client.delete_object(Bucket=bucket.name, Key="wh/t/data/x.parquet")
    monkeypatch.setattr(versions, "remove_versions", remove_versions)
    code, done = erase("--expire-history", "--delete-versions", "--yes")
    other = bucket.location("t/data/x.parquet")  # somebody else has deleted it
    assert (code, [one["subject"] for one in done["left"]]) == (3, [other])
    kept = versions_of(bucket)
    assert len(kept.pop("wh/t/data/x.parquet")) == 2
    assert {key: len(ids) for key, ids in kept.items()} == {
        f"wh/t/{key}": 1 for key in bucket.keys("t") if not key.endswith(_SMALL)
    }
    assert not any("icectl-" in key for key in bucket.keys("t"))  # no journal is left
    assert hits_below(bucket.download("t"), [MARK]) == []


def test_no_version_of_a_journal_is_left(bucket, erase):
    """Journals name files by their paths."""
    keep_versions(bucket)
    assert erase("--expire-history", "--delete-versions", "--yes")[1]["is_proved"] is True
    listed = bucket.client.list_object_versions(Bucket=bucket.name)
    stored = (*listed["Versions"], *listed.get("DeleteMarkers", ()))
    assert [one["Key"] for one in stored if uuid_of(one["Key"])] == []


@pytest.mark.parametrize("file_name", ["v9.metadata.json", f"icectl-compact-{UUID}.json"])
def test_previous_versions_that_name_partitions_are_told_of(bucket, capsys, monkeypatch, file_name):
    """Those of metadata files do in summaries, those of journals in paths."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    note = (PartitionField((5,), 1000, "note", parse_transform("identity")),)
    monkeypatch.setitem(PARTITIONINGS, "note", note)
    keep_versions(bucket)
    location = bucket.location("t")
    TableBuilder(bucket.directory / "t", partitioning="note", location=location).append(range(3))
    bucket.upload("t")
    partition, key = "note=note+4712", f"wh/t/metadata/{file_name}"

    def verify(column: str) -> tuple[int, list[str]]:
        where = ("--where", f"{column} = {'4712' if column == 'id' else repr(MARK.decode())}")
        line = ("erase", location, *where, "--verify", "--json")
        code = app.main([*line, *bucket.arguments], env=FixedEnv(NOW_MS))
        left = json.loads(capsys.readouterr().out)["result"]["left"]
        return code, [one["subject"] for one in left]

    def put(*places: str) -> None:
        summaries = [{"summary": {f"partitions.{place}": "x"}} for place in places]
        content = {"snapshots": summaries, "folders": places}
        body = json.dumps(content).encode()
        bucket.client.put_object(Bucket=bucket.name, Key=key, Body=body)
        bucket.client.delete_object(Bucket=bucket.name, Key=key)

    put()
    assert verify("note") == (0, [])
    put(partition)
    assert verify("id") == (0, [])
    assert verify("note") == (4, [bucket.location(f"t/metadata/{file_name}")])


@pytest.mark.parametrize("deletes", [False, True])
def test_versions_in_the_quarantine_go_too(bucket, capsys, monkeypatch, deletes):
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    location, away = bucket.location("t"), f"s3://{bucket.name}/away"
    table = TableBuilder(bucket.directory / "t", location=location)
    table.append(range(10))
    for id_ in (4712, 100):
        table.loose_data_files([id_])
    bucket.upload("t")
    wait_until_old(bucket)
    now_ms, runs = time.time_ns() // 10**6, count(1)

    def run(command: str, *words: str) -> tuple[int, dict[str, Any]]:
        at = next(runs)
        env = FixedEnv(now_ms + 60_000 * (at - 1), uuids=5_000 * at, snapshot_ids=5_000 * at)
        code = app.main([command, location, *words, "--json", *bucket.arguments], env=env)
        return code, json.loads(capsys.readouterr().out)["result"]

    assert run("remove-orphans", "--quarantine", away, *AT_ONCE)[1]["quarantined"] == 2
    wait_until_old(bucket)
    keep_versions(bucket)
    monkeypatch.setenv("ICECTL_REMOVE_ORPHANS_QUARANTINE", away)
    where = ("--where", "id = 4712")
    more = ("--delete-versions",) if deletes else ()
    code, done = run("erase", *where, "--expire-history", "--yes", *more)
    (gone,) = done["deleted_files"]
    kept = {key: len(ids) for key, ids in versions_of(bucket, "away/").items()}
    if deletes:
        assert (code, done["left"], done["is_proved"]) == (0, [], True)
        assert set(kept.values()) == {1}
        names = [key.rpartition("/")[2] for key in kept]
        assert sorted(names)[1:] == ["copied-00001.jsonl", "moved-00001.jsonl"]
        return
    told = {one["subject"]: one["reason"] for one in done["left"]}
    assert (code, done["is_proved"]) == (3, False)
    assert told == {
        f"s3://{bucket.name}/{key}": "the bucket keeps 1 previous version of it"
        for key, number in kept.items()
        if number > 1
    }
    assert gone in told
    assert run("erase", *where, "--verify")[0] == 4


def test_the_proof_names_the_version_of_each_object_outside_of_the_location(bucket, capsys):
    keep_versions(bucket)
    SpreadTable(bucket.directory / "u", location=bucket.location("u")).append(range(5))
    bucket.upload("u")
    bucket.upload("outside")
    (key,) = bucket.keys("outside")
    line = ("erase", bucket.location("u"), "--where", "id = 4712", "--verify", "--json")
    assert app.main([*line, *bucket.arguments], env=FixedEnv(NOW_MS)) == 0
    objects = json.loads(capsys.readouterr().out)["result"]["objects"]
    (one,) = (it for it in objects if it["kind"] == "data")
    stored = bucket.client.head_object(Bucket=bucket.name, Key=f"wh/outside/{key}")
    assert (one["etag"], one["version_id"]) == (stored["ETag"], stored["VersionId"])


@pytest.mark.parametrize("point", ["clean_branches", "expire_history", "remove_more"])
def test_an_erasure_of_versions_beside_another_ends_well(bucket, erase, monkeypatch, point):
    keep_versions(bucket)
    words = ("--expire-history", "--delete-versions", "--yes")
    whole, came = getattr(Erasing, point), []

    def overtaken(erasing: Any, *others: Any) -> Any:
        if not came:
            came.append(None)
            came.append(erase(*words)[0])
        return whole(erasing, *others)

    monkeypatch.setattr(Erasing, point, overtaken)
    assert {erase(*words)[0], came[1]} <= {0, 3, 11}
    assert erase(*words)[0] in (0, 3)
    assert hits_below(bucket.download("t"), [MARK]) == []
    assert {key.removeprefix("wh/t/") for key in versions_of(bucket)} >= {
        key for key in bucket.keys("t") if not key.endswith(_SMALL)
    }


@pytest.mark.parametrize(
    "seed", [2, *(pytest.param(it, marks=pytest.mark.full) for it in range(24) if it != 2)]
)
def test_no_version_of_any_object_holds_a_mark_after_a_random_history(
    bucket, capsys, monkeypatch, seed
):
    """A partition by whole notes puts marks into paths, too."""
    note = (PartitionField((5,), 1000, "note", parse_transform("identity")),)
    monkeypatch.setitem(PARTITIONINGS, "note", note)
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    random, location = Random(seed), bucket.location("t")
    kinds = ("append", "append marked", "position", "equality", "keys", "remove", "replace", "tag",
             "branch", "orphan")  # fmt: skip
    steps = [(random.choice(kinds), random.random() < 0.5, random.randrange(2**16))
             for _ in range(random.randint(2, 8))]  # fmt: skip
    version, partitioning = random.randint(1, 4), random.choice(["none", "identity", "note"])
    form = random.choice(["parquet", "parquet", "orc", "avro"])
    table = table_of(form, bucket.directory / "t", version, partitioning, location)
    live_through(table, steps)
    bucket.upload("t")
    env = FixedEnv(NOW_MS, uuids=5_000, snapshot_ids=5_000)
    if version == 4:
        upgrading = ("--layout=sfc-1", "--yes", "--quiet", *bucket.arguments)
        assert app.main(["upgrade-to-v4", location, *upgrading], env=env) == 0
    if any(kind == "orphan" for kind, *_ in steps):
        # An object is as young as its upload, so only a quarantine lets it go.
        wait_until_old(bucket)
        away = f"s3://{bucket.name}/away"
        words = ("--quarantine", away, *AT_ONCE, "--quiet", *bucket.arguments)
        moving = FixedEnv(time.time_ns() // 10**6, uuids=40_000)
        assert app.main(["remove-orphans", location, *words], env=moving) == 0
        monkeypatch.setenv("ICECTL_REMOVE_ORPHANS_QUARANTINE", away)
        wait_until_old(bucket)
        env = FixedEnv(time.time_ns() // 10**6, uuids=50_000, snapshot_ids=50_000)
    capsys.readouterr()
    keep_versions(bucket)
    assert marked_versions(bucket)
    words = ("--max-fraction", "1", "--expire-history", "--drop-tags", "*", "--delete-versions")
    arguments = (*MARKED_ROWS, *words, "--yes", "--json", *bucket.arguments)
    code = app.main(["erase", location, *arguments], env=env)
    done = json.loads(capsys.readouterr().out)["result"]
    assert (code, done["left"], done["is_proved"]) == (0, [], True)
    assert marked_versions(bucket) == set()


def marked_versions(bucket: Bucket) -> set[str]:
    """The keys of objects of which a version, whatever its age, holds a mark."""
    found = set()
    for page in bucket.client.get_paginator("list_object_versions").paginate(Bucket=bucket.name):
        for entry in page.get("Versions", ()):
            place = {"Bucket": bucket.name, "Key": entry["Key"], "VersionId": entry["VersionId"]}
            content = bucket.client.get_object(**place)["Body"].read()
            if hits_in(content, MARKS):
                found.add(entry["Key"])
    return found


def test_a_version_is_kept_if_the_object_is_there_again(bucket, erase, monkeypatch):
    keep_versions(bucket)
    whole, back = versions.remove, []

    def restored(context: TableContext, loaded: LoadedTable) -> tuple[int, list[Left]]:
        gone = [key for key, ids in versions_of(bucket).items() if len(ids) > 1]
        back.append(gone[0])
        bucket.client.put_object(Bucket=bucket.name, Key=gone[0], Body=b"of somebody else")
        return whole(context, loaded)

    monkeypatch.setattr(versions, "remove", restored)
    code, done = erase("--expire-history", "--delete-versions", "--yes")
    assert code == 3
    assert {one["subject"].removeprefix(f"s3://{bucket.name}/") for one in done["left"]} == {*back}
    assert len(versions_of(bucket)[back[0]]) == 3


def test_what_a_run_wrote_down_that_never_expired_anything_keeps_its_versions(
    bucket, erase, monkeypatch
):
    keep_versions(bucket)
    whole, place = versions.remove, bucket.location("t/data/x.parquet")

    def after_another_run(context: TableContext, loaded: LoadedTable) -> tuple[int, list[Left]]:
        bucket.client.put_object(Bucket=bucket.name, Key="wh/t/data/x.parquet", Body=b"1")
        bucket.client.delete_object(Bucket=bucket.name, Key="wh/t/data/x.parquet")
        kept = tuple(it.snapshot_id for it in loaded.metadata.snapshots)
        named = files([place], [loosest_key(place)], FileKind.DATA_FILES, [None])
        versions.record(context, loaded, kept, FilesByKind([named]))
        return whole(context, loaded)

    monkeypatch.setattr(versions, "ABANDONED_AFTER_MS", -1)
    monkeypatch.setattr(versions, "remove", after_another_run)
    code, done = erase("--expire-history", "--delete-versions", "--yes")
    assert (code, [one["subject"] for one in done["left"]]) == (3, [place])
    assert len(versions_of(bucket)["wh/t/data/x.parquet"]) == 2
    assert not any("icectl-" in key for key in bucket.keys("t"))
