"""Steps of maintenance: what they read from a table's properties."""

import pytest

from icectl.commands.maintain.step import last_scan_ms
from tests.builders.plain_metadata import plain_metadata

NEW, FORMER = "icectl.maintain.last-orphan-scan", "icectl.maintain.orphans-looked-for"
FIRST, SECOND = "1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({NEW: FIRST}, 1_000),
        ({FORMER: FIRST}, 1_000),
        ({FORMER: FIRST, NEW: SECOND}, 2_000),
        ({NEW: "soon"}, None),
    ],
)
def test_the_last_scan_is_read_under_both_names(properties, expected):
    assert last_scan_ms(plain_metadata(properties=properties), 5_000) == expected
