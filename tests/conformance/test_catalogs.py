"""What every Catalog promises when two writers meet."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from icectl.catalog.files import FileSystemCatalog
from icectl.storage.local.store import LocalStore
from tests.builders.plain_metadata import plain_members

ROOT = Path(__file__).resolve().parents[2]
COMMITS = 15
WRITER = """
import sys
from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.protocol import Committed, Conflict
from icectl.env import SystemEnv
from icectl.format.updates import SetProperties
from icectl.storage.local.store import LocalStore

table, me, commits = sys.argv[1], sys.argv[2], int(sys.argv[3])
catalog = FileSystemCatalog(LocalStore(), table, SystemEnv())
print("ready", flush=True)
sys.stdin.readline()
mine = conflicts = 0
while mine < commits:
    base = catalog.load()
    outcome = catalog.commit(base, (), [SetProperties({f"{me}-{mine}": "here"})])
    if isinstance(outcome, Committed):
        mine += 1
    else:
        assert isinstance(outcome, Conflict), outcome
        conflicts += 1
print(conflicts)
"""


@pytest.fixture
def table(tmp_path):
    first = plain_members(location=str(tmp_path))
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata/v1.metadata.json").write_text(json.dumps(first))
    return tmp_path


def test_r150_two_processes_lose_no_commit(table, fixed_env):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, table, me, str(COMMITS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for me in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    loaded = FileSystemCatalog(LocalStore(), str(table), fixed_env).load()
    assert loaded.version == 2 * COMMITS + 1
    assert dict(loaded.metadata.properties) == {
        f"{me}-{number}": "here" for me in ("a", "b") for number in range(COMMITS)
    }
