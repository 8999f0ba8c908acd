"""Which findings call for entries of statistics files to be removed."""

import pytest

from icectl.checks.rule import Finding
from icectl.commands.repair.run import statistics_fixes
from icectl.format.snapshot import StatisticsFile
from tests.builders.plain_metadata import plain_metadata

FILES = tuple(StatisticsFile(id_, f"/t/metadata/{id_}.stats", 10, 5) for id_ in (1, 21))


@pytest.mark.parametrize(
    ("subject", "message", "expected"),
    [
        ("/t/metadata/21.stats", "the file has 11 bytes, not 10", ["21"]),
        ("/t/metadata/1.stats", "the file has 21 bytes, not 10", ["1"]),
        ("snapshot 21", "it has 2 partition statistics files", ["21"]),
        ("/t/metadata/v21.metadata.json", "1 of 21", []),
    ],
)
def test_a_finding_is_about_the_snapshot_of_its_own_file(subject, message, expected):
    found = statistics_fixes(
        plain_metadata(statistics=FILES), [Finding("R-140", "warning", subject, message, "hint")]
    )
    assert [fix.name for fix in found] == expected
