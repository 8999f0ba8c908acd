"""Lookups in the table metadata."""

from dataclasses import replace

import pytest

from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import parse_metadata
from tests.builders.metadata_members import members_v2


@pytest.fixture
def metadata() -> TableMetadata:
    return parse_metadata(members_v2())


def test_snapshots_are_found_by_their_id(metadata):
    assert metadata.snapshot(22).timestamp_ms == 2_000
    assert metadata.snapshot(23) is None
    assert list(metadata.snapshots_by_id) == [11, 22, 33]


def test_current_snapshot_is_that_of_main_or_none(metadata):
    assert metadata.current_snapshot is metadata.snapshots[2]
    assert replace(metadata, current_snapshot_id=None).current_snapshot is None


def test_schemas_specs_and_sort_orders_are_found_by_their_id(metadata):
    assert metadata.schema(0) is metadata.schemas[0] is metadata.current_schema
    assert metadata.spec(0) is metadata.partition_specs[0] is metadata.default_spec
    assert metadata.sort_order(0) is metadata.sort_orders[0]
    assert metadata.schema(1) is metadata.spec(1) is metadata.sort_order(1) is None


def test_lookups_follow_a_changed_copy(metadata):
    assert replace(metadata, snapshots=metadata.snapshots[2:]).snapshot(11) is None
    assert metadata.snapshot(11) is not None
