"""A wait in a driver that nothing ends: the process ends, with the code of the time limit."""

import json
import subprocess
import sys

from tests.builders.table_builder import filled_table

_RUN = """
import sys, threading, time
from icectl.cli import signals
signals.GRACE_SECONDS = 1.0
from icectl.cli.app import main
from icectl.storage.local.store import LocalStore
{hang}
sys.exit(main(sys.argv[1:]))
"""
_IN_A_COMMIT = """
from icectl.catalog.files import FileSystemCatalog
FileSystemCatalog.commit = lambda *_: threading.Event().wait(600)
"""


def ended(limit: str, hang: str, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN.format(hang=hang), *words, "--time-limit", limit, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


def test_a_read_that_never_ends(tmp_path):
    filled_table(tmp_path / "t", range(3))
    hang = "LocalStore.read = lambda *_: threading.Event().wait(600)"
    code, out = ended("1s", hang, "inspect", str(tmp_path / "t"), "files")
    assert (code, json.loads(out)["error"]["id"]) == (3, "time-limit")


def test_a_commit_that_never_ends_is_unknown_and_keeps_its_journal(tmp_path):
    table = filled_table(tmp_path / "t", range(3), range(3))
    before = set(table.directory.rglob("*"))
    code, out = ended("12s", _IN_A_COMMIT, "rewrite-manifests", str(tmp_path / "t"), "--yes")
    assert (code, json.loads(out)["error"]["id"]) == (12, "commit-unknown"), out
    new = set(table.directory.rglob("*")) - before
    assert [path for path in new if path.name.startswith("icectl-rewrite-manifests-")]
    assert [path for path in new if path.suffix == ".avro"]


def test_a_run_in_time_is_left_alone(tmp_path):
    filled_table(tmp_path / "t", range(3))
    code, out = ended("60s", "", "inspect", str(tmp_path / "t"), "files")
    assert (code, json.loads(out)["error"]) == (0, None)
