"""Plain columns that fit the terminal: no boxes, numbers right, long locations cut inside."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import Literal

from icectl.report.console import Console, printable

_GAP = "  "
_ELLIPSIS = "..."
_NARROWEST = 8
"""Columns that a cell keeps however narrow the terminal is."""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, the side its cells lean to, and where a cell that is too long is cut.

    `cut` None: never. `middle` suits locations, whose ends tell most; `wrap` continues sentences on
    further lines. `is_spare`: `with_room` may leave it out.
    """

    name: str
    align: Literal["left", "right"] = "left"
    cut: Literal["middle", "end", "wrap"] | None = None
    is_spare: bool = False


def print_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their headings; cells are cut only where a terminal is too narrow.

    Order: that of `rows`.
    """
    cells = [[_one_line(cell) for cell in row] for row in rows]
    widths = _widths(columns, cells, console.width)
    headings = [column.name for column in columns]
    console.print(console.style(_line(columns, headings, widths), "bold"))
    for row in cells:
        for line in _lines(columns, row, widths):
            console.print(_line(columns, line, widths))


def print_pairs(console: Console, pairs: Sequence[tuple[str, str]], *, indent: int = 0) -> None:
    """Print names and values, values in one column."""
    left = max((text_width(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        padding = " " * (left - text_width(name))
        console.print(f"{' ' * indent}{console.style(name, 'bold')}{padding}{_GAP}{value}".rstrip())


def shorten(text: str, width: int, cut: Literal["middle", "end"]) -> str:
    """Cut a text to so many columns, with dots for what is left out."""
    if text_width(text) <= width:
        return text
    keep = max(width - len(_ELLIPSIS), 1)
    if cut == "end":
        return _head(text, keep) + _ELLIPSIS
    head = keep // 3
    return _head(text, head) + _ELLIPSIS + _head(text[::-1], keep - head)[::-1]


def text_width(text: str) -> int:
    """Count the columns that a terminal takes for a text."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _head(text: str, width: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:position]
    return text


def _one_line(text: str) -> str:
    return printable(text.replace("\n", "\\n").replace("\t", "\\t"))


def _widths(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], available: int | None
) -> list[int]:
    widths = [
        max([text_width(column.name), *(text_width(row[number]) for row in rows)])
        for number, column in enumerate(columns)
    ]
    if available is None:
        return widths
    excess = sum(widths) + len(_GAP) * (len(columns) - 1) - available
    while excess > 0:
        cuttable = [
            number
            for number, column in enumerate(columns)
            if column.cut and widths[number] > max(_NARROWEST, text_width(column.name))
        ]
        if not cuttable:
            return widths
        widest = max(cuttable, key=lambda number: widths[number])
        widths[widest] -= 1
        excess -= 1
    return widths


def _lines(
    columns: Sequence[Column], row: Sequence[str], widths: Sequence[int]
) -> Iterable[Sequence[str]]:
    """The cells of each line of a row, of which cells that are wrapped make several."""
    parts = [
        (wrap(cell, width, break_on_hyphens=False) if column.cut == "wrap" else None) or [cell]
        for column, cell, width in zip(columns, row, widths, strict=True)
    ]
    return zip_longest(*parts, fillvalue="")


def _line(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int]) -> str:
    shown = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        fitting = cell
        if column.cut is not None and column.cut != "wrap":
            fitting = shorten(cell, width, column.cut)
        padding = " " * (width - text_width(fitting))
        shown.append(padding + fitting if column.align == "right" else fitting + padding)
    return _GAP.join(shown).rstrip()


def with_room(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], available: int | None
) -> list[int]:
    """List the numbers of the columns to print where a terminal has so many, None: any number.

    Spare columns are left out, the first of them first, before any cell would have to be cut.
    """
    shown = list(range(len(columns)))
    spare = [number for number in shown if columns[number].is_spare]
    cells = [[_one_line(cell) for cell in row] for row in rows]
    widths = _widths(columns, cells, None)
    while spare and available is not None:
        if sum(widths[each] for each in shown) + len(_GAP) * (len(shown) - 1) <= available:
            break
        shown.remove(spare.pop(0))
    return shown
