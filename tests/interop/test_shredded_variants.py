"""Shredded variants of apache/parquet-testing, which Iceberg's Java wrote: the same to the byte.

The cases are those of `shredded_variant` there (Apache License 2.0), with `cases.json`, below
`parquet-testing` of the fixtures; they are not part of this repository.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files.parquet.shredding import whole_variants

BROKEN = {
    40: (CorruptTable, "it has a value and a typed value, and is not an object"),
    42: (CorruptTable, "it has a value and a typed value, and is not an object"),
    43: (CorruptTable, "its field `b` is in a column and in its value"),
    87: (CorruptTable, "it has a value and a typed value, and is not an object"),
    125: (CorruptTable, "its field `b` is in a column and in its value"),
    127: (Unsupported, "a column of type uint32"),
    128: (CorruptTable, "it has a value and a typed value, and is not an object"),
    137: (Unsupported, r"a column of type fixed_size_binary\[4\]"),
}
"""Cases that are an error there, and two that every reader may refuse or read."""


@pytest.fixture(scope="module")
def folder(fixtures_dir: Path) -> Path:
    found = fixtures_dir / "parquet-testing" / "shredded_variant"
    if not found.exists():
        pytest.skip(f"no shredded variants of apache/parquet-testing at {found}")
    return found


@pytest.fixture(scope="module")
def cases(folder: Path) -> dict[int, dict[str, Any]]:
    found = json.loads((folder / "cases.json").read_text())
    return {one["case_number"]: one for one in found if "parquet_file" in one}


def column(folder: Path, case: dict[str, Any]) -> pa.Array:
    """Return the variants of a case as they are stored."""
    return pq.read_table(folder / case["parquet_file"])["var"].combine_chunks()


def test_values_are_put_together_to_the_bytes_of_the_reference_implementation(folder, cases):
    compared = 0
    for case in (one for number, one in cases.items() if number not in BROKEN):
        names = case.get("variant_files") or [case["variant_file"]]
        expected = [name and (folder / name).read_bytes() for name in names]
        found = whole_variants(column(folder, case)).to_pylist()
        assert [one and one["metadata"] + one["value"] for one in found] == expected, case
        compared += len(expected)
    assert (len(cases), compared) == (137, 136)


@pytest.mark.parametrize("number", BROKEN)
def test_what_contradicts_the_specification_is_refused(folder, cases, number):
    error, message = BROKEN[number]
    with pytest.raises(error, match=message):
        whole_variants(column(folder, cases[number]))
