"""What every kind of catalog has to pass: the commands by name, and every end of a commit."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.protocol import Committed, Conflict, Unknown
from icectl.commit.transaction import Outputs
from tests.builders.compactions import build
from tests.builders.orphans import age, stray
from tests.builders.rows import current_metadata, local, read_metadata, read_rows
from tests.builders.table_builder import filled_table
from tests.catalogs.server import NAME, Server, meanwhile
from tests.fault.changing import run

TABLE = "TABLE"
"""Stands for the table's name in the words of commands."""

EXPIRE = ["expire-snapshots", TABLE, "--older-than", "0s", "--retain-last", "1", "--yes", "--json"]
COMMANDS = {
    "expire": EXPIRE[:-1],
    "rewrite": ["rewrite-manifests", TABLE, "--min-manifests", "1"],
    "compact": ["compact", TABLE, "--engine", "local", "--rewrite-all"],
    "orphans": ["remove-orphans", TABLE, "--older-than", "2d", "--yes", "--max-fraction", "1"],
    "migrate": ["migrate-v1-v2", TABLE, "--yes"],
    "upgrade-to-v3": ["upgrade-to-v3", TABLE, "--yes", "--convert-position-deletes"],
    "upgrade": ["upgrade-to-v4", "--layout=sfc-1", TABLE, "--yes", "--eager"],
    "tag": ["refs", TABLE, "tag", "kept", "--max-ref-age", "1s"],
    "properties": ["properties", TABLE, "set", "owner=ada"],
    "expire-rows": ["expire-rows", TABLE, "--where", "at < '2023-11-14T23:00'", "--yes"],
    "analyze": ["analyze", TABLE, "--engine", "local"],
}
EVERYWHERE = (
    "tag", "properties", "analyze", "rewrite", "compact", "expire-rows", "orphans", "expire",
)  # fmt: skip

MakeTable = Callable[..., Path]


@pytest.fixture
def table(server: Server) -> MakeTable:
    """Makes a table of small files with deletes and old snapshots, and registers it as `t`."""

    def make(
        version: int = 2,
        change: Callable[[dict[str, Any]], None] | None = None,
        place: Path | None = None,
    ) -> Path:
        directory = server.warehouse / "t"
        build(directory, version, "identity")
        current = current_metadata(directory)
        members = json.loads(current.read_bytes())
        if change is not None:
            change(members)
        if place is not None:  # of the current metadata file
            place.mkdir(parents=True)
            current = place / "00077-3b0d3a4e-8a1c-4a6c-9a57-2f3f9d3c6a11.metadata.json"
        current.write_text(json.dumps(members))
        server.register("t", str(current))
        return directory

    return make


def name_of(server: Server) -> str:
    """What the table is called on the command line."""
    return ".".join((NAME, *server.namespace, "t"))


def on(server: Server, words: list[str]) -> tuple[int, Any]:
    """Run a command on the table: its exit code and document."""
    return run([name_of(server) if word == TABLE else word for word in words])


def current(server: Server) -> dict[str, Any]:
    """The metadata that the catalog says is current."""
    return read_metadata(local(server.current("t")))


def rows(server: Server) -> list[Any]:
    """The rows of the current snapshot, read without icectl."""
    found = read_rows(current(server))
    return sorted(tuple(item for item in row if not item[0].startswith("_")) for row in found)


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (1, ("migrate", *EVERYWHERE)),
        (2, (*EVERYWHERE, "upgrade-to-v3")),
        (3, (*EVERYWHERE, "upgrade", "compact")),
    ],
)
def test_every_command_changes_a_table_by_its_name(server, table, version, names):
    directory = table(version)
    before = rows(server)
    if "upgrade" in names and not server.swaps_pointer:
        code, document = on(server, [*COMMANDS["upgrade"], "--json"])
        assert (code, document["error"]["id"]) == (14, "unsupported")
        names = names[: names.index("upgrade")]
    for number, name in enumerate(names):
        lost = stray(directory / "data", f"lost-{number}.parquet", days=7)
        age(directory, 5)
        location = server.current("t")
        code, document = on(server, [*COMMANDS[name], "--json"])
        assert code == 0, document
        if name == "expire-rows":
            before = [row for row in before if dict(row)["id"] > 0]
        assert rows(server) == before
        if name == "orphans":
            assert not lost.exists()
            assert server.current("t") == location
            continue
        assert document["table"]["metadata_location_after"] == server.current("t") != location
        logged = [local(entry["metadata-file"]) for entry in current(server)["metadata-log"]]
        assert local(location) in logged
        code, document = on(server, ["validate", TABLE, "--json"])
        assert (code, document["result"]["counts"]["error"]) == (0, 0), document


def test_a_dry_run_changes_nothing(server, table):
    directory = table()
    location, files = server.current("t"), sorted(directory.rglob("*"))
    for name, words in COMMANDS.items():
        wanted = 14 if name == "upgrade" and not server.swaps_pointer else 0
        assert on(server, [*words, "--dry-run", "--json"])[0] == wanted
    assert (server.current("t"), sorted(directory.rglob("*"))) == (location, files)


def test_a_tag_set_between_plan_and_commit_keeps_its_snapshot(server, table):
    table()
    oldest = current(server)["snapshots"][0]["snapshot-id"]
    before = read_rows(current(server), oldest)
    with meanwhile(lambda: server.change("t", "keep", oldest)) as outcomes:
        code, document = on(server, EXPIRE)
    assert code == 0, document
    wanted = [Conflict, Committed] if server.swaps_pointer else [Committed]
    assert [type(outcome) for outcome in outcomes] == wanted
    assert current(server)["refs"]["keep"]["snapshot-id"] == oldest
    assert read_rows(current(server), oldest) == before


def test_a_commit_whose_answer_is_lost_has_landed(server, table):
    table()
    before = rows(server)
    with meanwhile() as outcomes, server.losing_answer(landed=True):
        code, document = on(server, EXPIRE)
    assert code == 0, document
    assert [type(outcome) for outcome in outcomes] == [Committed]
    assert document["result"]["deleted"]["manifest_lists"] > 0
    assert len(current(server)["snapshots"]) == 1
    assert rows(server) == before


def test_a_commit_that_got_lost_on_its_way_is_made_again(server, table):
    table()
    before = rows(server)
    with meanwhile() as outcomes, server.losing_answer(landed=False):
        code, document = on(server, EXPIRE)
    assert tuple(type(outcome) for outcome in outcomes) == server.lost_on_the_way
    if Unknown not in server.lost_on_the_way:
        assert code == 0, document
        assert len(current(server)["snapshots"]) == 1
    assert rows(server) == before


def test_after_an_unknown_end_nothing_is_deleted(server, table):
    directory = table()
    files = set(directory.rglob("*"))
    with meanwhile() as outcomes, server.dying():
        code, document = on(server, EXPIRE)
    assert [type(outcome) for outcome in outcomes] == [Unknown]
    assert (code, document["status"], document["error"]["id"]) == (12, "unknown", "commit-unknown")
    assert files <= set(directory.rglob("*"))
    assert on(server, EXPIRE)[0] == 0


def test_what_nobody_knows_in_metadata_is_kept(server, table):
    def change(members: dict[str, Any]) -> None:
        members["x-top"] = {"a": [1, 2.5]}
        members["snapshots"][-1]["x-snapshot"] = "s"
        members["schemas"][-1]["fields"][0]["x-field"] = {"deep": None}
        members["refs"]["main"]["x-ref"] = 7

    directory = table(change=change)
    if not server.swaps_pointer:
        files = set(directory.rglob("*"))
        code, document = on(server, [*COMMANDS["rewrite"], "--json"])
        assert (code, document["error"]["id"]) == (14, "unsupported")
        assert "x-top" in document["error"]["message"]
        assert set(directory.rglob("*")) == files
        return
    assert on(server, [*COMMANDS["rewrite"], "--json"])[0] == 0
    found = current(server)
    assert found["x-top"] == {"a": [1, 2.5]}
    assert found["snapshots"][-2]["x-snapshot"] == "s"
    assert found["schemas"][-1]["fields"][0]["x-field"] == {"deep": None}
    assert found["refs"]["main"]["x-ref"] == 7


def test_a_table_that_is_not_there_is_exit_10_with_near_names(server, table):
    table()
    code, document = run(["inspect", f"{name_of(server)}t", "--json"])
    assert (code, document["error"]["id"]) == (10, "table-not-found")
    assert f"`{name_of(server)}`" in document["error"]["hint"]


def test_orphans_are_left_where_another_table_of_the_catalog_lies_below(server, table):
    directory = table()
    below = filled_table(directory / "data" / "below", range(3))
    server.register("u", str(max(below.directory.glob("metadata/*.json"))))
    lost = stray(directory / "data", "lost.parquet", days=7)
    code, document = on(server, [*COMMANDS["orphans"], "--json"])
    assert (code, document["error"]["id"]) == (5, "other-table"), document
    assert name_of(server).removesuffix("t") + "u" in document["error"]["message"]
    assert lost.exists()


def test_orphans_are_left_where_another_table_of_the_catalog_has_its_data(server, table, tmp_path):
    if server.properties["type"] in ("glue", "hive"):
        pytest.skip("what is registered there does not tell the properties of tables")
    directory = table()
    newest = max(filled_table(tmp_path / "elsewhere", range(3)).directory.glob("metadata/*.json"))
    members = json.loads(newest.read_bytes())
    lost = stray(directory / "data/of-u", "lost.parquet", days=7)
    for name, folder, code in (
        ("above", server.warehouse, 0),  # files are there in folders of partitions or hashes
        ("below", directory / "data/of-u", 5),
    ):
        told = newest.with_name(f"{name}.metadata.json")
        told.write_text(json.dumps(members | {"properties": {"write.data.path": str(folder)}}))
        server.register(name, str(told))
        found, document = on(server, [*COMMANDS["orphans"], "--dry-run", "--json"])
        assert found == code, document
    assert document["error"]["id"] == "other-table"
    assert name_of(server).removesuffix("t") + "below" in document["error"]["message"]
    assert on(server, [*COMMANDS["orphans"], "--json"])[0] == 5
    assert lost.exists()


def test_no_commit_makes_a_foreign_folder_the_tables(server, table, tmp_path):
    """Its writer names somebody's folder, and its metadata are where the writer may write."""
    if not server.swaps_pointer:
        pytest.skip("the server chooses the place of metadata files")
    home, place = tmp_path / "home/alice", server.warehouse / "own/meta"
    documents = [stray(home, f"{number}.txt", days=900) for number in range(3)]
    table(change=lambda members: members.update(location=str(home)), place=place)
    for name in ("properties", "rewrite"):
        code, document = on(server, [*COMMANDS[name], "--json"])
        assert code == 0, document
        assert local(server.current("t")).parent == place
    code, document = on(server, [*COMMANDS["orphans"], "--json"])
    assert (code, document["error"]["id"]) == (5, "location-not-own")
    assert sorted(path for path in home.rglob("*") if path.is_file()) == documents


@pytest.mark.parametrize("spread", [False, True], ids=["by partition", "spread"])
def test_files_go_where_the_table_says_and_orphans_are_found_there(server, table, tmp_path, spread):
    data, metadata = tmp_path / "elsewhere/data", tmp_path / "elsewhere/metadata"
    properties = {
        "write.data.path": str(data),
        "write.metadata.path": str(metadata),
        "write.object-storage.enabled": str(spread).lower(),
    }
    directory = table(
        change=lambda members: members["properties"].update(properties), place=metadata
    )
    before, old = rows(server), set(directory.rglob("*"))
    for name in ("compact", "rewrite", "expire"):
        age(tmp_path, 5)
        code, document = on(server, [*COMMANDS[name], "--json"])
        assert code == 0, document
        assert local(server.current("t")).parent == metadata
    assert rows(server) == before
    assert set(directory.rglob("*")) <= old
    partitions = {path.parent.relative_to(data).parts for path in data.rglob("*.parquet")}
    assert {bool(re.fullmatch("[01]{4}", parts[0])) for parts in partitions} == {spread}
    assert {path.suffix for path in metadata.iterdir()} == {".avro", ".json"}
    assert {path.suffix for path in data.rglob("*") if path.is_file()} == {".parquet"}
    code, document = on(server, ["validate", TABLE, "--json"])
    assert (code, document["result"]["counts"]["error"]) == (0, 0), document

    lost = [stray(data, "lost.parquet", days=7), stray(metadata, "lost-m0.avro", days=7)]
    code, document = on(server, [*COMMANDS["orphans"], "--json"])
    assert (code, document["error"]["id"]) == (5, "location-not-own")
    assert [path.exists() for path in lost] == [True, True]
    there = ["--location", str(data), "--location", str(metadata), "--delete-outside"]
    code, document = on(server, [*COMMANDS["orphans"], *there, "--json"])
    assert (code, document["warnings"]) == (0, []), document
    assert [path.exists() for path in lost] == [False, False]
    assert rows(server) == before


def test_what_a_run_writes_is_no_orphan_while_it_lives_however_old_it_is(server, table):
    directory = table()
    before = rows(server)
    orphans = [name_of(server) if word == TABLE else word for word in COMMANDS["orphans"]]
    lost = stray(directory / "data", "lost.parquet", days=7)
    ended: list[tuple[int, Any]] = []

    def look() -> None:
        age(directory, 5)
        ended.append(run([*orphans, "--json"]))

    with meanwhile(look) as outcomes:
        code, document = on(server, [*COMMANDS["compact"], "--json"])
    assert code == 0, document
    assert [type(outcome) for outcome in outcomes] == [Committed]
    assert [code for code, _ in ended] == [0], ended
    assert not lost.exists()
    assert rows(server) == before
    code, document = on(server, ["validate", TABLE, "--json"])
    assert (code, document["result"]["counts"]["error"]) == (0, 0), document
    assert not list(directory.glob("metadata/icectl-*.json"))


def test_what_a_killed_run_has_left_goes_with_the_next_commit(server, table):
    directory = table()

    def die() -> None:
        raise SystemExit(9)

    with meanwhile(die), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outputs, "keep", lambda *_: None)  # as a process that is killed
        on(server, [*COMMANDS["rewrite"], "--json"])
    [journal] = directory.glob("metadata/icectl-*.json")
    uuid = journal.stem[-36:]
    left = [path for path in directory.rglob(f"*{uuid}*") if path != journal]
    assert left
    members = json.loads(journal.read_text())
    journal.write_text(json.dumps({**members, "pid": 2**22 + 1}))  # its process is over
    assert on(server, [*COMMANDS["rewrite"], "--json"])[0] == 0
    assert not journal.exists()
    assert not [path for path in left if path.exists()]


def test_rows_are_erased_from_branches_and_history(server, table):
    table()
    before = rows(server)
    where = ("--where", "id = 8", "--max-fraction", "1", "--expire-history", "--drop-tags", "*")
    code, document = on(server, ["erase", TABLE, *where, "--yes", "--json"])
    assert code == 0, document
    assert document["result"]["is_proved"] is True
    assert document["table"]["metadata_location_after"] == server.current("t")
    after = [row for row in before if dict(row)["id"] != 8]
    assert len(rows(server)) == len(after) < len(before)
    assert rows(server) == after
    assert all(dict(row)["id"] != 8 for one in current(server)["snapshots"]
               for row in read_rows(current(server), one["snapshot-id"]))  # fmt: skip
