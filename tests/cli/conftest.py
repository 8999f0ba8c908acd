"""What tests of whole runs share: running a command line, and a command of the test's own."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from icectl.cli import app
from icectl.cli.options import Change, Common, TableArgument, command
from icectl.report.document import Outcome, document_schema
from tests.builders.table_builder import START_MS
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
def inspect(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Inspect:
    """Run `icectl inspect`, a day after the builder's tables begin."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")

    def run(*arguments: object) -> Ended:
        code = app.main(["inspect", *map(str, arguments)], env=FixedEnv(START_MS + 24 * HOUR_MS))
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


def result(ended: Ended) -> dict[str, Any]:
    """The result of a run with --json that ended well and keeps to the schema."""
    assert (ended.code, ended.err) == (0, "")
    Draft202012Validator(document_schema("inspect")).validate(ended.document)
    found: dict[str, Any] = ended.document["result"]
    return found


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
