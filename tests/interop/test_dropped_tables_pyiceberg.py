"""A table that was dropped without its files, and created again at the same place: PyIceberg's way.

Files of the dropped table go if the caller names its uuid, and catalogs and times bear that out.
"""

import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from icectl.commands.remove_orphans import run as remove_orphans
from tests.builders.folders import contents_by_name, paths_of

SCHEMA = pa.schema([("id", pa.int64())])
NAME = "test.db.t"
ALL = ("--older-than", "2d", "--max-fraction", "1")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


class World:
    """The table `db.t` with ids 20 to 23, where one with ids 0 to 3 was dropped; all a week old."""

    def __init__(self, catalog: SqlCatalog, folder: Path) -> None:
        self.catalog, self.folder = catalog, folder
        dropped = self.write(0)
        self.uuid, self.old_metadata = str(dropped.metadata.table_uuid), dropped.metadata_location
        self.old_files = self.files()
        catalog.drop_table("db.t")
        time.sleep(0.002)  # times of metadata have milliseconds
        self.table = self.write(20)
        week_ago = time.time() - 7 * 86_400
        for path in paths_of(folder):
            os.utime(path, (week_ago, week_ago))

    def write(self, first: int) -> Table:
        table = self.catalog.create_table("db.t", SCHEMA)
        for number in (first, first + 2):
            table.append(pa.table({"id": [number, number + 1]}, SCHEMA))
        return table

    def files(self) -> set[str]:
        return set(contents_by_name(self.folder))

    def ids(self) -> list[int]:
        found = self.catalog.load_table("db.t").scan().to_arrow()["id"].to_pylist()
        return sorted(found)


@pytest.fixture
def world(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    settings = tmp_path / "icectl.toml"
    uri, place = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/elsewhere"
    settings.write_text(
        "".join(f'[catalog.{name}]\ntype = "sql"\nuri = "{uri}"\n' for name in ("test", "other"))
    )
    other = SqlCatalog("other", uri=uri, warehouse=place)
    other.create_namespace("kept")
    other.create_table("kept.y", SCHEMA)
    monkeypatch.setenv("ICECTL_CONFIG", str(settings))
    return World(catalog, tmp_path / "warehouse/db/t")


@pytest.mark.parametrize("command", [("expire-snapshots", "--older-than", "0s"),
                                     ("remove-orphans", *ALL)])  # fmt: skip
def test_all_that_is_left_is_named_at_once_with_what_leads_out(world, run, command):
    before = contents_by_name(world.folder)
    error = run(*command, NAME, "--yes", code=5)["error"]
    left = [name for name in world.old_files if name.endswith(".metadata.json")]
    assert len(left) == 3
    assert all(Path(name).name in error["message"] for name in left)
    assert f"`icectl remove-orphans {NAME} --leftover-uuid {world.uuid}`" in error["hint"]
    assert "`expire-snapshots --metadata-only`" in error["hint"]
    assert contents_by_name(world.folder) == before
    run("expire-snapshots", NAME, "--older-than", "0s", "--metadata-only", "--yes")
    assert set(before) <= world.files()


def test_validate_warns_and_its_hint_leads_out(world, run):
    (warning,) = [f for f in run("validate", NAME)["result"]["findings"] if f["rule"] == "R-002"]
    message = f"3 metadata files of another table, {world.uuid}, which was here before this one"
    assert (warning["severity"], warning["message"]) == ("warning", message)
    assert f"`icectl remove-orphans {NAME} --leftover-uuid {world.uuid}`" in warning["hint"]
    run("remove-orphans", NAME, "--leftover-uuid", world.uuid, "--max-fraction", "1", "--yes")
    assert run("validate", NAME)["result"]["counts"]["warning"] == 0


def test_one_hint_names_all_dropped_tables_and_leads_out(world, run):
    world.catalog.drop_table("db.t")
    time.sleep(0.002)
    world.write(40)
    old_ids = {str(world.uuid), str(world.table.metadata.table_uuid)}
    (hint,) = {f["hint"] for f in run("validate", NAME)["result"]["findings"]}
    command, *words = shlex.split(hint.split("`")[1])[1:]
    assert old_ids == set(words[2::2])
    run(command, *words, "--max-fraction", "1", "--yes")
    assert run("validate", NAME)["result"]["counts"]["warning"] == 0


def test_the_files_of_the_dropped_table_go_and_no_other(world, run):
    own = world.files() - world.old_files
    done = run("expire-snapshots", NAME, "--older-than", "0s", "--leftover-uuid", world.uuid, "-y")
    assert len(done["result"]["expired"]) == 1
    assert world.old_files <= world.files()  # an expiry deletes what its own snapshots name
    left = world.files()
    removed = run("remove-orphans", NAME, *ALL, "--leftover-uuid", world.uuid.upper(), "--yes")
    gone = {Path(item["path"].removeprefix("file://")) for item in removed["result"]["orphans"]}
    assert {str(path.relative_to(world.folder)) for path in gone} == world.old_files
    assert world.files() == left - world.old_files
    assert own & left <= world.files()
    assert world.ids() == [20, 21, 22, 23]
    run("validate", NAME, "--level", "data", "--all-snapshots")


def test_young_files_of_the_dropped_table_stay(world, run):
    for name in world.old_files:
        os.utime(world.folder / name)
    removed = run("remove-orphans", NAME, *ALL, "--leftover-uuid", world.uuid, "--yes")
    assert removed["result"]["orphans"] == []
    assert world.old_files <= world.files()


def refused(world, run, id_, *names):
    before = contents_by_name(world.folder)
    for command in (("remove-orphans", *ALL), ("expire-snapshots", "--older-than", "0s")):
        words = (*command, *(names or (NAME,)), "--leftover-uuid", world.uuid, "--yes")
        assert run(*words, code=5)["error"]["id"] == id_
    assert contents_by_name(world.folder) == before


@pytest.mark.parametrize("name", ["test", "other"])
def test_a_table_that_a_configured_catalog_has_was_not_dropped(world, run, name):
    named = SqlCatalog(name, uri=world.catalog.properties["uri"])
    named.create_namespace_if_not_exists("kept")
    named.register_table("kept.x", world.old_metadata)
    refused(world, run, "leftover-in-use")


@pytest.mark.parametrize("kind", ["unreachable", "unknown", "empty", "lost"])
def test_what_a_catalog_cannot_say_is_no_proof(world, run, kind):
    settings = Path(os.environ["ICECTL_CONFIG"])
    if kind == "lost":
        table = world.catalog.create_table("db.lost", SCHEMA)
        Path(table.metadata_location.removeprefix("file://")).unlink()
    else:
        more = {
            "unreachable": 'uri = "http://127.0.0.1:9"',
            "unknown": 'type = "dynamodb"',
            # Its name may have capital letters in the database, where it has tables then.
            "empty": f'type = "sql"\nuri = "{world.catalog.properties["uri"]}"',
        }[kind]
        settings.write_text(settings.read_text() + f"[catalog.third]\n{more}\n")
    refused(world, run, "leftover-unproven")


def test_a_table_that_has_changed_since_was_not_dropped(world, run):
    path = Path(world.old_metadata.removeprefix("file://"))
    members = json.loads(path.read_text())
    members["last-updated-ms"] = int(time.time() * 1000) + 1
    path.write_text(json.dumps(members))
    refused(world, run, "leftover-unproven")
    found = [f for f in run("validate", NAME, code=4)["result"]["findings"] if f["rule"] == "R-002"]
    assert [f["severity"] for f in found] == ["error"] * 3


def test_a_location_and_another_uuid_prove_nothing(world, run):
    table, newest = str(world.folder), Path(world.table.metadata_location).name
    words = ("--metadata-file", newest, "--leftover-uuid", world.uuid, "--yes")
    ids = {run("remove-orphans", table, *ALL, *words, code=5)["error"]["id"]}
    words = (*ALL, "--leftover-uuid", "0190c1a4-5b6c-7d8e-9f01-23456789abcd", "--yes")
    ids.add(run("remove-orphans", NAME, *words, code=5)["error"]["id"])
    assert ids == {"leftover-unproven", "other-table"}
    assert world.old_files <= world.files()


def test_a_table_that_is_registered_after_the_plan_keeps_its_files(world, run, monkeypatch):
    prepare = remove_orphans.prepare

    def prepare_and_wait(*words: Any) -> Any:
        prepared = prepare(*words)
        world.catalog.register_table("db.back", world.old_metadata)
        return prepared

    monkeypatch.setattr(remove_orphans, "prepare", prepare_and_wait)
    words = (*ALL, "--leftover-uuid", world.uuid, "--yes")
    assert run("remove-orphans", NAME, *words, code=5)["error"]["id"] == "leftover-in-use"
    assert world.old_files <= world.files()
