"""The README says what the program does."""

import re
from pathlib import Path

from icectl.cli.app import COMMANDS
from icectl.errors import EXIT_CODES

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_readme_lists_every_exit_code_as_the_errors_do() -> None:
    listed = dict(re.findall(r"^\| (\d+) \| (.+) \|$", README, flags=re.MULTILINE))
    assert {int(code): meaning for code, meaning in listed.items()} == EXIT_CODES


def test_the_readme_has_a_row_for_every_command() -> None:
    rows = re.findall(r"^\| `icectl ([a-z0-9-]+) ", README, flags=re.MULTILINE)
    assert rows == list(COMMANDS)


def test_the_readme_names_scripts_that_are_there() -> None:
    for script in re.findall(r"tests/[a-z_]+\.(?:sh|py)", README):
        assert (Path(__file__).parents[2] / script).is_file(), script
