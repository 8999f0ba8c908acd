"""The picture of what a run does, `docs/run.svg`, drawn from the words below."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

STEPS = (
    ("Plan", ("reads the table, checks it,", "says what would change")),
    ("Record", ("a journal names the files", "to write and to delete")),
    ("Write", ("new files, each read", "again and compared")),
    ("Commit", ("one commit changes the", "table, or nothing does")),
    ("Clean up", ("deletes what the journal", "names, then the journal")),
)
"""The steps of a run in order, each with lines about it."""

WIDTH, HEIGHT, GAP, TOP = 176, 92, 24, 46


@dataclass(frozen=True, slots=True)
class _Exit:
    """Where a run leaves a step for another end: below the step, its lines, dashed or not."""

    step: int
    title: str
    lines: Sequence[str]
    back_to: int | None = None


EXITS = (
    _Exit(0, "--dry-run, --check", ("print the plan and end;", "unsafe: refused (5, 15)")),
    _Exit(2, "error, Ctrl-C", ("removes the new files,", "the table is unchanged")),
    _Exit(3, "conflict", ("another writer was first:", "plans again, or ends (11)"), back_to=0),
    _Exit(4, "outcome unknown", ("deletes nothing,", "exits with code 12")),
)


_STYLE = """\
<title>A run that changes a table</title>
<style>
text { font-family: sans-serif; text-anchor: middle; fill: #1f2933 }
.title { font-size: 15px; font-weight: bold }
.line { font-size: 12.5px }
.step { fill: #dbeafe; stroke: #2563eb }
.exit { fill: #f3f4f6; stroke: #6b7280; stroke-dasharray: 4 3 }
.arrow { fill: none; stroke: #374151; stroke-width: 1.5 }
</style>"""
_ARROW_HEAD = """\
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
 orient="auto"><path d="M0 0L8 4L0 8z" fill="#374151"/></marker></defs>"""


def _left(step: int) -> int:
    return 20 + step * (WIDTH + GAP)


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(words)}</text>'


def _box(x: int, y: int, title: str, lines: Sequence[str], style: str) -> Iterator[str]:
    yield f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8" class="{style}"/>'
    middle = x + WIDTH / 2
    yield _text(middle, y + 28, title, "title")
    for number, line in enumerate(lines):
        yield _text(middle, y + 52 + 18 * number, line, "line")


def _arrow(points: str) -> str:
    return f'<polyline points="{points}" class="arrow" marker-end="url(#head)"/>'


def diagram() -> str:
    """Draw the picture, as SVG."""
    below = TOP + HEIGHT + 48
    width, height = _left(len(STEPS)) - GAP + 20, below + HEIGHT + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        _STYLE,
        _ARROW_HEAD,
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(width / 2, 26, "A run that changes a table", "title"),
    ]
    for number, (title, lines) in enumerate(STEPS):
        parts += _box(_left(number), TOP, title, lines, "step")
        if number:
            y = TOP + HEIGHT / 2
            parts.append(_arrow(f"{_left(number) - GAP},{y:g} {_left(number) - 1},{y:g}"))
    for end in EXITS:
        x = _left(end.step)
        parts += _box(x, below, end.title, end.lines, "exit")
        start = x if end.title == "outcome unknown" else x + WIDTH / 2
        if start == x:  # from the commit, which stands before the clean-up
            start = x - GAP / 2
            parts.append(
                _arrow(f"{start:g},{TOP + HEIGHT / 2:g} {start:g},{below + HEIGHT / 2:g}"
                       f" {x - 1},{below + HEIGHT / 2:g}")
            )  # fmt: skip
        else:
            parts.append(_arrow(f"{start:g},{TOP + HEIGHT} {start:g},{below - 1}"))
        if end.back_to is not None:
            source, target = x + WIDTH / 2, _left(end.back_to) + WIDTH - 24
            aside, low, high = _left(end.back_to + 1) + 8, below + HEIGHT, TOP + HEIGHT
            parts.append(
                _arrow(f"{source:g},{low} {source:g},{low + 14} {aside},{low + 14}"
                       f" {aside},{high + 24} {target},{high + 24} {target},{high + 1}")
            )  # fmt: skip
    return "\n".join([*parts, "</svg>", ""])
