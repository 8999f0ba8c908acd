"""Words that an outside reader had to decode do not come back into messages, help and docs."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HOUSE_WORDS = {
    r"goes along": "is sent along, or uploads itself",
    r"left alone|leaves? alone": "is skipped, kept or ignored",
    r"as letters are": "case-sensitive",
    r"not a matter of": "does not depend on",
    r"gone no more|list it no more|listed no more": "remove it from the table",
    r"exclude each other": "cannot be used together",
    r"where nothing says otherwise": "by default",
    r"what goes\b|what stays\b": "to delete, kept",
    r"\bdoomed\b": "to delete",
    r"the one who knows": "only if",
    r"\banew\b": "again, or re-: rewrite",
    r"\b(?:tells?|told)\b": "says, shows, reports, names",
    r"\bis no (?!longer\b|more\b|other\b)\w": "is not a",
    r"(?<!where )\b(?:is|are) there\b(?! (?:no|a|an|any)\b)": "exists, is installed, is found",
    r"\bwhoever\b": "anyone who, the one who",
    r"\bthose that there are\b": "the existing ones",
    r"\blets? go of\b|\bstays? away\b": "drops, does not answer",
    r"\bread no more\b": "no longer",
}
"""What may stand in no message, help, manual or page, and what is said for it."""


Texts = list[tuple[str, str]]


@cache
def messages() -> Texts:
    return _searchable(_messages())


@cache
def pages() -> Texts:
    return _searchable(_pages())


def _searchable(texts: Iterable[tuple[str, str]]) -> Texts:
    """Texts without what looks like a question and is none."""
    return [(place, re.sub(r"[Tt]here (?:is|are) no\b", "", text)) for place, text in texts]


def _messages() -> Iterator[tuple[str, str]]:
    """The texts of the package but for docstrings of what is no command; names are not texts."""
    for path in sorted((ROOT / "icectl").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        name = path.relative_to(ROOT)
        options = path.name == "options.py" and path.parent.parent.name == "commands"
        left_out = set()
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                left_out |= {id(part) for part in node.values}
            is_help = options and isinstance(node, ast.FunctionDef)
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) and not is_help else ():
                if isinstance(statement, ast.Expr):
                    left_out.add(id(statement.value))
        for node in nodes:
            place = f"{name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "x"
                         for part in node.values]  # fmt: skip
                yield place, "".join(map(str, parts))
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in left_out
                and " " in node.value
            ):
                yield place, node.value


def _pages() -> Iterator[tuple[str, str]]:
    """README, docs and manual, but for the list of changes, which quotes old words."""
    for path in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "man").iterdir()),
        *sorted((ROOT / "tests" / "golden" / "help").iterdir()),
    ]:
        if path.name != "CHANGELOG.md":
            yield path.name, " ".join(path.read_text("utf-8").split())


def occurrences(pattern: str, texts: Texts) -> list[str]:
    return [
        f"{place}: {text[max(0, match.start() - 30) : match.end() + 30]}"
        for place, text in texts
        for match in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize("pattern", HOUSE_WORDS)
def test_no_message_has_words_of_the_house(pattern: str) -> None:
    assert occurrences(pattern, messages()) == [], f"say: {HOUSE_WORDS[pattern]}"


@pytest.mark.parametrize("pattern", HOUSE_WORDS)
def test_no_page_has_words_of_the_house(pattern: str) -> None:
    assert occurrences(pattern, pages()) == [], f"say: {HOUSE_WORDS[pattern]}"


def test_the_search_sees_messages_help_and_pages() -> None:
    assert occurrences("no Iceberg table at", messages()) != []
    assert occurrences("Old files stay until their snapshots expire", messages()) != []
    assert occurrences("carry_out", messages()) == []
    assert occurrences("never deletes a file that a table can reach", pages()) != []
