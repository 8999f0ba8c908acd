"""The page on broken tables: what it shows is what its commands print, on tables broken so."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icectl.cli import app
from tests.builders.broken import (
    Broken,
    r034_a_data_file_that_is_missing,
    r034_a_manifest_that_is_missing,
    r050_a_length_that_is_not_the_file_s,
    r051_a_count_that_is_not_that_of_the_entries,
    r092_bounds_that_exclude_rows,
    r140_a_statistics_file_of_another_size,
)
from tests.builders.rows import current_metadata
from tests.builders.table_builder import START_MS, filled_table
from tests.stores.fixed_env import FixedEnv

PAGE = Path(__file__).parents[2] / "docs" / "broken-tables.md"
SHOWN = re.compile(r"<!-- table: ([a-z-]+) -->\n\n((?:```console\n.*?```\n\n?)+)", re.DOTALL)
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
PLACE = "/wh/db"


def hint_ahead(broken: Broken) -> None:
    (broken.directory / "metadata" / "version-hint.text").write_text("9")


def truncated(broken: Broken) -> None:
    newest = current_metadata(broken.directory)
    newest.write_bytes(newest.read_bytes()[:-500])
    os.utime(newest, (START_MS / 1000, START_MS / 1000))


def lost_after_a_rewrite(broken: Broken) -> None:
    words = ["rewrite-manifests", str(broken.directory), "--yes", "--quiet"]
    assert app.main(words, env=_env(100)) == 0
    Path(broken.manifests(0)[0]["manifest_path"]).unlink()


def lost_list_after_a_rewrite(broken: Broken) -> None:
    words = ["rewrite-manifests", str(broken.directory), "--yes", "--quiet"]
    assert app.main(words, env=_env(100)) == 0
    Path(broken.head()["manifest-list"]).unlink()


def lost_list(broken: Broken) -> None:
    Path(broken.head()["manifest-list"]).unlink()


def lost_deletes(broken: Broken) -> None:
    Path(broken.entries(1)[-1]["data_file"]["file_path"]).unlink()


TABLES: dict[str, Callable[[Broken], None]] = {
    "hint": hint_ahead,
    "metadata-file": truncated,
    "counts": r051_a_count_that_is_not_that_of_the_entries,
    "length": r050_a_length_that_is_not_the_file_s,
    "lost-manifest": lost_after_a_rewrite,
    "proven-list": lost_list_after_a_rewrite,
    "lost-list": lost_list,
    "lost-manifest-of-deletes": r034_a_manifest_that_is_missing,
    "lost-data-file": r034_a_data_file_that_is_missing,
    "lost-delete-file": lost_deletes,
    "statistics": r140_a_statistics_file_of_another_size,
    "bounds": r092_bounds_that_exclude_rows,
}


def _env(ids: int) -> FixedEnv:
    return FixedEnv(START_MS + 10**10, uuids=ids, snapshot_ids=ids)


def commands(block: str) -> Iterator[str]:
    return (line[2:] for line in block.splitlines() if line.startswith("$ icectl "))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose name is always as long: lines are cut, and files sized, by it."""
    folder = Path(tempfile.mkdtemp(prefix="icectl-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_what_its_commands_print(name, place, capsys, request):
    page = PAGE.read_text("utf-8")
    (shown,) = [found[2] for found in SHOWN.finditer(page) if found[1] == name]
    table = filled_table(place / "t", range(12), files=2, partitioning="identity")
    table.append(range(12, 24))
    table.delete_rows([13, 14, 20])
    TABLES[name](Broken(place / "t"))
    blocks = []
    for at, command in enumerate(commands(shown)):
        _, *words = command.replace(PLACE, str(place)).split()
        code = app.main(words, env=_env(1000 * (at + 1)))
        told = capsys.readouterr()
        lines = f"{told.out}{told.err}".replace(str(place), PLACE).rstrip()
        status = f"\n$ echo $?\n{code}" if code else ""
        blocks.append(f"```console\n$ {command}\n{lines}{status}\n```\n")
    printed = "\n".join(blocks)
    if request.config.getoption("--update-golden"):
        mark = f"<!-- table: {name} -->\n\n"
        old, new = mark + shown.rstrip("\n"), mark + printed.rstrip("\n")
        PAGE.write_text(page.replace(old, new), "utf-8")
        return
    assert shown.rstrip("\n") == printed.rstrip("\n")


def test_every_table_of_the_page_is_tried():
    assert [found[1] for found in SHOWN.finditer(PAGE.read_text("utf-8"))] == list(TABLES)
