"""Text as it may be shown: names and messages from elsewhere are shown, and not obeyed."""

import re
from html import escape

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, ends of lines among them, and what turns the direction of writing."""

_SHORT = {"\n": "\\n", "\t": "\\t"}
_COMMAND = re.compile(r"^(\s*:)(?=:)|(##(?:vso)?)(?=\[)")
"""The beginning of a command to GitHub, or Azure, which read the log of a run."""


def printable(text: str) -> str:
    """Return a text in one line, with escapes for what a terminal or a log would obey."""
    return _UNSAFE.sub(lambda found: _escaped(found.group()), text)


def inert(text: str) -> str:
    """Return a text as `printable` does, and such that it is no command to a CI system."""
    return _COMMAND.sub(lambda found: f"{found.group()}\\", printable(text))


def as_html(text: str) -> str:
    """Return a text for a page of HTML, in which a line break alone stays what it is."""
    return escape("\n".join(map(printable, text.split("\n"))))


def inert_json(text: str) -> str:
    """Return JSON that says the same, and has no command to a CI system in it."""
    return text.replace("##[", r"##\u005b").replace("##vso[", r"##vso\u005b")


def _escaped(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
