"""Health says exactly what commands would do, and doing what it says makes it green."""

from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.env import Env
from tests.builders.table_builder import START_MS, TableBuilder
from tests.cli.conftest import Run
from tests.stores.fixed_env import FixedEnv

EXACT = ("compact", "rewrite-manifests", "expire-snapshots")
DAY_MS = 86_400_000


def calm(table: TableBuilder) -> None:
    table.append(range(10))


def few_small_files(table: TableBuilder) -> None:
    for start in range(0, 12, 4):
        table.append(range(start, start + 4))


def many_small_files(table: TableBuilder) -> None:
    table.append(range(60), files=6)


def deleted_rows(table: TableBuilder) -> None:
    table.append(range(10))
    table.delete_rows(range(5))


def dangling_deletes(table: TableBuilder) -> None:
    table.append(range(10))
    table.delete_rows(range(1))
    table.remove_data_files(1)


def equality_deletes(table: TableBuilder) -> None:
    table.append(range(20))
    for id_ in range(6):
        table.delete_rows([id_], kind="equality")


@pytest.fixture
def run(prepared: Callable[[str, Env], Run]) -> Run:
    return prepared("inspect", FixedEnv(START_MS + 30 * DAY_MS))


@pytest.mark.parametrize("gc_enabled", ["true", "false"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "build",
    [calm, few_small_files, many_small_files, deleted_rows, dangling_deletes, equality_deletes],
)
def test_health_asks_for_what_commands_would_do(run, tmp_path: Path, build, version, gc_enabled):
    table = TableBuilder(
        tmp_path / "t", format_version=version, properties={"gc.enabled": gc_enabled}
    )
    build(table)

    def work() -> list[str]:
        """The commands whose `--check` exits with 4; health has to say the same of all together."""
        codes = {name: run(table.location, "--check", command=name).code for name in EXACT}
        found = [name for name, code in codes.items() if code == 4]
        assert run(table.location, "health", "--check").code == (4 if found else 0), codes
        return found

    for _ in range(4):
        needed = work()
        if not needed:
            break
        for name in needed:
            words = ["--engine", "local"] if name == "compact" else []
            assert run(table.location, "--yes", *words, command=name).code == 0
    assert work() == []
