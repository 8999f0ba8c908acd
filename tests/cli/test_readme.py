"""The README and the pages it leads to say what the program does, and lead somewhere."""

import os
import re
from pathlib import Path

import pytest

from icectl.cli.registry import COMMANDS
from icectl.errors import EXIT_CODES
from tests.generate import readme

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def test_the_readme_lists_every_exit_code_as_the_errors_do():
    listed = dict(re.findall(r"^\| (\d+) \| (.+) \|$", README, flags=re.MULTILINE))
    assert {int(code): meaning for code, meaning in listed.items()} == EXIT_CODES


def test_the_readme_has_a_row_for_every_command():
    assert re.findall(r"^\| `icectl ([a-z0-9-]+) ", README, flags=re.MULTILINE) == list(COMMANDS)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 200


def test_the_quickstart_prints_what_it_says(tmp_path, monkeypatch):
    """Sizes are those of the libraries that write files: they may be others."""
    for name in [name for name in os.environ if name.startswith(("ICECTL_", "PYICEBERG_"))]:
        monkeypatch.delenv(name)

    def without_sizes(printed: list[str]) -> list[str]:
        return [re.sub(r"[\d.]+ [KM]?i?B\b", "SIZE", text) for text in printed]

    said = readme.printed_in(README)
    assert len(said) == 3
    assert without_sizes(readme.outputs(README, tmp_path)) == without_sizes(said)


def test_the_readme_names_scripts_that_are_there():
    for script in re.findall(r"tests/[a-z_]+\.(?:sh|py)", README):
        assert (Path(__file__).parents[2] / script).is_file(), script


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_documentation_lead_to_files(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_names_every_page_of_the_documentation():
    pages = {f"docs/{page.relative_to(ROOT / 'docs')}" for page in PAGES[1:]}
    assert pages == set(re.findall(r"\]\((docs/[^)#]+)\)", README))
