"""What tests of whole runs share: running a command line, and a command of the test's own."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from icectl.cli import app
from icectl.cli.document import Outcome, document_schema
from icectl.cli.options import Change, Common, TableArgument, command
from icectl.env import Env
from tests.builders.broken import TABLES
from tests.builders.broken_tree import TREE_TABLES
from tests.builders.table_builder import START_MS
from tests.builders.warehouse import warehouse
from tests.catalogs.sql_servers import SqlServer
from tests.stores.fixed_env import FixedEnv


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        read: dict[str, Any] = json.loads(self.out)
        return read


Run = Callable[..., Ended]
Inspect = Callable[..., Ended]
HOUR_MS = 3_600_000


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Give the directory of a healthy table, as good as new."""
    base = tmp_path_factory.mktemp("healthy")

    def directory(name: str = "whole") -> Path:
        table, kept = base / name, base / f"{name}.kept"
        if not kept.exists():
            {**TABLES, **TREE_TABLES}[name](table)
            shutil.copytree(table, kept)
        shutil.rmtree(table)
        shutil.copytree(kept, table)
        return table

    return directory


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> Run:
    """Run a command line in this process, without the user's own settings."""
    for name in ("NO_COLOR", "FORCE_COLOR", "ICECTL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run_line(*arguments: str) -> Ended:
        code = app.main(arguments, env=FixedEnv())
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run_line


@pytest.fixture
def prepared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Env], Run]:
    """Makes a function that runs one command at one instant, unless it is given others."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")

    def of(usual: str, clock: Env) -> Run:
        def run(*arguments: object, command: str = usual, env: Env | None = None) -> Ended:
            code = app.main([command, *map(str, arguments)], env=env or clock)
            captured = capsys.readouterr()
            return Ended(code, captured.out, captured.err)

        return run

    return of


@pytest.fixture
def inspect(prepared: Callable[[str, Env], Run]) -> Inspect:
    """Run `icectl inspect`, a day after the builder's tables begin."""
    return prepared("inspect", FixedEnv(START_MS + 24 * HOUR_MS))


@pytest.fixture
def repair(prepared: Callable[[str, Env], Run]) -> Run:
    """Run `icectl repair`, a year after the builder's tables begin."""
    return prepared(
        "repair", FixedEnv(START_MS + 365 * 24 * HOUR_MS, uuids=5_000, snapshot_ids=5_000)
    )


def result(ended: Ended) -> dict[str, Any]:
    """The result of a run with --json that warned of nothing and keeps to its schema."""
    assert ended.err == ""
    return checked_document(ended)["result"]  # type: ignore[no-any-return]


def checked_document(ended: Ended) -> dict[str, Any]:
    """The document of a run with --json, which keeps to its schema."""
    document = ended.document
    Draft202012Validator(document_schema(document["command"])).validate(document)
    assert document["exit"] == ended.code
    return document


def result_of(ended: Ended, code: int = 0) -> dict[str, Any]:
    """The result of a run with --json that ends with a code and keeps to its schema."""
    document = checked_document(ended)
    assert ended.code == code, ended.err or ended.out
    return document["result"]  # type: ignore[no-any-return]


Body = Callable[[Common, Change], Outcome]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[Body], None]:
    """Let the command `inspect` be a function of the test's own, with every shared option."""

    def serve_body(body: Body) -> None:
        @command("inspect", examples=[], exit_codes=())
        def inspect(common: Common, table: TableArgument, *, change: Change) -> Outcome:
            """Do what the test says."""
            return body(common, change)

        monkeypatch.setattr(app, "load_command", lambda name: inspect)

    return serve_body


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    """A database with the catalog of a warehouse, whose tables are compacted without Spark."""
    monkeypatch.setenv("ICECTL_COMPACT_ENGINE", "local")
    with warehouse(tmp_path, monkeypatch) as started:
        yield started
