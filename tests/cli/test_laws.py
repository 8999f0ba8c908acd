"""Laws of every command that changes a table: rows stay, `validate` is content, twice is once."""

from pathlib import Path
from typing import Any

import pytest

from tests.fault.changing import CHANGING, run, subject_of


def faults(directory: Path) -> list[dict[str, Any]]:
    """Errors and warnings of `validate` at its deepest."""
    words = ["validate", str(directory), "--level", "data", "--all-snapshots", "--json"]
    code, document = run(words)
    assert code == 0
    return [one for one in document["result"]["findings"] if one["severity"] != "info"]


@pytest.mark.parametrize("name", CHANGING)
def test_a_command_does_its_work_once_and_leaves_a_sound_table(name: str, tmp_path: Path) -> None:
    subject = subject_of(name, tmp_path)
    assert faults(subject.directory) == []

    code, document = subject.run()
    assert (code, document["status"]) == (0, "done")
    subject.check_whole()
    assert faults(subject.directory) == []

    files = subject.contents()
    code, document = subject.run()
    assert (code, document["status"]) == (0, "nothing-to-do")
    assert subject.contents() == files
