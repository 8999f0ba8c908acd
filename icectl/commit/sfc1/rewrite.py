"""Rewritten files as a change of a version 4 tree: what goes and comes, entry by entry."""

import pyarrow as pa

from icectl.commit.changes import Changes
from icectl.commit.sfc1.draft import Gone, TreeChange
from icectl.entries.rows import by_row, by_spec
from icectl.spec.manifest import Content
from icectl.table.sfc1.manifests import TreeFacts, tree_rows


def tree_change(facts: TreeFacts, changes: Changes) -> TreeChange:
    """What a commit of rewritten files does to a root.

    New files keep the data sequence number that their entries state (sfc-1 7.5).
    """
    added = [tree_rows(facts, part, spec_id) for spec_id, part in by_spec(changes.added)]
    removed = by_row(changes.removed, "content", "location", "content_offset")
    return TreeChange(
        pa.concat_tables([facts.empty(), *added]),
        tuple(Gone(Content(code), location, offset) for code, location, offset in removed),
        operation="replace",
    )
