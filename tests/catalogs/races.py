"""Two of icectl that maintain a table while another client commits to it."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.catalogs.server import NAME, Server

COMMANDS = (
    ("compact", "--engine", "local", "--rewrite-all"),
    ("expire-snapshots", "--older-than", "0s", "--retain-last", "1", "--yes"),
    ("rewrite-manifests", "--min-manifests", "2"),
)


def race_with_appends(server: Server, rounds: int, folder: Path) -> None:
    """PyIceberg appends, and every row is there at the end."""
    from pyiceberg.catalog import load_catalog

    with closing(load_catalog(NAME, **server.properties)) as catalog:
        for depth in range(1, len(server.namespace) + 1):
            catalog.create_namespace_if_not_exists(server.namespace[:depth])
        name = (*server.namespace, f"raced{rounds}")  # of a server that all tests share
        race_in(catalog, name, rounds, location=f"file://{folder}/raced")


def race_in(
    catalog: Any,
    name: tuple[str, ...],
    rounds: int,
    commands: Sequence[Sequence[str]] = COMMANDS,
    location: str | None = None,
) -> None:
    """The same in a catalog that PyIceberg has opened, on a table that is made for it."""
    import pyarrow as pa
    from pyiceberg.exceptions import CommitFailedException, ValidationException
    from sqlalchemy.exc import OperationalError

    catalog.create_table(name, pa.schema([("id", pa.int64())]), location=location)
    # What it reads or began with may have been expired meanwhile, and a database be busy.
    passing = (CommitFailedException, ValidationException, FileNotFoundError, OperationalError)

    def append(number: int) -> None:
        rows = pa.table({"id": pa.array([number], pa.int64())})
        while True:
            try:
                return catalog.load_table(name).append(rows)
            except passing:
                continue

    append(-1)
    race(".".join((NAME, *name)), range(rounds), append, commands)
    found = catalog.load_table(name).scan().to_arrow()["id"].to_pylist()
    assert sorted(found) == list(range(-1, rounds))


def race(
    name: str,
    changes: Sequence[int],
    change: Callable[[int], Any],
    commands: Sequence[Sequence[str]] = COMMANDS,
) -> None:
    """Make changes while two of icectl run on a table, and look at how these end."""
    done = threading.Event()
    failures: list[str] = []
    codes: list[int] = []

    def maintain() -> None:
        number = 0
        while not done.is_set():
            command, *options = commands[number % len(commands)]
            code, told = icectl(command, name, *options)
            codes.append(code)
            if code not in (0, 11):
                failures.append(told)
            number += 1

    maintainers = [threading.Thread(target=maintain) for _ in range(2)]
    for each in maintainers:
        each.start()
    try:
        for number in changes:
            change(number)
    finally:
        done.set()
        for each in maintainers:
            each.join()
    assert not failures, failures[0]
    assert 0 in codes, "icectl never came to a commit"
    code, told = icectl("validate", name, "--all-snapshots")
    assert (code, json.loads(told)["result"]["counts"]["error"]) == (0, 0), told


def icectl(*words: str) -> tuple[int, str]:
    """Run icectl as a process: its exit code, and its document with what it wrote beside."""
    command = [sys.executable, "-m", "icectl", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout or done.stderr
