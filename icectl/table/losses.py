"""What each way out of a broken table costs: rows, deleted rows that reappear, and snapshots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from shlex import join

from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, ancestors
from icectl.units import print_count, read_count


@dataclass(frozen=True, slots=True)
class Loss:
    """The cost of a way out, at most; None where nobody has counted.

    `rows` are lost, `rows_back` were deleted and reappear, `snapshots` leave the branch.
    """

    rows: int | None = 0
    rows_back: int | None = 0
    snapshots: int = 0

    @property
    def order(self) -> tuple[bool, int, int]:
        """The key that losses sort by, the smallest first; a loss that nobody counted is last."""
        known = self.rows is not None and self.rows_back is not None
        return not known, (self.rows or 0) + (self.rows_back or 0), self.snapshots

    def __str__(self) -> str:
        """Tell it: `drops 7 snapshots with 120 rows; 20 deleted rows reappear`."""
        if self.snapshots:
            drops = f"drops {print_count(self.snapshots, 'snapshot')} with {_rows(self.rows)}"
        elif self.rows == 0:
            drops = "" if self.rows_back != 0 else "loses no row"
        elif self.rows is None:
            drops = f"loses {_rows(None)}"
        else:
            drops = f"loses at most {_rows(self.rows)}"
        if self.rows_back != 0:
            back = "deleted rows reappear"
            if self.rows_back is not None:
                verb = "reappears" if self.rows_back == 1 else "reappear"
                back = f"at most {print_count(self.rows_back, 'deleted row')} {verb}"
            drops += f"; {back}" if drops else back
        return drops


NOTHING = Loss()


def together(losses: Sequence[Loss]) -> Loss:
    """Add losses up."""
    return Loss(
        _total([one.rows for one in losses]),
        _total([one.rows_back for one in losses]),
        sum(one.snapshots for one in losses),
    )


@dataclass(frozen=True, slots=True)
class WayOut:
    """The options of `icectl repair` that lead out of a broken table, and what they cost.

    `errors_left` counts what stays broken afterwards.
    """

    options: tuple[str, ...]
    loss: Loss
    errors_left: int = 0

    @property
    def order(self) -> tuple[int, bool, int, int]:
        """The key that ways sort by: first those that leave nothing broken, then the cheapest."""
        return self.errors_left, *self.loss.order

    def command(self, table: str) -> str:
        """Return the command line for a table."""
        return join(["icectl", "repair", table, *self.options])


def dropping(loss: Loss) -> WayOut:
    """Return the way out that takes what is missing from the table, by what that costs."""
    options = ["--drop-missing"] if loss.rows != 0 or loss.rows_back == 0 else []
    options += ["--accept-undeleted"] if loss.rows_back != 0 else []
    return WayOut(tuple(options), loss)


def going_back(metadata: TableMetadata, head: Snapshot, target: Snapshot) -> WayOut:
    """Return the way out that sets a branch back from its head to a snapshot."""
    options = ("--to-snapshot", str(target.snapshot_id))
    return WayOut(options, loss_of_going_back(metadata, head, target))


def _rows(count: int | None) -> str:
    return "rows that nobody has counted" if count is None else print_count(count, "row")


def loss_of_going_back(metadata: TableMetadata, head: Snapshot, target: Snapshot) -> Loss:
    """Return what a branch loses when it goes from its head to another snapshot.

    By the summaries of the snapshots that leave the branch (R-031): the rows that they added, those
    that compaction wrote again left out, and the deletes that they added. Deletes by value have no
    count of rows.
    """
    by_id = metadata.snapshots_by_id
    stays = {one.snapshot_id for one in ancestors(by_id, target.snapshot_id)}
    line = ancestors(by_id, head.snapshot_id)
    leaving = list(takewhile(lambda one: one.snapshot_id not in stays, line))
    changing = [one for one in leaving if one.operation != "replace"]
    rows = _total([_added(one, by_id) for one in changing])
    rows_back = _total([_deleted(one) for one in changing])
    return Loss(rows, rows_back, len(leaving))


def _added(snapshot: Snapshot, by_id: Mapping[int, Snapshot]) -> int | None:
    """Return the rows that a snapshot added; writers leave out the counters that are zero."""
    summary = snapshot.summary or {}
    if _keeps_counters(summary):
        return _counter(summary, "added-records")
    parent = by_id.get(snapshot.parent_snapshot_id or -1)
    before = {"total-records": "0"} if parent is None else parent.summary or {}
    totals = [_counter(one, "total-records") for one in (summary, before)]
    if snapshot.operation != "append" or None in totals or "total-records" not in summary:
        return None
    return (totals[0] or 0) - (totals[1] or 0)


def _deleted(snapshot: Snapshot) -> int | None:
    """Return the rows that a snapshot deleted; None for deletes by value, which have no count."""
    summary = snapshot.summary or {}
    if snapshot.operation == "append":
        return 0
    if not _keeps_counters(summary) or _counter(summary, "added-equality-deletes") != 0:
        return None
    keys = ("deleted-records", "added-position-deletes")
    return _total([_counter(summary, key) for key in keys])


def _keeps_counters(summary: Mapping[str, str]) -> bool:
    return any(key.startswith(("added-", "deleted-", "removed-")) for key in summary)


def _counter(summary: Mapping[str, str], key: str) -> int | None:
    return read_count(summary.get(key, "0"))


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
