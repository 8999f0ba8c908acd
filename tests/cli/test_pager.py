"""Long output on a terminal: what is handed to a pager, and that no pager loses any of it."""

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from icectl.cli.console import Console, ConsoleOptions
from tests.builders.table_builder import TableBuilder
from tests.builders.terminal import Terminal
from tests.stores.fixed_env import FixedEnv

LINES = [f"line \udcff {number}" for number in range(40)]


Show = Callable[..., tuple[str, str]]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Print lines on a terminal of 20 lines; returns what came to it itself, and to stderr."""
    for name in ("PAGER", "ICECTL_PAGER", "LESS", "LV", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"LINES": "20", "COLUMNS": "80", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)

    def show_lines(lines: list[str], *, out: io.StringIO | None = None) -> tuple[str, str]:
        out, err = out or Terminal(), Terminal()
        options = ConsoleOptions(color="never", pager=True)
        console = Console(out, err, Terminal(), FixedEnv(), options)
        with console.paged():
            for line in lines:
                console.print(line)
            console.hint("the end")
        return out.getvalue(), err.getvalue()

    return show_lines


@pytest.fixture
def pages(show: Show, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A pager that copies what it is given into a file."""
    monkeypatch.setenv("ICECTL_PAGER", f"sh -c 'cat > {tmp_path}/pages; env > {tmp_path}/env'")
    return tmp_path / "pages"


def whole(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_what_is_longer_than_the_screen_is_paged(show, pages):
    assert show(LINES) == ("", "hint: the end\n")
    assert pages.read_text() == whole(LINES).encode(errors="backslashreplace").decode()
    assert {"LESS=FRX", "LV=-c"} <= set(pages.with_name("env").read_text().splitlines())


def test_what_fits_on_the_screen_is_not_paged(show, pages):
    assert show(LINES[:19]) == (whole(LINES[:19]), "hint: the end\n")
    assert not pages.exists()
    assert show(LINES[:20])[0] == ""
    assert show(["x" * 161] * 7)[0] == ""  # three lines of the screen each


def test_settings_of_the_user_stay(show, pages, monkeypatch):
    monkeypatch.setenv("LESS", "S")
    show(LINES)
    assert "LESS=S" in pages.with_name("env").read_text().splitlines()


def test_a_pipe_is_not_paged(show, pages):
    assert show(LINES, out=io.StringIO())[0] == whole(LINES)
    assert not pages.exists()


@pytest.mark.parametrize("words", ["", "cat"])
def test_cat_and_the_empty_text_ask_for_no_pager(show, monkeypatch, pages, words):
    monkeypatch.setenv("PAGER", os.environ["ICECTL_PAGER"])
    monkeypatch.setenv("ICECTL_PAGER", words)
    assert show(LINES)[0] == whole(LINES)
    assert not pages.exists()


def test_pager_is_asked_where_icectls_own_variable_is_not_set(show, monkeypatch, pages):
    monkeypatch.setenv("PAGER", os.environ["ICECTL_PAGER"])
    monkeypatch.delenv("ICECTL_PAGER")
    assert show(LINES)[0] == ""
    assert pages.read_text() == whole(LINES).encode(errors="backslashreplace").decode()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("false", ""),
        ("sh -c 'head -n 3 > /dev/null; exit 7'", ""),
        ("no-such-pager -R", "warning: ICECTL_PAGER: the pager `no-such-pager` is not installed\n"),
        ("less 'open", "warning: ICECTL_PAGER: the pager `less 'open` is not installed\n"),
    ],
)
@pytest.mark.parametrize("count", [40, 30_000])
def test_a_pager_that_fails_loses_nothing(show, monkeypatch, words, told, count):
    monkeypatch.setenv("ICECTL_PAGER", words)
    lines = [f"line {number}" for number in range(count)]
    out, err = show(lines)
    assert out == whole(lines)
    assert err == f"{told}hint: the end\n"


def test_a_program_in_the_working_directory_is_no_pager(show, monkeypatch, tmp_path):
    planted = tmp_path / "less"
    planted.write_text("#!/bin/sh\ntouch taken\ncat > /dev/null\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{tmp_path.name}")
    assert show(LINES)[0] == whole(LINES)
    assert not (tmp_path / "taken").exists()


def test_who_leaves_the_pager_early_has_seen_enough(show, monkeypatch):
    monkeypatch.setenv("ICECTL_PAGER", "sh -c 'head -n 3 > /dev/null'")
    out = Terminal()
    with pytest.raises(BrokenPipeError):
        show([f"line {number}" for number in range(30_000)], out=out)
    assert out.getvalue() == ""


class Session:
    """`icectl` on a terminal of 12 lines."""

    def __init__(self, folder: Path, words: list[str], **variables: str) -> None:
        self.screen = b""
        pid, self.terminal = pty.fork()
        if pid == 0:
            environment = {**os.environ, "LINES": "12", "COLUMNS": "80", "TERM": "xterm"}
            for name in ("PAGER", "LESS", "LESSOPEN"):
                environment.pop(name, None)
            environment |= {"XDG_CONFIG_HOME": str(folder), **variables}
            os.execve(sys.executable, [sys.executable, "-m", "icectl", *words], environment)
        self.pid = pid

    def see(self, text: bytes, *, keys: bytes = b"") -> None:
        """Wait for a text; `keys` are typed each second until it comes."""
        ends = time.monotonic() + 60
        while text not in self.screen:
            assert time.monotonic() < ends, self.screen
            if not select.select([self.terminal], [], [], 1)[0]:
                self.type(keys)
                continue
            try:
                self.screen += os.read(self.terminal, 65536)
            except OSError:  # the process has ended
                assert text in self.screen, self.screen

    def type(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def end(self) -> int:
        while True:
            try:
                read = os.read(self.terminal, 65536)
            except OSError:
                break
            if not read:
                break
            self.screen += read
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = TableBuilder(tmp_path_factory.mktemp("pager") / "t")
    for number in range(30):
        built.append([number])
    return built.metadata.location


def test_less_shows_it_and_the_exit_code_stays(table, tmp_path):
    if subprocess.run(["sh", "-c", "command -v less"], check=False).returncode:
        pytest.skip("less is not installed")
    session = Session(tmp_path, ["expire-snapshots", table, "--check", "--retain-last", "1"])
    session.see(b"\r\n:")  # the prompt of less, below what fits on the screen
    session.type(b"\x03")  # Ctrl-C is for less, which may drop keys while it looks at it
    session.see(b"(END)", keys=b"G")
    session.type(b"q")
    assert session.end() == 4
    assert b"interrupted" not in session.screen


def test_no_pager_prints_it_at_once(table, tmp_path):
    words = ["inspect", table, "snapshots", "--no-pager", "--limit", "30"]
    session = Session(tmp_path, words, ICECTL_PAGER="no-such-pager")
    assert session.end() == 0
    assert session.screen.count(b"append") == 30
    assert b"no-such-pager" not in session.screen


def test_sigterm_ends_the_pager_too(table, tmp_path):
    words = ["inspect", table, "snapshots", "--limit", "30"]
    # Of a signal that comes right before `wait` some shells hear when it is over.
    waits = "for _ in $(seq 600); do sleep 0.1; done"
    pager = f"sh -c 'trap \"echo ended; exit\" TERM; cat > /dev/null; echo shown; {waits}'"
    session = Session(tmp_path, words, ICECTL_PAGER=pager)
    session.see(b"shown")
    os.kill(session.pid, signal.SIGTERM)
    session.see(b"ended")
    assert session.end() == 143
