"""Whatever is put in the place of a member, metadata JSON is read or refused, never misread."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.errors import CorruptTable, Unsupported
from icectl.format.metadata_json import metadata_json, parse_metadata
from tests.builders.metadata_members import members_v1, members_v2, members_v3

TABLES = [members_v1(), members_v2(), members_v3()]
SCALARS = st.none() | st.booleans() | st.integers(-2, 2**63) | st.floats() | st.text(max_size=3)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[Any, Any]] = []
    for key, item in items:
        found.append((value, key))
        if isinstance(item, dict | list):
            found += places(item)
    return found


@settings(max_examples=1_000, deadline=None)
@given(table=st.sampled_from(TABLES), choice=st.integers(0), damage=JSON)
def test_a_damaged_member_is_read_losslessly_or_refused(table, choice, damage):
    members = deepcopy(table)
    found = places(members)
    container, key = found[choice % len(found)]
    container[key] = damage
    try:
        metadata = parse_metadata(members)
    except (CorruptTable, Unsupported):
        return
    assert parse_metadata(metadata_json(metadata)) == metadata


@pytest.mark.parametrize("table", TABLES)
def test_without_any_one_member_metadata_is_read_or_refused(table):
    for position in range(len(places(table))):
        members = deepcopy(table)
        container, key = places(members)[position]
        del container[key]
        try:
            metadata = parse_metadata(members)
        except (CorruptTable, Unsupported):
            continue
        assert parse_metadata(metadata_json(metadata)) == metadata
