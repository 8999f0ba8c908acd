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
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException
    from sqlalchemy.exc import OperationalError

    name = (*server.namespace, "raced")
    schema = pa.schema([("id", pa.int64())])
    # What it reads may have been expired meanwhile, and a database be busy.
    passing = (CommitFailedException, FileNotFoundError, OperationalError)
    with closing(load_catalog(NAME, **server.properties)) as catalog:
        for depth in range(1, len(server.namespace) + 1):
            catalog.create_namespace_if_not_exists(server.namespace[:depth])
        catalog.create_table(name, schema, location=f"file://{folder}/raced")

        def append(number: int) -> None:
            rows = pa.table({"id": pa.array([number], pa.int64())})
            while True:
                try:
                    return catalog.load_table(name).append(rows)
                except passing:
                    continue

        append(-1)
        race(server, "raced", range(rounds), append)
        found = catalog.load_table(name).scan().to_arrow()["id"].to_pylist()
    assert sorted(found) == list(range(-1, rounds))


def race(server: Server, table: str, changes: Sequence[int], change: Callable[[int], Any]) -> None:
    """Make changes while two of icectl run, and look at how these end."""
    name = ".".join((NAME, *server.namespace, table))
    done = threading.Event()
    failures: list[str] = []
    codes: list[int] = []

    def maintain() -> None:
        number = 0
        while not done.is_set():
            command, *options = COMMANDS[number % len(COMMANDS)]
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
