"""A new step of maintenance is a folder, a schema, and one line in each of four places.

The places are those of docs/extending.md. The folder `toy_step` becomes the command `label` of a
copy of the package, which is run as any other.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.table_builder import TableBuilder

ROOT = Path(__file__).parents[2]
LINES = {
    "cli/registry.py": (r"^COMMANDS: .*\{\n", '    "label": "name the team of a table",\n'),
    "commands/steps.py": (r"^STEPS = \(", '"label", '),
    "cli/settings.py": (
        r"^HEALTH_LIMITS = \(\n",
        '    _limits("missing-labels", "0, 9", "labels"),\n',
    ),
    "table/reviewed.py": (
        r"^_ACTS: .*\{\n",
        '    "label": lambda result: (ReviewedAct(SET_PROPERTY, "team", result["team"]),),\n',
    ),
}
"""Where a line is added, by file: after which text, and what."""
SCHEMA = {"type": "object", "required": ["team"], "properties": {"team": {}}}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package that has the new step."""
    folder = tmp_path_factory.mktemp("package")
    copy = folder / "icectl"
    shutil.copytree(ROOT / "icectl", copy)
    shutil.copytree(Path(__file__).parent / "toy_step", copy / "commands" / "label")
    (copy / "commands" / "label" / "__init__.py").write_text('"""`icectl label`."""\n')
    for name, (after, line) in LINES.items():
        before = (copy / name).read_text()
        [place] = re.finditer(after, before, re.MULTILINE)
        (copy / name).write_text(before[: place.end()] + line + before[place.end() :])
    (copy / "cli/schemas/label.json").write_text(json.dumps(SCHEMA))
    for name in ("completions", "docs", "man"):
        (folder / name).mkdir()
    write = "import sys; from pathlib import Path; from tests.generate.docs import main"
    subprocess.run(
        [sys.executable, "-c", f"{write}; main([], Path(sys.argv[1]))", str(folder)],
        env=os.environ | {"PYTHONPATH": f"{folder}:{ROOT}"}, cwd=folder, check=True,
        capture_output=True,
    )  # fmt: skip
    return folder


def test_a_new_step_is_everywhere_by_its_folder_and_four_lines(package, tmp_path):
    table = TableBuilder(tmp_path / "t").location
    TableBuilder(tmp_path / "t2")
    policy = tmp_path / "maintain.toml"
    policy.write_text('steps = ["label"]\n[label]\nteam = "sales"\n')
    policy.chmod(0o600)

    def run(*words: str, code: int = 0) -> str:
        environment = os.environ | {"PYTHONPATH": str(package), "XDG_CONFIG_HOME": str(tmp_path)}
        ended = subprocess.run(
            [sys.executable, "-c", "from icectl.__main__ import main; main()", *words],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == code, ended.stderr
        return ended.stdout

    assert "--team" in run("label", "--help")
    assert "--team" in run("man", "label")
    assert "missing-labels" in run("man", "maintain.toml")
    assert "label" in run("completion", "bash")
    assert json.loads(run("schema", "label"))
    health = json.loads(run("inspect", table, "health", "--json", "--check", code=4))["result"]
    assert (health["labels"]["command"], health["labels"]["missing_label_count"]) == ("label", 1)
    run("label", table, "--check", code=4)
    run("label", table, "--dry-run", "--save-plan", str(tmp_path / "plan.json"))
    run("apply", str(tmp_path / "plan.json"))
    run("label", table, "--check")
    other = str(tmp_path / "t2")
    words = ("maintain", other, "--policy", str(policy))
    run(*words, "--check", code=4)
    assert "labelled" in run(*words, "--yes")
    assert "sales" in run("properties", other)
    run(*words, "--check")
    health = json.loads(run("inspect", other, "health", "--json"))["result"]
    assert health["labels"]["verdict"] == "ok"
