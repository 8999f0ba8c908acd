"""The local search for orphans: listed once and first, compared later."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from icectl.env import Deadline
from icectl.errors import Incomplete
from icectl.progress import SilentProgress
from icectl.rows.orphan_search import LocalOrphanSearch
from icectl.storage.listing import LISTING_SCHEMA
from icectl.table.known_locations import KnownLocations
from icectl.table.orphan_verdicts import OrphanRule
from tests.stores.fixed_env import FixedEnv

NAMES = {
    "/wh/t/data": [["a.parquet", "b.parquet"], ["c.parquet"]],
    "/wh/t/metadata": [["v1.metadata.json"]],
}


def files_below(location: str) -> Iterator[pa.RecordBatch]:
    for names in NAMES[location]:
        columns = [
            pa.array([f"{location}/{name}" for name in names], pa.string()),
            pa.array([10] * len(names), pa.int64()),
            pa.array([5] * len(names), pa.int64()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)


def test_files_are_listed_before_they_are_compared():
    search = LocalOrphanSearch(files_below, SilentProgress(), Deadline(FixedEnv()))
    known = KnownLocations()
    with search.list(list(NAMES)) as listing:
        assert (listing.file_count, listing.total_bytes) == (4, 40)
        assert list(listing.metadata_files) == ["/wh/t/metadata/v1.metadata.json"]
        known.add(pa.array(["file:///wh/t/data/b.parquet", "/wh/t/metadata/v1.metadata.json"]))
        for _ in range(2):
            batches = list(listing.unreached(known, OrphanRule(6, ("/wh/t",))))
            assert [batch["location"].to_pylist() for batch in batches] == [
                ["/wh/t/data/a.parquet"], ["/wh/t/data/c.parquet"], [],
            ]  # fmt: skip


def test_a_listing_ends_at_the_time_limit():
    env = FixedEnv()
    search = LocalOrphanSearch(
        files_below, SilentProgress(), Deadline(env, env.monotonic_seconds())
    )
    with pytest.raises(Incomplete), search.list(list(NAMES)):
        pass
