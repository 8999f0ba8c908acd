"""What comments and docstrings cite stands in the documentation of the project."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYOUT = (ROOT / "docs" / "sfc-1.md").read_text("utf-8")
PRODUCT = sorted((ROOT / "icectl").rglob("*.py"))

_PLACE = r"(?:\d{1,2}(?:\.\d{1,2})?(?: steps? \d+[a-z]?(?: to \d+)?)?|[CU]-\d\d|[A-Z]{1,2}\d{1,2})"
_CITATION = re.compile(rf"\bsfc-1 ({_PLACE}(?:(?:, | and | to ){_PLACE}\b)*)(?![\w-])")
_ANY = re.compile(r"\bsfc-1 (?=[\dA-Z])")
_STEPS = re.compile(r" steps? (\d+[a-z]?)(?: to (\d+))?")
_OF_PAPERS = {
    "a section of a paper": r"§|\bsections? \d|\b(?:V4|v4\.md|peers\.md) (?:\d|[A-Z]+\d)",
    "a number of a section": r"(?<![\w.,-])\d{1,2}\.\d{1,2}(?![\w.%])",
    "a bare number": r"(?<!\w)\(\d{1,2}(?:, (?:\d{1,2}|step)\b.*)?\)",
    "a statement": r"\b(?:EN|ST|MF|DD|MD|L|X|A|F)\d{1,2}\b",
    "a decision, a scenario or a condition": r"(?<!V4-)\b(?:C|U|SC|D)-\d{1,2}\b",
    "a rule without an id": r"\b(?:rules?|steps?|decisions?) \d",
    "an error code of a paper": r"\bE_[A-Z]+",
}
_CITES = r"(?:\d|§|E_)"
"""Something that all of these have."""

_NUMBERS = {"0.0", "1.5", "0.12", "1.10", "1.12"}
"""Zeros of floating-point columns, a size in an example, versions of PyIceberg and of Iceberg for
Java."""


def remarks(source: str) -> Iterator[tuple[int, str]]:
    """The lines of comments and docstrings, with their numbers."""
    if re.search(rf"#.*{_CITES}", source):  # to take a source apart costs more than all else
        for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield from enumerate(str(node.value.value).splitlines(), node.lineno)


def sections() -> dict[str, str]:
    """The text of every numbered section of the page, by its number."""
    parts = re.split(r"^##+ (\d+(?:\.\d+)?) .+$", LAYOUT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def statements() -> set[str]:
    """The names of statements: bold at the start of an item, or the first cell of a row."""
    named = re.findall(r"^- \*\*([A-Z]+-?\d+)\.\*\* ", LAYOUT, flags=re.MULTILINE)
    return {*named, *re.findall(r"^\| ([CU]-\d\d) \| ", LAYOUT, flags=re.MULTILINE)}


SECTIONS, STATEMENTS = sections(), statements()


def has(place: str) -> bool:
    """Whether the page has a section with these steps, or a statement of this name."""
    number = _STEPS.sub("", place)
    if number not in SECTIONS and number not in STATEMENTS:
        return False
    steps = [step for found in _STEPS.findall(place) for step in found if step]
    return all(
        re.search(rf"^ *{step}\. ", SECTIONS.get(number, ""), flags=re.MULTILINE) for step in steps
    )


def unresolved(line: str) -> list[str]:
    """Citations of the layout in a line that lead nowhere, or cannot be read as one."""
    cited = [place for found in _CITATION.findall(line) for place in re.findall(_PLACE, found)]
    if len(_ANY.findall(line)) != len(_CITATION.findall(line)):
        return [line.strip()]
    return [place for place in cited if not has(place)]


def of_papers(line: str) -> list[str]:
    """What a line seems to cite of papers that are not in the project."""
    rest = _CITATION.sub("", line)
    if not re.search(_CITES, rest):
        return []
    return [
        f"{kind}: {found}"
        for kind, pattern in _OF_PAPERS.items()
        for found in re.findall(pattern, rest)
        if found not in _NUMBERS
    ]


def test_citations_of_the_layout_lead_to_sections_and_statements():
    tests = (file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__))
    lines = [
        (file, line)
        for file in (*PRODUCT, *tests)
        for line in file.read_text("utf-8").splitlines()
        if _ANY.search(line)
    ]
    assert [(file.name, found) for file, line in lines for found in unresolved(line)] == []
    assert len(lines) > 100


def test_the_product_cites_nothing_that_is_not_in_the_project():
    found = [
        f"{file.relative_to(ROOT)}:{number}: {told}"
        for file in PRODUCT
        for number, line in remarks(file.read_text("utf-8"))
        for told in of_papers(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "(sfc-1 7.11)",
        "(sfc-1 13)",
        "(sfc-1 7.1 step 12)",
        "(sfc-1 9.2 steps 3 to 9)",
        "(sfc-1 2.4, 2.9)",
        "# sfc-1 EN15",
        "# sfc-1 U-11",
        "sfc-1 V4",
    ],
)
def test_a_citation_that_leads_nowhere_is_found(line):
    assert unresolved(line)


@pytest.mark.parametrize(
    "line",
    ["(sfc-1 7.1 step 4a)", "sfc-1 9.2 steps 3 to 5", "(sfc-1 U-04, U-12)", "sfc-1 11.1 to 11.5;"],
)
def test_a_citation_that_leads_somewhere_is_none_of_a_paper(line):
    assert unresolved(line) == []
    assert of_papers(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "(7.6)", "(7.1, 6)", "(9.2, 3 to 5)", "(EN7)", "# L1", "(section 9)", "V4 2.6", "(V4 L2)",
        "v4.md 2.6", "(C-36)", "# U-08", "(7.5, rule 13)", "(rule 37)", "raises E_DEPTH", "(13)",
    ],
)  # fmt: skip
def test_a_citation_of_the_old_forms_is_found(line):
    assert of_papers(line)


@pytest.mark.parametrize(
    "line",
    [
        "-0.0 comes before 0.0", "Iceberg 1.12", "R-202, V4-084", "getdents64(2)", "bucket(16, b)",
        "a page of V4 tables", "S3", "UTF-8", "exit code 13", "`1.5GiB`", "LZ4", "RE2",
    ],
)  # fmt: skip
def test_other_numbers_are_no_citations(line):
    assert of_papers(line) == []
