"""Ranges of partition fields that all readers skip manifests by alike."""

from uuid import UUID

import pytest

from icectl.entries.partition_key import encode_key
from icectl.entries.summary import field_summaries
from icectl.format.manifest import FieldSummary
from icectl.format.types import PrimitiveType
from tests.builders.entry_rows import data, entries

UUID_TYPE, TEXT = PrimitiveType("uuid"), PrimitiveType("string")
LOW, LOWER_HALF = UUID(int=1), UUID("00000000-0000-0000-8000-000000000000")
MIDDLE, HIGH = UUID("7" + "f" * 31), UUID("8" + "0" * 31)
HIGHEST = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def of(*values: UUID | None) -> tuple[FieldSummary, ...] | None:
    """The summaries of files with these partitions, of a UUID and a text."""
    types = (UUID_TYPE, TEXT)
    keys = [encode_key(types, (value, "t")) for value in values]
    files = (data(str(at), partition_key=key) for at, key in enumerate(keys))
    return field_summaries(entries(*files), types)


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([MIDDLE], (MIDDLE, MIDDLE)),
        ([HIGH, None, HIGH], (HIGH, HIGH)),
        ([MIDDLE, LOW], (LOW, MIDDLE)),
        ([HIGHEST, HIGH], (HIGH, HIGHEST)),
    ],
)
def test_r053_uuids_that_all_readers_order_alike_have_a_range(values, bounds):
    text = FieldSummary(contains_null=False, contains_nan=False, lower_bound=b"t", upper_bound=b"t")
    lower, upper = (value.bytes for value in bounds)
    assert of(*values) == (FieldSummary(None in values, False, lower, upper), text)


@pytest.mark.parametrize(
    "values", [[LOW, HIGH], [HIGHEST, MIDDLE, None], [LOW, LOWER_HALF], [LOWER_HALF, LOW, HIGH]]
)
def test_r053_a_manifest_tells_no_ranges_where_java_orders_its_uuids_otherwise(values):
    """Java's UUID.compareTo compares halves as signed numbers: 8… comes before 0…."""
    assert of(*values) is None


def test_r053_fields_that_have_nulls_alone_have_a_summary_without_bounds():
    summaries = of(None, None)
    assert summaries is not None
    assert summaries[0] == FieldSummary(contains_null=True, contains_nan=False)
