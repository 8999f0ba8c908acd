"""Tables by other writers, copied to a place of their own and made version 4 tables there."""

import json

import pytest

from icectl.cli import app
from tests.builders.foreign_table import facts_of
from tests.builders.relocate import relocate
from tests.builders.rows import current_metadata, read_metadata
from tests.interop.test_relocated_fixtures import OTHER, heads, of_small_tables, rows_of

MADE_UP = {"duckdb-iceberg/moved_positional_delete_path"}
"""Its files were replaced by others, with other values than the entries say."""


@pytest.mark.parametrize(
    "name", [*of_small_tables([name for name in OTHER if name not in MADE_UP], 9), *MADE_UP]
)
def test_an_upgrade_keeps_the_rows_of_every_head(fixtures_dir, tmp_path, capsys, name):
    """The root lists manifests as they are; then all are written anew; then deletes converted."""
    table = tmp_path / "t"
    before = read_metadata(relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table))
    rows = rows_of(before, heads(before))
    files = {path for path in table.rglob("*") if path.is_file()}
    of_main = rows[before["current-snapshot-id"]]
    for words in (
        ["upgrade-to-v4", "--layout=sfc-1"],
        ["rewrite-manifests"],
        ["upgrade-to-v4", "--layout=sfc-1", "--eager", "--convert-position-deletes"],
    ):
        code = app.main([words[0], str(table), *words[1:], "--yes", "--json"])
        document = json.loads(capsys.readouterr().out)
        if name in MADE_UP and "--convert-position-deletes" in words:
            assert (code, document["error"]["id"]) == (15, "other-file")
            break
        assert code == 0, document["error"]
        after = read_metadata(current_metadata(table))
        assert after["format-version"] == 4
        assert rows_of(after, heads(before)) == rows
        assert rows_of(after, {after["current-snapshot-id"]}) == {
            after["current-snapshot-id"]: of_main
        }
    assert files <= set(table.rglob("*"))


OLDER = [
    name for name in OTHER if name not in MADE_UP | {"duckdb-iceberg/add_columns_with_defaults"}
]
"""But for a table with defaults, which version 2 does not have (R-182)."""


@pytest.mark.parametrize("name", of_small_tables(OLDER, 12))
def test_an_upgrade_to_version_3_keeps_the_rows_of_every_head(fixtures_dir, tmp_path, capsys, name):
    table = tmp_path / "t"
    before = read_metadata(relocate(fixtures_dir / name, facts_of(fixtures_dir, name), table))
    rows = rows_of(before, heads(before))
    for status in ("done", "nothing-to-do") if before["format-version"] < 3 else ():
        code = app.main(
            ["upgrade-to-v3", str(table), "--convert-position-deletes", "--yes", "--json"]
        )
        document = json.loads(capsys.readouterr().out)
        assert (code, document["status"]) == (0, status), document["error"]
        after = read_metadata(current_metadata(table))
        assert after["format-version"] == 3
        assert rows_of(after, heads(before)) == rows
        head = after["current-snapshot-id"]
        assert rows_of(after, {head})[head] == rows[before["current-snapshot-id"]]
