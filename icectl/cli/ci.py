"""What CI systems read: annotations of GitHub, JUnit's XML and SARIF, from a run's document."""

import json
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any
from xml.etree import ElementTree as ET

from icectl import __version__
from icectl.errors import UsageError
from icectl.sfc1.rules import EVERY_RULE
from icectl.units import inert

CI_FORMATS = ("github", "junit", "sarif")
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_PROJECT = "https://pypi.org/project/icectl/"
_NO_XML = {code: "?" for code in range(32) if code not in (9, 10, 13)} | {0xFFFE: "?", 0xFFFF: "?"}


@dataclass(frozen=True, slots=True)
class _Message:
    """A finding on a table, work that `--check` has found, or an error.

    `fails` where it is of a run that does not exit with 0, `is_error` where it kept the run from
    finding anything.
    """

    table: str
    rule: str
    severity: str
    subject: str
    message: str
    hint: str | None
    fails: bool = True
    is_error: bool = False


def check_ci_format(output_format: str | None, *, is_check: bool) -> None:
    """Raises: UsageError, for a format that there is not, or one without anything to tell in it."""
    if output_format is None or output_format in ("text", "json"):
        return
    if output_format not in CI_FORMATS:
        shown = ", ".join(("text", "json", *CI_FORMATS))
        raise UsageError(f"`--format` is one of {shown}, not `{output_format}`")
    if not is_check:
        raise UsageError(f"`--format {output_format}` needs `--check`")


def ci_text(output_format: str, built: Mapping[str, Any], table: str) -> str:
    """Print a document in a format of CI; `table` as the command line names it."""
    messages = _messages(built, table)
    if built["status"] == "incomplete" and "tables" not in (built["result"] or {"tables": ()}):
        text = "part of the table could not be read"
        hint = f"`icectl validate {quote(table)}` names what is missing"
        messages.append(_Message(table, "incomplete", "error", table, text, hint, is_error=True))
    on_one_line = [
        replace(
            message,
            table=inert(message.table),
            subject=inert(message.subject),
            message=inert(message.message),
            hint=None if message.hint is None else inert(message.hint),
        )
        for message in messages
    ]
    return _WRITERS[output_format](on_one_line, built, inert(table))


def _messages(built: Mapping[str, Any], table: str) -> list[_Message]:
    command, error, result = built["command"] or "icectl", built["error"], built["result"] or {}
    if error is not None:
        message, hint = error["message"], error["hint"]
        return [_Message(table, error["id"], "error", table, message, hint, is_error=True)]
    if command == "maintain":
        return [item for row in result.get("tables", ()) for item in _maintenance_messages(row)]
    if "tables" in result:
        return [item for row in result["tables"] for item in _row_messages(built, row)]
    fails = built["exit"] != 0
    if "findings" in result and command == "validate":
        members = ("rule", "severity", "subject", "message", "hint")
        return [
            _Message(table, **{name: item[name] for name in members}, fails=fails)
            for item in result["findings"]
        ]
    if result.get("view") == "health":
        severities = {"attention": "warning", "critical": "error"}
        return [
            _Message(
                table,
                f"health-{name.replace('_', '-')}",
                severities[check["verdict"]],
                table,
                check["found"],
                f"`icectl {check['command']} {quote(table)}`" if check["command"] else None,
                fails,
            )
            for name, check in result.items()
            if isinstance(check, Mapping) and check.get("verdict") in severities
        ]
    if built["exit"] == 4:
        message, hint = f"`icectl {command}` has work to do", f"`icectl {command} {quote(table)}`"
        return [_Message(table, command, "warning", table, message, f"{hint} does it")]
    message = f"`icectl {command}` would be refused"
    return [_Message(table, command, "error", table, message, None)] if built["exit"] == 5 else []


def _row_messages(built: Mapping[str, Any], row: Mapping[str, Any]) -> list[_Message]:
    """Return the messages on one table of several."""
    table, result = row["table"], row["result"]
    if result is None:
        reason, hint = row["reason"], row["hint"]
        return [_Message(table, row["status"], "error", table, reason, hint, is_error=True)]
    # Health is judged for all tables together, all else table by table.
    code = built["exit"] if result.get("view") == "health" else row["exit"]
    return _messages({**built, "result": result, "exit": code}, table)


def _maintenance_messages(row: Mapping[str, Any]) -> Iterator[_Message]:
    """Yield the needed steps of a table in a warehouse, or its error."""
    table = row["table"]
    planned = {step["step"] for step in row["steps"] if step["status"] == "planned"}
    if row["exit"]:
        yield _Message(table, row["status"], "error", table, row["reason"] or "", row["hint"])
    for need in row["needs"]:
        if row["status"] == "planned" and need["step"] in planned:
            message = f"{need['step']}: {need['reason']}"
            hint = f"`icectl maintain {quote(table)}` does it"
            yield _Message(table, "maintain", "warning", table, message, hint)


def _github(messages: Sequence[_Message], built: Mapping[str, Any], table: str) -> str:  # noqa: ARG001
    """Return workflow commands, a line each; `%` and line ends are escaped."""
    levels = {"error": "error", "warning": "warning", "info": "notice"}
    lines = []
    for message in messages:
        title = _escape(f"{message.rule} {message.table}").replace(":", "%3A").replace(",", "%2C")
        text = f"{message.subject}: " if message.subject != message.table else ""
        text += message.message + (f" ({message.hint})" if message.hint else "")
        lines.append(f"::{levels[message.severity]} title={title}::{_escape(text)}\n")
    return "".join(lines)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _junit(messages: Sequence[_Message], built: Mapping[str, Any], table: str) -> str:
    """Return one suite a run, a case a finding; what does not fail the run is what a case says."""
    failing = [message for message in messages if message.fails and message.severity != "info"]
    errors = sum(message.is_error for message in messages)
    rows = (built["result"] or {}).get("tables")
    tables = [table] if rows is None else [inert(row["table"]) for row in rows]
    named_tables = {message.table for message in messages}
    silent = [name for name in tables if name not in named_tables]
    suite = ET.Element(
        "testsuite",
        name=f"icectl {built['command'] or ''}".strip(),
        tests=str(len(messages) + len(silent)),
        failures=str(len(failing) - errors),
        errors=str(errors),
    )
    for name in silent:
        ET.SubElement(suite, "testcase", classname=_xml(name), name=_xml(name))
    for message in messages:
        name = _xml(f"{message.rule} {message.subject}")
        case = ET.SubElement(suite, "testcase", classname=_xml(message.table), name=name)
        text = message.message + (f"\n{message.hint}" if message.hint else "")
        if message in failing:
            kind, shown = "error" if message.is_error else "failure", _xml(message.message)
            ET.SubElement(case, kind, message=shown, type=message.severity).text = _xml(text)
        else:
            ET.SubElement(case, "system-out").text = _xml(f"{message.severity}: {text}")
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, "unicode") + "\n"


def _xml(text: str) -> str:
    """Return a text without the characters that XML cannot hold."""
    return text.translate(_NO_XML)


def _sarif(messages: Sequence[_Message], built: Mapping[str, Any], table: str) -> str:  # noqa: ARG001
    """SARIF 2.1.0: rules with their text, results with the object as a logical location."""
    ids = list(dict.fromkeys(message.rule for message in messages))
    titles = {id_: EVERY_RULE[id_].title if id_ in EVERY_RULE else id_ for id_ in ids}
    rules = [{"id": id_, "shortDescription": {"text": title}} for id_, title in titles.items()]
    results = [
        {
            "ruleId": message.rule,
            "ruleIndex": ids.index(message.rule),
            "level": _LEVELS[message.severity],
            "message": {"text": message.message + (f" ({message.hint})" if message.hint else "")},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": _uri(message.table)}},
                    "logicalLocations": [{"fullyQualifiedName": message.subject}],
                }
            ],
        }
        for message in messages
    ]
    driver = {
        "name": "icectl", "version": __version__, "informationUri": _PROJECT, "rules": rules,
    }  # fmt: skip
    is_whole = built["error"] is None and built["status"] != "incomplete"
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": is_whole, "exitCode": built["exit"]}],
        "results": results,
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _uri(table: str) -> str:
    return table if "://" in table else urllib.parse.quote(table)


_WRITERS: Mapping[str, Callable[[Sequence[_Message], Mapping[str, Any], str], str]] = {
    "github": _github, "junit": _junit, "sarif": _sarif,
}  # fmt: skip
