"""The tree view as text, as a Mermaid flowchart and as a page of HTML."""

from collections.abc import Iterator, Mapping, Sequence

from icectl.cli.console import Console
from icectl.cli.tables import beginnings, below, shorten
from icectl.commands.inspect.tree_plan import DELETE_KINDS, MANIFEST_DV, Node
from icectl.commands.inspect.views import Row
from icectl.units import as_html, print_count, print_size, printable

_WHAT_IT_HOLDS: Mapping[str, str] = {
    "data": "record", "position-deletes": "position delete", "equality-deletes": "equality delete",
    "deletion-vector": "deleted position",
}  # fmt: skip
APPLIES: Mapping[str, str] = {MANIFEST_DV: "applies to", "manifest": "affiliated to"}
"""How the arrow is called that leads to what a node applies to; deletes delete from it."""
_LOOKS: Mapping[str, tuple[str, str]] = {
    "snapshot": ("#e1f5fe", "#01579b"),
    "rootManifest": ("#f3e5f5", "#4a148c"),
    "manifestList": ("#fff3e0", "#e65100"),
    "dataManifest": ("#e8f5e8", "#1b5e20"),
    "deleteManifest": ("#ffebee", "#c62828"),
    "dataFile": ("#fff8e1", "#f57f17"),
    "deleteFile": ("#fce4ec", "#ad1457"),
    "manifestDeleteVector": ("#fed7aa", "#ea580c"),
}
"""Fill and stroke of what is drawn, those of the paper's figures where it has them."""
_NARROWEST = 24
"""Columns that a name keeps, however little room its line leaves."""


def print_tree(console: Console, root: Node, base: str) -> None:
    """Print the tree with ASCII branches; numbers in brackets tell which delete is meant where.

    The files that a manifest delete vector kills are named with `--verbose`, and counted without.
    """
    numbers = delete_numbers(root)
    marks = data_marks(root, numbers)
    killed = console.options.verbosity >= 1
    for branch, node, text in _lines(root, "", "", killed=killed):
        if node is None:
            console.print(branch + console.style(text, "dim"))
            continue
        name = label(node, base)
        words = [describe(node)]
        if node.id in numbers:
            name = f"[{numbers[node.id]}] {name}"
        if node.id in marks:
            words.append(f"deletes {marks[node.id]}")
        if node.kind == "manifest" and node.facts.get("affiliated_to"):
            words.append(f"affiliated to {_file_name(str(node.facts['affiliated_to']))}")
        facts = ", ".join(words)
        if console.width is not None:
            room = console.width - len(branch) - len(facts) - 2
            name = shorten(name, max(room, _NARROWEST), "middle")
        console.print(f"{branch}{name}  {console.style(facts, 'dim')}")


def mermaid(root: Node, base: str) -> str:
    """Return the tree as a Mermaid flowchart: solid arrows for `names`, dotted for `applies to`."""
    lines = ["flowchart LR"]
    for node in walk(root):
        text = f"{_quote(label(node, base))}<br/>{_quote(describe(node))}"
        lines.append(f'  {node.id}["{text}"]')
        arrow = "-.->|kills|" if node.kind == MANIFEST_DV else "-->"
        lines += [f"  {node.id} {arrow} {child.id}" for child in node.children]
        if node.left_out.count:
            lines.append(f'  {node.id}_more["{more(node)}"]')
            lines.append(f"  {node.id} {arrow} {node.id}_more")
    for node in walk(root):
        applies = APPLIES.get(node.kind, "deletes from")
        lines += [f"  {node.id} -.->|{applies}| {target}" for target in node.applies_to]
    ids_by_look: dict[str, list[str]] = {}
    for node in walk(root):
        ids_by_look.setdefault(_look(node), []).append(node.id)
    for name, (fill, stroke) in _LOOKS.items():
        if name in ids_by_look:
            lines.append(f"  classDef {name} fill:{fill},stroke:{stroke},stroke-width:2px")
            lines.append(f"  class {','.join(ids_by_look[name])} {name}")
    return "\n".join(lines) + "\n"


def _look(node: Node) -> str:
    """Choose which of the looks a node has; the metadata file has none."""
    if node.kind == "manifest":
        return "dataManifest" if node.facts["content"] == "data" else "deleteManifest"
    looks = {
        **dict.fromkeys(DELETE_KINDS, "deleteFile"),
        "root-manifest": "rootManifest",
        "manifest-list": "manifestList",
        "data": "dataFile",
        MANIFEST_DV: "manifestDeleteVector",
    }
    return looks.get(node.kind, node.kind)


def walk(root: Node) -> Iterator[Node]:
    """Yield every node, parents first."""
    yield root
    for child in root.children:
        yield from walk(child)


def delete_numbers(root: Node) -> Mapping[str, int]:
    """Return a short number for each delete file that is shown, by node id."""
    shown = [node.id for node in walk(root) if node.kind in DELETE_KINDS and not is_dead(node)]
    return {node_id: number for number, node_id in enumerate(shown, start=1)}


def data_marks(root: Node, numbers: Mapping[str, int]) -> Mapping[str, str]:
    """Return the numbers of the shown deletes that apply to each shown data file."""
    marks: dict[str, list[str]] = {}
    for node in walk(root):
        for target in node.applies_to if node.id in numbers else ():
            marks.setdefault(target, []).append(f"[{numbers[node.id]}]")
    return {target: " ".join(texts) for target, texts in marks.items()}


def is_dead(node: Node) -> bool:
    """Return whether a file is only shown as what a vector kills, or a root removes."""
    return bool(node.facts.get("dead"))


def label(node: Node, base: str) -> str:
    """Name a node: a file of data by its location below the table, others by their file name."""
    if node.kind == MANIFEST_DV and node.location is None:
        return "inline vector"
    if node.location is None:
        return f"snapshot {node.facts['snapshot_id']}"
    if node.kind == "data" or node.kind in DELETE_KINDS:
        return below(node.location, beginnings(base))
    return _file_name(node.location)


def _file_name(location: str) -> str:
    return location.rpartition("/")[2]


def describe(node: Node) -> str:
    """Describe a node, in a few words."""
    facts = node.facts
    if node.kind == "metadata-file":
        return f"metadata file, format version {facts['format_version']}"
    if node.kind == "snapshot":
        refs = facts["refs"]
        named = f", {', '.join(refs)}" if refs else ""
        return f"{facts['operation'] or 'operation unknown'}, {facts['committed_at']}{named}"
    if node.kind == "manifest-list":
        return f"manifest list, {print_count(facts['manifest_count'], 'manifest')}"
    size_text = print_size(facts["size_bytes"])
    if node.kind == "root-manifest":
        return f"root manifest, {_entries(facts['entry_count'])}, {size_text}"
    if node.kind == MANIFEST_DV:
        return f"{_vector(facts)}, {size_text}"
    if node.kind == "manifest":
        live, listed = facts["live_file_count"], facts.get("entry_count")
        state = print_count(live, "file")
        if listed is not None:  # of a leaf, its root says this
            state = f"{facts['status']}, {live:,} of {_entries(listed)} live"
        return f"manifest of {facts['content']}, {state}, {size_text}"
    text = f"{print_count(facts['record_count'], _WHAT_IT_HOLDS[node.kind])}, {size_text}"
    if is_dead(node):
        return f"{'removed' if facts['status'] == 'deleted' else 'dead'}, {text}"
    if facts.get("in_root"):
        text = f"{facts['status']}, {text}"
    if node.kind in DELETE_KINDS:
        return f"{text}, on {print_count(facts['applies_to_count'], 'file')}"
    return text


def _entries(count: int) -> str:
    return f"{count:,} entr{'y' if count == 1 else 'ies'}"


def _vector(facts: Row) -> str:
    """Describe a manifest delete vector: its leaf, its positions, and how many of them are new."""
    manifest, count = _file_name(str(facts["referenced_manifest"])), facts["position_count"]
    if facts["status"] == "deleted":
        return f"replaced delete vector of {manifest}, {print_count(count, 'position')}"
    fresh = f", {facts['fresh_count']:,} of them new" if facts["fresh_count"] else ""
    return f"{facts['status']} delete vector of {manifest}, kills {_entries(count)}{fresh}"


def more(node: Node) -> str:
    """Print what the limit left out below a node."""
    count, size_text = node.left_out.count, print_size(node.left_out.size_bytes)
    if node.kind in ("root-manifest", MANIFEST_DV):
        return f"{count:,} more {_entries(count).rpartition(' ')[2]}, {size_text}"
    noun = "more file" if node.kind == "manifest" else "more manifest"
    return f"{print_count(count, noun)}, {size_text}"


def _lines(
    node: Node, first: str, rest: str, *, killed: bool
) -> Iterator[tuple[str, Node | None, str]]:
    """Yield each line as (branch, node, text); lines without a node say what was left out.

    What vectors kill is below them if `killed` asks for it.
    """
    yield first, node, ""
    if node.kind == MANIFEST_DV and not killed:
        return
    last = len(node.children) - (0 if node.left_out.count else 1)
    for position, child in enumerate(node.children):
        bend, under = ("`-- ", "    ") if position == last else ("|-- ", "|   ")
        yield from _lines(child, rest + bend, rest + under, killed=killed)
    if node.left_out.count:
        yield f"{rest}`-- ", None, more(node)


def _quote(text: str) -> str:
    """Return a name in a label of Mermaid, which reads entities there, and HTML."""
    escaped = printable(text).replace("#", "#35;").replace('"', "#quot;")
    return escaped.replace("<", "#lt;").replace(">", "#gt;")


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
    deletes_of: dict[str, list[str]] = {}
    for node in walk(root):
        for target in node.applies_to if node.kind not in APPLIES else ():
            anchor = _anchor(node.id, f"[{numbers[node.id]}]")
            deletes_of.setdefault(target, []).append(anchor)
    title = as_html(f"Metadata tree of {base}")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        *_elements(root, base, numbers, deletes_of),
        "<details><summary>Mermaid source</summary>",
        f"<pre>{as_html(mermaid(root, base))}</pre></details>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _links(node: Node, deletes: Sequence[str]) -> str:
    """Return anchors from a node to what it deletes from, or to what deletes from it."""
    targets = node.applies_to
    if node.kind in APPLIES and targets:
        return f", {APPLIES[node.kind]} {_anchor(targets[0], 'this manifest')}"
    if targets:
        anchors = [_anchor(id_, f"file {number}") for number, id_ in enumerate(targets, start=1)]
        return f" deletes from {', '.join(anchors)}"
    return f" rows deleted by {' '.join(deletes)}" if deletes else ""


def _anchor(node_id: str, text: str) -> str:
    return f'<a href="#{as_html(node_id)}">{as_html(text)}</a>'


def _elements(
    node: Node, base: str, numbers: Mapping[str, int], deletes_of: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    number = numbers.get(node.id)
    name = f"[{number}] {label(node, base)}" if number else label(node, base)
    links = _links(node, deletes_of.get(node.id, ()))
    description = f'<span class="kind">{as_html(describe(node))}{links}</span>'
    line = f"<code>{as_html(name)}</code> {description}"
    if not node.children and not node.left_out.count:
        look = "data" if node.kind == "data" else "delete" if number else ""
        look = "dead" if is_dead(node) else look
        yield f'<div class="leaf {look}" id="{as_html(node.id)}">{line}</div>'
        return
    yield f'<details open id="{as_html(node.id)}"><summary>{line}</summary>'
    for child in node.children:
        yield from _elements(child, base, numbers, deletes_of)
    if node.left_out.count:
        yield f'<div class="leaf kind">{as_html(more(node))}</div>'
    yield "</details>"
