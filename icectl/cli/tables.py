"""Print plain columns that fit the terminal: no boxes, numbers right, long locations shortened."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from textwrap import wrap
from typing import Literal

from icectl.cli.console import Console
from icectl.units import printable

_GAP = "  "
_ELLIPSIS = "..."
_NARROWEST = 8
"""Columns that a cell keeps however narrow the terminal is."""

_READABLE = {"middle": 16, "end": 10, "wrap": 24}
"""Columns below which a cell that is cut so says nothing: then a row takes several lines."""

_PACKED = 32
"""Columns that a cell which may be cut asks for where a row takes several lines."""

_INDENT = 4
"""Columns by which the further lines of a row begin."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A heading, the side its cells lean to, and where a cell that is too long is cut.

    `cut` None: never. `middle` suits locations, whose ends tell most; `wrap` continues sentences on
    further lines. `is_spare`: `with_room` may leave it out.
    """

    name: str
    align: Literal["left", "right"] = "left"
    cut: Literal["middle", "end", "wrap"] | None = None
    is_spare: bool = False


def print_table(
    console: Console, columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]
) -> None:
    """Print rows under their headings; cells are cut only where a terminal is too narrow.

    Where little would be left of them, each row, and the headings, take several lines; where two
    locations would look alike, they are continued on further lines.
    Order: that of `rows`, which are read twice.
    Cost: memory of all cells for a terminal alone.
    """
    if console.width is None:
        whole = _Part(range(len(columns)), columns, _longest(columns, rows), "")
        _print_rows(console, [whole], ([printable(cell) for cell in row] for row in rows))
        return
    cells = [[printable(cell) for cell in row] for row in rows]
    parts = _parts(columns, cells, console.width)
    shown = list(columns)
    for part in parts:  # columns whose different cells would be cut to the same are wrapped
        for number, width in zip(part.numbers, part.widths, strict=True):
            if columns[number].cut == "middle":
                different = {row[number] for row in cells}
                if len({shorten(cell, width, "middle") for cell in different}) < len(different):
                    shown[number] = replace(columns[number], cut="wrap")
    if shown != list(columns):
        parts = _parts(shown, cells, console.width)
    _print_rows(console, parts, cells)


def _longest(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of the widest cell or heading of each column."""
    widths = [text_width(column.name) for column in columns]
    for row in rows:
        for number, cell in enumerate(row):
            widths[number] = max(widths[number], text_width(printable(cell)))
    return widths


def _print_rows(console: Console, parts: Sequence["_Part"], cells: Iterable[Sequence[str]]) -> None:
    for part in parts:
        headings = [column.name for column in part.columns]
        if any(headings):
            text = part.indent + _line(part.columns, headings, part.widths)
            console.print(console.style(text, "bold"))
    for row in cells:
        for part in parts:
            lines = [
                (column.cut == "wrap" and wrap(cell, width, break_on_hyphens=False)) or [cell]
                for column, cell, width in zip(part.columns, part.of(row), part.widths, strict=True)
            ]
            for line in zip_longest(*lines, fillvalue=""):
                text = _line(part.columns, line, part.widths)
                if text or len(parts) == 1:
                    console.print(part.indent + text)


def print_pairs(console: Console, pairs: Sequence[tuple[str, str]], *, indent: int = 0) -> None:
    """Print names and values, values in one column."""
    name_width = max((text_width(name) for name, _ in pairs), default=0)
    for name, text in pairs:
        value = printable(text)
        padding = " " * (name_width - text_width(name))
        head = f"{' ' * indent}{console.style(name, 'bold')}"
        at, lines = indent + name_width + len(_GAP), [value]
        is_below = False
        if console.width is not None and at + text_width(value) > console.width:
            longest = max(map(text_width, value.split()), default=0)
            is_below = at + longest > console.width  # a word does not fit beside the name
            at = indent + len(_GAP) if is_below else at
            width = max(console.width - at, _NARROWEST)
            lines = wrap(value, width, break_long_words=False, break_on_hyphens=False) or lines
        first = "" if is_below else f"{padding}{_GAP}{lines.pop(0)}"
        console.print(f"{head}{first}".rstrip())
        for line in lines:
            console.print(" " * at + line)


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


@dataclass(frozen=True, slots=True)
class _Part:
    """The columns of one line of a row, and how wide they are."""

    numbers: Sequence[int]
    columns: Sequence[TableColumn]
    widths: Sequence[int]
    indent: str

    def of(self, row: Sequence[str]) -> Sequence[str]:
        """Return the cells of a row in this line."""
        return [row[number] for number in self.numbers]


def _parts(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], available: int | None
) -> Sequence[_Part]:
    """Return the lines of a row: one, if enough of every cell is left."""
    natural, widths = _widths(columns, rows, None), _widths(columns, rows, available)
    is_readable = all(
        column.cut is None or width >= min(natural_width, _READABLE[column.cut])
        for column, natural_width, width in zip(columns, natural, widths, strict=True)
    )
    width_of_line = sum(widths) + len(_GAP) * (len(columns) - 1)
    if available is None or (is_readable and width_of_line <= available):
        return [_Part(range(len(columns)), columns, widths, "")]
    lines: list[list[int]] = [[]]
    used = 0
    for number, natural_width in enumerate(natural):
        width = min(natural_width, _PACKED) if columns[number].cut else natural_width
        room = available - (_INDENT if len(lines) > 1 else 0)
        if lines[-1] and used + len(_GAP) + width > room:
            lines.append([])
            used = 0
        used += width + (len(_GAP) if lines[-1] else 0)
        lines[-1].append(number)
    parts = []
    for at, numbers in enumerate(lines):
        indent = _INDENT if at else 0
        chosen = [columns[number] for number in numbers]
        cells = [[row[number] for number in numbers] for row in rows]
        part_widths = _widths(chosen, cells, available - indent)
        parts.append(_Part(numbers, chosen, part_widths, " " * indent))
    return parts


def _widths(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], available: int | None
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


def _line(columns: Sequence[TableColumn], row: Sequence[str], widths: Sequence[int]) -> str:
    shown = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        fitting = cell
        if column.cut is not None and column.cut != "wrap":
            fitting = shorten(cell, width, column.cut)
        padding = " " * (width - text_width(fitting))
        shown.append(padding + fitting if column.align == "right" else fitting + padding)
    return _GAP.join(shown).rstrip()


def with_room(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], available: int | None
) -> list[int]:
    """List the numbers of the columns to print where a terminal has so many, None: any number.

    Spare columns are left out, the first of them first, before any cell would have to be cut.
    """
    shown = list(range(len(columns)))
    spare = [number for number in shown if columns[number].is_spare]
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = _widths(columns, cells, None)
    while spare and available is not None:
        if sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1) <= available:
            break
        shown.remove(spare.pop(0))
    return shown


def beginnings(base: str) -> tuple[str, ...]:
    """List what locations below the table's begin with: local ones have three spellings."""
    path = re.sub("^file:(//(localhost)?)?(?=/)", "", f"{base.rstrip('/')}/")
    return (path, f"file:{path}", f"file://{path}") if path.startswith("/") else (path,)


def below(location: str, starts: Sequence[str]) -> str:
    """Return a location from the table's on; whole where it lies elsewhere."""
    return location.removeprefix(
        next((start for start in starts if location.startswith(start)), "")
    )
