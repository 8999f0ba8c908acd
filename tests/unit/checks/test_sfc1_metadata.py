"""Rules of the metadata of layout sfc-1."""

import pytest

from icectl.checks.objects import MetadataFile
from icectl.format.snapshot import MetadataLogEntry
from icectl.sfc1.rules import EVERY_RULE
from tests.builders.plain_metadata import plain_metadata


@pytest.mark.parametrize(
    ("limit", "too_long"),
    [("2", True), ("3", False), ("0", True), ("9" * 5000, False), ("\u00b2", False), ("", False)],
)
def test_v4_022_a_limit_that_is_not_a_number_is_the_default(limit, too_long):
    log = tuple(MetadataLogEntry(at, f"/t/metadata/v{at}.metadata.json") for at in (1, 2, 3))
    metadata = plain_metadata(
        metadata_log=log, properties={"write.metadata.previous-versions-max": limit}
    )
    file = MetadataFile(metadata, {})
    found = [one for check in EVERY_RULE["V4-022"].checks for one in check.search(file)]
    assert any("should be kept" in one.message for one in found) == too_long
