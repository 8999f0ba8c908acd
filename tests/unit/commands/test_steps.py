"""The registry of steps is the only list of them; what has all commands has the steps too."""

import ast
from collections.abc import Iterator
from pathlib import Path

from icectl import spark
from icectl.cli.registry import COMMANDS
from icectl.commands.steps import STEPS
from icectl.table.reviewed import PLANNED

PACKAGE = Path(spark.__file__).parent
OF_ALL_COMMANDS = {"cli/registry.py", "spark.py", "table/reviewed.py"}
"""Modules with a list of commands, of which steps are a part."""


def listed(module: Path) -> Iterator[set[str]]:
    """The texts of each tuple, list, set and dictionary that a module writes out."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        texts = (item.value for item in items if isinstance(item, ast.Constant))
        yield {text.replace("_", "-") for text in texts if isinstance(text, str)}


def test_no_other_module_lists_the_steps():
    found = {
        module.relative_to(PACKAGE).as_posix()
        for module in PACKAGE.rglob("*.py")
        if any(len(texts & set(STEPS)) > 2 for texts in listed(module))
    }
    assert found == {"commands/steps.py", *OF_ALL_COMMANDS}


def test_plans_programs_and_the_command_line_know_every_step():
    assert set(STEPS) - PLANNED == {"erase"}  # a plan of it would be held to keys that it has not
    assert set(STEPS) <= {name.replace("_", "-") for name in spark.__all__}
    assert set(STEPS) <= set(COMMANDS)
