"""Random variants, shredded in random ways, have the same values once they are rewritten."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from icectl.files.data_rows import retype_array
from icectl.files.parquet.schema import without_extensions
from icectl.files.parquet.shredding import shredded_variants
from icectl.format import variant
from tests.builders.data_files import identified
from tests.unit.rows.test_rewrite_data import ID, Group
from tests.unit.rows.test_variants import COLUMNS

NAMES = ["", "a", "b", "typed_value", "é"]
METADATA = variant.write_metadata(NAMES)
IDS = variant.read_metadata(METADATA).ids

LEAVES: Mapping[str, tuple[pa.DataType, int, int]] = {
    "byte": (pa.int8(), variant.INT8, 1),
    "long": (pa.int64(), variant.INT64, 8),
    "date": (pa.date32(), variant.DATE, 4),
    "moment": (pa.timestamp("ns", "UTC"), variant.TIMESTAMPTZ_NS, 8),
    "uuid": (pa.uuid(), variant.UUID_, 16),
    "text": (pa.string(), variant.STRING, 0),
    "bytes": (pa.binary(), variant.BINARY, 0),
}
"""Kinds of primitives by name: their columns, the ids of their types, and bytes of numbers."""

Tree = Any
"""A name of LEAVES with a value, a dictionary, a list, or None for the null of variants."""

numbers = st.integers(-100, 100)
primitives = st.one_of(
    st.none(),
    *(st.tuples(st.just(name), numbers) for name in ("byte", "long", "date", "moment")),
    st.tuples(st.just("uuid"), st.binary(min_size=16, max_size=16)),
    st.tuples(st.just("text"), st.text("aé\0", max_size=70)),
    st.tuples(st.just("bytes"), st.binary(max_size=3)),
)
trees = st.recursive(
    primitives,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)


def encoded(tree: Tree) -> bytes:
    """The bytes of a value."""
    match tree:
        case None:
            return variant.NULL_VALUE
        case dict():
            return variant.write_object({name: encoded(one) for name, one in tree.items()}, IDS)
        case list():
            return variant.write_array([encoded(one) for one in tree])
        case "text", text:
            return variant.write_string(text.encode())
        case "bytes", octets:
            return variant.write_primitive(
                variant.BINARY, len(octets).to_bytes(4, "little") + octets
            )
        case "uuid", octets:
            return variant.write_primitive(variant.UUID_, octets)
    _, type_id, width = LEAVES[tree[0]]
    return variant.write_primitive(type_id, tree[1].to_bytes(width, "little", signed=True))


schemas = st.recursive(
    st.none() | st.sampled_from(sorted(LEAVES)),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=1)
        | st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3)
    ),
    max_leaves=5,
)
"""Shreddings: a kind of primitives, a list of one other, a dictionary of others, None for none."""


def group(schema: Any) -> pa.DataType:
    """The type of a group of a value and a typed value."""
    fields = [pa.field("value", pa.binary())]
    match schema:
        case str():
            fields.append(pa.field("typed_value", LEAVES[schema][0]))
        case [inner]:
            element = pa.field("element", group(inner), nullable=False)
            fields.append(pa.field("typed_value", pa.list_(element)))
        case dict():
            inside = [pa.field(name, group(one), nullable=False) for name, one in schema.items()]
            fields.append(pa.field("typed_value", pa.struct(inside)))
    return pa.struct(fields)


MISSING = object()


def shredded(tree: Tree, schema: Any) -> dict[str, Any]:
    """What a group has of a value; nothing of one that is missing."""
    match schema, tree:
        case _, one if one is MISSING:
            return {}
        case str(), (kind, value) if kind == schema:
            return {"typed_value": value}
        case [inner], list():
            return {"typed_value": [shredded(one, inner) for one in tree]}
        case dict(), dict():
            columns = {name: shredded(tree.get(name, MISSING), one) for name, one in schema.items()}
            others = {name: one for name, one in tree.items() if name not in schema}
            value = {"value": encoded(others)} if others else {}
            return {"typed_value": columns, **value}
    return {"value": encoded(tree)}


rows = st.lists(st.just(MISSING) | trees, min_size=1, max_size=4)


@given(st.lists(st.tuples(schemas, rows), min_size=1, max_size=3))
def test_values_are_the_same_whatever_their_shredding_was(files):
    whole = [pa.field("metadata", pa.binary(), nullable=False)]
    files_of = Group(COLUMNS)
    for number, (schema, values) in enumerate(files):
        kind = pa.struct([*whole, *group(schema)])
        column = pa.array(
            [None if one is MISSING else {"metadata": METADATA, **shredded(one, schema)}
             for one in values],
            without_extensions(kind),
        )  # fmt: skip
        arrays = [pa.array(range(len(values))), shredded_variants(retype_array(column, kind))]
        table = pa.Table.from_arrays(arrays, schema=pa.schema([ID, identified("v", kind, 2)]))
        files_of.files.append(files_of.store.add(f"f{number}", table))
    expected = [None if one is MISSING else encoded(one) for _, some in files for one in some]
    (made,) = files_of.run().files
    stored = pq.ParquetFile(files_of.store.open(made.location)).read()["v"].combine_chunks()
    if stored.type.num_fields == 2:
        found = stored.to_pylist()
        assert [one and one["value"] for one in found] == expected
        assert {one["metadata"] for one in found if one} <= {METADATA}
    else:
        parts = [
            pq.ParquetFile(files_of.store.open(file.location)).read()["v"].combine_chunks()
            for file in files_of.files
        ]
        assert stored.equals(pa.concat_arrays(parts))
