"""A second compaction finds nothing to do, where the first one gained whatever came of it."""

from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app
from icectl.rows.sort_rows import Curve
from icectl.table.output_sizes import Sizes
from icectl.table.retention import AskedRetention
from tests.builders.compactions import compacted, planned
from tests.builders.expiry import NOW_MS, expire
from tests.builders.rows import current_metadata, ids_of, read_metadata
from tests.builders.table_builder import TableBuilder
from tests.builders.tree_table import upgrade
from tests.stores.fixed_env import FixedEnv

LEFT_AS_MADE = "already compacted to this size"


def sizes(directory: Path) -> list[int]:
    return planned(directory).files.data.table["file_size_in_bytes"].to_pylist()


def of_older_spec(directory: Path) -> dict[str, Any]:
    """Files whose rows come to partitions of four small files each, which are too few alone."""
    table = TableBuilder(directory)
    table.append(range(300), files=6)
    table.respec("identity")
    for start in range(300, 312, 3):
        table.append(range(start, start + 3))
    return {"min_input_files": 5}


def packed_better(directory: Path) -> dict[str, Any]:
    """Files that are mostly footers, so that many come to a third of what is expected of them."""
    table = TableBuilder(directory, format_version=3)
    for start in range(0, 600, 60):
        table.append(range(start, start + 60), files=6)
    return {"sizes": Sizes(20_000, 15_000, 36_000)}


def packed_better_in_version_4(directory: Path) -> dict[str, Any]:
    options = packed_better(directory)
    upgrade(directory, FixedEnv(NOW_MS, snapshot_ids=50, uuids=50))
    return options


def of_tiny_target(directory: Path) -> dict[str, Any]:
    """Files of which each is larger than the target, whatever is in it."""
    TableBuilder(directory).append(range(60), files=6)
    return {"sizes": Sizes(500, 375, 900)}


def of_older_spec_in_order(directory: Path) -> dict[str, Any]:
    return {**of_older_spec(directory), "order": Curve((1, 2))}


TABLES = [
    of_older_spec,
    packed_better,
    packed_better_in_version_4,
    of_tiny_target,
    of_older_spec_in_order,
]


@pytest.mark.parametrize("made", TABLES)
def test_a_second_run_has_nothing_to_do(tmp_path, made):
    options = made(tmp_path)
    before = ids_of(tmp_path)
    first = planned(tmp_path, **options)
    assert first.plan.groups
    compacted(tmp_path, first)
    second = planned(tmp_path, **options).plan
    assert (second.groups, second.dangling) == ((), ())
    assert LEFT_AS_MADE in second.left_alone
    assert ids_of(tmp_path) == before


@pytest.mark.parametrize("made", [of_tiny_target, packed_better_in_version_4])
def test_nothing_is_to_do_once_the_snapshot_of_the_first_run_has_expired(tmp_path, made):
    options = made(tmp_path)
    first = compacted(tmp_path, planned(tmp_path, **options))
    env = FixedEnv(NOW_MS, snapshot_ids=99, uuids=99)
    anew = ["rewrite-manifests", str(tmp_path), "--min-manifests", "1"]
    assert app.main([*anew, "--yes", "--quiet"], env=env) == 0
    expire(str(tmp_path), policy=AskedRetention(older_than_ms=NOW_MS + 10**9, retain_last=1))
    left = {one["snapshot-id"] for one in read_metadata(current_metadata(tmp_path))["snapshots"]}
    assert left.isdisjoint(first.snapshot_ids)
    assert planned(tmp_path, **options).plan.groups == ()


def test_the_first_run_gains_where_files_pack_better_than_expected(tmp_path):
    options = packed_better(tmp_path)
    before = sizes(tmp_path)
    compacted(tmp_path, planned(tmp_path, **options))
    after = sizes(tmp_path)
    assert (len(before), max(after) < options["sizes"].smallest) == (60, True)
    assert len(after) <= 20
