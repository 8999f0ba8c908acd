"""Sort orders: JSON and text."""

import pytest

from icectl.format.schema import Schema
from icectl.format.sort import SortField, SortOrder, order_from_json, order_json, order_text
from icectl.format.transforms import parse_transform
from icectl.format.types import NestedField, PrimitiveType

ORDER_JSON = {
    "order-id": 3,
    "fields": [
        {"transform": "identity", "source-id": 2, "direction": "asc", "null-order": "nulls-first"},
        {"transform": "bucket[4]", "source-id": 1, "direction": "desc", "null-order": "nulls-last"},
        {"transform": "zorder", "source-ids": [1, 9], "direction": "asc",
         "null-order": "nulls-last"},
    ],
}  # fmt: skip
SCHEMA = Schema(
    0,
    (
        NestedField(1, "id", PrimitiveType("long"), required=True),
        NestedField(2, "category", PrimitiveType("string"), required=False),
    ),
)


def test_an_order_is_read_and_written_unchanged():
    order = order_from_json(ORDER_JSON)
    assert order.order_id == 3
    assert order.fields[1] == SortField((1,), parse_transform("bucket[4]"), "desc", "nulls-last")
    assert order.fields[2].source_ids == (1, 9)
    assert order_json(order) == ORDER_JSON


def test_r018_members_of_an_order_that_are_not_known_survive():
    sort_field = ORDER_JSON["fields"][0] | {"x": 1}  # type: ignore[index]
    value = {"order-id": 1, "fields": [sort_field], "x-note": "kept"}
    assert order_json(order_from_json(value)) == value


def test_case_of_direction_and_null_order_does_not_matter():
    order = order_from_json(
        {
            "order-id": 1,
            "fields": [
                {
                    "transform": "identity",
                    "source-id": 1,
                    "direction": "ASC",
                    "null-order": "NULLS-FIRST",
                }
            ],
        }
    )
    assert (order.fields[0].direction, order.fields[0].null_order) == ("asc", "nulls-first")


@pytest.mark.parametrize("missing", ["transform", "source-id", "direction", "null-order"])
def test_a_sort_field_without_a_required_member_is_an_error(missing):
    value = {
        "transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first",
    }  # fmt: skip
    del value[missing]
    with pytest.raises(KeyError, match=missing):
        order_from_json({"order-id": 1, "fields": [value]})


def test_r084_an_order_without_fields_is_unsorted():
    assert order_text(SortOrder(0, ()), SCHEMA) == "unsorted"


def test_an_order_is_printed_in_one_line_with_names_of_columns():
    assert order_text(order_from_json(ORDER_JSON), SCHEMA) == (
        "category asc nulls first, bucket[4](id) desc nulls last, zorder(id, #9) asc nulls last"
    )
