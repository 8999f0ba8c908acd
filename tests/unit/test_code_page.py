"""The map of the code names what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("code.md", "extending.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_path_on_the_page_exists(page):
    text = (ROOT / "docs" / page).read_text("utf-8")
    named = re.findall(r"`((?:icectl|tests)/[\w/.]*)`", text)
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_package_is_on_the_map():
    text = (ROOT / "docs" / "code.md").read_text("utf-8")
    packages = [path.parent.name for path in (ROOT / "icectl").glob("*/__init__.py")]
    assert [name for name in packages if f"`icectl/{name}/`" not in text] == []


def test_every_link_leads_to_a_page():
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text("utf-8")
        for target in re.findall(r"\]\((\w[\w.-]*\.md)\)", text):
            assert (ROOT / "docs" / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize(
    ("title", "most"),
    [
        ("From TABLE to deleted files", 14),
        ("From a manifest's bytes to rows", 14),
        ("A data file's rows through compact", 28),
    ],
)
def test_a_path_through_the_code_is_short_and_says_how_long_it_is(title, most):
    text = (ROOT / "docs" / "code.md").read_text("utf-8")
    section = text.split(f"## {title}\n")[1].split("\n## ")[0]
    steps = "".join(re.findall(r"^(?:\d\.|  ) .*\n", section, re.MULTILINE))
    files = set(re.findall(r"`(icectl/[\w/]+\.py)`", steps))
    assert f", {len(files)} files:" in section
    assert len(files) <= most
