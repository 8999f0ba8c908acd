"""Rows deleted by value while all files are rewritten: back with Iceberg's rewrite, gone with ours.

Rule 14 of the peers, apache/iceberg 10312.
"""

from pathlib import Path

import pytest

from tests.builders.compactions import compacted, planned
from tests.builders.rows import current_metadata, read_metadata, read_rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

APPENDED = set(range(20)) | set(range(100, 105))
DELETED = {3, 5}


def hidden(table: Path, first: int) -> dict[Path, bytes]:
    """Metadata files from a version on, with the hint, which are taken away."""
    metadata = table / "metadata"
    found = [path for path in metadata.glob("v*.metadata.json") if int(path.name[1:-14]) >= first]
    hint = metadata / "version-hint.text"
    contents = {path: path.read_bytes() for path in (*found, hint)}
    for path in found:
        path.unlink()
    hint.write_text(str(first - 1))
    return contents


def test_the_reference_implementation_brings_deleted_rows_back(spark_tables):
    """Once this fails, the rule has lost its reason."""
    assert spark_tables.raced == sorted(APPENDED)


def test_rule_14_rows_stay_deleted_where_icectl_commits_the_same_rewrite(spark_tables):
    table = spark_tables.directory.parent / "race" / "icectl"
    later = hidden(table, 3)
    prepared = planned(table)
    (group,) = prepared.plan.groups
    assert (group.input_files, group.input_rows) == (2, 20)
    for path, content in later.items():
        path.write_bytes(content)

    done = compacted(table, prepared)

    assert done.failed == {}
    metadata = read_metadata(current_metadata(table))
    assert metadata["snapshots"][-1]["summary"]["operation"] == "replace"
    rows = [dict(row)["id"] for row in read_rows(metadata)]
    assert sorted(rows) == sorted(APPENDED - DELETED)
