"""The shell around every command: parsing, exit codes, streams, the JSON document, signals."""

import errno
import json
import logging
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pyarrow as pa
import pytest

from icectl.cli import app
from icectl.cli.console import Console
from icectl.cli.document import Outcome, TableIdentity, load_schema
from icectl.cli.options import Change, Common
from icectl.errors import (
    CommitConflict,
    CommitUnknown,
    CorruptTable,
    EngineError,
    Incomplete,
    ProblemsFound,
    Refused,
    SelfCheckFailed,
    StorageError,
    TableNotFound,
    Unsupported,
    UsageError,
)
from icectl.files.compiled import library_name
from tests.cli.conftest import Body
from tests.conftest import ROOT

Serve = Callable[[Body], None]

TABLE = TableIdentity("/wh/t", "u", 2, "/wh/t/metadata/v1.metadata.json")


def done(common: Common, change: Change) -> Outcome:
    return Outcome("inspect", {"rows": 7}, lambda console: console.print("seven rows"), TABLE)


def failing(error: BaseException) -> Body:
    def body(common: Common, change: Change) -> Outcome:
        raise error

    return body


def icectl(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "icectl", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **more,  # type: ignore[call-overload]
    )


def test_version_is_one_line_on_stdout(run):
    ended = run("--version")
    assert (ended.code, ended.out, ended.err) == (0, "icectl 0.2.0\n", "")


@pytest.mark.parametrize("words", [("--version", "--verbose"), ("-v", "-V")])
def test_the_verbose_version_says_how_it_was_built(run, words):
    ended = run(*words)
    assert (ended.code, ended.err) == (0, "")
    told = dict(line.split(" ", 1) for line in ended.out.splitlines())
    assert told["icectl"] == "0.2.0"
    assert told["installed"] == f"checkout in {ROOT}"
    assert told["loops"] == f"compiled, {library_name()}"
    assert told["python"].startswith(platform.python_version())
    assert told["pyarrow"] == pa.__version__
    assert "pytest" not in told


def test_verbose_without_version_stands_after_a_command(run):
    ended = run("--verbose", "inspect", "t")
    assert (ended.code, ended.out) == (2, "")
    assert "hint: put options after the command" in ended.err


def test_no_argument_prints_help_on_stderr_and_is_wrong_usage(run):
    ended = run()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Usage: icectl COMMAND TABLE [OPTIONS]\n")


def test_help_of_the_root_imports_no_library_but_typer():
    script = (
        "import sys; from icectl.cli.app import main; main(['--help'])\n"
        "print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(eval(ended.stdout.splitlines()[-1]))
    heavy = {"rich", "pyarrow", "fastavro", "fsspec", "numpy", "s3fs", "botocore"}
    assert "typer" in loaded
    assert loaded & heavy == set()


@pytest.mark.parametrize("command", app.COMMANDS)
def test_help_of_a_command_imports_no_library_but_typer(command):
    script = (
        f"import sys; from icectl.cli.app import main; main(['{command}', '--help'])\n"
        "print(sorted({m.split('.')[0] for m in sys.modules}))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(eval(ended.stdout.splitlines()[-1]))
    assert loaded & {"rich", "pyarrow", "fastavro", "fsspec", "numpy", "s3fs", "botocore"} == set()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("inspct /t", "there is no command `inspct`\nhint: did you mean `inspect`?"),
        ("xyzzy", "there is no command `xyzzy`\nhint: `icectl --help` lists the commands"),
        ("inspect", "`TABLE` is missing\nhint: `icectl inspect --help` shows how it is used"),
        ("inspect /t --jsn", "there is no option `--jsn`\nhint: did you mean `--json`?"),
        (
            "--json inspect /t",
            (
                "there is no option `--json`\nhint: put options after the command: `icectl "
                "COMMAND TABLE [OPTIONS]`"
            ),
        ),
        (
            "inspect /t --color",
            (
                "option `--color` requires an argument\n"
                "hint: `icectl inspect --help` shows how it is used"
            ),
        ),
        (
            "inspect /t /u",
            "unexpected argument `/u`\nhint: `icectl inspect --help` shows how it is used",
        ),
        ("inspect /t --concurrency 0", "`--concurrency`: `0` is not a whole number above 0"),
        (
            "inspect /t --time-limit 5",
            (
                "`--time-limit`: `5` is not a duration\n"
                "hint: give a number with a unit: 90s 15m 24h 7d 2w"
            ),
        ),
    ],
)
def test_wrong_usage_names_the_word_and_the_way_out(run, serve, line, message):
    serve(done)
    ended = run(*line.split())
    assert (ended.code, ended.err) == (2, f"error: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["inspect", ""], "TABLE"),
        (["inspect", "/t", "--metrics-file", ""], "--metrics-file"),
        (["inspect", "/t", "--metadata-file", ""], "--metadata-file"),
        (["inspect", "/t", "--path-map", "/a=/b", "--path-map", " "], "--path-map"),
    ],
)
def test_an_empty_value_is_wrong_usage_before_anything_is_done(run, serve, arguments, name):
    serve(failing(AssertionError("the command was run")))
    ended = run(*arguments)
    assert (ended.code, ended.err) == (
        2,
        f"error: `{name}` is empty\nhint: perhaps a shell variable is not set\n",
    )


def test_an_orphan_is_not_deleted_because_the_quarantine_has_an_empty_name(run):
    ended = run("remove-orphans", "/t", "--yes", "--quarantine", "")
    assert (ended.code, ended.err.splitlines()[0]) == (2, "error: `--quarantine` is empty")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("inspect /t files --limit x", "`--limit`: `x` is not a whole number above 0"),
        (
            f"inspect /t files --limit 1{'0' * 18}",
            f"`--limit`: `1{'0' * 18}` is too large a number",
        ),
        ("inspect /t files --as-of 7", "`--as-of`: `7` is not a valid time"),
        ("validate /t --sample 2", "`--sample`: `2` is not a ratio"),
        ("compact /t -n --max-group-size 7", "`--max-group-size`: `7` is not a size"),
        ("compact /t -n --min-delete-ratio 2", "`--min-delete-ratio`: `2` is not a ratio"),
        ("compact /t -n --max-groups 0", "`--max-groups`: `0` is not a whole number above 0"),
        ("rewrite-manifests /t -n --target-size 7", "`--target-size`: `7` is not a size"),
        ("rewrite-manifests /t -n --min-manifests x", "`--min-manifests`: `x` is not a whole num"),
        ("expire-snapshots /t -n --older-than 7", "`--older-than`: `7` is not a valid time"),
        ("remove-orphans /t -n --older-than 7", "`--older-than`: `7` is not a valid time"),
    ],
)
def test_a_value_that_makes_no_sense_is_told_with_its_option(run, line, message):
    ended = run(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {message}")


def test_a_value_of_the_environment_is_told_with_its_variable(run, monkeypatch):
    monkeypatch.setenv("ICECTL_REMOVE_ORPHANS_OLDER_THAN", "7")
    ended = run("remove-orphans", "/t", "-n")
    assert ended.err.startswith(
        "error: `ICECTL_REMOVE_ORPHANS_OLDER_THAN`: `7` is not a valid time\n"
    )


@pytest.mark.parametrize(
    "line", ["expire-snapshots /t --snapshot-id", "rewrite-manifests /t --spec-id"]
)
def test_an_id_of_endless_digits_is_wrong_usage(run, line):
    assert run(*line.split(), "9" * 5000).code == 2


def test_a_bad_choice_lists_the_choices(run, serve):
    serve(done)
    ended = run("inspect", "/t", "--color", "blue")
    assert ended.code == 2
    assert ended.err.startswith("error: `--color`: `blue` is not one of ")
    assert ended.err.endswith("hint: `icectl inspect --help` shows how it is used\n")


@pytest.mark.parametrize(
    "line", ["inspect /t --bogus --json", "nope --json", "inspect --json", "inspect --format json"]
)
def test_wrong_usage_prints_one_document_where_json_is_asked_for(run, line):
    ended = run(*line.split())
    assert ended.code == 2
    jsonschema.validate(ended.document, load_schema("envelope"))
    assert ended.document["error"]["id"] == "usage"
    assert ended.document["status"] == "failed"
    assert ended.document["command"] == (None if line.startswith("nope") else "inspect")


def test_an_outcome_is_rendered_on_stdout(run, serve):
    serve(done)
    ended = run("inspect", "/t")
    assert (ended.code, ended.out, ended.err) == (0, "seven rows\n", "")


def test_an_outcome_is_one_document_with_json(run, serve):
    serve(done)
    ended = run("inspect", "/t", "--json")
    assert ended.code == 0
    assert ended.document == {
        "icectl": "0.2.0",
        "schema": 1,
        "command": "inspect",
        "table": {
            "location": "/wh/t",
            "uuid": "u",
            "format_version": 2,
            "metadata_location": "/wh/t/metadata/v1.metadata.json",
            "metadata_location_after": None,
        },
        "dry_run": False,
        "exit": 0,
        "status": "done",
        "result": {"rows": 7},
        "warnings": [],
        "error": None,
    }
    jsonschema.validate(ended.document, load_schema("envelope"))


def test_warnings_go_to_stderr_and_into_the_document_once(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        common.shell.console.progress.warn("a stale hint")
        common.shell.console.progress.warn("a stale hint")
        return Outcome("inspect", {}, lambda console: None, warnings=["another"])

    serve(body)
    ended = run("inspect", "/t", "--json")
    assert ended.document["warnings"] == ["a stale hint", "another"]
    assert ended.err == "warning: a stale hint\nwarning: another\n"


EXPECTED = [
    (UsageError("x"), 2, "failed"), (Incomplete("x"), 3, "incomplete"),
    (ProblemsFound("x"), 4, "failed"), (Refused("x"), 5, "refused"),
    (TableNotFound("x"), 10, "failed"), (CommitConflict("x"), 11, "failed"),
    (CommitUnknown("x"), 12, "unknown"), (StorageError("x"), 13, "failed"),
    (Unsupported("x"), 14, "failed"), (CorruptTable("x", rule="R-005"), 15, "failed"),
    (EngineError("x"), 16, "failed"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "status"), EXPECTED, ids=str)
def test_an_error_ends_with_its_exit_code_and_document(run, serve, error, code, status):
    serve(failing(error))
    ended = run("inspect", "/t", "--json")
    assert ended.code == code
    jsonschema.validate(ended.document, load_schema("envelope"))
    assert ended.document["exit"] == code
    assert ended.document["status"] == status
    assert ended.document["error"] == {
        "exit": code, "id": error.error_id, "message": error.message, "hint": error.hint,
    }  # fmt: skip


def test_an_error_is_one_line_and_its_hint_another(run, serve):
    serve(failing(Refused("`gc.enabled` is false", hint="set it to true")))
    ended = run("inspect", "/t")
    assert (ended.code, ended.out) == (5, "")
    assert ended.err == "error: `gc.enabled` is false\nhint: set it to true\n"


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No such file", "/wh/t/data/a.parquet"),
            13,
            (
                "error: the file `/wh/t/data/a.parquet` is missing\n"
                "hint: `icectl validate /t` lists every missing file\n"
            ),
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/tmp/x"),
            13,
            (
                "error: no space left on the device of `/tmp/x`\nhint: choose another folder "
                "with `--temp-dir`\n"
            ),
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/tmp/x"),
            13,
            "error: permission denied: `/tmp/x`\n",
        ),
        (
            MemoryError(),
            1,
            "error: out of memory\nhint: a lower `--concurrency` needs less memory\n",
        ),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
    ],
)
def test_what_is_no_bug_ends_with_one_clear_message(run, serve, raised, code, message):
    serve(failing(raised))
    ended = run("inspect", "/t", "--json")
    assert (ended.code, ended.err) == (code, message)
    assert ended.document["exit"] == code


def test_a_bug_prints_its_traceback_and_ends_with_1(run, serve):
    serve(failing(ZeroDivisionError("by zero")))
    ended = run("inspect", "/t", "--json")
    assert ended.code == 1
    assert ended.err.startswith("Traceback (most recent call last):\n")
    assert ended.err.endswith(
        "error: unexpected failure: ZeroDivisionError: by zero\n"
        "hint: this is a bug in icectl; please report it with the lines above\n"
    )
    assert ended.document["error"]["id"] == "bug"


def test_a_mistake_of_its_own_is_told_as_a_bug_and_not_as_damage(run, serve):
    serve(failing(SelfCheckFailed("a new manifest is wrong", rule="R-069")))
    ended = run("inspect", "/t", "--json")
    assert ended.code == 1
    assert ended.err.startswith("Traceback (most recent call last):\n")
    assert ended.err.endswith(
        "error: internal check failed: a new manifest is wrong (R-069)\nhint: this is a bug in "
        "icectl, and nothing that failed the check was committed; please report it with the lines "
        "above and the output of `icectl validate /t`\n"
    )
    jsonschema.validate(ended.document, load_schema("envelope"))
    assert ended.document["error"]["id"] == "self-check-failed"
    assert (ended.document["exit"], ended.document["status"]) == (1, "failed")


def test_ctrl_c_while_libraries_are_loaded_prints_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)\nraise AssertionError\n"
    )
    path = f"{tmp_path}{os.pathsep}{Path(app.__file__).parents[2]}"
    ended = icectl("inspect", "/t", cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


def test_sigterm_ends_the_run_with_143(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal did not arrive")

    serve(body)
    before = signal.getsignal(signal.SIGTERM)
    ended = run("inspect", "/t", "--json")
    assert (ended.code, ended.err) == (143, "error: terminated\n")
    assert ended.document["error"]["id"] == "terminated"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_closed_pipe_is_no_error():
    line = f"{sys.executable} -m icectl inspect --help | true; echo ${{PIPESTATUS[0]}} >&2"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert ended.stderr == "0\n"


@pytest.mark.parametrize("extra", [["--help"], []])
def test_a_full_device_is_one_clear_message(tmp_path, extra):
    with Path("/dev/full").open("w") as full:
        ended = icectl_into(full, "inspect", str(tmp_path), *extra)
    expected = {0: 10, 1: 13}[len(extra)]
    assert ended.returncode == expected
    assert len(ended.stderr.splitlines()) == 2


def icectl_into(stdout: object, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "icectl", *arguments],
        stdout=stdout,  # type: ignore[call-overload]
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [
        ("<&-", True, True),
        (">&-", False, True),
        ("2>&-", True, False),
        ("<&- >&- 2>&-", False, False),
    ],
)
def test_a_closed_stream_is_no_bug(tmp_path, closed, out, err):
    line = f"{sys.executable} -m icectl inspect {tmp_path} --json {closed}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == 10
    assert bool(ended.stdout) is out
    assert [line.split(":")[0] for line in ended.stderr.splitlines()] == ["error", "hint"] * err


FAKE = r"""
import sys
import threading
import time
from icectl.cli import app
from icectl.cli.options import Common, TableArgument, command
from icectl.errors import Refused
from icectl.cli.document import Outcome
@command('inspect', examples=[], exit_codes=())
def inspect(common: Common, table: TableArgument) -> Outcome:
    if table == '/refused': raise Refused('no')
    if table == '/thread': threading.Thread(target=time.sleep, args=(600,)).start()
    lines = ['\u8868\udc80'] if table == '/name' else [f'row {n}' for n in range(100000)]
    return Outcome('inspect', {}, lambda console: console.write('\n'.join(lines) + '\n'))
app.load_command = lambda name: inspect
import icectl.__main__
icectl.__main__.main()
"""
"""A process whose command prints much, fails, or prints a name that no locale knows."""


def fake(line: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line, sys.executable, FAKE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **more},
    )


def test_a_pipe_that_closes_while_rows_are_written_is_no_error():
    ended = fake('"$0" -c "$1" inspect /t | head -1; echo ${PIPESTATUS[0]}')
    assert (ended.stdout, ended.stderr) == ("row 0\n0\n", "")


def test_a_thread_that_still_waits_does_not_hold_up_the_end():
    ended = fake('timeout 60 "$0" -c "$1" inspect /thread | wc -l; echo ${PIPESTATUS[0]}')
    assert (ended.stdout.split(), ended.stderr) == (["100000", "0"], "")


def test_a_failure_keeps_its_code_when_the_pipe_is_closed():
    ended = fake(
        '"$0" -c "$1" inspect /refused --json | (exec 0<&-; sleep 1); echo ${PIPESTATUS[0]}'
    )
    assert (ended.stdout, ended.stderr) == ("5\n", "error: no\n")


def test_rows_that_do_not_fit_the_device_are_a_failure():
    ended = fake('"$0" -c "$1" inspect /t --json > /dev/full; echo $?')
    assert ended.stdout == "13\n"
    assert ended.stderr.startswith("error: no space left on the device\n")


def test_names_that_the_locale_cannot_print_are_escaped():
    ended = fake('"$0" -c "$1" inspect /name', PYTHONIOENCODING="ascii")
    assert (ended.stdout, ended.stderr) == ("\\u8868\\udc80\n", "")


def test_quiet_leaves_out_reports_but_not_data_warnings_or_errors(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        console = common.shell.console
        console.note("a note")
        console.warn("a warning")

        def render(console: object) -> None:
            common.shell.console.print("data")
            common.shell.console.say("a report")

        return Outcome("inspect", {}, render)

    serve(body)
    assert run("inspect", "/t", "-q").out == "data\n"
    assert run("inspect", "/t", "-q").err == "warning: a warning\n"
    assert run("inspect", "/t").out == "data\na report\n"
    assert run("inspect", "/t").err == "a note\nwarning: a warning\n"


def test_verbose_prints_where_each_value_comes_from(run, serve, monkeypatch, tmp_path):
    serve(done)
    config = tmp_path / "my.toml"
    config.write_text('metrics-file = "/dev/null/x"\n[storage-options]\nregion = "eu-1"\n')
    monkeypatch.setenv("ICECTL_CONCURRENCY", "3")
    ended = run("inspect", "/t", "-v", "--time-limit", "2m", "--config", str(config))
    assert ended.err.splitlines()[:9] == [
        "setting: concurrency = 3 (ICECTL_CONCURRENCY)",
        "setting: time-limit = 2m (--time-limit)",
        "setting: temp-dir = not set (built-in)",
        "setting: color = auto (built-in)",
        "setting: progress = true (built-in)",
        f"setting: metrics-file = /dev/null/x (`metrics-file` in {config})",
        "setting: state-dir = not set (built-in)",
        "setting: default-catalog = not set (built-in)",
        f"setting: storage-options.region = *** ({config})",
    ]


def test_color_follows_option_then_environment(run, serve, monkeypatch):
    serve(failing(Refused("no")))
    plain, painted = "error: no\n", "\x1b[1;31merror:\x1b[0m no\n"
    assert run("inspect", "/t").err == plain
    assert run("inspect", "/t", "--color", "always").err == painted
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run("inspect", "/t").err == painted
    assert run("inspect", "/t", "--color=never").err == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("inspect", "/t").err == plain
    assert run("inspect", "/t", "--color", "always").err == painted


def test_errors_of_the_command_line_have_the_color_it_asks_for(run):
    assert run("nope", "--color=always").err.startswith("\x1b[1;31merror:\x1b[0m there is no")


def test_debug_prints_log_records_without_secrets(run, serve, monkeypatch):
    monkeypatch.setenv("STORE_SECRET", "hunter2-hunter2")

    def body(common: Common, change: Change) -> Outcome:
        from icectl.cli.session import open_session

        open_session(common, "/t", read_only=True)
        logging.getLogger("icectl.storage").debug("signed with %s", "hunter2-hunter2")
        common.shell.console.warn("token abc123xyz seen")
        raise ValueError("cannot sign with hunter2-hunter2")

    serve(body)
    options = ["secret=env:STORE_SECRET", "key=abc123xyz", "anon=false"]
    given = [word for option in options for word in ("--storage-option", option)]
    ended = run("inspect", "/t", "-vv", "--json", *given)
    assert ended.code == 1
    assert ended.document["dry_run"] is False
    assert ended.document["error"]["message"] == (
        "unexpected failure: ValueError: cannot sign with ***"
    )
    assert "debug: icectl.storage: signed with ***" in ended.err
    assert "warning: token *** seen" in ended.err
    for secret in ("hunter2", "abc123xyz"):
        assert secret not in ended.err
        assert secret not in ended.out


def test_once_verbose_prints_no_log_records(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        logging.getLogger("icectl.storage").debug("a call")
        return done(common, change)

    serve(body)
    assert "a call" not in run("inspect", "/t", "-v").err
    assert "debug: icectl.storage: a call" in run("inspect", "/t", "-vv").err


def test_debug_goes_on_while_rows_are_rendered(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        def render(console: Console) -> None:
            logging.getLogger("icectl.storage").debug("read late")

        return Outcome("inspect", {}, render)

    serve(body)
    assert run("inspect", "/t", "-vv").err.endswith("debug: icectl.storage: read late\n")


def test_a_failure_while_rows_are_rendered_is_reported(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        def render(console: Console) -> None:
            console.print("first row")
            raise StorageError("the second is gone")

        return Outcome("inspect", {}, render)

    serve(body)
    ended = run("inspect", "/t")
    assert (ended.code, ended.out) == (13, "first row\n")
    assert ended.err == "error: the second is gone\n"


def test_a_question_without_a_terminal_is_wrong_usage(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        assert common.shell.console.ask("sure?")
        return done(common, change)

    serve(body)
    ended = run("inspect", "/t")
    assert ended.code == 2
    assert ended.err == (
        "error: cannot ask for confirmation without a terminal\nhint: confirm with `--yes`, or "
        "see the plan with `--dry-run`\n"
    )


def test_options_reach_the_function(run, serve):
    seen: list[tuple[Common, Change]] = []

    def body(common: Common, change: Change) -> Outcome:
        seen.append((common, change))
        return done(common, change)

    serve(body)
    run(
        "inspect",
        "/t",
        "-n",
        "-y",
        "--skip-if-busy",
        "--deleted-list",
        "d",
        "-vv",
        "--path-map",
        "a=b",
    )
    ((common, change),) = seen
    assert change == Change(dry_run=True, yes=True, skip_if_busy=True, deleted_list="d")
    assert common.path_map == ["a=b"]
    assert common.verbose == 2


def test_the_deadline_counts_from_the_start_of_the_run(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        deadline = common.shell.deadline
        assert deadline.remaining_seconds == 90.0
        common.shell.env.sleep(89.0)
        deadline.check()
        common.shell.env.sleep(1.0)
        deadline.check()
        raise AssertionError("the deadline did not end the run")

    serve(body)
    ended = run("inspect", "/t", "--time-limit", "90s", "--json")
    assert ended.code == 3
    assert ended.document["status"] == "incomplete"
    assert ended.document["error"]["id"] == "time-limit"


def metrics(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)


def test_metrics_are_written_after_success_and_after_failure(run, serve, tmp_path):
    file = tmp_path / "icectl.prom"
    serve(done)
    run("inspect", "/wh/t", "--metrics-file", str(file))
    labels = 'command="inspect",table="/wh/t"'
    written = metrics(file.read_text())
    assert written[f"icectl_last_run_exit_code{{{labels}}}"] == "0"
    assert written[f'icectl_last_run_count{{{labels},name="rows"}}'] == "7"
    assert written[f"icectl_last_run_timestamp_seconds{{{labels}}}"] == "1700000000.0"
    serve(failing(Refused("no")))
    assert run("inspect", "/wh/t", "--metrics-file", str(file)).code == 5
    written = metrics(file.read_text())
    assert written[f"icectl_last_run_exit_code{{{labels}}}"] == "5"
    assert written[f"icectl_last_run_success{{{labels}}}"] == "0"
    assert written[f'icectl_last_run_status{{{labels},status="refused"}}'] == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["icectl.prom"]


def test_metrics_may_go_to_a_pipe():
    ended = icectl("inspect", "/nope", "--metrics-file", "/dev/stdout")
    assert ended.returncode == 10
    assert ended.stdout.startswith("# HELP icectl_last_run_timestamp_seconds ")
    assert Path("/dev/stdout").is_symlink()


def test_metrics_that_cannot_be_written_are_a_warning(run, serve):
    serve(done)
    ended = run("inspect", "/t", "--json", "--metrics-file", "/nonexistent/folder/m.prom")
    assert ended.code == 0
    (warning,) = ended.document["warnings"]
    assert warning.startswith("cannot write the metrics to `/nonexistent/folder/m.prom`: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--storage-option", "x"], "`--storage-option`: `x` has no `=` between its two parts"),
        (["--path-map", "/a"], "`--path-map`: `/a` has no `=` between its two parts"),
        (["--path-map", "=/a"], "`--path-map`: `=/a` has nothing before its `=`"),
        (
            ["--storage-option", "secret=env:NOT_SET_ANYWHERE"],
            "storage option `secret`: environment variable `NOT_SET_ANYWHERE` is not set",
        ),
        (["--temp-dir", "/nope"], "`--temp-dir`: there is no folder `/nope`"),
        (["--config", "/nope.toml"], "`--config`: there is no file `/nope.toml`"),
    ],
)
def test_options_for_reading_the_table_are_checked(run, serve, arguments, message):
    def body(common: Common, change: Change) -> Outcome:
        from icectl.cli.session import open_session

        open_session(common, "/t", read_only=True)
        return done(common, change)

    serve(body)
    ended = run("inspect", "/t", *arguments)
    assert ended.code == 2
    assert ended.err.splitlines()[0] == f"error: {message}"


def test_temporary_files_go_where_the_option_says(run, serve, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)

    def body(common: Common, change: Change) -> Outcome:
        from icectl.cli.session import open_session

        open_session(common, "/t", read_only=True)
        assert tempfile.gettempdir() == str(tmp_path)
        return done(common, change)

    serve(body)
    assert run("inspect", "/t", "--temp-dir", str(tmp_path)).code == 0


def test_path_map_on_a_command_that_changes_needs_a_dry_run(run, serve):
    def body(common: Common, change: Change) -> Outcome:
        from icectl.cli.session import open_session

        open_session(common, "/t", read_only=False, change=change)
        return done(common, change)

    serve(body)
    assert run("inspect", "/t", "--path-map", "/a=/b").code == 2
    assert run("inspect", "/t", "--path-map", "/a=/b", "-n").code == 0
    assert run("inspect", "/t", "--path-map", "/a=/b", "--check").code == 0


def test_path_map_splits_at_the_last_equals_sign_and_reads_files(run, serve, tmp_path):
    lines = tmp_path / "map.tsv"
    lines.write_text("# moved in May\ns3://old/wh\t/new wh\n")
    seen: list[object] = []

    def body(common: Common, change: Change) -> Outcome:
        from icectl.cli.session import open_session

        seen.append(open_session(common, "/t", read_only=True).context.store.path_map)  # type: ignore[attr-defined]
        return done(common, change)

    serve(body)
    run("inspect", "/t", "--path-map", "/a/p=1=/b", "--path-map-file", str(lines))
    assert seen == [(("/a/p=1", "/b"), ("s3://old/wh", "/new wh"))]


def test_no_table_there_is_exit_10_for_the_installed_command(tmp_path):
    ended = icectl("inspect", str(tmp_path / "none"), "--json")
    assert ended.returncode == 10
    assert json.loads(ended.stdout)["error"]["id"] == "table-not-found"
