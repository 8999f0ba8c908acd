"""The tag race on Iceberg's own REST server: a proxy sets a ref between plan and commit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icectl.env import SystemEnv
from tests.builders.expiry import aged_table
from tests.builders.rows import current_metadata, read_rows
from tests.catalogs.rest_servers import (
    NAMESPACE,
    PythonServer,
    Reply,
    Seen,
    commit,
    load,
    pass_on,
    python_server,
    register,
    set_tag,
)
from tests.fault.changing import run

pytestmark = pytest.mark.xdist_group("rest")
NAMED = ".".join(("r", *NAMESPACE))
EXPIRE = ["--older-than", "0s", "--retain-last", "1", "--yes", "--json"]


@pytest.fixture
def table(request: pytest.FixtureRequest, iceberg_rest: str, tmp_path: Path) -> str:
    """The name of a table with old snapshots, which may go."""
    built = aged_table(tmp_path, format_version=getattr(request, "param", 2))
    name = f"aged_{tmp_path.name}"
    register(iceberg_rest, name, str(current_metadata(built.table.directory)))
    return name


def before_the_commit(iceberg_rest: str, act: Callable[[], Any]) -> Callable[[Seen], Reply]:
    """A proxy that acts once, right before it passes on the first commit."""
    done: list[Any] = []

    def answering(seen: Seen) -> Reply:
        if seen.method == "POST" and not done:
            done.append(act())
        return pass_on(iceberg_rest, seen)

    return answering


def expire(server: PythonServer, name: str) -> tuple[int, dict[str, Any]]:
    uri = f"uri={server.uri}"
    return run(
        ["expire-snapshots", f"{NAMED}.{name}", "--catalog-option", uri, *EXPIRE], env=SystemEnv()
    )


def unnamed(metadata: dict[str, Any]) -> list[int]:
    """The snapshots that no ref shows, oldest first."""
    shown = {ref["snapshot-id"] for ref in metadata["refs"].values()}
    return [one["snapshot-id"] for one in metadata["snapshots"] if one["snapshot-id"] not in shown]


def rows_of(metadata: dict[str, Any], snapshot_id: int) -> list[Any]:
    found = read_rows(metadata, snapshot_id)
    return sorted(tuple(item for item in row if not item[0].startswith("_")) for row in found)


@pytest.mark.parametrize("table", [1, 2, 3], indirect=True)
def test_a_tag_set_between_plan_and_commit_comes_back_with_its_rows(iceberg_rest, table):
    before = load(iceberg_rest, table)["metadata"]
    old = unnamed(before)[0]
    rows = rows_of(before, old)
    with python_server(
        before_the_commit(iceberg_rest, lambda: set_tag(iceberg_rest, table, "keep", old))
    ) as proxy:
        code, document = expire(proxy, table)
    assert code == 0, document
    assert any("`keep`" in each and "restored" in each for each in document["warnings"]), document
    after = load(iceberg_rest, table)["metadata"]
    back = after["refs"]["keep"]["snapshot-id"]
    kept = {ref["snapshot-id"] for ref in before["refs"].values()}
    assert {one["snapshot-id"] for one in after["snapshots"]} == {back, *kept}
    assert after["refs"]["main"] == before["refs"]["main"]
    assert rows_of(after, back) == rows
    words = [
        "validate", f"{NAMED}.{table}", "--level", "data", "--catalog-option",
        f"uri={iceberg_rest}",
    ]  # fmt: skip
    code, document = run([*words, "--json"])
    assert (code, document["result"]["counts"]["error"]) == (0, 0), document


def evolved(iceberg_rest: str, name: str) -> Any:
    """A table whose first snapshot has a schema and a partition spec that no other has."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("r", type="rest", uri=iceberg_rest)
    for depth in range(1, len(NAMESPACE) + 1):
        catalog.create_namespace_if_not_exists(NAMESPACE[:depth])
    table = catalog.create_table((*NAMESPACE, name), pa.schema([("n", pa.int64())]))
    table.append(pa.table({"n": [1]}))
    with table.update_spec() as spec:
        spec.add_identity("n")
    with table.update_schema() as schema:
        schema.rename_column("n", "m")
    table.delete("m = 1")
    table.append(pa.table({"m": [2]}))
    return table


@pytest.mark.parametrize("is_raced", [True, False])
def test_a_snapshot_comes_back_with_its_schema_and_its_partition_spec(
    iceberg_rest, tmp_path, is_raced
):
    name = f"evolved_{tmp_path.name}"
    table = evolved(iceberg_rest, name)
    old = table.history()[0].snapshot_id

    def act() -> None:
        if is_raced:
            set_tag(iceberg_rest, name, "keep", old)

    with python_server(before_the_commit(iceberg_rest, act)) as proxy:
        words = ["expire-snapshots", f"{NAMED}.{name}", *EXPIRE, "--clean-expired-metadata"]
        code, document = run([*words, "--catalog-option", f"uri={proxy.uri}"], env=SystemEnv())
    assert code == 0, document
    assert document["result"]["specs_removed"] == ([] if is_raced else [0])
    after = table.refresh().metadata
    assert [spec.spec_id for spec in after.partition_specs] == ([0, 1] if is_raced else [1])
    assert [schema.schema_id for schema in after.schemas] == ([0, 1] if is_raced else [1])
    if is_raced:
        back = after.refs["keep"].snapshot_id
        assert table.scan(snapshot_id=back).to_arrow().to_pydict() == {"n": [1]}


def test_without_that_the_server_drops_the_tag(iceberg_rest, table):
    """What this is about: `remove-snapshots` takes a tag along that its sender did not know."""
    old = unnamed(load(iceberg_rest, table)["metadata"])[0]
    set_tag(iceberg_rest, table, "keep", old)
    commit(iceberg_rest, table, [{"action": "remove-snapshots", "snapshot-ids": [old]}])
    assert "keep" not in load(iceberg_rest, table)["metadata"]["refs"]


def test_a_branch_set_meanwhile_comes_back_too(iceberg_rest, table):
    before = load(iceberg_rest, table)["metadata"]
    old = unnamed(before)[0]
    branch = {"ref-name": "work", "type": "branch", "snapshot-id": old, "min-snapshots-to-keep": 3}

    def act() -> None:
        commit(iceberg_rest, table, [{"action": "set-snapshot-ref", **branch}])
        set_tag(iceberg_rest, table, "beside", old)

    with python_server(before_the_commit(iceberg_rest, act)) as proxy:
        assert expire(proxy, table)[0] == 0
    after = load(iceberg_rest, table)["metadata"]
    back = after["refs"]["work"]["snapshot-id"]
    expected = {"snapshot-id": back, "type": "branch", "min-snapshots-to-keep": 3}
    assert after["refs"]["work"] == expected
    assert after["refs"]["beside"]["snapshot-id"] == back
    assert rows_of(after, back) == rows_of(before, old)


def test_what_came_between_and_lost_nothing_is_let_be(iceberg_rest, table):
    def act() -> None:
        commit(iceberg_rest, table, [{"action": "set-properties", "updates": {"a": "b"}}])

    with python_server(before_the_commit(iceberg_rest, act)) as proxy:
        code, document = expire(proxy, table)
    assert (code, document["warnings"]) == (0, []), document
    after = load(iceberg_rest, table)["metadata"]
    assert after["properties"]["a"] == "b"
    assert unnamed(after) == []


def test_a_moved_branch_is_a_conflict_and_planned_anew(iceberg_rest, table):
    old = unnamed(load(iceberg_rest, table)["metadata"])[0]

    def act() -> None:
        ref = {"ref-name": "v1", "type": "tag", "snapshot-id": old}
        commit(iceberg_rest, table, [{"action": "set-snapshot-ref", **ref}])

    with python_server(before_the_commit(iceberg_rest, act)) as proxy:
        code, document = expire(proxy, table)
        assert len(proxy.asked("/tables/", "POST")) == 2
    assert code == 0, document
    after = load(iceberg_rest, table)["metadata"]
    assert after["refs"]["v1"]["snapshot-id"] == old
    assert old in {one["snapshot-id"] for one in after["snapshots"]}


def test_an_answer_that_is_lost_shows_the_race_too(iceberg_rest, table):
    """The server commits, and the proxy says 503: found out, and the tag is put back."""
    before = load(iceberg_rest, table)["metadata"]
    old = unnamed(before)[0]
    rows = rows_of(before, old)
    posts: list[Seen] = []

    def answering(seen: Seen) -> Reply:
        if seen.method != "POST":
            return pass_on(iceberg_rest, seen)
        posts.append(seen)
        if len(posts) > 1:
            return pass_on(iceberg_rest, seen)
        set_tag(iceberg_rest, table, "keep", old)
        pass_on(iceberg_rest, seen)
        commit(iceberg_rest, table, [{"action": "set-properties", "updates": {"later": "1"}}])
        return Reply(503, b"upstream is busy")

    with python_server(answering) as proxy:
        code, document = expire(proxy, table)
    assert code == 0, document
    after = load(iceberg_rest, table)["metadata"]
    assert rows_of(after, after["refs"]["keep"]["snapshot-id"]) == rows
    assert after["properties"]["later"] == "1"


@pytest.mark.parametrize("table", [1, 2, 3], indirect=True)
def test_a_snapshot_that_older_icectl_has_put_back_is_read_and_changed(iceberg_rest, table):
    """Its summary has no mark."""
    old = unnamed(load(iceberg_rest, table)["metadata"])[0]
    rows = rows_of(load(iceberg_rest, table)["metadata"], old)
    posts: list[Seen] = []

    def answering(seen: Seen) -> Reply:
        if seen.method != "POST":
            return pass_on(iceberg_rest, seen)
        if not posts:
            set_tag(iceberg_rest, table, "keep", old)
        posts.append(seen)
        body = seen.json
        for update in body["updates"]:
            update.get("snapshot", {}).get("summary", {}).pop("icectl.put-back", None)
        return pass_on(iceberg_rest, replace(seen, body=json.dumps(body).encode()))

    with python_server(answering) as proxy:
        assert expire(proxy, table)[0] == 0
    back = load(iceberg_rest, table)["metadata"]["refs"]["keep"]["snapshot-id"]
    options = ["--catalog-option", f"uri={iceberg_rest}", "--json"]
    for command, *words in (
        ["inspect", "files", "--snapshot", str(back)],
        ["validate"],
        ["rewrite-manifests", "--yes"],
    ):
        code, document = run([command, f"{NAMED}.{table}", *words, *options])
        assert code == 0, document
    assert rows_of(load(iceberg_rest, table)["metadata"], back) == rows


def test_where_the_file_between_cannot_be_read_nothing_is_deleted(iceberg_rest, table):
    metadata = load(iceberg_rest, table)["metadata"]
    old = unnamed(metadata)[0]
    files = sorted(Path(metadata["location"]).rglob("*.*"))
    hidden: list[Path] = []

    def answering(seen: Seen) -> Reply:
        is_first = seen.method == "POST" and not hidden
        if is_first:
            set_tag(iceberg_rest, table, "keep", old)
            between = Path(load(iceberg_rest, table)["metadata-location"])
            reply = pass_on(iceberg_rest, seen)
            hidden.append(between.rename(between.with_suffix(".hidden")))
            return reply
        return pass_on(iceberg_rest, seen)

    with python_server(answering) as proxy:
        code, document = expire(proxy, table)
    assert code == 12, document
    assert "has landed" in document["error"]["message"]
    assert all(file.exists() for file in files)


def test_a_commit_without_an_answer_that_another_has_expired_is_known_by_the_log(
    iceberg_rest, tmp_path
):
    """Its snapshot is not there, and its files are: they are those of the rows."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("r", type="rest", uri=iceberg_rest)
    for depth in range(1, len(NAMESPACE) + 1):
        catalog.create_namespace_if_not_exists(NAMESPACE[:depth])
    name = f"expired_{tmp_path.name}"
    schema = pa.schema([("n", pa.int64())])
    table = catalog.create_table((*NAMESPACE, name), schema)
    for number in range(3):
        table.append(pa.table({"n": [number]}))
    lost: list[int] = []

    def answering(seen: Seen) -> Reply:
        if seen.method != "POST" or lost:
            return pass_on(iceberg_rest, seen)
        pass_on(iceberg_rest, seen)
        lost.append(load(iceberg_rest, name)["metadata"]["current-snapshot-id"])
        table.refresh().append(pa.table({"n": [3]}))
        commit(iceberg_rest, name, [{"action": "remove-snapshots", "snapshot-ids": lost}])
        return Reply(breaks=True)

    with python_server(answering) as proxy:
        words = ["compact", f"{NAMED}.{name}", "--engine", "local", "--rewrite-all", "--json"]
        code, document = run([*words, "--catalog-option", f"uri={proxy.uri}"], env=SystemEnv())
    assert code == 0, document
    after = load(iceberg_rest, name)["metadata"]
    assert lost[0] not in {one["snapshot-id"] for one in after["snapshots"]}
    assert sorted(table.refresh().scan().to_arrow()["n"].to_pylist()) == [0, 1, 2, 3]
    assert len(table.inspect.files()) == 2
