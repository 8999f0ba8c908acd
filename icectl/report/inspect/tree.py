"""The tree view as text and as a Mermaid flowchart."""

from collections.abc import Iterator, Mapping

from icectl.plan.inspect.tree import DELETE_KINDS, Node
from icectl.report.console import Console
from icectl.report.inspect.rows import beginnings, below, counted
from icectl.report.tables import shorten
from icectl.units import print_size

_WHAT_IT_HOLDS: Mapping[str, str] = {
    "data": "record",
    "position-deletes": "position delete",
    "equality-deletes": "equality delete",
    "deletion-vector": "deleted position",
}
_METADATA_KINDS = frozenset({"metadata-file", "manifest-list", "manifest"})
_NARROWEST = 24
"""Columns that a name keeps, however little room its line leaves."""


def print_tree(console: Console, root: Node, base: str) -> None:
    """Print the tree with ASCII branches; numbers in brackets tell which delete is meant where."""
    numbers = delete_numbers(root)
    marks = data_marks(root, numbers)
    for branch, node, text in _lines(root, "", ""):
        if node is None:
            console.print(branch + console.style(text, "dim"))
            continue
        name = label(node, base)
        words = [describe(node)]
        if node.id in numbers:
            name = f"[{numbers[node.id]}] {name}"
        if node.id in marks:
            words.append(f"deletes {marks[node.id]}")
        told = ", ".join(words)
        if console.width is not None:
            room = console.width - len(branch) - len(told) - 2
            name = shorten(name, max(room, _NARROWEST), "middle")
        console.print(f"{branch}{name}  {console.style(told, 'dim')}")


def mermaid(root: Node, base: str) -> str:
    """The tree as a Mermaid flowchart: solid arrows for `names`, dotted for `applies to`."""
    lines = ["flowchart LR"]
    for node in walk(root):
        text = f"{_quoted(label(node, base))}<br/>{_quoted(describe(node))}"
        lines.append(f'  {node.id}["{text}"]')
        lines += [f"  {node.id} --> {child.id}" for child in node.children]
        if node.left_out.count:
            lines.append(f'  {node.id}_more["{more(node)}"]')
            lines.append(f"  {node.id} --> {node.id}_more")
    for node in walk(root):
        lines += [f"  {node.id} -.->|deletes from| {target}" for target in node.applies_to]
    return "\n".join(lines) + "\n"


def walk(root: Node) -> Iterator[Node]:
    """Every node, parents first."""
    yield root
    for child in root.children:
        yield from walk(child)


def delete_numbers(root: Node) -> Mapping[str, int]:
    """A short number for each delete file that is shown, by node id."""
    shown = [node.id for node in walk(root) if node.kind in DELETE_KINDS]
    return {node_id: number for number, node_id in enumerate(shown, start=1)}


def data_marks(root: Node, numbers: Mapping[str, int]) -> Mapping[str, str]:
    """The numbers of the shown deletes that apply to each shown data file."""
    marks: dict[str, list[str]] = {}
    for node in walk(root):
        for target in node.applies_to:
            marks.setdefault(target, []).append(f"[{numbers[node.id]}]")
    return {target: " ".join(found) for target, found in marks.items()}


def label(node: Node, base: str) -> str:
    """What a node is called: a file of data by its location below the table, others by name."""
    if node.location is None:
        return f"snapshot {node.facts['snapshot_id']}"
    if node.kind in _METADATA_KINDS:
        return node.location.rpartition("/")[2]
    return below(node.location, beginnings(base))


def describe(node: Node) -> str:
    """What a node is, in a few words."""
    facts = node.facts
    if node.kind == "metadata-file":
        return f"metadata file, format version {facts['format_version']}"
    if node.kind == "snapshot":
        refs = facts["refs"]
        named = f", {', '.join(refs)}" if refs else ""
        return f"{facts['operation'] or 'operation unknown'}, {facts['committed_at']}{named}"
    if node.kind == "manifest-list":
        return f"manifest list, {counted(facts['manifest_count'], 'manifest')}"
    size_text = print_size(facts["size_bytes"])
    if node.kind == "manifest":
        files = counted(facts["live_file_count"], "file")
        return f"manifest of {facts['content']}, {files}, {size_text}"
    text = f"{counted(facts['record_count'], _WHAT_IT_HOLDS[node.kind])}, {size_text}"
    if node.kind in DELETE_KINDS:
        return f"{text}, on {counted(facts['applies_to_count'], 'file')}"
    return text


def more(node: Node) -> str:
    """What the limit left out below a node."""
    noun = "more file" if node.kind == "manifest" else "more manifest"
    return f"{counted(node.left_out.count, noun)}, {print_size(node.left_out.size_bytes)}"


def _lines(node: Node, first: str, rest: str) -> Iterator[tuple[str, Node | None, str]]:
    """Each line as (branch, node, text); lines without a node say what was left out."""
    yield first, node, ""
    last = len(node.children) - (0 if node.left_out.count else 1)
    for position, child in enumerate(node.children):
        bend, under = ("`-- ", "    ") if position == last else ("|-- ", "|   ")
        yield from _lines(child, rest + bend, rest + under)
    if node.left_out.count:
        yield f"{rest}`-- ", None, more(node)


def _quoted(text: str) -> str:
    """A name in a label of Mermaid, which reads entities there, and HTML."""
    escaped = text.replace("#", "#35;").replace('"', "#quot;")
    return escaped.replace("<", "#lt;").replace(">", "#gt;")
