"""Data and delete files of a table under the names of others: no compaction makes that stay."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder, filled_table
from tests.fault.changing import run

REWRITE, MERGE = ("--rewrite-all",), ("--deletes-only", "--rewrite-all")


def table_of(directory: Path, version: int) -> TableBuilder:
    """Two data files of one partition, of other values and as many rows."""
    return filled_table(directory, range(10, 25), range(30, 45), format_version=version)


def swapped_data(directory: Path) -> TableBuilder:
    return table_of(directory, 2)


def swapped_positions(directory: Path) -> TableBuilder:
    """Deletes of the same positions, of one data file or the other."""
    table = table_of(directory, 2)
    for id_ in (10, 30, 14, 34):
        table.delete_rows([id_])
    return table


def swapped_keys(directory: Path) -> TableBuilder:
    table = table_of(directory, 2)
    table.delete_rows([10], kind="equality")
    table.append(range(50, 65))
    table.delete_rows([51], kind="equality")
    return table


def swapped_vectors(directory: Path) -> TableBuilder:
    table = table_of(directory, 3)
    table.delete_rows([10])
    table.delete_rows([32])
    return table


@pytest.mark.parametrize(
    ("build", "ending", "options", "rule"),
    [
        (swapped_data, "[0-9].parquet", REWRITE, "R-063"),
        (swapped_positions, "-deletes.parquet", REWRITE, "R-121"),
        (swapped_positions, "-deletes.parquet", MERGE, "R-121"),
        (swapped_keys, "-equality.parquet", REWRITE, "R-063"),
        (swapped_vectors, ".puffin", REWRITE, "R-118"),
        (swapped_vectors, ".puffin", MERGE, "R-118"),
    ],
)
def test_a_file_of_another_s_rows_is_not_compacted(build, ending, options, rule, tmp_path, capsys):
    table = build(tmp_path / "t")
    live = sorted({row["location"] for row in table.live()})
    first, other = next(pair for pair in pairwise(f for f in live if Path(f).match(f"*{ending}")))
    paths = [Path(one) for one in (first, other)]
    contents = [path.read_bytes() for path in paths]
    assert contents[0] != contents[1]
    paths[0].write_bytes(contents[1])
    paths[1].write_bytes(contents[0])
    before = current_metadata(table.directory)
    words = ["compact", str(table.directory), "--engine", "local", *options, "--yes", "--json"]
    capsys.readouterr()
    code, _ = run(words)
    assert code == 15
    assert f"({rule})" in capsys.readouterr().err
    assert current_metadata(table.directory) == before
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    assert run(words)[0] == 0
