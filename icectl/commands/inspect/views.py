"""The views of `inspect`, and the options that each supports."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
"""One row of a view, ready for JSON: ids of snapshots as strings, instants as ISO 8601."""


@dataclass(frozen=True, slots=True)
class View:
    """One view; `rows` is false for documents (summary, health, clustering, advice, matches,
    tree, changes).

    `of_snapshot` views show one snapshot, the current one unless another is chosen;
    `all_snapshots` views can show every snapshot of the table together;
    `by_content` views can be cut down to data or delete files.
    """

    name: str
    rows: bool = True
    of_snapshot: bool = False
    all_snapshots: bool = False
    by_content: bool = False


VIEWS: Mapping[str, View] = {
    view.name: view
    for view in (
        View("summary", rows=False, of_snapshot=True),
        View("health", rows=False, of_snapshot=True),
        *map(View, ("snapshots", "history", "refs")),
        View("manifests", of_snapshot=True, all_snapshots=True, by_content=True),
        View("files", of_snapshot=True, all_snapshots=True, by_content=True),
        View("entries", of_snapshot=True, all_snapshots=True, by_content=True),
        View("partitions", of_snapshot=True),
        View("deletes", of_snapshot=True),
        *map(View, ("schemas", "specs", "sort-orders", "properties", "metadata-log", "statistics")),
        View("clustering", rows=False, of_snapshot=True),
        View("advice", rows=False, of_snapshot=True),
        View("matches", rows=False),
        View("tree", rows=False, of_snapshot=True),
        View("changes", rows=False),
        View("erasures"),
    )
}

Headings = Mapping[str, Sequence[str]]
"""What the text form of a view has above its columns, with the columns that it shows there."""

NO_HEADINGS: Headings = {}


@dataclass(frozen=True, slots=True)
class RowSet:
    """Rows of a view, produced while they are consumed, and their columns in order."""

    columns: tuple[str, ...]
    rows: Iterable[Row]


def columns_hint(columns: Iterable[str], headings: Headings) -> str:
    """Return the hint that names the columns there are, and the headings that stand for them."""
    own = tuple(columns)
    shown = [
        heading
        for heading, members in headings.items()
        if heading not in own and all(one.removeprefix("data_file.") in own for one in members)
    ]
    return f"columns: {', '.join(own)}" + (f"; as shown: {', '.join(shown)}" if shown else "")
