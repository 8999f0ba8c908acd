"""Tables by other writers, copied to a place of their own and compacted there.

The rows of the new files are compared with checksums that independent readers made; those of old
snapshots, and of tables whose deletes alone were merged, by a reader without icectl.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app, engines
from icectl.errors import CorruptTable
from icectl.format.schema import schema_from_json
from tests.builders.folders import contents_of
from tests.builders.foreign_table import facts_of
from tests.builders.inline_engine import InlineEngine
from tests.builders.relocate import relocate
from tests.builders.rows import current_metadata, live_entries, read_metadata, read_rows
from tests.interop.test_relocated_fixtures import BIG, OTHER, heads, rows_of
from tests.interop.test_rewrite_fixtures import REFUSED, VARIANT, checksum, current

QUICK = {
    "dremio/table_with_delete",
    "duckdb-iceberg/add_columns_with_defaults",
    "duckdb-iceberg/multi_blob_deletion_vectors",
    "iceberg-cxx/deletion_vectors",
    "icebird/spark__rename_column",
    "impala/iceberg_v2_delete_equality_partition_evolution",
    "impala/iceberg_v2_delete_pos_and_multi_eq_ids",
    "impala/iceberg_v2_partitioned_position_deletes",
    "impala/iceberg_v3_row_lineage_orc",
}
"""Deletes of every kind, evolved columns and specs, row ids; the others take long together."""
SIZE = ("--target-file-size", "512MiB")
"""One table asks for files of 200 bytes, which a row alone exceeds."""
DISPUTED = {"duckdb-iceberg/moved_positional_delete_path"}
"""Readers see different rows."""
Command = Callable[..., dict[str, Any]]


def marked(names: list[str]) -> list[Any]:
    return [pytest.param(one, marks=() if one in QUICK else pytest.mark.full) for one in names]


@pytest.fixture
def icectl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run a command on the copy; its document."""
    monkeypatch.setenv("ICECTL_COMPACT_ENGINE", "local")
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)

    def run(command: str, *options: str) -> dict[str, Any]:
        code = app.main([command, str(tmp_path / "t"), *options, "--json"])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert document["exit"] == code
        return document

    return run


def expected(name: str) -> str:
    """The checksum of a table's rows; in a copy all paths are spelled alike."""
    facts = current(name)
    found: str = facts.get("rows_sha256_if_paths_are_resolved_first", facts["rows_sha256"])
    return found


def findings(icectl: Command) -> Counter[tuple[str, str]]:
    """Errors and warnings of `validate`, by rule."""
    result = icectl("validate", "--level", "data", "--all-snapshots")["result"]
    found = result["findings"] if result else []
    return Counter((one["rule"], one["severity"]) for one in found if one["severity"] != "info")


def live(table: Path) -> tuple[Any, list[dict[str, Any]], list[dict[str, Any]]]:
    """The current schema, live data files and live delete files."""
    metadata = read_metadata(current_metadata(table))
    (head,) = (
        one
        for one in metadata["snapshots"]
        if one["snapshot-id"] == metadata["current-snapshot-id"]
    )
    files = [entry["data_file"] for entry in live_entries(head)]
    schemas = {one["schema-id"]: one for one in metadata.get("schemas", ())}
    data = [file for file in files if not file.get("content", 0)]
    deletes = [file for file in files if file.get("content", 0)]
    schema = schemas.get(metadata.get("current-schema-id"), metadata.get("schema"))
    return schema_from_json(schema), data, deletes


@pytest.mark.parametrize(
    "name", marked([name for name in OTHER if name not in DISPUTED and not name.startswith(BIG)])
)
def test_rows_of_every_snapshot_stay_what_independent_readers_saw(
    fixtures_dir, tmp_path, icectl, name
):
    table = tmp_path / "t"
    before = read_metadata(relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table))
    rows, wrong = rows_of(before, heads(before)), findings(icectl)
    files = contents_of(table)

    ended = icectl("compact", "--rewrite-all", *SIZE)

    written = before.get("properties", {}).get("write.format.default", "parquet")
    other_format = written.lower() != "parquet"
    if name in REFUSED or other_format:
        assert ended["exit"] in (5, 14, 15)
        reason = "`write.format.default`" if other_format else REFUSED[name][1]
        assert reason in ended["error"]["message"]
        assert contents_of(table) == files
        return
    assert (ended["exit"], ended["error"]) == (0, None)
    assert ended["status"] == ("done" if live(table)[1] else "nothing-to-do")
    schema, data, deletes = live(table)
    assert deletes == []
    after = read_metadata(current_metadata(table))
    if name == VARIANT:  # the checksums have no form for its values
        assert read_rows(after) == rows[before["current-snapshot-id"]]
    else:
        contents = {file["file_path"]: Path(file["file_path"]).read_bytes() for file in data}
        assert checksum(schema, list(contents), contents) == expected(name)
    assert rows_of(after, heads(before)) == rows
    assert findings(icectl) - wrong == Counter()
    assert icectl("compact", "--min-input-files", "2", *SIZE)["status"] == "nothing-to-do"


@pytest.mark.parametrize(
    "name", marked([name for name in OTHER if name not in DISPUTED and not name.startswith(BIG)])
)
def test_merged_deletes_delete_the_same_rows(fixtures_dir, tmp_path, icectl, name):
    table = tmp_path / "t"
    before = read_metadata(relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table))
    rows, wrong = rows_of(before, heads(before)), findings(icectl)
    _, data, _ = live(table)
    options, files = ("--rewrite-all", "--min-input-files", "1"), contents_of(table)

    ended = icectl("compact", "--deletes-only", *options)

    if REFUSED.get(name, (None,))[0] is CorruptTable:  # its equality deletes lack their column
        assert (ended["exit"], REFUSED[name][1] in ended["error"]["message"]) == (15, True)
        assert contents_of(table) == files
        return
    assert (ended["exit"], ended["error"]) == (0, None)
    after = read_metadata(current_metadata(table))
    assert rows_of(after, heads(before)) == rows
    assert read_rows(after) == rows[before["current-snapshot-id"]]
    _, data_after, deletes = live(table)
    assert {file["file_path"] for file in data_after} == {file["file_path"] for file in data}
    by_position = [file for file in deletes if file["content"] == 1]
    assert len({file["referenced_data_file"] for file in by_position}) == len(by_position)
    assert findings(icectl) - wrong == Counter()
    assert icectl("compact", "--deletes-only")["status"] == "nothing-to-do"
