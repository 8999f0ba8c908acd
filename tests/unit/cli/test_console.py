"""The console: streams, colour, questions, control characters, and progress."""

import io
import time

import pytest

from icectl.cli import progress_bar as live
from icectl.cli.console import Console, ConsoleOptions
from icectl.env import SystemEnv
from icectl.errors import Refused, UsageError
from tests.builders.terminal import Terminal
from tests.stores.fixed_env import FixedEnv


def make(
    *, terminal: bool = False, answer: str = "", real_clock: bool = False, **options: object
) -> tuple[Console, io.StringIO, io.StringIO]:
    stream = Terminal if terminal else io.StringIO
    out, err = stream(), stream()
    env = SystemEnv() if real_clock else FixedEnv()
    console = Console(out, err, stream(answer), env, ConsoleOptions(**options))  # type: ignore[arg-type]
    return console, out, err


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def test_style_paints_on_a_terminal_only():
    console, out, _ = make(terminal=True)
    console.print(f"a {console.style('x', 'bold', 'red')}")
    assert out.getvalue() == "a \x1b[1;31mx\x1b[0m\n"
    assert make()[0].style("x", "bold") == "x"
    assert make(terminal=True, color="never")[0].style("x", "bold") == "x"


def test_a_dumb_terminal_has_no_color(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert make(terminal=True)[0].style("x", "bold") == "x"


def test_control_characters_of_names_are_shown_and_own_colors_pass():
    console, out, _ = make(terminal=True)
    console.print(console.style("t\x1b[2J\x1b[8m\x07\x9bm\r\n", "bold"))
    assert out.getvalue() == "\x1b[1mt\\x1b[2J\\x1b[8m\\x07\\x9bm\\x0d\\n\x1b[0m\n"


def test_width_is_that_of_the_terminal_and_none_in_a_pipe(monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    assert make(terminal=True)[0].width == 72
    assert make()[0].width is None
    assert make()[0].prose_width == 100
    assert make(terminal=True)[0].prose_width == 72


@pytest.mark.parametrize(
    ("answer", "meant"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False), ("yep\n", False)],
)
def test_only_yes_is_yes(answer, meant):
    console, out, err = make(terminal=True, answer=answer, color="never")
    assert console.ask("expire 3 snapshots of /wh/t?") is meant
    assert err.getvalue().rstrip("\n") == "expire 3 snapshots of /wh/t? [y/N] "
    assert out.getvalue() == ""


def test_ctrl_c_instead_of_an_answer_ends_the_line_of_the_question():
    class Interrupted(Terminal):
        def readline(self, _size: int = -1, /) -> str:
            raise KeyboardInterrupt

    err = Terminal()
    console = Console(Terminal(), err, Interrupted(), FixedEnv(), ConsoleOptions(color="never"))
    with pytest.raises(KeyboardInterrupt):
        console.ask("sure?")
    assert err.getvalue() == "sure? [y/N] \n"


def test_nobody_is_asked_without_a_terminal_or_with_json():
    for console, _, err in (make(answer="y\n"), make(terminal=True, answer="y\n", json=True)):
        with pytest.raises(UsageError) as caught:
            console.ask("sure?")
        assert caught.value.hint == "confirm with `--yes`, or see the plan with `--dry-run`"
        assert err.getvalue() == ""


def test_notes_and_questions_break_between_words(monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    console, _, err = make(terminal=True, answer="y\n", verbosity=1, color="never")
    console.note("one table needs compact and others")
    console.detail("12 requests were answered late")
    assert console.ask("maintain both of the tables?")
    assert err.getvalue() == (
        "one table needs compact\n  and others\n"
        "12 requests were\n  answered late\n"
        "maintain both of the\n  tables? [y/N] "
    )
    quiet, out, _ = make(terminal=True, verbosity=-1)
    quiet.print_sentence("the old metadata file stays")
    assert out.getvalue() == "the old metadata file\n  stays\n"


def test_verbosity_decides_what_is_said():
    said = {}
    for verbosity in (-1, 0, 1, 2):
        console, out, err = make(verbosity=verbosity)
        console.print("data")
        console.say("report")
        console.note("note")
        console.detail("detail")
        console.debug("debug")
        console.warn("warning")
        console.hint("hint")
        said[verbosity] = (out.getvalue().split(), err.getvalue().split("\n")[:-1])
    tail = ["warning: warning", "hint: hint"]
    assert said == {
        -1: (["data"], tail[:1]),
        0: (["data", "report"], ["note", *tail]),
        1: (["data", "report"], ["note", "detail", *tail]),
        2: (["data", "report"], ["note", "detail", "debug", *tail]),
    }


def test_hidden_values_never_reach_stderr():
    console, _, err = make()
    console.hide("abc")
    console.hide("abcdef")
    console.hide("")
    console.warn("got abcdef and abc")
    console.error(Refused("no abc", hint="abcdef"))
    assert err.getvalue() == "warning: got *** and ***\nerror: no ***\nhint: ***\n"
    assert console.warnings == ("got *** and ***",)


def test_a_closed_stderr_is_no_error():
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    console = Console(io.StringIO(), Closed(), io.StringIO(), FixedEnv(), ConsoleOptions())
    console.warn("nobody listens")
    assert console.warnings == ("nobody listens",)


def wait_for(text: str, stream: io.StringIO) -> None:
    for _ in range(200):
        if text in stream.getvalue():
            return
        time.sleep(0.02)
    raise AssertionError(f"{text!r} never came: {stream.getvalue()!r}")


def test_a_bar_shows_after_a_while_and_goes_for_other_lines(monkeypatch):
    monkeypatch.setattr(live, "_BAR_AFTER_SECONDS", 0.1)
    monkeypatch.setattr(live, "_REFRESH_SECONDS", 0.02)
    monkeypatch.setenv("COLUMNS", "80")
    console, out, err = make(terminal=True, real_clock=True)
    console.progress.phase("reading manifests", total=40)
    console.progress.advance(10)
    wait_for("reading manifests [#####...............] 10 of 40", err)
    console.progress.advance(10)
    wait_for("[##########..........] 20 of 40", err)
    console.warn("a stale hint")
    console.progress.phase("reading files", total=None, unit="bytes")
    console.progress.advance(2048)
    wait_for("reading files 2.0 KiB", err)
    console.print("data")
    ended = err.getvalue()
    time.sleep(0.1)
    assert err.getvalue() == ended
    assert out.getvalue() == "data\n"


def test_nothing_shows_for_what_is_quick(monkeypatch):
    monkeypatch.setattr(live, "_REFRESH_SECONDS", 0.02)
    console, _, err = make(terminal=True, real_clock=True)
    console.progress.phase("reading manifests", total=2)
    console.progress.advance(2)
    time.sleep(0.1)
    console.progress.stop()
    assert err.getvalue() == ""


@pytest.mark.parametrize("options", [{"progress": False}, {"verbosity": -1}])
def test_progress_can_be_switched_off(monkeypatch, options):
    monkeypatch.setattr(live, "_LINE_EVERY_SECONDS", 0.01)
    console, _, err = make(**options)  # type: ignore[arg-type]
    console.progress.phase("reading manifests", total=2)
    console.progress.advance(1)
    time.sleep(0.1)
    console.progress.stop()
    assert err.getvalue() == ""


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch):
    monkeypatch.setattr(live, "_LINE_EVERY_SECONDS", 0.05)
    console, _, err = make()
    console.progress.phase("reading manifests", total=4)
    console.progress.advance(1)
    wait_for("progress: reading manifests, 1 of 4\n", err)
    console.progress.phase("removing files")
    wait_for("progress: removing files\n", err)
    console.progress.stop()


def test_the_time_taken_is_shown_and_the_time_left_by_the_share_done():
    phase = live._Phase("reading", total=100, unit="count", started_seconds=10.0, done=25)
    assert phase.time(20.0) == "10s, 30s left"
    assert phase.time(10.5) == ""
    assert live._Phase("starting Spark", None, "count", 0.0).time(9.4) == "9s"
    assert live._Phase("reading", 3, "count", 0.0).time(61.0) == "1m 1s"


def test_a_message_fits_a_terminal_and_stays_whole_in_a_pipe(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    message = "credentials come from `--storage-option` or from AWS_PROFILE"
    console, _, err = make(terminal=True, color="never")
    console.hint(message)
    assert err.getvalue() == (
        "hint: credentials come from\n  `--storage-option` or from AWS_PROFILE\n"
    )
    console, _, err = make()
    console.hint(message)
    assert err.getvalue() == f"hint: {message}\n"


def test_a_name_with_a_line_end_begins_no_line_of_a_message(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    console, _, err = make(terminal=True, color="never")
    console.hint("no table `a\n::error::b` is in the namespace that was named")
    assert err.getvalue().startswith("hint: no table `a\\n::error::b` is in the\n  namespace")


def test_a_total_that_was_too_low_is_not_shown():
    phase = live._Phase("reading manifests", 325, "count", 0.0, done=2190)
    assert (phase.bar(), phase.amount(), phase.time(9.0)) == ("", "2190", "9s")


def test_sentences_fit_a_terminal_and_stay_whole_in_a_pipe(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    text = "159 files of 372.8 KiB would become about 1 of 372.8 KiB"
    console, out, _ = make(terminal=True)
    console.say(text)
    assert out.getvalue().splitlines() == [
        "159 files of 372.8 KiB would", "  become about 1 of 372.8 KiB",
    ]  # fmt: skip
    console, out, _ = make()
    console.say(text)
    assert out.getvalue() == f"{text}\n"
