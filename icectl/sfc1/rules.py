"""Every rule by its id, and those without which a root of layout sfc-1 may not be changed."""

from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from icectl.checks.rule import Breach, Finding, Rule, RuleSet, Subject, refuse
from icectl.checks.rules import ALL_RULES
from icectl.entries.columns import Positions
from icectl.entries.rows import Entries
from icectl.errors import CorruptTable, MissingFile, StorageError, Unsupported
from icectl.format.manifest import Content, Status
from icectl.format.snapshot import Snapshot
from icectl.sfc1.checks.live import LIVE_RULES, PlannedTree
from icectl.sfc1.checks.rows import ROW_RULES, RootRows, TreeColumns
from icectl.sfc1.checks.statistics import STATISTICS_RULES
from icectl.sfc1.checks.steps import STEP_RULES
from icectl.sfc1.checks.vectors import VECTOR_RULES, RootVectors
from icectl.sfc1.manifests import (
    FILES,
    TreeSchema,
    of_contents,
    resolved_rows,
    root_file,
    vector_positions,
)
from icectl.storage.location import comparison_key
from icectl.storage.store import Store
from icectl.table.reading import decode_file, naming, read_file

_CAUSES_FIRST = [rule for rule in LIVE_RULES if rule.id == "V4-120"]
"""A file that is live twice breaks rules of its entries too."""

SFC1_RULES = RuleSet(
    (*_CAUSES_FIRST, *ROW_RULES, *LIVE_RULES, *VECTOR_RULES, *STEP_RULES, *STATISTICS_RULES)
)
"""The rules of roots and leaves, those that are causes of others first."""

EVERY_RULE: Mapping[str, Rule] = dict(sorted({**ALL_RULES, **SFC1_RULES.by_id}.items()))
"""Every rule, in the order of the ids."""


def unreadable(
    location: str, problem: CorruptTable | Unsupported | StorageError, missing: str
) -> Finding:
    """Return a file that can't be read, by the rule that it breaks.

    `missing` is that of absence.
    """
    rule = missing if isinstance(problem, MissingFile | StorageError) else problem.rule or missing
    breach = Breach(f"it cannot be read: {problem.reason}", severity="error", is_unread=True)
    return EVERY_RULE[rule].finding(location, breach)


_OF_ROOTS = frozenset(
    {
        "V4-045", "V4-052", "V4-053", "V4-056", "V4-058", "V4-059", "V4-060", "V4-064", "V4-065",
        "V4-066", "V4-067",
        "V4-080", "V4-081", "V4-083", "V4-085", "V4-086", "V4-114", "V4-116", "V4-120", "V4-121",
        "V4-123", "V4-124", "V4-140",
    }
)  # fmt: skip
"""Rules of roots without which it is not sure which rows live, or what they are; the others that
validate knows are of statistics, sizes and history."""


def sound_root(
    store: Store, facts: TreeSchema, snapshot: Snapshot, *, carried: bool = False
) -> tuple[pa.Table, Mapping[str, Positions]]:
    """The rows of a root, as tree.read_root gives them, and dead positions by the leaf's key.

    Raises: CorruptTable V4-082, and where it is not sure which rows live (_OF_ROOTS); StorageError;
    Unsupported. `snapshot` has a root manifest.
    Cost: no file that reading the state doesn't read.
    """
    location = snapshot.root_manifest or ""
    content = read_file(store, location)
    file = decode_file(location, lambda: root_file(content, carried=carried))
    _refuse_in_root(RootRows(facts.metadata, snapshot, file, file.rows))
    with naming(location):
        rows = resolved_rows(facts, file.rows, snapshot)
    columns = TreeColumns(rows)
    live: dict[int, Positions] = {}
    gone: dict[int, Positions] = {}
    for at, row in columns.rows_of(Content.MANIFEST_DV).items():
        if row.status != Status.DELETED:
            live[at] = vector_positions(store.read_range, row)
        elif row.inline_content is not None:  # nothing depends on these: they may be damaged
            with suppress(CorruptTable):
                gone[at] = vector_positions(store.read_range, row)
    _refuse_in_root(RootVectors(location, columns, {**live, **gone}))
    names = [
        "referenced_data_file" if name == "referenced_file" else name for name in rows.column_names
    ]
    # The files that a root lists itself, whatever is in its leaves.
    own = Entries(of_contents(rows, *FILES).rename_columns(names))
    _refuse_in_root(PlannedTree(own, facts.metadata, snapshot, location))
    leaves = rows["referenced_file"]
    return rows, {comparison_key(leaves[at].as_py()): found for at, found in live.items()}


def _refuse_in_root(of: Subject) -> None:
    refuse(SFC1_RULES.findings(of, only=_OF_ROOTS))
