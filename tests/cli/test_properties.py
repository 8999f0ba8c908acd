"""`icectl properties` from the command line: properties are shown, set and unset."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.env import Env
from tests.builders.expiry import NOW_MS
from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.cli.conftest import Run, result
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def properties(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl properties`."""
    return prepared("properties", FixedEnv(NOW_MS))


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    built = filled_table(tmp_path / "t", [1, 2])
    built.set_properties({"owner": "ada", "gc.enabled": "true"})
    return built


def stored(table: TableBuilder) -> dict[str, str]:
    """The properties as the metadata file has them."""
    found: dict[str, str] = read_metadata(current_metadata(Path(table.location)))["properties"]
    return found


def test_properties_are_shown_without_a_verb(table, properties):
    before = current_metadata(Path(table.location))
    assert result(properties(table.location, "--json")) == {
        "properties": stored(table), "changes": [],
    }  # fmt: skip
    assert "owner" in properties(table.location).out
    assert current_metadata(Path(table.location)) == before


def test_a_verb_in_the_place_of_the_table_is_told(table, properties):
    ended = properties("set", table.location, "owner=eve")
    assert (ended.code, f"`icectl properties {table.location} set`" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("commit.retry.min-wait-ms", "4"),
        ("commit.retry.num-retries", "4"),
        ("commit.retry.total-timeout-ms", "60000"),
        ("write.metadata.compression-codec", "gzip"),
        ("write.metadata.delete-after-commit.enabled", "true"),
        ("write.metadata.previous-versions-max", "9"),
    ],
)
def test_a_property_without_sense_can_be_corrected(table, properties, key, value):
    table.set_properties({"owner": "eve"})
    path = current_metadata(Path(table.location))
    path.write_text(path.read_text().replace('"owner":"eve"', f'"{key}":"nonsense"'))
    assert stored(table)[key] == "nonsense"
    assert properties(table.location, "set", "comment=x").code == 0
    assert properties(table.location, "set", f"{key}={value}").code == 0
    assert stored(table)[key] == value


def test_r024_a_commit_that_has_landed_is_not_called_refused(table, properties):
    table.set_properties({"owner": "eve"})
    path = current_metadata(Path(table.location))
    wanted = "write.metadata.delete-after-commit.enabled"
    path.write_text(path.read_text().replace('"owner":"eve"', f'"{wanted}":"yes"'))
    assert properties(table.location, "set", "comment=x").code == 0
    assert (stored(table)["comment"], stored(table)[wanted]) == ("x", "yes")


def test_properties_are_set_and_unset(table, properties):
    words = ("set", "owner=bob=x", "gc.enabled=true", "comment=")
    planned = properties(table.location, *words, "--dry-run", "--json")
    assert stored(table)["owner"] == "ada"
    assert properties(table.location, *words, "--check").code == 4
    done = properties(table.location, *words, "--json")
    assert result(done) == result(planned)
    assert result(done)["changes"] == [
        {"key": "owner", "before": "ada", "after": "bob=x"},
        {"key": "comment", "before": None, "after": ""},
    ]
    assert (stored(table)["owner"], stored(table)["comment"]) == ("bob=x", "")
    assert properties(table.location, *words, "--json").document["status"] == "nothing-to-do"
    assert properties(table.location, "unset", "owner", "comment").code == 0
    assert {"owner", "comment"}.isdisjoint(stored(table))
    again = properties(table.location, "unset", "ownr", "gc.enabld", "--json")
    assert again.document["status"] == "nothing-to-do"
    assert "`gc.enabld` is not set; `gc.enabled` is" in again.document["warnings"]
    assert properties(table.location, "--level", "data", command="validate").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("paint",), ("set",), ("unset",), ("set", "owner"), ("set", "=x"), ("set", "a=1", "a=2"),
        ("set", "format-version=3"), ("set", "write.target-file-size-bytes=1MB"),
        ("set", "gc.enabled=perhaps"),
    ],
)  # fmt: skip
def test_wrong_words_change_nothing(table, properties, words):
    before = current_metadata(Path(table.location))
    ended = properties(table.location, *words)
    assert (ended.code, "error: " in ended.err) == (2, True)
    assert current_metadata(Path(table.location)) == before


def test_commands_that_upgrade_are_named_where_a_version_is_set(table, properties):
    ended = properties(table.location, "set", "format-version=3")
    assert f"`icectl upgrade-to-v3 {table.location}` upgrades to version 3" in ended.err


def test_a_name_that_is_nearly_a_known_one_is_warned_of(table, properties):
    ended = properties(table.location, "set", "write.target-file-size-byte=1000")
    assert ended.code == 0
    assert "`write.target-file-size-bytes` is" in ended.err


def test_a_property_that_changes_meanwhile_ends_the_run(table, properties, monkeypatch):
    commit = FileSystemCatalog.commit

    def meanwhile(self: Any, *rest: Any) -> Any:
        monkeypatch.setattr(FileSystemCatalog, "commit", commit)
        table.set_properties({"owner": "eve"})
        return commit(self, *rest)

    monkeypatch.setattr(FileSystemCatalog, "commit", meanwhile)
    ended = properties(table.location, "set", "owner=bob")
    assert (ended.code, "another writer has changed" in ended.err) == (11, True), ended.err
    assert stored(table)["owner"] == "eve"
