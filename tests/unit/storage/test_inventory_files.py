"""The part of an inventory below a location, in the spelling of that location."""

from pathlib import Path

import pytest

from icectl.errors import UsageError
from icectl.storage.identity import SameStore
from icectl.storage.inventory import InventoryFiles
from icectl.storage.local.store import LocalStore

LOCATIONS = [
    "s3://b/wh/t/data/a", "s3://b/wh/t2/data/b", "s3://b/wh/t", "s3a://b/wh/t/data/c",
    "s3://c/wh/t/data/d", "hdfs://nn/wh/t/e", "s3://b/wh/t/f",
]  # fmt: skip


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    path = tmp_path / "files.csv"
    lines = [f"{place},{number},2025-06-09T15:06:40Z" for number, place in enumerate(LOCATIONS)]
    path.write_text("\n".join(["location,size,last_modified", *lines]) + "\n")
    return str(path)


def found(inventory: str, location: str, same_store: SameStore) -> list[tuple[str, int]]:
    files = InventoryFiles(LocalStore(), inventory, same_store)
    rows = [row for batch in files.below(location) for row in batch.to_pylist()]
    assert {row["modified_ms"] for row in rows} == {1_749_481_600_000}
    return sorted((row["location"], row["size_bytes"]) for row in rows)


@pytest.mark.parametrize("location", ["s3://b/wh/t", "s3a://b/wh/t/"])
def test_files_below_a_location_are_spelled_as_it_is(inventory: str, location: str):
    base = location.rstrip("/")
    assert found(inventory, location, SameStore()) == [
        (f"{base}/data/a", 0),
        (f"{base}/data/c", 3),
        (f"{base}/f", 6),
    ]


def test_stores_that_are_vouched_for_count(inventory: str):
    vouched = SameStore({"hdfs": "s3"}, {"nn": "b", "c": "b"})
    names = ["data/a", "data/c", "data/d", "e", "f"]
    assert found(inventory, "s3://b/wh/t", vouched) == [
        (f"s3://b/wh/t/{name}", size) for name, size in zip(names, (0, 3, 4, 5, 6), strict=True)
    ]


def test_an_inventory_of_elsewhere_is_wrong_usage(inventory: str):
    with pytest.raises(UsageError, match="names no file below s3://x/wh/t"):
        found(inventory, "s3://x/wh/t", SameStore())
