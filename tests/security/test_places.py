"""A table owns its own places and nothing else: metadata that name others' files delete none."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.protocol import TablePlace
from icectl.catalog.sql import SqlWarehouse
from icectl.errors import StorageError
from icectl.storage.local.store import LocalStore
from tests.builders.folders import files_of
from tests.builders.orphans import OTHER_UUID, age, edit_metadata, stray
from tests.builders.rows import current_metadata, local, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder, filled_table
from tests.builders.warehouse import NAMESPACE, register, rotten, warehouse
from tests.catalogs.sql_servers import SqlServer
from tests.fault.changing import run

A, B = f"main.{NAMESPACE}.a", f"main.{NAMESPACE}.b"
LAST_ONE = ["--older-than", "0s", "--retain-last", "1", "--yes", "--json"]
ALL_OLD = ["--older-than", "2d", "--max-fraction", "1", "--yes", "--json"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    """A catalog with two tables side by side, `a` with snapshots that can expire."""
    with warehouse(tmp_path, monkeypatch) as started:
        for name in ("a", "b"):
            two_appends(started.warehouse / name)
            register(started, name)
        directory = started.warehouse / "b"
        for path in (directory / "metadata").glob("*.metadata.json"):
            path.write_text(json.dumps(read_metadata(path) | {"table-uuid": OTHER_UUID}))
        yield started


def two_appends(directory: Path) -> TableBuilder:
    return filled_table(directory, range(5), range(5, 10))


def swap(
    server: SqlServer, name: str, place: Path, change: Callable[[dict[str, Any]], None]
) -> Path:
    """Commit metadata as the writer of a table can: any, in a file of any place it may write to."""
    members = read_metadata(local(server.current(name)))
    change(members)
    place.mkdir(parents=True, exist_ok=True)
    made = place / "00077-3b0d3a4e-8a1c-4a6c-9a57-2f3f9d3c6a11.metadata.json"
    made.write_text(json.dumps(members))
    server.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
                   str(made), name)  # fmt: skip
    return made


def moved(location: Path, metadata: Path | None = None) -> Callable[[dict[str, Any]], None]:
    """The location says another folder, and a property where the metadata really are."""

    def change(members: dict[str, Any]) -> None:
        members["location"] = str(location)
        if metadata is not None:
            members["properties"]["write.metadata.path"] = str(metadata)

    return change


def with_snapshots_of(other: Path) -> Callable[[dict[str, Any]], None]:
    """Old snapshots that reach the live files of another table: they go with the next expiry."""

    def change(members: dict[str, Any]) -> None:
        foreign = read_metadata(current_metadata(other))["snapshots"][-1]
        first = members["snapshots"][0]
        foreign |= {"snapshot-id": 4711, "timestamp-ms": first["timestamp-ms"],
                    "sequence-number": first["sequence-number"]}  # fmt: skip
        foreign.pop("parent-snapshot-id", None)
        members["snapshots"].insert(0, foreign)

    return change


def with_statistics(place: Path) -> Callable[[dict[str, Any]], None]:
    """A statistics file of the current snapshot, by the word of the metadata."""

    def change(members: dict[str, Any]) -> None:
        size = place.stat().st_size
        members["statistics"] = [
            {"snapshot-id": members["current-snapshot-id"], "statistics-path": str(place),
             "file-size-in-bytes": size, "file-footer-size-in-bytes": 1, "blob-metadata": []}
        ]  # fmt: skip

    return change


def check_whole(directory: Path, ids: range = range(10)) -> None:
    """The newest metadata of a built table still reach every row."""
    found = read_rows(read_metadata(current_metadata(directory)))
    assert sorted(dict(row)["id"] for row in found) == list(ids)


@pytest.mark.parametrize("folder", ["a/metadata", "own/meta"])
@pytest.mark.parametrize("command", ["remove-orphans", "maintain"])
def test_a_location_that_was_moved_to_a_home_takes_no_document_along(
    server, tmp_path, command, folder
):
    home = tmp_path / "home" / "alice"
    documents = [stray(home, f"{at}.txt", days=900) for at in range(3)]
    place = server.warehouse / folder
    named = stray(home, "big.txt", days=900, size=10_000)  # what is named is no orphan
    swap(server, "a", place, with_statistics(named))
    swap(server, "a", place, moved(home, place if folder == "a/metadata" else None))
    code, document = run([command, A, *(ALL_OLD if command == "remove-orphans" else ALL_OLD[-2:])])
    assert [path.exists() for path in documents] == [True] * 3
    if command == "remove-orphans":
        assert (code, document["error"]["id"]) == (5, "location-not-own")
        assert "--delete-outside" in document["error"]["hint"]


@pytest.mark.parametrize("folder", ["a/metadata", "own/meta"])
def test_a_location_that_was_moved_takes_no_file_along_that_a_manifest_names(
    server, tmp_path, folder
):
    """The folder has no metadata of a table, so that nothing there tells whose it is."""
    other = two_appends(tmp_path / "other")
    home = other.directory / "data"
    place = server.warehouse / folder
    swap(server, "a", place, with_snapshots_of(other.directory))
    swap(server, "a", place, moved(home, place if folder == "a/metadata" else None))
    before = files_of(home)
    code, document = run(["expire-snapshots", A, *LAST_ONE])
    assert files_of(home) == before
    assert any("no file there is deleted" in told for told in document["warnings"])
    assert code == 0, document
    assert not [item for item in document["result"]["files"] if item["path"].startswith(str(home))]


COMMITS = {
    "tag": ["refs", A, "tag", "kept"],
    "branch": ["refs", A, "branch", "audit"],
    "properties": ["properties", A, "set", "owner=ada"],
    "migrate": ["migrate-v1-v2", A, "--yes"],
    "rewrite": ["rewrite-manifests", A, "--rewrite-all"],
    "compact": ["compact", A, "--engine", "local", "--rewrite-all"],
    "expire": ["expire-snapshots", *LAST_ONE[:-1], A],
    "upgrade-to-v3": ["upgrade-to-v3", A, "--yes"],
    "upgrade-to-v4": ["upgrade-to-v4", A, "--layout", "sfc-1", "--eager", "--yes"],
    "maintain": ["maintain", A, *ALL_OLD[-2:-1]],
}


@pytest.mark.parametrize(
    "names", ["location", "metadata path", pytest.param("both", marks=pytest.mark.full)]
)
def test_no_commit_makes_a_folder_the_tables_that_its_writer_names(tmp_path, monkeypatch, names):
    """icectl may write where the table's writer may not: a commit would be the writer's proof."""
    home = tmp_path / "home" / "alice"
    documents = [stray(home, f"{at}.txt", days=900) for at in range(3)]
    with warehouse(tmp_path, monkeypatch) as server:
        filled_table(server.warehouse / "a", range(5), range(5, 10), format_version=1)
        register(server, "a")
        place = server.warehouse / "own/meta"

        def change(members: dict[str, Any]) -> None:
            if names != "metadata path":
                members["location"] = str(home)
            if names != "location":
                members["properties"]["write.metadata.path"] = str(home)
            members["properties"]["write.metadata.previous-versions-max"] = "1"
            members["properties"]["write.data.path"] = str(server.warehouse / "a/data")
            with_statistics(documents[0])(members)
            members["statistics"][0]["snapshot-id"] = members["snapshots"][0]["snapshot-id"]

        swap(server, "a", place, change)
        for name, words in COMMITS.items():
            before = server.current("a")
            code, document = run([*words, "--json"])
            assert code == 0 or name == "maintain", document
            assert local(server.current("a")).parent == place
            assert server.current("a") != before or name == "maintain", document
        for words in (["expire-snapshots", A, *LAST_ONE], ["remove-orphans", A, *ALL_OLD]):
            run(words)
        assert sorted(home.rglob("*")) == documents


def test_a_location_that_was_moved_is_searched_where_the_operator_names_it(server, tmp_path):
    home = tmp_path / "own"
    lost = stray(home, "lost.parquet", days=900)
    place = server.warehouse / "a/metadata"
    swap(server, "a", place, moved(home, place))
    words = [A, "--location", str(home), *ALL_OLD]
    assert run(["remove-orphans", *words])[0] == 0
    assert lost.exists()
    assert run(["remove-orphans", *words, "--delete-outside"])[0] == 0
    assert not lost.exists()


def test_a_location_above_another_table_takes_none_of_its_files_along(server):
    place = server.warehouse / "a/metadata"
    swap(server, "a", place, with_snapshots_of(server.warehouse / "b"))
    swap(server, "a", place, moved(server.warehouse, place))
    before = files_of(server.warehouse / "b")
    code, document = run(["expire-snapshots", A, *LAST_ONE])
    assert code == 0 or document["error"]["id"] == "other-table"
    assert files_of(server.warehouse / "b") == before
    check_whole(server.warehouse / "b")
    code, document = run(["remove-orphans", A, *ALL_OLD])
    assert (code, document["error"]["id"]) == (5, "location-not-own")


@pytest.mark.parametrize("known", ["to the catalog", "by its files"])
def test_a_table_below_the_location_refuses_the_expiry(server, known):
    """The metadata file lies at the location, so that only the other table tells."""
    above = server.warehouse
    if known == "by its files":
        server.execute("DELETE FROM iceberg_tables WHERE table_name = 'b'")
    swap(server, "a", above / "metadata", with_snapshots_of(server.warehouse / "b"))
    swap(server, "a", above / "metadata", moved(above))
    before = files_of(server.warehouse / "b")
    for words in ([*LAST_ONE, "--dry-run"], LAST_ONE):
        code, document = run(["expire-snapshots", A, *words])
        assert (code, document["error"]["id"]) == (5, "other-table")
    assert files_of(server.warehouse / "b") == before
    assert run(["expire-snapshots", A, *LAST_ONE, "--metadata-only"])[0] == 0
    check_whole(server.warehouse / "b")


def test_a_log_cannot_vouch_for_metadata_of_another_table(server):
    """What the log names was taken for the table's own without a look."""
    server.execute("DELETE FROM iceberg_tables WHERE table_name = 'b'")
    other = server.warehouse / "b" / "metadata"

    def change(members: dict[str, Any]) -> None:
        moved(server.warehouse)(members)
        members["metadata-log"] += [
            {"metadata-file": str(path), "timestamp-ms": members["last-updated-ms"]}
            for path in sorted(other.glob("*.metadata.json"))
        ]

    swap(server, "a", server.warehouse / "metadata", with_snapshots_of(server.warehouse / "b"))
    swap(server, "a", server.warehouse / "metadata", change)
    before = files_of(server.warehouse / "b")
    age(server.warehouse, 9)
    for words in (["expire-snapshots", A, *LAST_ONE], ["remove-orphans", A, *ALL_OLD]):
        code, document = run(words)
        assert (code, document["error"]["id"]) == (5, "other-table")
    assert files_of(server.warehouse / "b") == before


def test_tables_side_by_side_expire(server):
    filled_table(server.warehouse / "c", range(5)).replace_data_files(1)
    register(server, "c")
    before = len(list((server.warehouse / "c" / "data").iterdir()))
    code, document = run(["expire-snapshots", f"main.{NAMESPACE}.c", *LAST_ONE])
    assert (code, document["warnings"]) == (0, [])
    assert len(list((server.warehouse / "c" / "data").iterdir())) < before
    for name in ("a", "b"):
        check_whole(server.warehouse / name)


def test_twins_of_one_catalog_do_not_expire(server):
    server.register("twin", server.current("a"))
    before = files_of(server.warehouse / "a")
    for name in (A, f"main.{NAMESPACE}.twin"):
        code, document = run(["expire-snapshots", name, *LAST_ONE])
        assert (code, document["error"]["id"]) == (5, "other-table")
    assert files_of(server.warehouse / "a") == before


@pytest.mark.parametrize("place", ["a/metadata", "b/metadata"])
@pytest.mark.parametrize("command", ["rewrite-manifests", "expire-snapshots"])
def test_metadata_is_not_written_among_files_of_another_table(server, command, place):
    other = server.warehouse / "b" / "metadata"

    def change(members: dict[str, Any]) -> None:
        members["properties"]["write.metadata.path"] = str(other)

    swap(server, "a", server.warehouse / place, change)
    before = files_of(server.warehouse / "b")
    words = {"rewrite-manifests": ["--min-manifests", "1", "--yes", "--json"]}
    code, document = run([command, A, *words.get(command, LAST_ONE)])
    assert files_of(server.warehouse / "b") == before
    if place == "b/metadata":
        assert (code, document["error"]["id"]) == (5, "other-table")
        assert "write.metadata.path" in document["error"]["hint"]
        return
    assert code == 0, document
    assert local(server.current("a")).parent == server.warehouse / place
    assert run(["validate", B, "--json"])[0] == 0


@pytest.mark.parametrize("command", ["rewrite-manifests", "expire-snapshots"])
@pytest.mark.parametrize("named", ["a data file", "the next version"])
def test_a_log_names_metadata_files_and_nothing_else(tmp_path, command, named):
    """What leaves the log is deleted: it may name a live file, or the file that is current next."""
    directory = tmp_path / "t"
    table = two_appends(directory)
    live = min((directory / "data").iterdir())
    following = directory / "metadata" / f"v{table.version + 1}.metadata.json"
    doomed = live if named == "a data file" else following
    log = [{"metadata-file": str(doomed), "timestamp-ms": 1_750_000_000_000}]
    properties = {"write.metadata.delete-after-commit.enabled": "true",
                  "write.metadata.previous-versions-max": "1"}  # fmt: skip
    edit_metadata(directory, metadata_log=log, properties=properties)
    words = {"rewrite-manifests": ["--min-manifests", "1", "--yes", "--json"]}
    code, document = run([command, str(directory), *words.get(command, LAST_ONE)])
    assert code == (0 if doomed == live else 15), document  # it is no log of this version
    assert (live.exists(), following.exists()) == (True, code == 0)
    if code == 0:
        assert run(["validate", str(directory), "--level", "files", "--json"])[0] == 0


def test_metadata_files_that_leave_the_log_stay_beside_those_of_another_table(tmp_path):
    directory = tmp_path / "t"
    table = two_appends(directory)
    properties = {"write.metadata.delete-after-commit.enabled": "true",
                  "write.metadata.previous-versions-max": "1"}  # fmt: skip
    edit_metadata(directory, properties=properties)
    other = tmp_path / "metadata" / "v1.metadata.json"
    other.parent.mkdir()
    shutil.copy(current_metadata(directory), other)
    before = set((directory / "metadata").glob("*.metadata.json"))
    code, document = run(
        ["rewrite-manifests", str(directory), "--min-manifests", "1", "--yes", "--json"]
    )
    assert code == 0, document
    assert set((directory / "metadata").glob("*.metadata.json")) >= before
    assert any("metadata files that left the log stay" in one for one in document["warnings"])
    assert table.version


def test_a_folder_above_that_may_not_be_listed_is_left_to_the_catalog(server, monkeypatch):
    """As with credentials for the table's folder alone."""
    listed = LocalStore.list_directory
    closed = str(server.warehouse / "metadata")

    def denied(self: LocalStore, location: str) -> Any:
        if location == closed:
            raise StorageError(f"{location}: not for you", id="access-denied")
        return listed(self, location)

    monkeypatch.setattr(LocalStore, "list_directory", denied)
    code, document = run(["expire-snapshots", A, *LAST_ONE])
    assert code == 0, document
    assert any("may not be listed" in told for told in document["warnings"])


def test_the_catalog_is_asked_once_for_all_steps_of_a_run(tmp_path, monkeypatch):
    asked: list[str] = []
    places = SqlWarehouse.places

    def counted(self: SqlWarehouse) -> Iterator[TablePlace]:
        asked.append("places")
        return places(self)

    monkeypatch.setattr(SqlWarehouse, "places", counted)
    with warehouse(tmp_path, monkeypatch) as server:
        for names in (("a", "b", "c"), ("d", "e")):
            for name in names:
                rotten(server, name)
            code, document = run(["maintain", "main", "--jobs", "1", "--yes", "--json"])
            assert code == 0, document
    assert asked == ["places"] * 2
