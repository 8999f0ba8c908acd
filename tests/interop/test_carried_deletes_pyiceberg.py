"""Deletes that come while data files are rewritten or merged: PyIceberg reads what is left."""

import random
from collections.abc import Callable

import pytest
from pyiceberg.table import StaticTable

from tests.builders.expiry import NOW_MS
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder
from tests.cli.conftest import prepared
from tests.stores.fixed_env import FixedEnv

__all__ = ["prepared"]


class Racing(FixedEnv):
    """Another writer comes between the rewrite and the first try of its commit."""

    def __init__(self, race: Callable[[], None]) -> None:
        super().__init__(NOW_MS)
        self.races = [race]

    def new_snapshot_id(self) -> int:
        if self.races:
            self.races.pop()()
        return super().new_snapshot_id()


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (0, 2))]
)
@pytest.mark.parametrize("method", ["rewrite", "merge"])
@pytest.mark.parametrize("partitioning", ["none", "two"])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_were_deleted_meanwhile_stay_deleted(
    tmp_path, prepared, version, partitioning, method, seed
):
    chosen = random.Random(seed)
    table = TableBuilder(tmp_path / "t", format_version=version, partitioning=partitioning)
    for start in range(0, 60, 12):
        table.append(range(start, start + 12), files=2)
    if seed and method == "rewrite":  # or it leaves files alone
        table.delete_rows(chosen.sample(range(60), 5))

    def race() -> None:
        table.delete_rows(chosen.sample(sorted(table.ids()), chosen.randint(1, 15)))
        table.delete_rows(chosen.sample(sorted(table.ids()), 2))

    env = Racing(race)
    words = ("--engine", "local", "--rewrite-all", "--method", method, "--json")
    ended = prepared("compact", env)(table.location, *words)
    assert env.races == []
    assert ended.code == 0, ended.err
    read = StaticTable.from_metadata(str(current_metadata(tmp_path / "t"))).scan().to_arrow()
    assert sorted(read["id"].to_pylist()) == sorted(table.ids())
    if method == "rewrite":
        assert ended.document["result"]["carried_deletes"] > 0
    checked = prepared("validate", env)(table.location, "--level", "data")
    assert checked.code == 0, checked.out
