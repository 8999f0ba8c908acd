"""The recipes of docs/automation.md: each is run, or read by what would run it, where it can be."""

import ast
import json
import math
import operator
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from icectl.catalog.configured import read_configuration
from icectl.cli.app import parse
from icectl.cli.metrics import _HELP as METRICS
from icectl.cli.metrics import metrics_text
from icectl.cli.registry import COMMANDS
from icectl.cli.settings import Settings, resolve
from icectl.commands.maintain.policy import read_policy
from icectl.units import print_duration
from tests.builders.rows import current_metadata
from tests.builders.table_builder import TableBuilder, filled_table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "automation.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


def block(language: str, word: str) -> str:
    (found,) = [text for text in blocks(language) if word in text]
    return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with `icectl` on its path; of the tables in TABLES one has small files.

    POLICY is that of the page, without its window.
    """
    table = filled_table(tmp_path / "wh" / "t", *([number] for number in range(12)))
    TableBuilder(tmp_path / "wh" / "calm").append([1])
    policy = tmp_path / "maintain.toml"
    policy.write_text(re.sub("^window = .*$", "", block("toml", "[budget]"), flags=re.MULTILINE))
    (tmp_path / "icectl.toml").write_text(block("toml", "[catalog.prod]"))
    secrets = block("sh", "PROD_CREDENTIAL=").replace("/etc/icectl", str(tmp_path))
    (tmp_path / "icectl.env").write_text(secrets)
    program = tmp_path / "bin" / "icectl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m icectl "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{program.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT),
        "TABLE": str(table.directory), "TABLES": f"{tmp_path}/wh/*", "POLICY": str(policy),
        "XDG_CONFIG_HOME": str(tmp_path), "ICECTL_COMPACT_ENGINE": "local",
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return {**os.environ, **environment}


def sh(line: str, environment: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-ec", line],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_command_line_of_the_page_parses():
    page = re.sub(r"\"\$TABLES\"|'?\{TABLES\}'?|\{POLICY\}|%I", "t", PAGE)
    words = "|".join(COMMANDS)
    lines = re.findall(rf"\bicectl ((?:{words}) .*?)(?:$|&&|>|`|\")", page, re.MULTILINE)
    lines = [line for line in lines if not line.startswith("inspect {{")]
    assert len(lines) >= 10
    for line in lines:
        assert parse(line.split()) is not None, line


def test_lines_of_the_crontab_run(machine, tmp_path):
    jobs = [line for line in block("crontab", "TABLES=").splitlines() if line[0].isdigit()]
    for job, result in zip(jobs, ("icectl.prom", "tables.html"), strict=True):
        *_, user, line = job.split(maxsplit=6)
        assert user == "icectl"
        assert "%" not in line  # which cron takes for the end of the line
        for folder in ("/var/lib/icectl", "/etc/icectl"):
            line = line.replace(folder, str(tmp_path))
        ended = sh(line, machine, tmp_path)
        assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
        assert (tmp_path / result).exists()
    text = (tmp_path / "icectl.prom").read_text()
    labels = f'{{command="maintain",table="{machine["TABLE"]}",status="done"}}'
    assert f"icectl_last_run_status{labels} 1" in text
    labels = f'{{command="inspect",table="{machine["TABLE"]}",check="all"}}'
    assert f"icectl_health_verdict{labels} 0" in (tmp_path / "icectl-health.prom").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_accepts_its_units(tmp_path):
    for text, name in zip(blocks("ini"), ("icectl@.service", "icectl@.timer"), strict=True):
        (tmp_path / name).write_text(text.replace("/opt/icectl/bin/icectl", "/bin/true"))
    units = [str(tmp_path / name) for name in ("icectl@t.service", "icectl@t.timer")]
    ended = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_the_cron_job_runs_as_nobody_on_a_root_that_is_read_only(tmp_path):
    config, job = yaml.safe_load_all(block("yaml", "kind: CronJob"))
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "runAsUser": 10001}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert parse(container["args"]) is not None
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    (tmp_path / "icectl.toml").write_text(config["data"]["icectl.toml"])
    environment = {each["name"]: each.get("value", "from a secret") for each in container["env"]}
    assert environment["ICECTL_CONFIG"] == "/etc/icectl/icectl.toml"
    settings = resolve({}, {}, str(tmp_path / "icectl.toml"))
    assert catalog_of(settings, environment) == PROD | {"credential": "from a secret"}
    (tmp_path / "maintain.toml").write_text(config["data"]["maintain.toml"])
    read_policy(str(tmp_path / "maintain.toml"))
    dockerfile = ROOT / "docs" / "container" / "Dockerfile"
    assert "\nUSER 10001\n" in dockerfile.read_text()


PROD = {"uri": "https://catalog.example/api", "warehouse": "prod"}


def catalog_of(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """The properties of the catalog `prod` by settings and environment, secrets in place."""
    configuration = read_configuration(environment, settings.catalogs, list)
    return dict(configuration.settings("prod", environment, {}).properties)


def test_the_settings_of_the_page_name_the_catalog(tmp_path):
    file = tmp_path / "icectl.toml"
    file.write_text(block("toml", "[catalog.prod]"))
    found = catalog_of(resolve({}, {}, str(file)), {"PROD_CREDENTIAL": "a:b"})
    assert found == PROD | {"credential": "a:b"}


@pytest.mark.parametrize("word", ["runs-on", "before_script"])
def test_workflows_bring_catalog_and_secret(word):
    workflow = yaml.safe_load(block("yaml", word))
    (job,) = workflow.get("jobs", workflow).values()
    environment = job.get("env") or job["variables"]
    found = catalog_of(resolve({}, {}, "/dev/null"), environment)
    assert "PROD_CREDENTIAL" in found.pop("credential")
    assert found == PROD


class Skipped(Exception):
    """Stands in for Airflow's."""


def airflow(tasks: dict[str, Any]) -> dict[str, ModuleType]:
    """Stand-ins for what the recipe imports of Airflow, which keep its tasks."""

    class Operator:
        def __init__(self, **given: Any) -> None:
            tasks[given["task_id"]] = given["bash_command"]

        def __rshift__(self, _: object) -> None: ...

    def task(function: Any) -> Any:
        tasks[function.__name__] = function
        return lambda: None

    made = {
        "airflow": {},
        "airflow.decorators": {"dag": lambda **_: lambda function: function, "task": task},
        "airflow.exceptions": {"AirflowSkipException": Skipped},
        "airflow.operators": {},
        "airflow.operators.bash": {"BashOperator": Operator},
        "pendulum": {"datetime": lambda *_: None},
    }
    return _modules(made)


def _modules(made: Mapping[str, Mapping[str, Any]]) -> dict[str, ModuleType]:
    modules = {}
    for name, members in made.items():
        modules[name] = ModuleType(name)
        vars(modules[name]).update(members)
    return modules


def test_tasks_of_airflow_run(machine, tmp_path, monkeypatch):
    tasks: dict[str, Any] = {}
    for name, module in airflow(tasks).items():
        monkeypatch.setitem(sys.modules, name, module)
    exec(compile(block("python", "airflow"), "dag.py", "exec"), {"__name__": "dag"})
    assert set(tasks) == {"maintain", "health"}
    assert tasks["health"]()["verdicts"]["attention"] == 1
    ended = sh(tasks["maintain"], machine, tmp_path)
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(Skipped):
        tasks["health"]()
    current_metadata(tmp_path / "wh" / "calm").write_text("{")
    with pytest.raises(RuntimeError, match="in a bad state: "):
        tasks["health"]()


def test_the_check_of_dagster_runs(machine, monkeypatch):
    def keep(**_: Any) -> Any:
        return lambda function: function

    members = {
        "asset_check": keep,
        "op": lambda function: function,
        "AssetCheckResult": lambda **given: given,
        "Failure": RuntimeError,
    }
    monkeypatch.setitem(sys.modules, "dagster", _modules({"dagster": members})["dagster"])
    space: dict[str, Any] = {"__name__": "checks"}
    exec(compile(block("python", "dagster"), "checks.py", "exec"), space)
    assert space["orders_health"]() == {"passed": False, "metadata": {"verdict": "attention"}}
    told: list[str] = []
    space["maintain_tables"](SimpleNamespace(log=SimpleNamespace(info=told.append)))
    assert [json.loads(line).get("status") for line in told] == ["done", "nothing-to-do", "done"]
    assert space["orders_health"]()["passed"]


def test_steps_of_github_run(machine, tmp_path):
    workflow = yaml.safe_load(block("yaml", "runs-on"))
    steps = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    assert steps[0] == 'pip install "${{ vars.ICECTL }}"'
    for step in steps[1:]:
        ended = sh(step, machine, tmp_path)
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "health.html").exists()
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert [table["table"] for table in plan["tables"]] == [machine["TABLE"]]
    assert sh("icectl apply plan.json -q", machine, tmp_path).returncode == 0


def test_the_script_of_gitlab_runs(machine, tmp_path):
    (job,) = yaml.safe_load(block("yaml", "before_script")).values()
    for line in job["script"]:
        assert sh(line, machine, tmp_path).returncode == 0
    for report in job["artifacts"]["reports"]["junit"]:
        assert ET.parse(tmp_path / report).getroot().tag == "testsuites"


EXPRESSION = re.compile(
    r"(?P<age>time\(\) - )?(?P<name>icectl_\w+)(?P<labels>\{[^}]*\})? "
    r"(?P<op>==|!=|>=|>) (?P<limit>[\d *]+)"
)
"""The part of PromQL that the alerts use: one metric, its labels, a comparison with a number."""

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip


def alerts() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(block("yaml", "alert:"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def firing(rule: Mapping[str, Any], text: str, now_seconds: float) -> list[str]:
    """The summaries of an alert for each sample of some metrics that it fires for."""
    read = EXPRESSION.fullmatch(rule["expr"])
    assert read is not None, rule["expr"]
    assert read["name"] in METRICS
    limit = math.prod(int(number) for number in read["limit"].split("*"))
    wanted = dict(re.findall(r'(\w+)="([^"]*)"', read["labels"] or ""))
    summaries = []
    for line in text.splitlines():
        sample = re.fullmatch(rf"{read['name']}{{(.*)}} (\S+)", line)
        labels = dict(re.findall(r'(\w+)="([^"]*)"', sample[1])) if sample else {}
        if sample is None or not wanted.items() <= labels.items():
            continue
        value = now_seconds - float(sample[2]) if read["age"] else float(sample[2])
        if COMPARISONS[read["op"]](value, limit):
            summary = rule["annotations"]["summary"]
            for name in re.findall(r"\{\{ \$labels\.(\w+) \}\}", summary):
                summary = summary.replace(f"{{{{ $labels.{name} }}}}", labels[name])
            shown = print_duration(round(1000 * value))
            summary = summary.replace("{{ $value | humanizeDuration }}", shown)
            summaries.append(summary.replace("{{ $value }}", f"{value:g}"))
            assert "{{" not in summaries[-1]
    return summaries


def test_alerts_fire_with_words_and_values_that_agree():
    built = {
        "command": "maintain", "exit": 12, "status": "unknown",
        "result": {"tables": [
            {"table": "prod.a", "status": "unknown", "exit": 12, "steps": []},
            {"table": "prod.b", "status": "failed", "exit": 15, "steps": []},
            {"table": "prod.c", "status": "done", "exit": 0, "steps": []},
        ]},
    }  # fmt: skip
    text = metrics_text(built, table="prod", now_ms=0, duration_seconds=1.0)
    hour, found = 3600, alerts()
    assert firing(found["IcectlRunFailed"], text, hour) == [
        "icectl maintain of prod exited with code 12",
        "icectl maintain of prod.a exited with code 12",
        "icectl maintain of prod.b exited with code 15",
    ]
    assert len(firing(found["IcectlOutcomeUnknown"], text, hour)) == 2
    assert firing(found["IcectlNotRun"], text, 48 * hour) == []
    assert firing(found["IcectlNotRun"], text, 51 * hour) == [
        "icectl maintain of prod has not run for 2d 3h"
    ]
    health = {"view": "health", "verdict": "critical", "snapshot_debt": {"verdict": "critical"}}
    built = {"command": "inspect", "exit": 0, "status": "done", "result": health}
    text = metrics_text(built, table="prod.a", now_ms=0, duration_seconds=1.0)
    assert firing(found["IcectlRunFailed"], text, hour) == []
    assert len(firing(found["IcebergTableNeedsMaintenance"], text, hour)) == 1
    assert set(found) == {
        "IcectlRunFailed", "IcectlOutcomeUnknown", "IcectlNotRun", "IcebergTableNeedsMaintenance",
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_prometheus_accepts_the_alerts(tmp_path):
    (tmp_path / "rules.yaml").write_text(block("yaml", "alert:"))
    subprocess.run(["promtool", "check", "rules", str(tmp_path / "rules.yaml")], check=True)


def test_the_release_workflow_runs_what_is_there():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    runs = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    (script,) = [run.split()[0] for run in runs if run.startswith("tests/")]
    assert os.access(ROOT / script, os.X_OK)
    assert ast.parse(block("python", "airflow"))
