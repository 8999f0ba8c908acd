"""Commits to and removal from S3: one winner a version, whole runs of every command."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from icectl.cli import app, engines
from icectl.errors import Refused
from icectl.storage.new_files import Proven
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.s3fs import S3Writer
from tests.builders.commits import check_one_commits_each_version
from tests.builders.expiry import NOW_MS
from tests.builders.inline_engine import InlineEngine
from tests.builders.table_builder import TableBuilder, filled_table
from tests.s3.conftest import Bucket
from tests.stores.fixed_env import FixedEnv
from tests.stores.s3_servers import BY_S3FS

pytestmark = pytest.mark.s3

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(bucket: Bucket, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command with --json on a table of the bucket."""
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    env = FixedEnv(NOW_MS)

    def run_command(command: str, table: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        words = [command, bucket.location(table), *arguments, "--json", *bucket.arguments]
        code = app.main(words, env=env)
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, document

    return run_command


def build(bucket: Bucket, name: str, version: int) -> TableBuilder:
    table = TableBuilder(
        bucket.directory / name,
        format_version=version,
        partitioning="identity",
        location=bucket.location(name),
    )
    for start in range(0, 48, 12):
        table.append(range(start, start + 12))
    if version > 1:
        table.delete_rows([1, 2, 13])
    table.ref("eoy", "tag")
    table.remove_data_files(2)
    table.append(range(48, 60))
    bucket.upload(name)
    return table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_expiry_on_s3_keeps_rows_and_deletes_what_only_it_needed(
    bucket, run, monkeypatch, version
):
    build(bucket, "t", version)
    before, keys = bucket.rows("t", monkeypatch), bucket.keys("t")
    policy = ("--older-than", "1m", "--retain-last", "1")
    code, planned = run("expire-snapshots", "t", *policy, "--dry-run")
    assert (code, bucket.keys("t")) == (0, keys)
    code, done = run("expire-snapshots", "t", *policy, "--yes")
    assert (code, done["status"], done["warnings"]) == (0, "done", [])
    assert done["result"] == planned["result"]
    expired = {int(item["snapshot_id"]) for item in done["result"]["expired"]}
    after = bucket.rows("t", monkeypatch)
    assert after == {id_: rows for id_, rows in before.items() if id_ not in expired}
    gone = {
        item["path"].removeprefix(f"{bucket.location('t')}/") for item in done["result"]["files"]
    }
    assert gone
    added = bucket.keys("t") - keys
    assert bucket.keys("t") == (keys - gone) | added
    assert [name for name in added if "probe" in name or "icectl-" in name] == []
    code, again = run("expire-snapshots", "t", *policy, "--check")
    assert (code, again["status"]) == (0, "nothing-to-do")


COMPACT = ("compact", "--engine", "local", "--min-input-files", "2")
COMMITTING = {
    "rewrite-manifests": (("rewrite-manifests",), 1),
    "migrate-v1-v2": (("migrate-v1-v2",), 1),
    "compact version 1": (COMPACT, 1),
    "compact version 3": ((*COMPACT, "--sort-order", "id desc"), 3),
    "merge deletes": (("compact", "--deletes-only", "--rewrite-all"), 2),
}
"""Command lines that have work, with the version of their table."""


@pytest.mark.parametrize("name", COMMITTING)
def test_other_commands_commit_to_s3_and_validate_finds_nothing(bucket, run, monkeypatch, name):
    (command, *options), version = COMMITTING[name]
    build(bucket, "t", version)
    before = bucket.rows("t", monkeypatch)
    assert run(command, "t", *options, "--check")[0] == 4
    code, done = run(command, "t", *options, "--yes")
    assert (code, done["status"]) == (0, "done")
    after = bucket.rows("t", monkeypatch)
    assert {id_: after[id_] for id_ in before} == before
    code, checked = run("validate", "t", "--level", "data", "--all-snapshots")
    assert checked["result"], checked
    assert (code, checked["result"]["findings"]) == (0, [])
    options = [option for option in options if option != "--rewrite-all"]
    assert run(command, "t", *options, "--check")[0] == 0


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.full)])
def test_of_eight_committers_one_wins_each_version(bucket, rounds):
    filled_table(bucket.directory / "t", range(3), location=bucket.location("t"))
    bucket.upload("t")
    options = StorageOptions(bucket.server.options, concurrency=2)
    check_one_commits_each_version(
        bucket.location("t"), lambda env: open_store(options, env), rounds
    )
    assert [name for name in bucket.keys("t") if "probe" in name] == []


class Careless:
    """An S3 file system whose server takes no notice of conditions."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        self.s3_additional_kwargs: dict[str, str] = {}
        self.req_kw: dict[str, str] = {}
        self.calls: list[str] = []

    def call_s3(self, method: str, **arguments: Any) -> Any:
        self.calls.append(method)
        arguments.pop("IfNoneMatch", None)
        return self._filesystem.call_s3(method, **arguments)


def writer_of(bucket: Bucket) -> S3Writer:
    store: Any = open_store(StorageOptions(bucket.server.options | BY_S3FS), FixedEnv())
    writer: S3Writer = store.of(bucket.location("t")).writer
    return writer


def test_storage_that_ignores_conditions_is_refused_and_left_as_it_was(bucket):
    writer = writer_of(bucket)
    careless = Careless(writer.filesystem)
    broken = replace(writer, filesystem=careless, proof=Proven())
    place = f"{bucket.location('t')}/metadata/v2.metadata.json"
    for _ in range(2):
        with pytest.raises(Refused, match="ignores conditional writes"):
            broken.create(place, b"{}")
    assert bucket.keys("t") == set()


def test_the_probe_is_made_once_for_a_bucket(bucket):
    writer = writer_of(bucket)
    seen: list[str] = []

    class Counting(Careless):
        def call_s3(self, method: str, **arguments: Any) -> Any:
            seen.append(arguments.get("Key", method))
            return writer.filesystem.call_s3(method, **arguments)

    counted = replace(writer, filesystem=Counting(writer.filesystem), proof=Proven())
    counted.create(f"{bucket.location('t')}/metadata/a", b"1")
    counted.create(f"{bucket.location('t')}/metadata/b", b"2")
    with pytest.raises(FileExistsError):
        counted.create(f"{bucket.location('t')}/metadata/b", b"3")
    probes = [key for key in seen if key.endswith("/.icectl-probe")]
    assert len(probes) == 2
    assert bucket.keys("t") == {"metadata/a", "metadata/b"}


def test_a_thousand_and_one_objects_take_two_requests(bucket):
    writer = writer_of(bucket)
    places = [f"{bucket.location('t')}/data/{number:04}" for number in range(1001)]
    for place in (places[0], places[-1]):
        writer.replace(place, b"x")
    requests: list[int] = []

    class Counting(Careless):
        def call_s3(self, method: str, **arguments: Any) -> Any:
            requests.append(len(arguments["Delete"]["Objects"]))
            return writer.filesystem.call_s3(method, **arguments)

    counted = replace(writer, filesystem=Counting(writer.filesystem))
    assert list(counted.remove(places)) == []
    assert sorted(requests) == [1, 1000]
    assert bucket.keys("t") == set()


def test_keys_that_the_answer_names_are_failures_and_throttled_ones_are_tried_again(bucket):
    writer = writer_of(bucket)
    answers = [
        {"Errors": [
            {"Key": "wh/t/a", "Code": "AccessDenied", "Message": "no"},
            {"Key": "wh/t/b", "Code": "SlowDown", "Message": "later"},
        ]},
        {"Deleted": [{"Key": "wh/t/b", "DeleteMarker": True}]},
    ]  # fmt: skip
    asked: list[list[str]] = []

    class Answering(Careless):
        def call_s3(self, method: str, **arguments: Any) -> Any:
            asked.append([item["Key"] for item in arguments["Delete"]["Objects"]])
            return answers[len(asked) - 1]

    warnings: list[str] = []
    env = FixedEnv()
    told = replace(writer, filesystem=Answering(None), warn=warnings.append, env=env)
    place = bucket.location("t")
    failed = list(told.remove([f"{place}/a", f"{place}/b"]))
    assert [(one.location, one.error) for one in failed] == [(f"{place}/a", "no (AccessDenied)")]
    assert asked == [["wh/t/a", "wh/t/b"], ["wh/t/b"]]
    assert warnings == [
        f"bucket {bucket.name} keeps old versions: deleted files use storage until these expire too"
    ]


@pytest.mark.parametrize(("version", "more"), [(2, ()), (3, ("--sort-order", "id desc"))])
def test_a_compaction_on_s3_keeps_rows_and_adds_files(bucket, run, monkeypatch, version, more):
    table = build(bucket, "t", version)
    before, keys = bucket.rows("t", monkeypatch), bucket.keys("t")
    words = ("--engine", "local", "--min-input-files", "2", "--target-file-size", "1MiB", *more)
    code, planned = run("compact", "t", *words, "--dry-run")
    assert (code, bucket.keys("t")) == (0, keys)
    code, done = run("compact", "t", *words)
    assert (code, done["status"], done["warnings"]) == (0, "done", [])
    assert done["result"]["added_data_files"] == planned["result"]["added_data_files"] == 3
    after = bucket.rows("t", monkeypatch)
    (added,) = after.keys() - before.keys()
    assert {id_: after[id_] for id_ in before} == before
    assert sorted(dict(row)["id"] for row in after[added]) == sorted(table.ids())
    assert keys <= bucket.keys("t")
    code, again = run("compact", "t", *words)
    assert (code, again["status"]) == (0, "nothing-to-do")
