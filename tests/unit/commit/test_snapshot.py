"""Whether a commit may still go on a table, by its format version and layout."""

import pytest

from icectl.commit.snapshot import check_same_form
from icectl.errors import CommitConflict
from tests.builders.plain_metadata import plain_metadata

VERSION_3 = plain_metadata(format_version=3)
SFC_1 = plain_metadata(format_version=4)
ICEBERG_1_12 = plain_metadata(format_version=4, keeps_manifest_lists=True)


@pytest.mark.parametrize(
    ("base", "now", "changed"),
    [
        (VERSION_3, SFC_1, "format version"),
        (VERSION_3, ICEBERG_1_12, "format version"),
        (SFC_1, ICEBERG_1_12, "layout"),
        (ICEBERG_1_12, SFC_1, "layout"),
    ],
)
def test_v4_033_what_was_made_for_another_form_is_a_conflict(base, now, changed):
    check_same_form(base, base)
    check_same_form(now, now)
    with pytest.raises(CommitConflict) as raised:
        check_same_form(base, now)
    assert raised.value.message == f"the table's {changed} has changed since then"
