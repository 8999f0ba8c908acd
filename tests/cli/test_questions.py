"""Questions as a person meets them: on a terminal of 80 columns, in a process of its own."""

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders.rows import current_metadata, read_metadata
from tests.builders.table_builder import filled_table

WHO_READS = (
    "  1  iceberg-1.12  engines with Iceberg 1.12 read and write it; it is experimental there\r\n"
    "  2  sfc-1         only icectl reads and writes it; it is a proposal\r\n"
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return filled_table(tmp_path / "t", range(4)).directory


def on_terminal(words: Sequence[object], *answers: str) -> tuple[int, str]:
    """Run icectl on a terminal that answers; second: all that it shows."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "dumb", "NO_COLOR": "1"}
    line = [sys.executable, "-m", "icectl", *map(str, words)]
    with subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        shown = b""
        with suppress(OSError):  # as Linux ends a terminal that nobody writes to any more
            while part := os.read(ours, 4096):
                shown += part
        os.close(ours)
    return process.returncode, shown.decode()


def version(table: Path) -> tuple[int, bool]:
    """The version of a table, and whether its current snapshot has a root."""
    metadata = read_metadata(current_metadata(table))
    return metadata["format-version"], "root-manifest" in metadata["snapshots"][-1]


def test_an_upgrade_asks_which_layout_and_tells_who_reads_it(table):
    code, shown = on_terminal(["upgrade-to-v4", table], "1", "y")
    assert (code, version(table)) == (0, (4, False))
    words = " ".join(shown.split())
    assert f"which one? {' '.join(WHO_READS.split())} 1 to 2" in words
    assert f"make {table} a table of version 4, layout iceberg-1.12? [y/N]" in words


@pytest.mark.parametrize("answers", [("2", "n"), ("",), ("3",)])
def test_an_upgrade_that_is_declined_is_no_error(table, answers):
    code, shown = on_terminal(["upgrade-to-v4", table], *answers)
    assert (code, version(table)) == (5, (2, False))
    assert shown.endswith("nothing was changed\r\n")
    assert "error" not in shown


@pytest.mark.parametrize("words", [(), ("--yes",), ("--check",), ("-n",)])
def test_a_script_names_the_layout(table, words):
    line = [sys.executable, "-m", "icectl", "upgrade-to-v4", str(table), *words]
    ended = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, version(table)) == (2, (2, False))
    assert "`--layout` must name one\nhint: `--layout iceberg-1.12`: engines" in ended.stderr


def test_a_pattern_shows_its_tables_and_asks_once(table):
    code, shown = on_terminal(["rewrite-manifests", f"{table.parent}/*"], "n")
    assert code == 5
    assert f"{table} rewrite-manifests on 1 table? [y/N]" in " ".join(shown.split())
