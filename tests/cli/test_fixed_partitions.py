"""Tables whose manifests have lengths before fixed partition values, as Java writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.env import Env
from tests.builders.expiry import NOW_MS
from tests.builders.java_fixed import as_java_writes_fixed
from tests.builders.rows import Row, current_metadata, head, read_avro, read_metadata, read_rows
from tests.builders.table_builder import TableBuilder
from tests.cli.conftest import Run, result
from tests.stores.fixed_env import FixedEnv


@pytest.fixture
def icectl(prepared: Callable[[str, Env], Run]) -> Run:
    """Run any command of icectl."""
    return prepared("validate", FixedEnv(NOW_MS))


def build(directory: Path, format_version: int) -> tuple[str, list[Row]]:
    """Data in one manifest, deletes in another; where the table lies, and its rows."""
    table = TableBuilder(directory, format_version=format_version, partitioning="identity")
    table.append(range(24), files=2)
    if format_version > 1:
        table.delete_rows([1, 2, 13])
    return table.location, as_java_writes_fixed(directory)


def rows(directory: Path) -> list[Row]:
    return read_rows(read_metadata(current_metadata(directory)))


def partitions(directory: Path) -> set[bytes]:
    """The partitions of live files, by a reader that goes by the Avro schema alone."""
    return {
        entry["data_file"]["partition"]["category"]
        for manifest in read_avro(head(directory)["manifest-list"])
        for entry in read_avro(manifest["manifest_path"])
    }


def findings(ended: Any) -> list[tuple[str, str]]:
    return [(one["rule"], one["severity"]) for one in result(ended)["findings"]]


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_r212_rewrite_manifests_mends_what_validate_warns_of(tmp_path, icectl, format_version):
    directory = tmp_path / "t"
    location, before = build(directory, format_version)
    with pytest.raises((IndexError, EOFError, ValueError)):
        partitions(directory)  # as every reader by the schema
    count = 2 if format_version > 1 else 1
    told = icectl(location, "--level", "data", "--json")
    assert (told.code, findings(told)) == (0, [("R-212", "warning")] * count)
    told = " ".join(icectl(location).out.split())
    assert f"`icectl rewrite-manifests {location} --rewrite-all`" in told

    done = result(icectl(location, "--json", command="rewrite-manifests"))
    assert (done["rewritten"], done["added"]) == (count, count)
    assert rows(directory) == before
    assert partitions(directory) == {b"c0", b"c1", b"c2"}
    assert findings(icectl(location, "--level", "data", "--json")) == []
    again = icectl(location, "--check", "--json", command="rewrite-manifests")
    assert (again.code, again.document["status"]) == (0, "nothing-to-do")


def test_r212_a_rewrite_of_some_content_leaves_the_rest_alone(tmp_path, icectl):
    location, _ = build(tmp_path / "t", 2)
    done = icectl(location, "--content", "deletes", "--json", command="rewrite-manifests")
    assert (result(done)["rewritten"], result(done)["kept"]) == (1, 1)
    reason = "1 with lengths that no schema gives"
    assert [group["reason"] for group in result(done)["groups"]] == ["not of deletes", reason]
    assert findings(icectl(location, "--json")) == [("R-212", "warning")]


@pytest.mark.parametrize("format_version", [2, 3])
def test_r212_every_command_works_on_such_a_table(tmp_path, icectl, format_version):
    directory = tmp_path / "t"
    location, before = build(directory, format_version)
    files = result(icectl(location, "files", "--json", command="inspect"))
    assert {one["partition"]["category"] for one in files["rows"]} == {"6330", "6331", "6332"}
    options = ("--engine", "local", "--min-input-files", "2", "--json")
    assert icectl(location, "--deletes-only", *options, command="compact").code == 0
    done = icectl(location, *options, command="compact")
    assert (done.code, done.document["status"]) == (0, "done")
    assert rows(directory) == before
    assert findings(icectl(location, "--level", "data", "--json")) == []
    for command, *chosen in (
        ("expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--yes"),
        ("remove-orphans", "--yes"),
        ("rewrite-manifests",),
    ):
        assert icectl(location, *chosen, "--json", command=command).code == 0
    assert rows(directory) == before


@pytest.mark.parametrize("rewrites", [True, False])
def test_r212_such_a_table_of_version_1_is_migrated(tmp_path, icectl, rewrites):
    location, before = build(tmp_path / "t", 1)
    chosen = ["--rewrite-manifests"] if rewrites else []
    assert icectl(location, *chosen, "--yes", "--json", command="migrate-v1-v2").code == 0
    assert findings(icectl(location, "--json")) == ([] if rewrites else [("R-212", "warning")])
    if rewrites:
        assert rows(tmp_path / "t") == before
