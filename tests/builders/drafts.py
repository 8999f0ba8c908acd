"""Tables whose snapshots have everything that the upstream draft has a form for."""

from collections.abc import Mapping
from pathlib import Path

from tests.builders.table_builder import TableBuilder
from tests.builders.tree_table import data_files, remove_data_files, upgrade
from tests.stores.fixed_env import FixedEnv


def draft_tables(folder: Path) -> Mapping[str, Path]:
    """Build a table of each kind below a folder; they are alike however often."""
    return {
        "version-1": _version_1(folder / "v1"),
        "equality-deletes": _equality_deletes(folder / "v2"),
        "vectors": _vectors(folder / "v3", merged_above=100),
        "merged": _vectors(folder / "merged", merged_above=1),
        "iceberg-1.12": _in_parquet(folder / "lists"),
        "sfc-1": _tree(folder / "tree"),
    }


def _version_1(directory: Path) -> Path:
    table = TableBuilder(directory, format_version=1, partitioning="truncate")
    table.append(range(20), files=2)
    table.append(range(20, 30))
    table.remove_data_files(1)
    return directory


def _equality_deletes(directory: Path) -> Path:
    table = TableBuilder(directory, partitioning="two")
    table.append(range(30))
    table.delete_rows([3, 4], kind="equality")
    table.respec("day")
    table.append(range(30, 40))
    table.delete_rows([31], kind="equality")
    return directory


def _vectors(directory: Path, *, merged_above: int) -> Path:
    """Data files with vectors: new ones, one in place of another, and one from before."""
    table = TableBuilder(
        directory, format_version=3, partitioning="identity", merge_manifests_above=merged_above
    )
    table.append(range(20), files=2)
    table.append(range(20, 40))
    table.delete_rows([1, 25])
    table.delete_rows([2, 26, 28])
    return directory


def _in_parquet(directory: Path) -> Path:
    """Version 4 as Iceberg 1.12 writes it, with manifests in Parquet."""
    _vectors(directory, merged_above=100)
    upgrade(directory, FixedEnv(), "--layout", "iceberg-1.12", "--eager")
    return directory


def _tree(directory: Path) -> Path:
    """A leaf with dead rows, some of the last commit."""
    table = TableBuilder(directory, format_version=3, partitioning="identity")
    table.append(range(40), files=3)
    table.delete_rows([1, 25])
    env = FixedEnv()
    upgrade(directory, env, "--eager")
    remove_data_files(directory, env, data_files(directory)[:2])
    remove_data_files(directory, env, data_files(directory)[1:2])
    return directory
