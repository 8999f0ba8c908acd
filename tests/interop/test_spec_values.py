"""Schemas, specs and orders as other writers store them survive reading and writing."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icectl.format.file_names import parse_metadata_file_name
from icectl.format.partition import spec_from_json, spec_json
from icectl.format.schema import schema_from_json, schema_json
from icectl.format.sort import order_from_json, order_json

DEFAULTS = {"identifier-field-ids": []}
"""Members that icectl leaves out because absence means the same."""


@pytest.fixture(scope="module")
def metadata_of_other_writers(fixtures_dir: Path) -> list[dict[str, Any]]:
    return list(_metadata(fixtures_dir))


def _metadata(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.metadata.json*")):
        if path.suffix == ".crc":
            continue
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        try:
            yield json.loads(content)
        except ValueError:  # some examples are damaged on purpose
            continue


def plain(value: Any) -> Any:
    """JSON without nulls, without defaults, and without the spaces of decimal types."""
    if isinstance(value, dict):
        members = {key: plain(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in members.items() if DEFAULTS.get(key) != item}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str) and value.startswith("decimal("):
        return value.replace(" ", "")
    return value


def test_every_schema_survives(metadata_of_other_writers):
    schemas = [item for table in metadata_of_other_writers for item in table.get("schemas", [])]
    assert len(schemas) >= 300
    for schema in schemas:
        assert plain(schema_json(schema_from_json(schema))) == plain(schema)


def test_every_spec_survives(metadata_of_other_writers):
    specs = [
        item for table in metadata_of_other_writers for item in table.get("partition-specs", [])
    ]
    assert len(specs) >= 300
    for spec in specs:
        assert spec_json(spec_from_json(spec)) == spec


def test_every_sort_order_survives(metadata_of_other_writers):
    orders = [item for table in metadata_of_other_writers for item in table.get("sort-orders", [])]
    assert len(orders) >= 300
    for order in orders:
        assert order_json(order_from_json(order)) == order


def test_every_metadata_file_of_a_table_has_a_known_name(fixtures_dir):
    index = json.loads((fixtures_dir / "expected.json").read_text())["tables"]
    names = [Path(table["metadata_file"]).name for table in index.values()]
    assert len(names) >= 100
    assert [name for name in names if parse_metadata_file_name(name) is None] == []
