"""The tree view as one HTML page that needs nothing else: nested lists, and its Mermaid source."""

from collections.abc import Iterator, Mapping

from icectl.cli.escapes import as_html
from icectl.commands.inspect.tree_nodes import Node
from icectl.commands.inspect.tree_report import (
    APPLIES,
    delete_numbers,
    describe,
    is_dead,
    label,
    mermaid,
    more,
    walk,
)

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1c2530; background: #fff; }
h1 { font-size: 1.2rem; }
details { margin-left: 1.25rem; }
body > details { margin-left: 0; }
summary, .leaf { padding: 1px 0; }
.leaf { margin-left: 2.35rem; }
.kind { color: #5c6b7a; }
.data { border-left: 3px solid #2f7d4f; padding-left: .5rem; }
.delete { border-left: 3px solid #b3402e; padding-left: .5rem; }
.dead code { text-decoration: line-through; }
pre { overflow-x: auto; }
:target { background: #fff3c4; }
code { font-family: ui-monospace, monospace; }
@media (prefers-color-scheme: dark) {
  body { color: #dfe6ee; background: #12171d; } .kind { color: #94a3b3; }
  a { color: #8ab4f8; } :target { background: #4a3d00; }
}
"""


def tree_page(root: Node, base: str) -> str:
    """Return the tree as foldable lists whose files link to each other, then as Mermaid source."""
    numbers = delete_numbers(root)
    links = _Links(root, numbers)
    title = as_html(f"Metadata tree of {base}")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        *_elements(root, base, links),
        "<details><summary>Mermaid source</summary>",
        f"<pre>{as_html(mermaid(root, base))}</pre></details>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


class _Links:
    """Links between the deletes and the data files that are shown."""

    def __init__(self, root: Node, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        self._deletes_of: dict[str, list[str]] = {}
        for node in walk(root):
            for target in node.applies_to if node.kind not in APPLIES else ():
                self._deletes_of.setdefault(target, []).append(node.id)

    def of(self, node: Node) -> str:
        """Anchors from a node to what it deletes from, or to what deletes from it."""
        if node.kind in APPLIES and node.applies_to:
            (target,) = node.applies_to
            return f", {APPLIES[node.kind]} {_anchor(target, 'this manifest')}"
        if node.applies_to:
            anchors = [
                _anchor(target, f"file {number}")
                for number, target in enumerate(node.applies_to, start=1)
            ]
            return f" deletes from {', '.join(anchors)}"
        deletes = self._deletes_of.get(node.id, [])
        if not deletes:
            return ""
        anchors = [_anchor(each, f"[{self.numbers[each]}]") for each in deletes]
        return f" deleted from by {' '.join(anchors)}"


def _anchor(node_id: str, text: str) -> str:
    return f'<a href="#{as_html(node_id)}">{as_html(text)}</a>'


def _elements(node: Node, base: str, links: _Links) -> Iterator[str]:
    number = links.numbers.get(node.id)
    name = f"[{number}] {label(node, base)}" if number else label(node, base)
    line = (
        f"<code>{as_html(name)}</code> "
        f'<span class="kind">{as_html(describe(node))}{links.of(node)}</span>'
    )
    if not node.children and not node.left_out.count:
        look = (
            "dead"
            if is_dead(node)
            else "data"
            if node.kind == "data"
            else "delete"
            if number
            else ""
        )
        yield f'<div class="leaf {look}" id="{as_html(node.id)}">{line}</div>'
        return
    yield f'<details open id="{as_html(node.id)}"><summary>{line}</summary>'
    for child in node.children:
        yield from _elements(child, base, links)
    if node.left_out.count:
        yield f'<div class="leaf kind">{as_html(more(node))}</div>'
    yield "</details>"
