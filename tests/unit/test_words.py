"""Messages, help and docs are in words that an outside reader knows, and in short sentences."""

import ast
import gc
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = 20

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
    r"\bis none of (?!them\b)": "is not one of",
    r"\bwhat answers\b": "the server",
    r"\bfalls? away\b": "is dropped",
    r"\bbecame of\b": "happened to",
    r"\bdoes without\b": "works without",
    r"\b(?:can|could) be had\b|\bto be had\b": "get, is available",
    r"\bwhat there is\b": "the tables, the files: by name",
    r"\bsays nothing here\b": "does not belong here",
    r"\bheals?\b": "repairs, fixes",
    r"\bmerging (?:within \w+ )?saves|saved by merging|merging would": "compaction would reduce",
    r"manifests? too many": "N fewer manifests possible",
    r"\bgains? nothing": "no group meets the thresholds",
    r"half of its row groups": "median row group SIZE",
    r"\bcut (?:larger|large) files": "split",
    r"\bINSTANT\b": "TIMESTAMP",
    r"\bways? out\b": "option, hint",
    r"\balready so\b": "already match",
    r"\bout of the branch": "become unreachable from",
    r"\bma[kd]e (?:branch|tag)": "create, created",
    r"\bend(?:s|ed)? with (?:exit |code )?\d": "exits with",
    r"\bconfigured are\b": "configured catalogs:",
    r"\bbehind one another\b": "concatenated",
    r"\bpast (?:the table's (?:own )?)?retention\b": "eligible for expiration",
    r"orphans-looked-for": "last-orphan-scan",
    r"\bmeanwhile\b": "since then, concurrently, by another writer",
    r"\bnobody\b": "no user, no reader, unknown",
    r"\b(?:server|session)s? of Spark\b": "Spark Connect server, Spark session",
    r"\bdata frames?\b": "DataFrame",
    r"\bmakes? no sense\b": "is invalid",
    r"\bcheck sums?\b": "checksum",
    r"\bz-curve": "Z-order",
    r"\bput back\b|\bputs back\b": "restored",
    r"\bany ?more\b": "no longer",
    r"\bfrom \d+ [KMG]iB on\b": "1 GiB or more",
    r"\bdealt\b": "distributed",
    r"\bset (?:it|them|the branch) back\b": "rolls back",
    r"\bpast their time\b": "expired, old",
    r"\bcame or went\b": "were added or removed",
    r"\btaken for\b": "treated as, mistaken for",
    r"\bspell(?:ed|ing)\b": "written, form",
    r"\breckoned\b": "estimated, calculated",
    r"\bfrom version \d on\b": "in version N and later",
    r"\b(?:no answer|does not answer)\b": "no response, does not respond",
    r"\bits answer\b|\bdid not answer\b|\banswers again\b": "response, did not respond",
    r"\b(?:any|every)body\b": "anyone, any user, everyone",
    r"\bown places\b": "own locations",
    r"\bbelow (?:the|its|a) table's (?:own )?location": "under the table's location",
    r"\bcarr(?:y|ied) out\b": "apply, execute",
    r"\bgo(?:es)? on\b": "continues",
    r"\blooking (?:at|through)\b": "checking, searching",
    r"\b(?:for|of|by) itself\b": "alone, automatically",
    r"\bthose that are left\b": "the remaining ones",
    r"`[^`]*` names (?:one|another|the others)\b": "choose another with ...",
    r"--expire-id|--keep-files|--to-snapshot whole": "the option of today",
}
"""What may stand in no message, help, manual or page, and what is said for it."""

ANY_HOUSE_WORD = re.compile("|".join(HOUSE_WORDS))
NOTHING = re.compile(r"[Tt]here (?:is|are) no\b")
NO_TEXT = {ast.Name, ast.Load, ast.Store, str, type(None)}
"""What holds no text: most nodes of a tree, and members of lists that are no nodes."""

DOCSTRING_WORDS = re.compile(
    r"\b(?:anew|meanwhile|any ?more|nobody|whoever|on record|puts? together|ends? with \d)\b"
)
"""What stands in no docstring either; HOUSE_WORDS says what to write."""

END = re.compile(r"(?<=[.!?:;])[)*\"']*\s+")
"""What ends a sentence: a stop with white space behind it; a colon and a semicolon are stops."""


@cache
def messages() -> list[tuple[str, str]]:
    """The texts of the package but for docstrings of what is no command; names are not texts."""
    gc.disable()  # half a million nodes, none of them in a cycle
    try:
        return [
            (f"{path.relative_to(ROOT)}:{line}", text)
            for path in sorted((ROOT / "icectl").rglob("*.py"))
            for line, text in texts_of(path)
        ]
    finally:
        gc.enable()


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module, with their lines; a part that is put in is the letter x."""
    options = path.name == "options.py" and path.parent.parent.name == "commands"
    nodes: list[Any] = [ast.parse(path.read_bytes())]
    while nodes:
        node = nodes.pop()
        kind = type(node)
        if kind is ast.Constant:
            if isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value
        elif kind is ast.JoinedStr:
            parts = [getattr(part, "value", "") if type(part) is ast.Constant else "x"
                     for part in node.values]  # fmt: skip
            yield node.lineno, "".join(map(str, parts))
            nodes.extend(part.value for part in node.values if type(part) is ast.FormattedValue)
        elif kind is ast.Expr and type(node.value) is ast.Constant:
            pass
        elif kind not in NO_TEXT:
            if options and kind is ast.FunctionDef and (text := ast.get_docstring(node)):
                yield node.lineno, text
            for value in vars(node).values():
                if type(value) is list:
                    nodes.extend(value)
                elif isinstance(value, ast.AST):
                    nodes.append(value)


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of the package, and of its attributes, each as one line."""
    for path in sorted((ROOT / "icectl").rglob("*.py")):
        for text in re.findall(r'"""(.*?)"""', path.read_text("utf-8"), re.DOTALL):
            yield f"{path.relative_to(ROOT)}: {text[:40]}", " ".join(text.split())


@cache
def pages() -> list[tuple[str, str]]:
    """README, docs and manual."""
    paths = [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "man").iterdir()),
    ]
    return [(path.name, path.read_text("utf-8")) for path in paths]


def help_pages() -> list[tuple[str, str]]:
    folder = ROOT / "tests" / "golden" / "help"
    return [(path.name, path.read_text("utf-8")) for path in sorted(folder.iterdir())]


def occurrences(
    pattern: re.Pattern[str], texts: Iterable[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Where a pattern is found: the place, the words about it, and the words themselves."""
    return [
        (place, text[max(0, match.start() - 30) : match.end() + 30], match[0])
        for place, text in texts
        for match in pattern.finditer(NOTHING.sub("", text))
    ]


def found_words(texts: Iterable[tuple[str, str]]) -> list[str]:
    return [
        f"{place}: {about}; say: "
        + " or ".join(better for word, better in HOUSE_WORDS.items() if re.search(word, about))
        for place, about, _ in occurrences(ANY_HOUSE_WORD, texts)
    ]


def paragraphs(name: str, text: str) -> Iterator[str]:
    """Text of a page by paragraphs, items and cells of tables: no code, heading or comment."""
    if not name.endswith(".md"):
        yield from manual_paragraphs(text)
        return
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("<br>", ". ")
    text = re.sub(r"^ *#.*$", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        if not block.lstrip("\n").startswith("    "):
            yield from block.split("|") if block.lstrip().startswith("|") else [block]


def manual_paragraphs(text: str) -> Iterator[str]:
    """Running text of a page of the manual: what stands in bold or italics is code."""
    text = re.sub(r"^\.nf$.*?^\.fi$", ".PP", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\\f[BI](.*?)\\fR", r"`\1`", text)
    yield from re.split(r"^\..*$", text, flags=re.MULTILINE)


def long_sentences(text: str) -> list[str]:
    """Sentences of a paragraph with more than MOST_WORDS words; each quoted code is one word."""
    short = re.sub(r"`[^`]*`", "`code`", text)
    return [
        " ".join(sentence.split())
        for sentence in END.split(short)
        if len([word for word in sentence.split() if re.search(r"\w", word)]) > MOST_WORDS
    ]


def test_no_message_has_words_of_the_house():
    assert found_words(messages()) == []


def test_no_page_has_words_of_the_house():
    """The list of changes quotes old words."""
    texts = [(name, " ".join(text.split())) for name, text in [*pages(), *help_pages()]]
    assert found_words([one for one in texts if one[0] != "CHANGELOG.md"]) == []


def test_no_docstring_has_words_that_readers_read_twice():
    assert [place for place, about, _ in occurrences(DOCSTRING_WORDS, docstrings())] == []


def test_articles_fit_the_words_behind_them():
    """Where a message puts a word in, it must put the article with it."""
    wrong = re.compile(r"\ba (?:[aei]\w{2}|o(?!ne)\w\w|u(?:p|nk|nr|ns|nf|nl|nm))")
    texts = [one for one in messages() if "/files/compiled.py" not in one[0]]  # types of C
    texts += [(name, " ".join(text.split())) for name, text in pages()]
    assert [about for _, about, _ in occurrences(wrong, texts) if "set +a " not in about] == []
    assert occurrences(wrong, [("here", "has a upper bound")]) != []


def test_no_sentence_of_a_message_is_long():
    """Help is among the messages: its pages print what the options say."""
    assert [
        f"{place}: {sentence}"
        for place, text in messages()
        for paragraph in re.split(r"\n\s*\n", text)
        for sentence in long_sentences(paragraph)
    ] == []


def test_no_sentence_of_a_page_is_long():
    assert [
        f"{name}: {sentence}"
        for name, text in pages()
        for paragraph in paragraphs(name, text)
        for sentence in long_sentences(paragraph)
    ] == []


def test_the_search_sees_messages_help_and_pages():
    def found(words: str, texts: list[tuple[str, str]]) -> bool:
        return occurrences(re.compile(words), texts) != []

    assert found("no Iceberg table at", messages())
    assert found("Old files stay until their snapshots expire", messages())
    assert not found("carry_out", messages())
    assert found("never deletes a file that a table can reach", pages())
    assert found("Deletes are applied", pages())
    assert found_words([("a", "the files are left alone"), ("b", "there are no files there")]) == [
        "a: the files are left alone; say: is skipped, kept or ignored"
    ]


SHORT = " ".join(["word"] * 20)
LONG = f"{SHORT} word"


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.md", f"{LONG}.", 1),
        ("a.md", f"{SHORT}.", 0),
        ("a.md", f"Short. {LONG}, and `{LONG}`. Short; {LONG}.", 2),
        ("a.md", f"- **Short.** {SHORT}\n- {LONG}", 1),
        ("a.md", f"1. Short\n\n   {LONG}", 1),
        ("a.md", f"# {LONG}\n\n    {LONG}\n\n<!-- {LONG} -->", 0),
        ("a.md", f"| Short | {LONG} |\n| --- | --- |\n| {SHORT} | {SHORT}<br>{SHORT} |", 1),
        ("a.md", f"```sh\n{LONG}\n```\nShort `{LONG}` and [page](a.md#{LONG}).", 0),
        ("a.md", f"[{LONG}](a.md)", 1),
        ("a.1", f".SH WORDS\n{LONG}\n.TP\nShort\n{LONG}", 2),
        ("a.1", f".SH {LONG}\n.nf\n{LONG}\n.fi\n\\fB{LONG}\\fR\n.PP\nShort", 0),
    ],
    ids=[
        "long", "twenty", "stops", "items", "items of two", "no text", "cells", "code", "a link",
        "the manual", "no text of the manual",
    ],
)  # fmt: skip
def test_sentences_are_counted_in_text_and_not_in_code(name, text, count):
    assert len([one for part in paragraphs(name, text) for one in long_sentences(part)]) == count
