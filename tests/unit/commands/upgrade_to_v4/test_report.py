"""What is told before a table becomes one of version 4."""

from dataclasses import replace

import pytest

from icectl.catalog.files import FILE_SYSTEM, NAMED_FILE
from icectl.catalog.pointer import POINTED
from icectl.commands.upgrade_to_v4.plan import UpgradeOptions
from icectl.commands.upgrade_to_v4.report import version_4_notes
from icectl.format.layout import Layout

SERVED = replace(POINTED, commits_on_base=False)
AGAIN = (
    "until the next commit there is a way back: point the catalog at the old metadata file again",
)
BY_HAND = (
    "until the next commit there is a way back: remove the new metadata file by hand,",
    "and set the number in `version-hint.text` back by one",
)
NONE = ("no command takes the table back to an older version",)


@pytest.mark.parametrize(
    ("catalog", "told"),
    [(FILE_SYSTEM, BY_HAND), (POINTED, AGAIN), (NAMED_FILE, AGAIN), (SERVED, NONE)],
    ids=["folder", "pointer", "given file", "server"],
)
def test_the_way_back_is_one_that_the_catalog_of_the_table_has(catalog, told):
    lazy = UpgradeOptions("lazy")
    for options in (lazy, UpgradeOptions("default", layout=Layout.MANIFEST_LISTS)):
        assert version_4_notes(options, catalog, changes_layout=False)[3:] == told


def test_manifests_that_were_written_anew_have_no_way_back():
    eager = UpgradeOptions("eager", layout=Layout.MANIFEST_LISTS)
    assert version_4_notes(eager, FILE_SYSTEM, changes_layout=False)[3:] == NONE
