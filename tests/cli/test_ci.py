"""What CI reads: exit codes of health, annotations, JUnit, SARIF, schemas, scripts and pages."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft202012Validator

from icectl.cli import documentation
from icectl.cli.documentation import plain_page
from icectl.cli.registry import COMMANDS
from icectl.table.reviewed import PLANNED
from tests.builders.table_builder import filled_table

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Six small files, which want to be one."""
    return filled_table(tmp_path / "t", *([number] for number in range(6))).metadata.location


@pytest.fixture
def broken(table: str) -> str:
    """The same without one of its data files."""
    min(Path(table, "data").glob("*.parquet")).unlink()
    return table


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 0), (("--check",), 4), (("--fail-on", "attention"), 4),
        (("--fail-on", "critical"), 0), (("--check", "--fail-on", "critical"), 0),
        (("--fail-on", "ok"), 2),
    ],
)  # fmt: skip
def test_health_ends_with_4_from_the_verdict_that_was_named_on(run, table, words, code):
    ended = run("inspect", table, "health", *words, "--json")
    assert (ended.code, ended.document["exit"]) == (code, code)
    if code != 2:
        assert ended.document["result"]["verdict"] == "attention"


def test_verdicts_are_for_health_alone(run, table):
    assert run("inspect", table, "files", "--check").code == 2
    assert run("inspect", table, "--fail-on", "critical").code == 2


def test_verdicts_are_metrics(run, table, tmp_path):
    place = tmp_path / "icectl.prom"
    assert run("inspect", table, "health", "--metrics-file", str(place)).code == 0
    labels = f'{{command="inspect",table="{table}",check='
    found = [line for line in place.read_text().splitlines() if "health_verdict{" in line]
    assert found[:4] == [
        f'icectl_health_verdict{labels}"all"}} 1',
        f'icectl_health_verdict{labels}"expired_rows"}} 0',
        f'icectl_health_verdict{labels}"erasures"}} 0',
        f'icectl_health_verdict{labels}"small_files"}} 1',
    ]
    assert len(found) == 12


def test_findings_are_annotations_of_github(run, broken):
    ended = run("validate", broken, "--format", "github")
    assert ended.code == 4
    (line,) = ended.out.splitlines()
    title = broken.replace(":", "%3A")
    assert line.startswith("::error title=R-")
    assert f" {title}::" in line
    assert run("validate", broken, "--level", "metadata", "--format", "github").out == ""


def test_findings_are_failures_of_junit(run, broken):
    (suite,) = ET.fromstring(run("validate", broken, "--format", "junit").out)
    assert (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors")) == (
        "icectl validate", "1", "1", "0",
    )  # fmt: skip
    (case,) = suite
    (failure,) = case
    assert (case.get("classname"), failure.tag, failure.get("type")) == (broken, "failure", "error")


def test_a_table_without_findings_is_a_case_that_passes(run, table):
    ended = run("validate", table, "--format", "junit")
    assert ended.code == 0
    (suite,) = ET.fromstring(ended.out)
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    assert [[*case] for case in suite] == [[]]


def test_findings_are_results_of_sarif(run, broken):
    found: dict[str, Any] = json.loads(run("validate", broken, "--format", "sarif").out)
    assert (found["version"], len(found["runs"])) == ("2.1.0", 1)
    (result,) = found["runs"][0]["results"]
    (rule,) = found["runs"][0]["tool"]["driver"]["rules"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == (rule["id"], 0, "error")
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == broken
    assert place["logicalLocations"][0]["fullyQualifiedName"].endswith(".parquet")
    assert found["runs"][0]["invocations"] == [{"executionSuccessful": True, "exitCode": 4}]


@pytest.mark.parametrize("form", ["github", "junit", "sarif"])
def test_work_that_a_check_finds_is_told(run, table, form):
    ended = run("rewrite-manifests", table, "--check", "--format", form)
    assert ended.code == 4
    assert "`icectl rewrite-manifests` has work to do" in ended.out
    assert f"`icectl rewrite-manifests {table}` does it" in ended.out
    ended = run("inspect", table, "health", "--check", "--format", form)
    assert ended.code == 4
    assert f"`icectl compact {table}`" in ended.out


@pytest.mark.parametrize("form", ["github", "junit", "sarif"])
def test_the_error_of_a_run_is_told(run, tmp_path, form):
    ended = run("validate", str(tmp_path / "none"), "--format", form)
    assert ended.code == 10
    assert "table-not-found" in ended.out
    if form == "junit":
        assert ET.fromstring(ended.out)[0].get("errors") == "1"


def test_formats_of_ci_go_with_a_check(run, table):
    assert run("rewrite-manifests", table, "-n", "--format", "junit").code == 2
    assert run("validate", table, "--format", "xml").code == 2
    assert run("validate", table, "--format", "junit", "--json").code == 2
    assert run("validate", table, "--format", "json").document["exit"] == 0


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "apply"])
def test_schemas_are_printed_whole(run, name):
    ended = run("schema", name)
    assert ended.code == 0
    schema = json.loads(ended.out)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["command"] == {"const": name}
    if name in {*PLANNED, "maintain"}:
        schema = json.loads(run("schema", name, "--plan").out)
        Draft202012Validator.check_schema(schema)
        assert "hash" in schema["required"]
    else:
        assert run("schema", name, "--plan").code == 2


def test_schemas_hold_for_what_is_printed(run, table):
    schema = json.loads(run("schema", "expire-snapshots").out)
    document = run("expire-snapshots", table, "-n", "--json").document
    Draft202012Validator(schema).validate(document)


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", "icectl.bash"),
        ("zsh", "_icectl"),
        ("fish", "icectl.fish"),
        ("powershell", "icectl.ps1"),
    ],
)
def test_scripts_of_shells_are_printed(run, shell, file):
    ended = run("completion", shell)
    assert (ended.code, ended.out) == (0, (ROOT / "completions" / file).read_text())


def test_pages_of_the_manual_are_printed(run):
    for words, file in (
        (("man",), "icectl.1"),
        (("man", "compact"), "icectl-compact.1"),
        (("man", "icectl.toml"), "icectl.toml.5"),
        (("man", "maintain.toml"), "maintain.toml.5"),
    ):
        source = (ROOT / "man" / file).read_text()
        assert run(*words, "--roff").out == source
        assert run(*words).out == plain_page(source)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_pipe_and_a_terminal_without_man_get_plain_text(run, monkeypatch, is_terminal):
    monkeypatch.setattr(documentation, "find_program", lambda _: None)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    page = run("man", "compact").out
    assert "\nEXIT STATUS\n" in page
    assert "\n    --target-file-size SIZE\n        size of new files" in page
    for name in ("icectl", "maintain", "icectl.toml", "maintain.toml"):
        page = run("man", name).out if name != "icectl" else run("man").out
        assert not re.search(r"^\.[A-Z\"]|\\[f&e(-]", page, re.MULTILINE)
        assert max(map(len, page.partition("\nEXAMPLE\n")[0].splitlines())) < 80


@pytest.mark.parametrize("words", ["schema", "schema apply", "schema x", "man x", "completion"])
def test_what_there_is_not_is_wrong_usage(run, words):
    ended = run(*words.split())
    assert (ended.code, ended.out) == (2, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_by_its_script():
    asked = (
        f"source {ROOT}/completions/icectl.bash; "
        "COMP_WORDS=(icectl expire-s); COMP_CWORD=1; _icectl; "
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(icectl compact t --engine a); COMP_CWORD=4; _icectl; '
        'echo "${COMPREPLY[@]}"'
    )
    ended = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["expire-snapshots", "auto"]


def test_limits_of_health_are_settings(run, table, tmp_path, monkeypatch):
    settings = tmp_path / "icectl.toml"
    settings.write_text('[health]\nfiles-to-save = "2, 5"\nreclaimable = "50%, 200%"\n')
    ended = run("inspect", table, "health", "--config", str(settings), "--json")
    found = ended.document["result"]
    assert (found["verdict"], found["small_files"]["verdict"]) == ("critical", "critical")
    assert found["small_files"]["threshold"] == ("attention from 2 fewer files, critical from 5")
    assert found["reclaimable"]["threshold"] == (
        "attention from 50% of the live bytes, critical from 200%"
    )
    monkeypatch.setenv("ICECTL_HEALTH_FILES_TO_SAVE", "100, 1000")
    monkeypatch.setenv("ICECTL_HEALTH_MANIFESTS_TO_SAVE", "100, 1000")
    assert run("inspect", table, "health", "--check", "--json").code == 0
    for wrong in ("5", "5, 4", "a, b", "-1, 5", "1, inf"):
        monkeypatch.setenv("ICECTL_HEALTH_FILES_TO_SAVE", wrong)
        ended = run("inspect", table, "health", "--json")
        assert (ended.code, ended.document["error"]["id"]) == (2, "usage")
