"""Upserts never stop, `maintain` runs beside them and is killed: the table stays as good as new."""

import os
import random
import signal
from pathlib import Path

import pytest

from icectl.cli import engines
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import current_metadata, head, ids_of, live_entries
from tests.builders.twins import Twin
from tests.fault.steps import Steps

DAYS_MS = 6 * 86_400_000
ROWS, COMMITS, TURNS = 400, 6, 2
MIN_INPUT_FILES, MOST_STEPS = 5, 60


def is_killed(table: Twin, nth: int) -> bool:
    """Maintain a table in another process; whether it ended before its nth change of files."""
    child = os.fork()
    if not child:
        try:
            Steps(str(table.directory), "kill", nth).watch()
            table.run("maintain", "--yes")
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_under_upserts_never_degrades(tmp_path: Path, monkeypatch, version):
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    properties = {
        "write.target-file-size-bytes": "8000",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "5",
    }
    table = Twin(tmp_path / "t", format_version=version, properties=properties)
    table.append(range(ROWS))
    (large,) = (row["location"] for row in table.live())
    sizes, chance, kills = [], random.Random(7), 0
    for _ in range(TURNS):
        for _ in range(COMMITS):
            keys = sorted(chance.sample(range(ROWS), 3))
            table.delete_rows(keys, kind="equality")
            table.append(keys)
        table.now_ms += DAYS_MS
        kills += is_killed(table, chance.randrange(1, MOST_STEPS))
        assert ids_of(table.directory) == list(range(ROWS))
        table.run("maintain", "--yes")

        assert ids_of(table.directory) == list(range(ROWS))
        health = table.run("inspect", "health")["result"]
        assert health["verdict"] == "ok"
        assert health["delete_debt"]["compared_key_count"] == 0
        live = [entry["data_file"] for entry in live_entries(head(table.directory))]
        assert large in {file["file_path"] for file in live}  # few of its rows are deleted
        assert sum(not file["content"] for file in live) < 1 + MIN_INPUT_FILES
        stored = [path for path in (table.directory / "data").rglob("*") if path.is_file()]
        # Snapshots of this run have the equality deletes of the last commits.
        assert len(stored) <= 2 * len({file["file_path"] for file in live}) + COMMITS
        sizes.append(current_metadata(table.directory).stat().st_size)
    assert max(sizes) <= 1.1 * sizes[0]
    assert kills == TURNS
