"""Requirements of a commit hold on the table they were taken from, and say why they do not."""

import pytest

from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import parse_metadata
from icectl.format.updates import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUuid,
    check,
)
from tests.builders.metadata_members import UUID, members_v2


@pytest.fixture
def metadata() -> TableMetadata:
    return parse_metadata(members_v2())


@pytest.mark.parametrize(
    "requirement",
    [
        AssertTableUuid(UUID),
        AssertRefSnapshotId("main", 33),
        AssertRefSnapshotId("first", 11),
        AssertRefSnapshotId("audit", None),
        AssertCurrentSchemaId(0),
        AssertDefaultSpecId(0),
    ],
)
def test_requirements_hold_on_the_table_they_were_taken_from(metadata, requirement):
    assert check(metadata, requirement) is None


@pytest.mark.parametrize(
    ("requirement", "reason"),
    [
        (AssertTableUuid("u"), f"the table's UUID is {UUID}, not u"),
        (AssertRefSnapshotId("main", 22), "ref `main` is at 33, not 22"),
        (AssertRefSnapshotId("main", None), "ref `main` is at 33, not absent"),
        (AssertRefSnapshotId("audit", 11), "ref `audit` is at no snapshot, not 11"),
        (AssertCurrentSchemaId(1), "the current schema is 0, not 1"),
        (AssertDefaultSpecId(1), "the default partition spec is 0, not 1"),
    ],
)
def test_r002_and_r155_a_table_that_changed_is_told_with_the_reason(metadata, requirement, reason):
    assert check(metadata, requirement) == reason
