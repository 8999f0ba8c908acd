"""The order of entries in new leaves, in memory and through a disk."""

from math import inf, nan

import pyarrow as pa
import pytest

from icectl.format.manifest import Content, FileFormat, Status
from icectl.format.metadata_json import parse_metadata
from icectl.sfc1.commit import clustering
from icectl.sfc1.commit.clustering import ClusteredRows
from icectl.sfc1.manifests import TreeSchema
from tests.builders.scenarios import METADATA

COLUMNS = [("name", "string"), ("real", "double"), ("size", "int"), ("at", "timestamp")]


def facts_of(sources: list[int], sort_fields: list[dict[str, object]]) -> TreeSchema:
    """Of a table with COLUMNS 1 to 4, and with spec 1 by identity of some of them."""
    fields = [
        {"id": at, "name": name, "required": False, "type": kind}
        for at, (name, kind) in enumerate(COLUMNS, 1)
    ]
    expressions = [
        {
            "expr-id": 100 + at,
            "expr": {
                "source-id": at,
                "transform": "identity",
                "name": f"part_{COLUMNS[at - 1][0]}",
            },
            "partition-field-id": 1000 + at,
        }
        for at in sources
    ]
    by_column = {"spec-id": 1, "fields": [{"expr-id": 100 + at} for at in sources]}
    metadata = METADATA | {
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "last-column-id": 200,
        "expressions": expressions,
        "partition-specs": [{"spec-id": 0, "fields": []}, by_column],
        "sort-orders": [{"order-id": 1, "fields": sort_fields}],
        "default-sort-order-id": 1 if sort_fields else 0,
        "last-partition-id": 2000,
    }
    if not sort_fields:
        metadata["sort-orders"] = [{"order-id": 0, "fields": []}]
    return TreeSchema(parse_metadata(metadata))


def value_of(value: object) -> dict[str, object] | None:
    """The statistics of a column that has this value alone; nothing is told of an ellipsis."""
    if value is ...:
        return None
    if value is None:
        return {"value_count": 1, "null_count": 1}
    if value != value:
        return {"value_count": 1, "null_count": 0, "nan_count": 1}
    return {"lower_bound": value, "upper_bound": value, "tight_bounds": True, "value_count": 1}


def row(location: str, spec_id: int, **stats: object) -> dict[str, object]:
    ids = {column: at for at, (column, _) in enumerate(COLUMNS, 1)}
    return {
        "content": Content.DATA,
        "location": location,
        "file_format": FileFormat.PARQUET,
        "status": Status.EXISTING,
        "spec_id": spec_id,
        "record_count": 1,
        "content_stats": {
            f"s{ids[column]}": of if isinstance(of, dict) else value_of(of)
            for column, of in stats.items()
        },
    }


def names(facts: TreeSchema, rows: list[dict[str, object]], *sort_by: str) -> str:
    """The names of rows that come in two tables, in the order of leaves."""
    with ClusteredRows(facts, sort_by) as ordered:
        for part in (rows[:4], rows[4:]):
            ordered.add(pa.Table.from_pylist(part, facts.rows_schema))
        assert ordered.count == len(rows)
        return "".join(pa.concat_tables(ordered.tables())["location"].to_pylist())


@pytest.fixture(params=[clustering._SORTED_BYTES, 1])
def anywhere(request, monkeypatch):
    """In memory, and with each table of rows as a run on disk."""
    monkeypatch.setattr(clustering, "_SORTED_BYTES", request.param)


@pytest.mark.usefixtures("anywhere")
def test_partitions_ascend_with_nulls_first_and_nan_and_unknown_ones_last():
    values = {"a": inf, "b": nan, "c": -0.0, "d": None, "e": 0.0, "f": ..., "g": -inf, "h": None}
    rows = [row(name, 1, real=value) for name, value in values.items()]
    assert names(facts_of([2], []), rows) == "dhgceabf"


@pytest.mark.usefixtures("anywhere")
def test_rows_come_by_spec_then_by_all_fields_or_by_the_chosen_ones():
    rows = [
        row("a", 1, name="x", size=3),
        row("b", 1, name="xy", size=1),
        row("c", 0, name="z"),
        row("d", 1, name="x", size=-1),
        row("e", 1, name="", size=2),
        row("f", 0, name="a"),
    ]
    facts = facts_of([1, 3], [])
    assert names(facts, rows) == "cfedab"
    assert names(facts, rows, "part_size") == "cfdbea"
    assert names(facts, rows, "part_size", "part_name") == "cfdbea"
    assert names(facts, rows, "of another spec") == "cfabde"


@pytest.mark.usefixtures("anywhere")
def test_bounds_order_the_files_of_a_partition_and_lacking_ones_come_last():
    field = {"source-id": 3, "transform": "identity", "null-order": "nulls-first"}
    rows = [
        row("a", 0, size={"lower_bound": 5, "upper_bound": 6}),
        row("b", 0, size=...),
        row("c", 0, size={"lower_bound": -7, "upper_bound": 9}),
        row("d", 0, size={"lower_bound": 5, "upper_bound": 8}),
        row("e", 0, size={"lower_bound": 1, "upper_bound": 1}),
    ]
    assert names(facts_of([1], [field | {"direction": "asc"}]), rows) == "ceadb"
    assert names(facts_of([1], [field | {"direction": "desc"}]), rows) == "cdaeb"
