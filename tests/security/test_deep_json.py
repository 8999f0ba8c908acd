"""JSON of very many levels ends in one error, wherever it comes from."""

from pathlib import Path

import pytest

from icectl.errors import StorageError
from icectl.format.json_members import parse_json
from icectl.storage.buckets import gcs

ICECTL = Path(gcs.__file__).parents[2]
DEEP = "[" * 200_000
OWN = {"format/json_members.py", "cli/document.py", "files/parquet/metrics.py", "cli/history.py"}
"""The one that parses; what icectl ships itself; what a library of this process has written; the
history of runs, which limits lines and numbers, and drops lines of too many levels."""


def test_json_of_too_many_levels_is_no_json():
    with pytest.raises(ValueError, match="too many levels"):
        parse_json(DEEP)


def test_json_of_others_is_parsed_by_one_function():
    parsing = {
        str(path.relative_to(ICECTL))
        for path in ICECTL.rglob("*.py")
        if "json.load" in path.read_text()
    }
    assert parsing == OWN


def test_a_file_of_credentials(tmp_path):
    file = tmp_path / "key.json"
    file.write_text(DEEP)
    with pytest.raises(StorageError, match="it is not such a JSON file"):
        gcs._from_file(str(file), str)
