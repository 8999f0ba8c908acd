"""Tables by other writers, rewritten as a whole: the rows are those that independent readers saw.

The checksums were made with readers of their own before this code was written.
"""

import hashlib
import io
import json
import math
from functools import lru_cache
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icectl.errors import CorruptTable, IcectlError, Refused, Unsupported
from icectl.format.metrics_modes import metrics_modes
from icectl.format.schema import Schema
from icectl.format.types import DecimalType, ListType, MapType, PrimitiveType, StructType, Type
from icectl.rows.rewrite_data import RewrittenGroup, rewrite_data
from icectl.rows.write_data import FileOutputs, write_options
from tests.builders.data_files import MemoryFiles
from tests.builders.file_groups import whole_table
from tests.builders.foreign_table import open_foreign

FIXTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures"


UNNAMED = "has no field ids, and the table has no name mapping for its columns"
REFUSED: dict[str, tuple[type[IcectlError], str]] = {
    "dremio/internal_metadata_inconsistent_partitions": (Unsupported, UNNAMED),
    "impala/airports_orc": (Unsupported, UNNAMED),
    "impala/iceberg_migrated_complex_test": (Unsupported, "the Parquet file can't be read"),
    "impala/iceberg_v2_delete_different_equality_ids": (CorruptTable, "lacks the column `i`"),
    "trino/invalid_compression_codec_none_parquet": (Refused, "compression-codec` is `NONE`"),
}
RESOLVED = "rows_after_deletes_if_paths_are_resolved_first"


def rewrite(fixtures_dir: Path, name: str) -> tuple[Schema, RewrittenGroup, MemoryFiles]:
    store, metadata = open_foreign(fixtures_dir, name)
    files = MemoryFiles()

    def opened(location: str) -> IO[bytes]:
        return files.open(location) if location in files.content else store.open(location)

    group = whole_table(store, metadata)
    modes = metrics_modes(metadata.properties, metadata.current_schema, ())
    options = write_options(metadata.properties, 2**40, modes)
    outputs = FileOutputs(files.next_location, files.create, opened)
    return metadata.current_schema, rewrite_data(group, options, outputs), files


def value(type_: Type, found: Any) -> Any:
    """A value as the checksums have it."""
    match type_:
        case _ if found is None:
            return None
        case StructType(fields):
            return {item.name: value(item.type, found[item.name]) for item in fields}
        case ListType():
            return [value(type_.element, item) for item in found]
        case MapType():
            pairs = [[value(type_.key, key), value(type_.value, item)] for key, item in found]
            return sorted(pairs, key=lambda pair: json.dumps(pair[0]))
        case DecimalType():
            return str(found)
        case PrimitiveType("float" | "double") if not math.isfinite(found):
            return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
        case _ if isinstance(found, bytes):
            return found.hex()
        case _ if isinstance(found, UUID):
            return found.hex
        case _:
            return found


COUNTED = {
    "date": pa.int32(), "time": pa.int64(), "timestamp": pa.int64(), "timestamptz": pa.int64(),
    "timestamp_ns": pa.int64(), "timestamptz_ns": pa.int64(),
}  # fmt: skip


def plain(column: pa.Array) -> pa.Array:
    """Dates and times as counts, at any depth."""
    kind = column.type
    if pa.types.is_struct(kind):
        children = [plain(column.field(place)) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(
            children, [one.name for one in kind], mask=column.is_null()
        )
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(column.offsets, plain(column.values), mask=column.is_null())
    if pa.types.is_map(kind):
        parts = plain(column.keys), plain(column.items)
        kind = pa.map_(parts[0].type, parts[1].type)
        return pa.MapArray.from_arrays(column.offsets, *parts, kind, mask=column.is_null())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_temporal(kind) else column


def checksum(schema: Schema, locations: list[str], contents: dict[str, bytes]) -> str:
    """The checksum over the rows of files, whatever their order."""
    lines = []
    for location in locations:
        for batch in pq.ParquetFile(io.BytesIO(contents[location])).iter_batches():
            columns = [plain(batch[item.name]).to_pylist() for item in schema.fields]
            for row in zip(*columns, strict=True):
                named = {
                    item.name: value(item.type, cell)
                    for item, cell in zip(schema.fields, row, strict=True)
                }
                lines.append(json.dumps(named, sort_keys=True, separators=(",", ":")))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


@lru_cache(maxsize=1)
def tables() -> dict[str, Any]:
    if not (FIXTURES / "expected.json").exists():
        return {}
    found: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text())["tables"]
    return found


def current(name: str) -> dict[str, Any]:
    """What is known of the current snapshot of a table."""
    facts = tables()[name]
    found = [
        one for one in facts["snapshots"] if one["snapshot_id"] == facts["current_snapshot_id"]
    ]
    return found[0]


VARIANT = "impala/trino_nested_variant"


def names(*, is_disputed: bool) -> list[str]:
    """Tables whose files are all there; of disputed ones readers see different rows."""
    full = [name for name, facts in tables().items() if facts["completeness"] == "full"]
    return [name for name in full if (RESOLVED in current(name)) is is_disputed]


def marked(name: str) -> Any:
    """A table of 51,793 rows takes seconds to hash in Python, and there are four alike."""
    return pytest.param(name, marks=pytest.mark.full if "lineitem" in name else ())


@pytest.mark.parametrize("name", [marked(name) for name in names(is_disputed=False)])
def test_the_rows_of_a_table_are_those_that_independent_readers_saw(name, fixtures_dir):
    if name in REFUSED:
        error, message = REFUSED[name]
        with pytest.raises(error) as raised:
            rewrite(fixtures_dir, name)
        assert message in raised.value.message
        return
    schema, found, files = rewrite(fixtures_dir, name)
    assert found.totals.row_count == current(name)["rows_after_deletes"]
    if name == VARIANT:  # the facts have no form for its values
        return
    locations = [file.location for file in found.files]
    assert checksum(schema, locations, files.content) == current(name)["rows_sha256"]


@pytest.mark.parametrize("name", names(is_disputed=True))
def test_rows_that_readers_disagree_on_are_counted_and_not_rewritten(name, fixtures_dir):
    count = current(name)["rows_after_deletes"] - current(name)[RESOLVED]
    with pytest.raises(Unsupported, match=f"readers disagree on {count} rows"):
        rewrite(fixtures_dir, name)


def test_the_tables_of_other_writers_are_all_there(fixtures_dir):
    assert len(names(is_disputed=False)) + len(names(is_disputed=True)) == 89
    assert REFUSED.keys() <= set(names(is_disputed=False))
