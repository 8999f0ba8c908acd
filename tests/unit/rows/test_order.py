"""What `--sort-order` and `--zorder` say, against a table's columns and its own orders."""

from dataclasses import replace

import pytest

from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionSpec
from icectl.format.schema import Schema
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from icectl.format.types import ListType, NestedField, PrimitiveType, StructType, Type
from icectl.rows.sort_rows import ZOrder, parse_sort_order, parse_zorder, table_order

LONG = PrimitiveType("long")
TYPES: list[tuple[int, str, Type]] = [
    (1, "id", LONG),
    (2, "category", PrimitiveType("string")),
    (3, "at", PrimitiveType("timestamp")),
    (4, "two words", PrimitiveType("double")),
    (5, "place", StructType((NestedField(6, "x", LONG, required=False),))),
    (7, "tags", ListType(8, LONG, element_required=False)),
    (9, "desc", LONG),
    (10, "a, b", LONG),
    (11, "a`, b", LONG),
]
SCHEMA = Schema(0, tuple(NestedField(id_, name, type_, False) for id_, name, type_ in TYPES))


def key(source: int, transform: str, direction: str = "asc", nulls: str = "first") -> SortField:
    return SortField((source,), parse_transform(transform), direction, f"nulls-{nulls}")


OWN = SortOrder(3, (key(2, "identity"), key(1, "bucket[16]", "desc", "last")))
METADATA = TableMetadata(
    2, None, "/t", 9, 0, 9, (SCHEMA,), 0, (PartitionSpec(0, ()),), 0, 1001,
    (SortOrder(0, ()), OWN), 3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("id", [key(1, "identity")]),
        (" id  DESC ", [key(1, "identity", "desc", "last")]),
        ("id desc nulls first", [key(1, "identity", "desc", "first")]),
        ("id Nulls Last", [key(1, "identity", "asc", "last")]),
        ("bucket(16, id)", [key(1, "bucket[16]")]),
        ("bucket(id, 16) desc", [key(1, "bucket[16]", "desc", "last")]),
        ("bucket[16](id)", [key(1, "bucket[16]")]),
        ("Truncate( 4 , category )", [key(2, "truncate[4]")]),
        ("days(at),hour(at)", [key(3, "day"), key(3, "hour")]),
        ("year(at), months(at)", [key(3, "year"), key(3, "month")]),
        ("`two words` desc, place.x", [key(4, "identity", "desc", "last"), key(6, "identity")]),
        ("`place`.`x`", [key(6, "identity")]),
        ("`desc` desc", [key(9, "identity", "desc", "last")]),
        ("desc", [key(9, "identity")]),
        ("`a``, b` desc, `a, b`", [key(11, "identity", "desc", "last"), key(10, "identity")]),
    ],
)
def test_an_order_is_read_key_by_key(text, fields):
    assert parse_sort_order(text, METADATA) == SortOrder(0, tuple(fields))


def test_an_order_of_the_table_is_known_again_as_a_whole():
    spelled = "category asc nulls first, bucket(16, id) desc nulls last"
    assert parse_sort_order(spelled, METADATA) is OWN
    assert parse_sort_order("category", METADATA).order_id == 0
    assert parse_sort_order(spelled + ", at", METADATA).order_id == 0
    assert table_order(METADATA) is OWN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at position 1: `` is not a sort key"),
        ("id,", "at position 4: `` is not a sort key"),
        ("id, , at", "at position 4: `, at` is not a sort key"),
        ("id descending", "at position 1: `id descending` is not a sort key"),
        ("id desc asc", "is not a sort key"),
        ("id nulls", "is not a sort key"),
        ("bucket(16 id)", "is not a sort key"),
        ("colour", "the table has no column `colour`"),
        ("ID", "the table has no column `ID`"),
        ("tags", "there is no identity of `tags`, which is list<long>"),
        ("tags.element", "`tags.element` is inside a list, of which a row has many"),
        ("hour(id)", "there is no hour of `id`, which is long"),
        ("bucket(8, `two words`)", "there is no bucket[8] of"),
        ("shuffle(id)", "there is no transform `shuffle`"),
        ("void(id)", "there is no transform `void`"),
        ("bucket(id)", "there is no transform `bucket`"),
        ("bucket(0, id)", "there is no transform `bucket[0]`"),
        ("bucket[4](4, id)", "there is no transform `bucket[4][4]`"),
        ("zorder(id, at)", "is not a sort key"),
    ],
)
def test_what_is_no_order_is_wrong_usage(text, message):
    with pytest.raises(UsageError) as caught:
        parse_sort_order(text, METADATA)
    assert message in caught.value.message


def test_names_that_are_nearly_right_are_proposed():
    with pytest.raises(UsageError) as caught:
        parse_sort_order("categry", METADATA)
    assert caught.value.hint == "did you mean `category`?"


@pytest.mark.parametrize("orders", [(SortOrder(0, ()),), ()])
def test_a_table_that_is_not_sorted_has_no_order(orders):
    unsorted = replace(METADATA, sort_orders=orders, default_sort_order_id=0)
    with pytest.raises(UsageError, match="the table has no sort order of its own"):
        table_order(unsorted)


def test_a_curve_goes_through_columns():
    assert parse_zorder("id, `two words`,place.x", METADATA) == ZOrder((1, 4, 6))


def test_a_comma_in_a_quoted_name_ends_no_name():
    assert parse_zorder("`a, b`,id", METADATA) == ZOrder((10, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id", "takes two or more different columns"),
        ("id,id", "takes two or more different columns"),
        ("id,", "`` is not a column name"),
        ("id desc,at", "`id desc` is not a column name"),
        ("id,colour", "the table has no column `colour`"),
        ("id,place", "`place` is struct<6: x: optional long>, which has no order"),
        ("id,tags.element", "is inside a list"),
    ],
)
def test_what_no_curve_goes_through_is_wrong_usage(text, message):
    with pytest.raises(UsageError) as caught:
        parse_zorder(text, METADATA)
    assert message in caught.value.message
