"""Checks of version 4 roots and leaves: what searches over their rows found, as findings."""

from collections.abc import Iterator, Mapping, Sequence

from icectl.checks.finding import finding
from icectl.checks.rule import Finding
from icectl.entries.summary import Totals, summary_counters
from icectl.errors import CorruptTable, MissingFile, Refused, StorageError, Unsupported
from icectl.format import properties
from icectl.format.layout import LAYOUT_KEY, Layout
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.format.types import PrimitiveType
from icectl.sfc1.checks.rows import KnownIds
from icectl.sfc1.checks.vectors import VectorLimits


def unreadable(
    location: str, problem: CorruptTable | Unsupported | StorageError, missing: str
) -> Finding:
    """Return a file that can't be read, by the rule that it breaks.

    `missing` is that of absence.
    """
    message = problem.message.removeprefix(f"`{location}`: ")
    if isinstance(problem, MissingFile):
        message = message.removesuffix(f" ({problem.rule})")
    if isinstance(problem, MissingFile | StorageError) or problem.rule is None:
        return finding(missing, location, f"it cannot be read: {message}", severity="error")
    message = message.removesuffix(f" ({problem.rule})")
    return finding(problem.rule, location, f"it cannot be read: {message}", severity="error")


def check_unknown_ids(location: str, unknown: Sequence[int]) -> Iterator[Finding]:
    """Find columns that this layout does not know (V4-042)."""
    if unknown:  # V4-042
        ids = ", ".join(map(str, unknown))
        yield finding("V4-042", location, f"it has columns with the ids {ids}")


def check_root_footer(snapshot: Snapshot, footer: Mapping[str, str]) -> Iterator[Finding]:
    """Compare what a root says of its snapshot with the snapshot (V4-045, V4-047)."""
    subject = snapshot.root_manifest or ""
    for name, expected in (
        ("snapshot-id", snapshot.snapshot_id),
        ("sequence-number", snapshot.sequence_number),
        ("first-row-id", snapshot.first_row_id),
    ):
        stored = footer.get(name)
        if stored is not None and stored != str(expected):  # V4-045
            message = f"its footer says `{name}` {stored}, the snapshot {expected}"
            yield finding("V4-045", subject, message)
    layout = footer.get(LAYOUT_KEY)
    if layout != Layout.SFC_1:  # V4-047
        yield finding("V4-047", subject, f"its footer says `{LAYOUT_KEY}` {layout}")


def check_leaf_footer(location: str, footer: Mapping[str, str]) -> Iterator[Finding]:
    """Check what a delete leaf calls its content (V4-112)."""
    if footer.get("content") == "deletes":  # V4-112
        yield finding("V4-112", location, "its footer says `deletes`, not `delete`")


def check_root_size(
    metadata: TableMetadata, subject: str, data_files: int, deletes: int
) -> Iterator[Finding]:
    """Check how much a root lists itself (V4-190, V4-191)."""
    for rule, count, limit, what in (
        ("V4-190", data_files, properties.TREE_MAX_DATA_FILES, "data files"),
        ("V4-191", deletes, properties.TREE_MAX_DELETE_ENTRIES, "deletes"),
    ):
        most = _value(metadata, limit)
        if count > most:
            yield finding(rule, subject, f"it lists {count:,} {what}, more than {most:,}")


def check_summary(
    snapshot: Snapshot, total: Totals, added: Totals, removed: Totals
) -> Iterator[Finding]:
    """Check the counters of a summary against what lives and what changed (V4-038)."""
    stated = snapshot.summary or {}
    counters = {
        **summary_counters(total, "total"),
        **summary_counters(added, "added"),
        **summary_counters(removed, "removed"),
    }
    differing = [
        f"{name} is {stated[name]}, not {count}"
        for name, count in counters.items()
        if name in stated and stated[name] != str(count)
    ]
    if differing:  # V4-038
        subject = f"snapshot {snapshot.snapshot_id}"
        yield finding("V4-038", subject, f"in its summary {'; '.join(differing)}")


def check_replace(snapshot: Snapshot, before: int | None, after: int | None) -> Iterator[Finding]:
    """Check that a replace has as many live rows as its parent, where both can be told (V4-037)."""
    if before is not None and after is not None and before != after:  # V4-037
        message = f"it is a replace, and has {after:,} rows, its parent {before:,}"
        yield finding("V4-037", f"snapshot {snapshot.snapshot_id}", message)


def known_ids(metadata: TableMetadata) -> KnownIds:
    """Collect the ids that entries of a table may name."""
    fields = {id_: field for schema in metadata.schemas for id_, field in schema.all_fields.items()}
    return KnownIds(
        spec_ids=frozenset(spec.spec_id for spec in metadata.partition_specs),
        sort_order_ids=frozenset(order.order_id for order in metadata.sort_orders),
        columns=frozenset(fields),
        real_columns=frozenset(
            id_
            for id_, field in fields.items()
            if isinstance(field.type, PrimitiveType) and field.type.name in ("float", "double")
        ),
    )


def vector_limits(metadata: TableMetadata) -> VectorLimits:
    """Read what the table's properties say of delete vectors over leaves."""
    return VectorLimits(
        _value(metadata, properties.VECTOR_INLINE_MAX_BYTES),
        _value(metadata, properties.VECTOR_INLINE_TOTAL_MAX_BYTES),
        _value(metadata, properties.VECTOR_REWRITE_RATIO),
    )


def _value(metadata: TableMetadata, wanted: properties.TableProperty[properties.T]) -> properties.T:
    """Return the value of a property; its default where the text is none, which commands refuse."""
    try:
        return properties.read(metadata.properties, wanted)
    except Refused:
        return wanted.default
