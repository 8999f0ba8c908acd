"""Changes and reads of rows reach their tables as commands do; no engine is asked here."""

from pathlib import Path

import pytest

from icectl import spark
from icectl.cli.session import Session
from icectl.commands import program
from icectl.commands.rows.change import RowChange
from icectl.commands.rows.read import Selection
from icectl.commands.rows.write import append
from icectl.errors import Refused
from icectl.storage.local.store import LocalStore
from tests.builders.inline_rows import InlineFrame, rows_of, tree, way_to
from tests.builders.rows import current_metadata, read_metadata


@pytest.fixture
def table(tmp_path: Path) -> Path:
    directory = tree(tmp_path / "t")
    append(way_to(directory), InlineFrame(rows_of(range(3)), LocalStore()), "main")
    return directory


def test_rows_of_the_table_of_a_metadata_file_are_deleted(table):
    name = "00007-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    file = current_metadata(table).rename(table / "metadata" / name)
    for old in (table / "metadata").glob("v*"):
        old.unlink()

    def deleted(access: program.Access) -> RowChange:
        call = program.Call(None, str(table), access, None)
        return program.on_rows(
            call, "write", lambda session: program.delete_where(session, "id >= 0", "main")
        )

    with pytest.raises(Refused, match="belongs to a catalog"):
        deleted(program.Access())
    change = deleted(program.Access(metadata_file=str(file)))
    assert change.deleted_rows == 3
    written = read_metadata(Path(change.metadata_location.removeprefix("file:")))
    assert written["current-snapshot-id"] == change.snapshot_id


def test_rows_are_loaded_by_the_ways_that_only_read(table, monkeypatch):
    def location(session: Session, _: Selection) -> str:
        return session.context.catalog.load().metadata_location

    monkeypatch.setattr(program, "load", location)
    file = str(current_metadata(table))
    assert spark.load(None, file) == f"file:{file}"
    copy = table.rename(table.with_name("copy"))
    access = spark.Access(path_map={str(table): str(copy)})
    assert spark.load(None, str(table), access=access) == f"file:{file}"
