"""Tables of docs/sfc-1.md say what the code writes and reads."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.commands.upgrade_to_v4.plan import RULES
from icectl.files.deletion_vectors import read_bitmap, read_dv, write_bitmap, write_dv
from icectl.files.parquet.schema import FIELD_ID, child_fields, no_rows
from icectl.format import properties
from icectl.format.manifest import Content
from icectl.format.types import PrimitiveType
from icectl.sfc1.content_stats import StatsColumn, stats_type
from icectl.sfc1.manifest_file import STATS, TREE_ROWS, TreeContent, write_tree

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sfc-1.md").read_text("utf-8")
PROPERTIES = {
    value.name: value.default
    for value in vars(properties).values()
    if isinstance(value, properties.TableProperty)
}


def rows_of(section: str) -> list[list[str]]:
    """The cells of the tables of a section, without heads."""
    text = re.split(rf"^##+ {re.escape(section)} ", PAGE, flags=re.MULTILINE)[1]
    text = re.split(r"^##", text, flags=re.MULTILINE)[0]
    lines = text.splitlines()
    heads = {at for at, line in enumerate(lines) if line.startswith("| ---")}
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for at, line in enumerate(lines)
        if line.startswith("|") and at not in heads and at + 1 not in heads
    ]


def field_ids(schema: pa.Schema, prefix: str = "") -> dict[str, int]:
    """The ids of columns and members that are no statistics, by their path."""
    found = {}
    for field in schema:
        name = f"{prefix}{field.name}"
        found[name] = int(field.metadata[FIELD_ID])
        if field.name != STATS:
            inner = [one for one in child_fields(field.type) if FIELD_ID in (one.metadata or {})]
            found |= field_ids(inner, f"{name}.")
    return found


def test_the_field_ids_are_those_of_a_manifest_that_is_written():
    column = StatsColumn(1, PrimitiveType("int"))
    schema = TREE_ROWS.append(pa.field(STATS, stats_type([column])))
    content = write_tree(no_rows(schema), TreeContent.ROOT)
    stored = field_ids(pq.read_schema(pa.BufferReader(content)))
    named: dict[str, int] = {}
    for ids, names, *_ in rows_of("3.1"):
        numbers = [int(number) for number in re.findall(r"\d+", ids)]
        told = re.findall(r"`([^`]+)`", names)
        if "element" in ids:
            told += [f"{told[0]}.element"]
        named |= zip(told, numbers, strict=True)
    counts = {name for name in named if name.endswith("_count") and name != "record_count"}
    inside = {*counts, "min_sequence_number"}
    named = {f"manifest_stats.{key}" if key in inside else key: n for key, n in named.items()}
    assert named == stored


def test_the_members_of_statistics_have_the_ids_that_are_written():
    groups = stats_type([StatsColumn(3, PrimitiveType(name)) for name in ("string", "double")])
    stored = {
        one.name: int(one.metadata[FIELD_ID]) - 10_600
        for group in groups
        for one in child_fields(group.type)
    }
    told = {name.strip("`"): int(id_.removeprefix("B + ")) for id_, name, *_ in rows_of("5.1")}
    assert told == stored


def test_the_codes_of_contents_are_those_of_the_code():
    assert {name: int(code) for code, name, *_ in rows_of("1.1")} == {
        one.name: int(one) for one in Content
    }


def test_every_table_property_is_read_with_this_default():
    told = {name.strip("`"): default for name, default, _ in rows_of("1.7")}
    assert told.keys() <= PROPERTIES.keys()
    assert {name for name in PROPERTIES if name.startswith("icectl.v4.")} <= told.keys()
    defaults = {name: str(PROPERTIES[name]).lower() for name in told}
    assert told | {"write.metadata.path": "none"} == defaults


def test_the_conditions_of_an_upgrade_are_those_that_are_checked():
    assert [id_ for id_, *_ in rows_of("11.3")] == list(RULES)


@pytest.mark.parametrize(("told", "stored"), rows_of("6.4"))
def test_bytes_of_bitmaps_decode_to_these_positions(told, stored):
    first, *others = [int(number) for number in re.findall(r"\d+", told)]
    positions = list(range(first, others[-1] + 1)) if " to " in told else [first, *others]
    inner = {"{1}": "3a300000 01000000 00000000 10000000 0100"}
    text = re.sub(r", inline (\{\d\}), ", lambda found: inner[found[1]], stored)
    content = bytes.fromhex(re.sub("[` ]", "", text))
    is_blob = content[4:8].hex() == "d1d33964"
    assert (read_dv if is_blob else read_bitmap)(content).tolist() == positions
    write = write_dv if is_blob else write_bitmap
    assert write(np.array(positions, np.uint64)) == content
