"""Laws of every command that changes a table: rows stay, `validate` is content, twice is once."""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.orphans import edit_metadata
from tests.builders.rows import current_metadata, local, read_metadata
from tests.fault.changing import CHANGING, run, subject_of


def faults(directory: Path) -> list[dict[str, Any]]:
    """Errors and warnings of `validate` at its deepest."""
    words = ["validate", str(directory), "--level", "data", "--all-snapshots", "--json"]
    code, document = run(words)
    assert code == 0
    return [one for one in document["result"]["findings"] if one["severity"] != "info"]


SOUND = [changing.name for changing in CHANGING.values() if not changing.is_broken]


@pytest.mark.parametrize("name", SOUND)
def test_a_command_does_its_work_once_and_leaves_a_sound_table(name, tmp_path):
    subject = subject_of(name, tmp_path)
    assert faults(subject.directory) == []

    code, document = subject.run()
    assert (code, document["status"]) == (0, "done")
    subject.check_whole()
    assert faults(subject.directory) == []

    files = subject.contents()
    code, document = subject.run()
    assert (code, document["status"]) == (0, "nothing-to-do")
    assert run([*subject.words, "--dry-run", "--check"])[0] == 0
    assert subject.contents() == files


ASKING = {
    "erase", "expire-rows", "expire-snapshots", "migrate-v1-v2", "remove-orphans", "repair",
    "upgrade-to-v3", "upgrade-to-v4",
}  # fmt: skip
"""Commands that ask before they change one table."""


@pytest.mark.parametrize("name", CHANGING)
def test_a_check_and_a_run_that_nobody_confirms_change_nothing(name, tmp_path):
    subject = subject_of(name, tmp_path)
    files = subject.contents()
    code, document = run([*subject.words, "--check"])
    assert (code, document["status"], document["dry_run"]) == (4, "planned", True)
    if subject.words[0] in ASKING:
        code, document = run([word for word in subject.words if word != "--yes"])
        assert (code, document["error"]["id"]) == (2, "confirmation-needed")
    assert subject.contents() == files


COMMITTING = [changing.name for changing in CHANGING.values() if changing.commits]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param(name, wanted, marks=pytest.mark.full if (at + wanted) % 2 else ())
        for at, name in enumerate(COMMITTING)
        for wanted in (True, False)
    ],
)
def test_r024_metadata_files_leave_with_the_log_where_the_table_says_so(name, wanted, tmp_path):
    """But for those outside the table, which may be another one's."""
    subject = subject_of(name, tmp_path)
    folder = subject.directory / "metadata"
    members = read_metadata(current_metadata(subject.directory))
    outside = tmp_path / "v0.metadata.json"
    outside.touch()
    first = {"timestamp-ms": 1_700_000_000_000, "metadata-file": f"file://{outside}"}
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": str(wanted).lower(),
    }
    edit_metadata(
        subject.directory,
        properties=members["properties"] | properties,
        metadata_log=[first, *members["metadata-log"]],
    )
    before = {path.name for path in folder.glob("*.metadata.json")}
    code, document = subject.run()
    assert (code, document["status"]) == (0, "done")
    current = current_metadata(subject.directory)
    log = [local(entry["metadata-file"]) for entry in read_metadata(current)["metadata-log"]]
    left = {path.name for path in folder.glob("*.metadata.json")}
    assert len(log) == 2
    if wanted:
        assert left == {current.name, *(path.name for path in log)}
    else:
        assert left >= before | {current.name}
    assert outside.exists()
    subject.check_whole()
