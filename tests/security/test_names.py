"""Names and values of tables, catalogs and libraries are shown, and never obeyed."""

import csv
import io
import json
import logging
import re
import shlex
import threading
import warnings
import xml.etree.ElementTree as ET
from queue import SimpleQueue

import pytest

from icectl.catalog.identifier import TableName, no_table
from icectl.cli import progress_bar
from icectl.cli.ci import ci_text
from icectl.cli.console import Console, ConsoleOptions, messages_of_libraries
from icectl.cli.document import csv_text, write_deleted_list
from icectl.cli.metrics import metrics_text
from icectl.cli.tables import TableColumn, print_pairs, print_table
from icectl.env import SystemEnv
from icectl.errors import UsageError
from icectl.units import as_html
from tests.builders.rows import current_metadata
from tests.builders.table_builder import filled_table
from tests.builders.terminal import Terminal

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
NAMES = {
    "a line of a log": "x\n::error::spoofed",
    "another end of line": "x\r::stop-commands::y",
    "separators": "x\u2028::error::y\u2029z\x85::error::z",
    "hidden text": "x\x1b[8mhidden",
    "an address": "\x1b]8;;http://thief\x07x\x1b]8;;\x07",
    "C1": "x\x9b8m\x9d0;title\x9c",
    "bidi": f"x{BIDI}gpj.exe",
    "a command at the beginning": "::error::x",
    "a command of Azure": "x ##vso[task.setvariable variable=a]b ##[error]c",
    "spoofed message": "x\nerror: spoofed",
}
OBEYED = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029" + BIDI + r"]|^\s*::|##(vso)?\[", re.MULTILINE
)


def console(answer: str = "") -> tuple[Console, io.StringIO, io.StringIO]:
    """A console without colours on terminals."""
    out, err = Terminal(), Terminal()
    options = ConsoleOptions(color="never", verbosity=2, progress=False)
    return Console(out, err, Terminal(answer), SystemEnv(), options), out, err


def check(text: str, lines: int) -> None:
    """Nothing in a text is obeyed, and it has as many lines as it should."""
    assert OBEYED.search(text) is None, repr(text)
    assert len(text.splitlines()) == lines, repr(text)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_no_name_leaves_its_line(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    made, out, err = console("n\n")
    made.print(name)
    made.say(name.replace(" ", "_"))
    made.write(f"x {name}".replace("\n", "").replace("##", "#") + "\n")
    print_table(made, [TableColumn("a")], [[name]])
    print_pairs(made, [(name, name)])
    check(out.getvalue(), 6)
    made.note(name)
    made.detail(name)
    made.debug(name.replace("\n", ""))
    made.warn(name)
    made.hint(name)
    made.error(UsageError(name, hint=name))
    assert not made.ask(name)
    check(err.getvalue(), 8)


def test_colors_of_names_do_not_pass_where_there_are_colors():
    out = Terminal()
    options = ConsoleOptions(color="always")
    made = Console(out, Terminal(), Terminal(), SystemEnv(), options)
    made.print(made.style("own \x1b[8mname", "red") + "\x1b[8m")
    made.print("\x1b[31mx\x1b[0m")
    assert out.getvalue().splitlines() == [
        "\x1b[31mown \\x1b[8mname\x1b[0m\\x1b[8m", "\\x1b[31mx\\x1b[0m",
    ]  # fmt: skip


def test_a_traceback_keeps_its_lines_and_begins_no_other_message():
    made, _, err = console()
    made.error_lines(["Traceback:\n", "  File x\n", "ValueError: a\n::error::b\nerror: c\n"])
    assert err.getvalue().splitlines() == [
        "Traceback:", "  |   File x", "  | ValueError: a", "  | :\\:error::b", "  | error: c",
    ]  # fmt: skip


def test_progress_shows_names_in_one_line(monkeypatch):
    monkeypatch.setattr(progress_bar, "_LINE_EVERY_SECONDS", 0.01)
    lines = SimpleQueue()
    made, _, err = console()
    progress = progress_bar.ConsoleProgress(
        err=err,
        env=SystemEnv(),
        enabled=True,
        terminal=False,
        write_line=lines.put,
        warn=made.warn,
    )
    progress.phase("looking at x\n::error::y\x1b[8m")
    made.note(lines.get(timeout=60))
    progress.stop()
    check(err.getvalue(), 1)


@pytest.mark.parametrize("wanted", ["github", "junit", "sarif"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_formats_of_ci_keep_names_in_their_lines(name, wanted):
    finding = {"rule": "R-001", "severity": "error", "subject": name, "message": name, "hint": name}
    result = {"findings": [finding]}
    built = {
        "command": "validate", "error": None, "exit": 4, "status": "done", "result": result,
    }  # fmt: skip
    text = ci_text(wanted, built, name)
    if wanted == "github":
        assert text.count("\n") == text.count("::error title=") == 1
    else:
        assert not re.search(r"^\s*::", text, re.MULTILINE), text
    for shown in ("\x1b", "\u202e", "\u2028", "\x9b", "\r"):
        assert shown not in text
    if wanted == "junit":
        ET.fromstring(text)


@pytest.mark.parametrize("wanted", ["github", "junit", "sarif"])
@pytest.mark.parametrize("command", ["compact", "maintain", "inspect"])
def test_hints_in_formats_of_ci_are_quoted(wanted, command):
    table = "a b;$(id)"
    health = {"verdict": "critical", "found": "x", "command": "compact"}
    row = {"table": table, "exit": 0, "status": "planned", "reason": None, "hint": None,
           "steps": [{"step": "compact", "status": "planned"}],
           "needs": [{"step": "compact", "reason": "x"}]}  # fmt: skip
    result = {
        "compact": {},
        "maintain": {"tables": [row]},
        "inspect": {"view": "health", "small_files": health},
    }[command]
    built = {"command": command, "error": None, "exit": 4, "status": "done", "result": result}
    text = ci_text(wanted, built, table)
    if wanted == "sarif":
        text = json.loads(text)["runs"][0]["results"][0]["message"]["text"]
    assert f"`icectl {'maintain' if command == 'maintain' else 'compact'} 'a b;$(id)'`" in text


def test_cells_of_csv_are_no_formulas_and_keep_their_line():
    texts = [
        "=1+1", "+x", "-x", "@x", "\t=x", "\r=x", "a\n::error::b", "::error::c", "-5", "-1e3",
        "x",
    ]  # fmt: skip
    rows = [{"a": text, "b": -5} for text in texts]
    read = list(csv.reader(io.StringIO(csv_text(["a", "b"], rows))))
    assert [row[0] for row in read] == [
        "a", "'=1+1", "'+x", "'-x", "'@x", "'\\t=x", "'\\x0d=x", "a\\n::error::b", ":\\:error::c",
        "-5", "-1e3", "x",
    ]  # fmt: skip
    assert {row[1] for row in read[1:]} == {"-5"}
    assert csv_text(["=a"], []) == "'=a\n"


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_views_of_a_table_with_such_names(inspect, tmp_path, name):
    table = filled_table(tmp_path / "t", [1])
    table.ref(name, snapshot_id=table.append([2]))
    place = current_metadata(table.directory)
    metadata = json.loads(place.read_text())
    metadata["properties"][name] = name
    for snapshot in metadata["snapshots"]:
        snapshot["summary"]["operation"] = name
    place.write_text(json.dumps(metadata))
    for words in (
        [],
        ["snapshots"],
        ["refs"],
        ["properties"],
        ["tree"],
        ["tree", "--format", "mermaid"],
        ["snapshots", "--format", "csv"],
        ["refs", "--format", "csv"],
        ["properties", "--format", "csv"],
        ["snapshots", "--ref", name],
        [name],
    ):
        ended = inspect(str(table.directory), *words)
        assert OBEYED.search(ended.out + ended.err) is None, (words, ended.out + ended.err)
        assert not re.search(r"^error: spoofed", ended.out + ended.err, re.MULTILINE)


def test_hints_quote_what_they_name(inspect, tmp_path):
    place = tmp_path / "a b; $(id)"
    table = filled_table(place / "t", [1], [2])
    plan = place / "plan.json"
    expired = ("--older-than", "0s", "--retain-last", "1")
    words = (str(table.directory), *expired, "-n", "--save-plan", str(plan))
    ended = inspect(*words, command="expire-snapshots")
    assert f"`icectl apply {shlex.quote(str(plan))}` runs it" in ended.err
    missing = no_table("a; id", TableName(("n",), "t"), [])
    assert missing.hint == """`icectl inspect '"a; id".n'` lists its tables"""


def test_a_list_of_deleted_files_has_a_line_a_file(tmp_path):
    place = tmp_path / "list"
    write_deleted_list(str(place), ["s3://b/x\ns3://other/y", "z\udc80"])
    assert place.read_text().splitlines() == ["s3://b/x\\ns3://other/y", "z\\udc80"]


# -- secrets ------------------------------------------------------------------------------------


def test_secrets_are_hidden_as_whole_values():
    made, _, err = console()
    made.hide("a")
    made.hide("se.cr")
    made.hide("a-long-secret\n")
    assert made.redact("a table has key=a and 'a'") == "*** table has key=*** and '***'"
    assert (
        made.redact("cannot read a.b: se.cr, sexcr, se.crx")
        == "cannot read ***.b: ***, sexcr, se.crx"
    )
    assert made.redact("xa-long-secretx b'a-long-secret\\n'") == "x***x b'***\\n'"
    secret = "quo'te\u20ac/x y z"
    made.hide(secret)
    for spelled in (secret, repr(secret), json.dumps(secret), "quo%27te%E2%82%AC%2Fx%20y%20z"):
        assert "te" not in made.redact(spelled), spelled
    made.warn("xa-long-secretx")
    assert "secret" not in err.getvalue()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_what_libraries_write_by_themselves_is_escaped(name):
    err = io.StringIO()
    made = Console(io.StringIO(), err, io.StringIO(), SystemEnv(), ConsoleOptions())
    made.hide("a-long-secret")
    said = f"{name} a-long-secret"

    def fail() -> None:
        raise ValueError(said)

    root = logging.getLogger()
    own, root.handlers = root.handlers, []  # those of pytest
    before = threading.excepthook, logging.lastResort
    try:
        with warnings.catch_warnings(), messages_of_libraries(made):
            warnings.simplefilter("always")
            logging.getLogger("a.library").warning("logged %s", said)
            warnings.warn(f"warned {said}", stacklevel=1)
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()
    finally:
        root.handlers = own
    assert (threading.excepthook, logging.lastResort) == before
    assert not OBEYED.search(err.getvalue())
    assert "a-long-secret" not in err.getvalue()
    for what in ("logged ", "warned ", "ValueError: "):
        assert what in err.getvalue()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_labels_of_metrics_and_pages_have_nothing_to_obey(name):
    built = {"command": "inspect", "exit": 0, "status": "done", "result": None}
    text = metrics_text(built, table=name, now_ms=0, duration_seconds=0.0)
    for shown in (text, as_html(name)):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029" + BIDI + "]", shown)
    assert len(text.splitlines()) == len(
        metrics_text(built, table="t", now_ms=0, duration_seconds=0.0).splitlines()
    )
    assert as_html("<b>\n&") == "&lt;b&gt;\n&amp;"
