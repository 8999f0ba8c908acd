"""Expressions of version 4, and specs that link to them."""

import pytest

from icectl.errors import CorruptTable
from icectl.format.expressions import expression_from_json, linked_spec_from_json

BUCKET = {
    "expr-id": 12,
    "type": "int",
    "expr": {"source-id": 2, "transform": "bucket[16]", "name": "b"},
    "partition-field-id": 1000,
}


def spec(field, expression=BUCKET):
    expressions = {12: expression_from_json(expression)}
    return linked_spec_from_json({"spec-id": 0, "fields": [field]}, expressions, ())


def test_v4_011_members_of_version_3_beside_a_link_agree_with_the_expression():
    older = {"source-id": 2, "transform": "bucket[16]", "name": "b", "field-id": 1000}
    assert spec({"expr-id": 12, **older}).fields[0].field_id == 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [("source-id", 3), ("transform", "bucket[8]"), ("name", "c"), ("field-id", 1001)],
)
def test_v4_011_a_member_that_the_expression_contradicts_is_refused(name, value):
    with pytest.raises(CorruptTable, match=f"a spec says `{name}`") as raised:
        spec({"expr-id": 12, name: value})
    assert raised.value.rule == "V4-011"


def test_v4_013_an_expression_of_a_spec_has_a_partition_field_id():
    without = {key: value for key, value in BUCKET.items() if key != "partition-field-id"}
    with pytest.raises(CorruptTable) as raised:
        spec({"expr-id": 12}, without)
    assert raised.value.rule == "V4-013"
