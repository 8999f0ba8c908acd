"""Runs tests once for each mutant of a module, in forks of one process that has imported them.

    python tests/mutation/forked.py < JSON

The document has `module` (a path below the working directory), `tests` (paths), `seconds` (a fork
may take) and `mutants` (`line` and `source`). For each mutant a line is printed: `killed`, or
`survived`. A mutant is only in memory, in place of what it changes: tests that start processes have
the module as it is stored.
"""

import ast
import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import FunctionType
from typing import Any

import _pytest.main
import pytest

_Mutant = tuple[int, str]
"""Line and source."""


def put_in_place(module: str, line: int, source: str) -> None:
    """Let an imported module, and who has imported from it, have one of its statements changed.

    `line` is in that statement, which is a function, a class or a named value.
    """
    found = sys.modules[module]
    (statement,) = [
        one for one in ast.parse(source).body if _first_line(one) <= line <= (one.end_lineno or 0)
    ]
    names = dict(vars(found))
    exec(compile(ast.Module([statement], []), str(found.__file__), "exec"), names)
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        _take_over(vars(found)[statement.name], names[statement.name])
        return
    assert isinstance(statement, ast.Assign | ast.AnnAssign)
    target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
    assert isinstance(target, ast.Name)
    old = vars(found)[target.id]
    for other in list(sys.modules.values()):
        if getattr(other, "__dict__", {}).get(target.id) is old:
            setattr(other, target.id, names[target.id])


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min(one.lineno for one in [statement, *decorators])


def _take_over(old: Any, new: Any) -> None:
    """Give a function, or each function of a class, the code and the defaults of another."""
    if hasattr(old, "__wrapped__"):
        _take_over(old.__wrapped__, new.__wrapped__)
    elif isinstance(old, FunctionType):
        old.__code__, old.__defaults__ = new.__code__, new.__defaults__
        old.__kwdefaults__ = new.__kwdefaults__
    elif isinstance(old, property):
        _take_over(old.fget, new.fget)
    elif isinstance(old, classmethod | staticmethod):
        _take_over(old.__func__, new.__func__)
    elif isinstance(old, type):
        for name, value in vars(new).items():
            if isinstance(value, FunctionType | property | classmethod | staticmethod):
                _take_over(vars(old)[name], value)


@dataclass
class Forks:
    """A plugin that runs the collected tests in a fork for each mutant; the last killer first."""

    module: str
    mutants: list[_Mutant]
    seconds: int
    out: int = field(default_factory=lambda: os.dup(1))
    failed: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the first test that fails."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests for each mutant and tell what became of it."""
        import_module(self.module)
        gc.freeze()
        seconds = 4 * self._used(session, None)[1] + 10
        for mutant in self.mutants:
            killer, _ = self._used(session, mutant, int(seconds))
            os.write(self.out, b"killed\n" if killer else b"survived\n")
            session.items.sort(key=lambda item: item.nodeid != killer)
        return True

    def _used(
        self, session: pytest.Session, mutant: _Mutant | None, seconds: int = 0
    ) -> tuple[str, float]:
        """The test that has killed a mutant, and the seconds of work that all of it took."""
        reading, writing = os.pipe()
        folder = tempfile.mkdtemp(prefix="icectl-mutant-")
        child = os.fork()
        if not child:
            try:
                signal.alarm(self.seconds)
                if seconds:
                    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
                os.write(writing, self._killer(session, mutant, folder).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            killer = told.read().decode()
        _, status, used = os.wait4(child, 0)
        shutil.rmtree(folder, ignore_errors=True)
        return killer or ("a signal" if status else ""), used.ru_utime + used.ru_stime

    def _killer(self, session: pytest.Session, mutant: _Mutant | None, folder: str) -> str:
        """Run the tests up to the first that fails, in this process, which ends then.

        Raises: whatever comes of it that a mutant cannot be put in place: nothing is said of it.
        """
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        session.config.option.maxfail = 1
        if mutant is not None:
            put_in_place(self.module, *mutant)
        with suppress(session.Failed, session.Interrupted):
            _pytest.main.pytest_runtestloop(session)
        return self.failed


def main() -> int:
    """Run what is asked for on standard input."""
    asked = json.load(sys.stdin)
    mutants = [(one["line"], one["source"]) for one in asked["mutants"]]
    module = asked["module"].removesuffix(".py").replace("/", ".")
    forks = Forks(module, mutants, asked["seconds"])
    silent = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(silent, number)
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *asked["tests"]], plugins=[forks]))


if __name__ == "__main__":
    sys.exit(main())
