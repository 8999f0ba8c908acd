"""A catalog of PyIceberg for the tests that write tables with it, and commands run on these."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icectl.cli import app

Run = Callable[..., dict[str, Any]]


def of_each_writer(names: Iterable[str], nth: int = 0) -> list[Any]:
    """Names WRITER/... as parameters: of each writer the nth, or its last, in the quick tier."""
    found = []
    for _, group in groupby(sorted(names), lambda name: name.split("/")[0]):
        of_one = list(group)
        quick = of_one[min(nth, len(of_one) - 1)]
        full = (pytest.param(name, marks=pytest.mark.full) for name in of_one if name != quick)
        found += [quick, *full]
    return found or ["none"]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    """A catalog with the namespace `db`; its warehouse is the folder of that name."""
    made = SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    made.create_namespace("db")
    yield made
    made.engine.dispose()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with --json; its document."""

    def run_command(*words: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        assert app.main([*words, "--json"]) == code, capsys.readouterr()
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    return run_command
