"""A file that holds a row for which a condition is true is never left out."""

import math
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from icectl.entries.conditions import (
    And,
    Column,
    Compare,
    Constant,
    IsNan,
    IsNull,
    Not,
    Or,
    StartsWith,
)
from icectl.entries.may_match import manifests_may_match, may_match
from icectl.entries.partition_key import encode_key
from icectl.entries.rows import Entries, planning
from icectl.entries.summary import field_summaries
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.partition import PartitionField, PartitionSpec, result_types
from icectl.format.schema import Schema
from icectl.format.single_value import encode
from icectl.format.transforms import apply, parse_transform
from icectl.format.types import DecimalType, FixedType, NestedField, PrimitiveType
from tests.builders.entry_rows import data, entries

HOUR = 3_600_000_000
TYPES: dict[str, Any] = {
    "i": PrimitiveType("int"), "l": PrimitiveType("long"), "f": PrimitiveType("float"),
    "d": PrimitiveType("double"), "b": PrimitiveType("boolean"), "s": PrimitiveType("string"),
    "y": PrimitiveType("binary"), "x": FixedType(2), "n": DecimalType(20, 2),
    "a": PrimitiveType("date"), "t": PrimitiveType("timestamp"),
}  # fmt: skip
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-9, 9),
    "l": st.integers(-9, 9) | st.sampled_from([-(2**63), 2**63 - 1]),
    "f": st.sampled_from([-1.5, -0.0, 0.0, 0.5, math.inf, -math.inf, math.nan]),
    "d": st.sampled_from([-1.5, -0.0, 0.0, 0.5, math.inf, -math.inf, math.nan]),
    "b": st.booleans(),
    "s": st.text("aeé\U0001f600", max_size=4),
    "y": st.binary(max_size=3),
    "x": st.binary(min_size=2, max_size=2),
    "n": st.integers(-(10**20) + 1, 10**20 - 1).map(lambda unscaled: Decimal(unscaled).scaleb(-2))
    | st.integers(-300, 300).map(lambda unscaled: Decimal(unscaled).scaleb(-2)),
    "a": st.integers(-800, 800),
    "t": st.integers(-9000 * HOUR, 9000 * HOUR),
}
COLUMNS = {name: Column(name, type_, at) for at, (name, type_) in enumerate(TYPES.items(), 1)}
SCHEMA = Schema(
    0,
    tuple(
        NestedField(column.field_id or 0, name, column.type, required=False)
        for name, column in COLUMNS.items()
    ),
)
TRANSFORMS = {
    "i": ["identity", "bucket[3]", "truncate[4]"],
    "l": ["identity", "bucket[3]", "truncate[4]"],
    "f": ["identity"],
    "d": ["identity"],
    "b": ["identity"],
    "s": ["identity", "bucket[3]", "truncate[1]", "truncate[2]"],
    "y": ["identity", "bucket[3]", "truncate[1]"],
    "x": ["identity", "bucket[3]"],
    "n": ["identity", "bucket[3]", "truncate[70]"],
    "a": ["identity", "bucket[3]", "year", "month", "day"],
    "t": ["identity", "bucket[3]", "year", "month", "day", "hour"],
}  # fmt: skip

names = st.sampled_from(sorted(TYPES))
leaves = names.flatmap(
    lambda name: st.one_of(
        st.builds(
            Compare, st.just(COLUMNS[name]), st.sampled_from(["<", "<=", "="]),
            VALUES[name].filter(lambda value: value == value),  # no literal is NaN
        ),
        st.builds(IsNull, st.just(COLUMNS[name])),
        *([st.builds(IsNan, st.just(COLUMNS[name]))] if name in "fd" else []),
        *([st.builds(StartsWith, st.just(COLUMNS[name]), VALUES[name])] if name == "s" else []),
    )
)  # fmt: skip
predicates = st.recursive(
    leaves | st.builds(Constant, st.booleans()),
    lambda part: st.one_of(
        st.builds(Not, part),
        st.builds(And, st.lists(part, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(part, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)
fields = names.flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(TRANSFORMS[name])))
rows = st.fixed_dictionaries({name: VALUES[name] | st.none() for name in TYPES})
KNOWN = st.sets(st.sampled_from(["nulls", "nans", "lower", "upper"]), min_size=2)


def holds(predicate: Any, row: dict[str, Any]) -> bool | None:
    """Three-valued truth of one row, as the module says it."""
    match predicate:
        case Constant(value):
            return value
        case Not(part):
            found = holds(part, row)
            return None if found is None else not found
        case And(parts):
            all_of = [holds(part, row) for part in parts]
            return False if False in all_of else None if None in all_of else True
        case Or(parts):
            any_of = [holds(part, row) for part in parts]
            return True if True in any_of else None if None in any_of else False
    value = row[predicate.column.name]
    is_nan = isinstance(value, float) and math.isnan(value)
    match predicate:
        case IsNull():
            return value is None
        case IsNan():
            return is_nan
        case StartsWith(_, prefix):
            return None if value is None else value.startswith(prefix)
        case Compare(_, operator, wanted):
            if value is None or is_nan:
                return None if value is None else False
            return {"<": value < wanted, "<=": value <= wanted, "=": value == wanted}[operator]
    raise ValueError(predicate)


def metrics(file: list[dict[str, Any]], known: set[str]) -> dict[str, Any]:
    """Metrics of a file, text and bytes cut to one character as bounds may be."""
    maps: dict[str, list[tuple[int, Any]]] = {
        "null_value_counts": [], "nan_value_counts": [], "lower_bounds": [], "upper_bounds": [],
    }  # fmt: skip
    for name, type_ in TYPES.items():
        id_ = COLUMNS[name].field_id or 0
        present = [row[name] for row in file if row[name] is not None]
        nans = [value for value in present if value != value]
        others = [value for value in present if value == value]
        if "nulls" in known:
            maps["null_value_counts"].append((id_, len(file) - len(present)))
        if "nans" in known and name in "fd":
            maps["nan_value_counts"].append((id_, len(nans)))
        if others and "lower" in known:
            lowest = min(others)
            maps["lower_bounds"].append(
                (id_, encode(type_, lowest[:1] if name in "sy" else lowest))
            )
        if others and "upper" in known:
            maps["upper_bounds"].append((id_, encode(type_, max(others))))
    return maps


def partition_of(row: dict[str, Any], spec: PartitionSpec, chosen: list[tuple[str, str]]) -> bytes:
    values = [
        apply(item.transform, TYPES[name], row[name])
        for item, (name, _) in zip(spec.fields, chosen, strict=True)
    ]
    return encode_key(result_types(spec, [SCHEMA]), values)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_file_with_a_matching_row_is_left_out(draw):
    chosen = draw.draw(st.lists(fields, max_size=2), "partition fields")
    spec = PartitionSpec(
        0,
        tuple(
            PartitionField(
                (COLUMNS[name].field_id or 0,), 1000 + at, f"p{at}", parse_transform(text)
            )
            for at, (name, text) in enumerate(chosen)
        ),
    )
    files: dict[bytes, list[dict[str, Any]]] = {}
    for row in draw.draw(st.lists(rows, min_size=1, max_size=8), "rows"):
        files.setdefault(partition_of(row, spec, chosen), []).append(row)
    found = entries(
        *(
            data(f"f{at}", partition_key=key, record_count=len(file))
            | metrics(file, draw.draw(KNOWN, "known"))
            for at, (key, file) in enumerate(files.items())
        )
    )
    predicate = draw.draw(predicates, "condition")
    chosen_files = may_match(found, predicate, [spec], [SCHEMA])
    for file, kept in zip(files.values(), chosen_files, strict=True):
        if any(holds(predicate, row) for row in file):
            assert kept
    partitions = planning(found)
    manifests = [listed(found, spec), *(listed(one(found, at), spec) for at in range(len(files)))]
    together, *each = manifests_may_match(manifests, predicate, [spec], [SCHEMA]).tolist()
    assert together or not any(holds(predicate, row) for file in files.values() for row in file)
    assert each == may_match(partitions, predicate, [spec], [SCHEMA]).tolist()


def one(found: Entries, at: int) -> Entries:
    return Entries(found.table.slice(at, 1))


def listed(found: Entries, spec: PartitionSpec) -> ManifestFile:
    """A manifest of some files as a list describes it."""
    summaries = field_summaries(found, result_types(spec, [SCHEMA]))
    return ManifestFile("m", 1, 0, ManifestContent.DATA, 1, 1, 1, partitions=summaries)


@given(leaves, rows, st.booleans())
def test_one_row_with_all_metrics_is_decided_exactly(leaf, row, negated):
    """Where bounds are the value itself, nothing is left open but the order of uuids."""
    predicate = Not(leaf) if negated else leaf
    name = leaf.column.name
    if name in "sy" and not isinstance(leaf, IsNull):
        value = row[name]
        row = row | {name: None if value is None else value[:1]}
    found = entries(data("f", record_count=1) | metrics([row], {"nulls", "nans", "lower", "upper"}))
    assert may_match(found, predicate, [], [SCHEMA]).tolist() == [holds(predicate, row) is True]
