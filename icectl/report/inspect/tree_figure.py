"""The tree view drawn as the figures of the version 4 paper: boxes of entries, and arrows.

One SVG element that needs nothing else; places are reckoned here, so that no script has to. Many
manifests stand in rows, with the first of their entries each: the figure shows the whole, and the
list below it, where a box leads to, the parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise

from icectl.plan.inspect.tree_nodes import DELETE_KINDS, MANIFEST_DV, Node
from icectl.report.inspect.tree import LOOKS, file_name, is_dead, look, more, walk
from icectl.report.tables import shorten

_WIDTH, _ROW, _PAD = 260, 20, 8
_GAP, _BETWEEN, _MARGIN = 60, 70, 20
_BELOW = 60
"""Room for the arrows that run below the boxes."""
_COLUMNS = 4
"""Boxes side by side, which a window of a laptop has room for."""
_FEW_LINES = 4
"""Lines of a box that stands among many."""
_FRAME = 12
"""Room between boxes that stand in rows and the frame around them."""
_NAME_LETTERS, _ALONE_LETTERS = 22, 30
"""Letters that fit into a box in DejaVu Sans Mono, the widest of the usual fonts."""
_TITLES: Mapping[str, str] = {
    "manifestList": "Manifest List",
    "rootManifest": "Root Manifest",
    "dataManifest": "Data Manifest",
    "deleteManifest": "Delete Manifest",
    "manifestDeleteVector": "Manifest Delete Vector",
}
_STYLE = """
svg { max-width: 100%; height: auto; }
svg .frame { fill: none; stroke: #5c6b7a; stroke-dasharray: 2 4; }
svg a:hover rect { stroke-width: 3; }
svg text { font: 13px ui-monospace, monospace; fill: #000; }
svg .title { font-weight: bold; }
svg .gone { text-decoration: line-through; fill: #777; }
svg .arrow { fill: none; stroke: #5c6b7a; stroke-width: 1.3; }
svg .dotted { stroke-dasharray: 4 4; }
svg .said { fill: #5c6b7a; font-size: 11px; }
"""


_TIP = """<defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8z" fill="#5c6b7a"/></marker></defs>"""


@dataclass(frozen=True, slots=True)
class _Line:
    """One entry in a box; `node_id` is None of what only says something."""

    text: str
    status: str = ""
    node_id: str | None = None
    is_gone: bool = False
    whole: str = ""


@dataclass(frozen=True, slots=True)
class _Box:
    """A box, where it stands, and its lines."""

    node_id: str
    look: str
    title: str
    lines: tuple[_Line, ...]
    x: int = 0
    y: int = 0

    @property
    def height(self) -> int:
        """The height, with the title."""
        return _ROW * (1 + len(self.lines)) + _PAD

    @property
    def middle(self) -> int:
        """The x of its middle."""
        return self.x + _WIDTH // 2


def figure(root: Node) -> str:
    """Return the snapshot below the metadata file as a figure.

    Nothing where there is no snapshot.
    """
    if not root.children:
        return ""
    (snapshot,) = root.children
    listing = snapshot
    if len(snapshot.children) == 1 and snapshot.children[0].kind != "manifest":
        (listing,) = snapshot.children
    upper = [_Box("snapshot", "snapshot", f"Snapshot {snapshot.facts['snapshot_id']}", ())]
    if listing is not snapshot:
        upper.append(_listing(listing))
    lower = [_leaf(node, _killed(node, listing)) for node in listing.children if _is_drawn(node)]
    lower += _own(listing)
    in_rows = len(lower) > _COLUMNS
    boxes = _placed(upper, [_abridged(box) for box in lower] if in_rows else lower)
    frame = _Frame.around(boxes[len(upper) :]) if in_rows else None
    arrows = [*_arrows(boxes, len(upper), frame), *_applications(root, boxes)]
    width = max(box.x for box in boxes) + _WIDTH + _MARGIN
    height = max(box.y + box.height for box in boxes) + _BELOW
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return "\n".join(
        [
            f'<svg {size} role="img" aria-label="Figure of the tree">',
            f"<style>{_STYLE}</style>",
            _TIP,
            *([frame.drawn] if frame else []),
            *arrows,
            *(part for box in boxes for part in _drawn(box)),
            "</svg>",
        ]
    )


def _abridged(box: _Box) -> _Box:
    """Return a box among many: its first lines, and how many there are more."""
    if len(box.lines) <= _FEW_LINES + 1:
        return box
    left = len(box.lines) - _FEW_LINES
    return replace(box, lines=(*box.lines[:_FEW_LINES], _Line(f"and {left:,} more")))


def _listing(node: Node) -> _Box:
    """Return the root manifest, or the manifest list, with a line for each of its entries."""
    lines = [_entry(child) for child in node.children]
    if node.left_out.count:
        lines.append(_Line(more(node)))
    if len(lines) > 2 * _COLUMNS:
        many = len(lines) - _FEW_LINES
        lines = [*lines[:_FEW_LINES], _Line(f"and {many:,} more")]
    return _Box(node.id, look(node), f"{_TITLES[look(node)]}", tuple(lines))


def _is_drawn(node: Node) -> bool:
    """Whether a node has a box of its own: manifests, and the vectors over them that count."""
    is_vector = node.kind == MANIFEST_DV and node.facts["status"] != "deleted"
    return is_vector or node.kind == "manifest"


def _killed(leaf: Node, listing: Node) -> list[Node]:
    """List the nodes of rows of a leaf that the vectors over it make dead."""
    return [
        dead
        for node in listing.children
        if leaf.id in node.applies_to
        for dead in node.children
        if node.kind == MANIFEST_DV
    ]


def _leaf(node: Node, killed: Sequence[Node]) -> _Box:
    """Return a manifest with its entries, dead ones too, or a vector with its positions."""
    lines = []
    if node.kind == "manifest":
        name = file_name(str(node.location))
        lines = [_Line(name, whole=name)]
        lines += [_entry(child) for child in sorted([*node.children, *killed], key=_position)]
    else:
        lines = [_position_of(child) for child in sorted(node.children, key=_position)]
    if node.left_out.count:
        lines.append(_Line(more(node)))
    return _Box(node.id, look(node), _TITLES[look(node)], tuple(lines))


def _position_of(dead: Node) -> _Line:
    name = file_name(str(dead.location))
    return _Line(f"{dead.facts['position']}: {name}", whole=str(dead.location))


def _position(node: Node) -> int:
    return int(str(node.facts["position"]))


def _own(listing: Node) -> Iterator[_Box]:
    """Yield the files that a root lists itself, data and deletes apart."""
    files = [node for node in listing.children if node.kind not in ("manifest", MANIFEST_DV)]
    for name, title, of_deletes in (("data", "Data Files", False), ("deletes", "Deletes", True)):
        lines = [_entry(node) for node in files if (node.kind in DELETE_KINDS) is of_deletes]
        if lines:
            kind = "deleteFile" if of_deletes else "dataFile"
            yield _Box(f"own_{name}", kind, title, tuple(lines))


def _entry(node: Node) -> _Line:
    status = str(node.facts.get("status") or "").upper()
    if node.kind == MANIFEST_DV:
        name = f"DV of {file_name(str(node.facts['referenced_manifest']))}"
    else:
        name = file_name(str(node.location))
    return _Line(
        name, status, node.id, is_dead(node) or status == "DELETED", str(node.location or name)
    )


def _placed(upper: Sequence[_Box], lower: Sequence[_Box]) -> list[_Box]:
    """Return the boxes with their places: upper ones below each other, lower ones in rows."""
    total = min(len(lower), _COLUMNS) * (_WIDTH + _GAP) - _GAP
    x, y = _MARGIN + max(0, (total - _WIDTH) // 2), _MARGIN
    placed = []
    for box in upper:
        placed.append(replace(box, x=x, y=y))
        y += box.height + _BETWEEN
    for row in _rows_of(lower):
        placed += [
            replace(box, x=_MARGIN + number * (_WIDTH + _GAP), y=y)
            for number, box in enumerate(row)
        ]
        y += max(box.height for box in row) + _BELOW
    return placed


def _rows_of(boxes: Sequence[_Box]) -> Iterator[Sequence[_Box]]:
    for start in range(0, len(boxes), _COLUMNS):
        yield boxes[start : start + _COLUMNS]


@dataclass(frozen=True, slots=True)
class _Frame:
    """What is drawn around boxes that stand in rows: one arrow leads to all of them."""

    x: int
    y: int
    width: int
    height: int

    @classmethod
    def around(cls, boxes: Sequence[_Box]) -> "_Frame":
        """Return the frame around some boxes."""
        x, y = min(box.x for box in boxes) - _FRAME, min(box.y for box in boxes) - _FRAME
        right = max(box.x for box in boxes) + _WIDTH + _FRAME
        low = max(box.y + box.height for box in boxes) + _FRAME
        return cls(x, y, right - x, low - y)

    @property
    def drawn(self) -> str:
        """The frame as SVG."""
        return (
            f'<rect class="frame" x="{self.x}" y="{self.y}" width="{self.width}" '
            f'height="{self.height}" rx="6"/>'
        )


def _arrows(boxes: Sequence[_Box], upper_count: int, frame: _Frame | None) -> Iterator[str]:
    """Solid arrows from what names to what is named."""
    upper = boxes[:upper_count]
    last = upper[-1]
    ends = [(target.middle, target.y) for target in boxes[upper_count:]]
    if frame is not None:
        ends = [(last.middle, frame.y)]
    steps = [(source, target.middle, target.y) for source, target in pairwise(upper)]
    for source, x, end in [*steps, *((last, *end) for end in ends)]:
        start = source.y + source.height
        half = (start + end) // 2
        yield (
            f'<path class="arrow" marker-end="url(#tip)" d="M{source.middle} {start} '
            f'C{source.middle} {half} {x} {half} {x} {end}"/>'
        )


def _applications(root: Node, boxes: Sequence[_Box]) -> Iterator[str]:
    """Dotted arrows from what applies to what it applies to.

    Those of boxes in other rows, and deletes that apply to several files, only say so in the list
    below the figure.
    """
    by_id = {box.node_id: box for box in boxes}
    rows = {
        line.node_id: (box, box.y + _ROW * (at + 1) + _ROW // 2 + _PAD // 2)
        for box in boxes
        if box.look not in ("rootManifest", "manifestList")
        for at, line in enumerate(box.lines)
        if line.node_id is not None
    }
    for node in walk(root):
        for target in node.applies_to:
            if node.id in by_id and target in by_id:
                if by_id[node.id].y == by_id[target].y:
                    yield from _under(by_id[node.id], by_id[target])
            elif len(node.applies_to) == 1 and node.id in rows and target in rows:
                (source, start), (end_box, end) = rows[node.id], rows[target]
                if source.y == end_box.y:
                    yield _dotted(_across(source, start, end_box, end))


def _across(source: _Box, start: int, target: _Box, end: int) -> str:
    """Return a line between the sides of two boxes that face each other."""
    if source.x > target.x:
        return f"M{source.x} {start} L{target.x + _WIDTH} {end}"
    return f"M{source.x + _WIDTH} {start} L{target.x} {end}"


def _under(source: _Box, target: _Box) -> Iterator[str]:
    start, end = source.y + source.height, target.y + target.height
    low = max(start, end) + _BELOW - _PAD
    bend = f"C{source.middle} {low} {target.middle} {low} {target.middle} {end}"
    yield _dotted(f"M{source.middle} {start} {bend}")
    middle = (source.middle + target.middle) // 2
    yield f'<text class="said" text-anchor="middle" x="{middle}" y="{low - _PAD}">applies to</text>'


def _dotted(path: str) -> str:
    return f'<path class="arrow dotted" marker-end="url(#tip)" d="{path}"/>'


def _drawn(box: _Box) -> Iterator[str]:
    fill, stroke = LOOKS[box.look]
    yield f'<a href="#{escape(box.node_id)}">'
    yield (
        f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{box.height}" rx="4" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="2"/>'
    )
    yield _text(box, 0, _Line(box.title), "title")
    for number, line in enumerate(box.lines, start=1):
        yield _text(box, number, line, "gone" if line.is_gone else "")
    yield "</a>"


def _text(box: _Box, number: int, line: _Line, style: str) -> str:
    y = box.y + _ROW * (number + 1) - _PAD // 2
    letters = _NAME_LETTERS if line.status else _ALONE_LETTERS
    name = escape(shorten(line.text, letters, "middle"))
    told = f"<title>{escape(line.whole)}</title>" if line.whole else ""
    text = f'<text class="{style}" x="{box.x + _PAD}" y="{y}">{told}{name}</text>'
    if not line.status:
        return text
    right = box.x + _WIDTH - _PAD
    return f'{text}<text text-anchor="end" x="{right}" y="{y}">{escape(line.status)}</text>'
