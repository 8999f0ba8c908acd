"""Which filters are about the past, and when too many rows would go."""

import pytest

from icectl.commands.expire_rows.plan import filter_of, is_of_past, over_fraction
from icectl.entries.conditions import parse_where
from icectl.errors import IcectlError, UsageError
from tests.builders.table_builder import TableBuilder

NOW_MS = 1_750_000_000_000  # 2025-06-15T15:06:40Z


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory):
    return TableBuilder(tmp_path_factory.mktemp("t")).metadata


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("at < '2025-01-01'", True),
        ("at <= '2025-06-15T15:06:40'", True),
        ("at <= '2025-06-15T15:06:41'", False),
        ("at = '2025-01-01'", True),
        ("at < 'now'", True),
        ("at < 'now - 0s' and id > 3", True),
        ("id > 3 and at between '2020-01-01' and '2021-01-01'", True),
        ("at in ('2020-01-01', '2021-01-01')", True),
        ("at < '2020-01-01' or at < 'now - 30d' and id = 1", True),
        ("day(at) = '2020-01-01'", True),
        ("day(at) <= '2025-06-15'", False),
        ("at < '2020-01-01' or id = 1", False),
        ("at > '2020-01-01'", False),
        ("not at < '2020-01-01'", False),
        ("not (at >= '2020-01-01')", False),  # it is of the past, which is not shown
        ("at is null", False),
        ("note < '2020-01-01'", False),
        ("true", False),
    ],
)
def test_a_filter_is_of_the_past_if_each_match_has_a_time_up_to_now(metadata, text, wanted):
    assert is_of_past(parse_where(text, metadata, NOW_MS), NOW_MS) is wanted


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("at < '2025-01-01'", "at"),
        ("at < '2025-01-01' and id > 3", "at"),
        ("at < '2025-01-01' or id = 1", None),  # a row with null goes by its id
        ("id = 1", None),
    ],
)
def test_a_filter_needs_a_value_of_the_time_that_it_is_about(metadata, text, needed):
    found = filter_of(metadata, text, NOW_MS, any_filter=True).needed
    assert (None if found is None else found.name) == needed


def test_instants_are_relative_to_now_only_where_that_is_known(metadata):
    hour = NOW_MS * 1000 - 3_600_000_000
    for text in ("at < 'now - 1h'", "at < ' NOW -1h '"):
        assert parse_where(text, metadata, NOW_MS).value == hour  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="cannot compare `at`"):
        parse_where("at < 'now - 1h'", metadata)
    assert parse_where("note < 'now - 1h'", metadata, NOW_MS).value == "now - 1h"  # type: ignore[union-attr]


def test_partition_fields_are_no_filter_of_rows(tmp_path):
    metadata = TableBuilder(tmp_path, partitioning="day").metadata
    with pytest.raises(IcectlError, match="`at_day` is a partition field"):
        filter_of(metadata, "at_day < '2020-01-01'", NOW_MS, any_filter=False)


def test_a_part_of_the_rows_may_go_at_once():
    assert over_fraction(2, 10, 0.2) is None
    assert over_fraction(0, 0, 0.2) is None
    error = over_fraction(3, 10, 0.2)
    assert error is not None
    assert (error.exit_code, error.error_id) == (5, "too-many-rows")
