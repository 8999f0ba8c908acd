"""The health of many tables as text: a line a table, and what all of them come to."""

from collections.abc import Sequence

from icectl.engine.choice import EngineChoice
from icectl.plan.inspect.views import Row, RowSet
from icectl.plan.inspect.warehouse import WAREHOUSE_COLUMNS, totals
from icectl.report.console import Console
from icectl.report.inspect.rows import print_rows
from icectl.report.many import print_troubles
from icectl.report.tables import print_pairs
from icectl.units import print_count, print_size


def print_warehouse(
    console: Console, shown: Sequence[Row], rows: Sequence[Row], engine: EngineChoice
) -> None:
    """Print those that are `shown`, why tables could not be read, and the totals of all rows."""
    print_rows(console, "warehouse", RowSet(WAREHOUSE_COLUMNS, shown), "")
    print_troubles(console, [(row["table"], row["error"], None) for row in shown])
    found = totals(rows)
    if len(shown) < len(rows):
        console.say()
        console.say(f"and {len(rows) - len(shown):,} more")
    console.say()
    verdicts = [f"{count:,} {_NAMES[name]}" for name, count in found["verdicts"].items() if count]
    console.say(f"{print_count(len(rows), 'table')}: {', '.join(reversed(verdicts))}")
    print_pairs(console, summary(found))
    if any("compact" in (row["commands"] or ()) for row in rows):
        console.say(str(engine))


def summary(found: Row) -> list[tuple[str, str]]:
    """Return what all tables come to, and what maintenance would make of it."""
    data, deletes = found["data_file_count"], found["delete_file_count"]
    files = f"{data:,} of data ({print_size(found['data_file_bytes'])}), {deletes:,} of deletes"
    merged = print_count(found["surplus_file_count"], "file")
    regrouped = print_count(found["surplus_manifest_count"], "manifest")
    snapshots = print_count(found["snapshot_count"], "snapshot")
    freed = f"{print_size(found['reclaimable_bytes'])} freed"
    return [
        ("files", files),
        ("to merge", f"{merged}, {regrouped}"),
        ("to expire", f"{found['expirable_snapshot_count']:,} of {snapshots}, {freed}"),
    ]


_NAMES = {"ok": "ok", "attention": "attention", "critical": "critical", "unread": "not read"}
