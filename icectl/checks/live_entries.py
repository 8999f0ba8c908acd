"""Checks of the live entries of a snapshot, over all of its manifests together."""

from collections.abc import Iterator, Sequence

from icectl.checks.finding import Finding, finding
from icectl.checks.searches.live_entries import LiveFaults, chosen_manifests
from icectl.entries.summary import Totals, summary_counters
from icectl.format.metadata import TableMetadata
from icectl.format.properties import DATA_PATH
from icectl.format.rule import Fault
from icectl.format.snapshot import Snapshot
from icectl.units import print_count


def roots(metadata: TableMetadata) -> Sequence[str]:
    """Return the places where files of the table should lie (R-161)."""
    data_path = metadata.properties.get(DATA_PATH.name)
    return [metadata.location, *([data_path] if data_path else [])]


def check_live_entries(
    metadata: TableMetadata,
    snapshot: Snapshot,
    manifests: Sequence[int],
    faults: LiveFaults,
    *,
    is_whole: bool,
) -> Iterator[Finding]:
    """Check a snapshot that lists the manifests of these numbers.

    `is_whole` says that all of its manifests could be read.

    Spec: R-031, R-044, R-066, R-103, R-104, R-114, R-116, R-118, R-161, R-211.
    """
    subject = f"snapshot {snapshot.snapshot_id}"
    chosen = chosen_manifests(set(manifests), len(faults.totals))
    yield from _told(subject, "R-066", faults.repeated.in_snapshot(chosen), "is live again")
    found = faults.repeated_vectors.in_snapshot(chosen)
    yield from _told(subject, "R-114", found, "is a further deletion vector for its data file")
    found = faults.overlapping_vectors.in_snapshot(chosen)
    yield from _told(subject, "R-118", found, "is a deletion vector that shares bytes with another")
    found = faults.vectors.lost(chosen)
    yield from _told(subject, "R-116", found, "has a deletion vector, but is not live")
    found = faults.vectors.elsewhere(chosen)
    yield from _told(subject, "R-211", found, "has a deletion vector of another partition")
    yield from _sequence_numbers(metadata, snapshot, manifests, faults, subject)
    yield from _row_ids(metadata, manifests, faults, subject)
    found = faults.row_ids.overlapping(chosen)
    yield from _told(subject, "R-103", found, "has row ids that another file has too")
    outside = [faults.outside[number] for number in set(manifests) if number in faults.outside]
    yield from check_places(subject, outside)
    if is_whole:
        total = sum((faults.totals[number] for number in set(manifests)), Totals())
        yield from _summary(snapshot, total, subject)


def check_places(subject: str, outside: Sequence[Fault]) -> Iterator[Finding]:
    """Find files that lie outside of the table, as faults of its manifests (R-161)."""
    if outside:
        count = sum(fault.count for fault in outside)
        lie = f"{print_count(count, 'file')} {'lies' if count == 1 else 'lie'}"
        message = f"{lie} outside of the table; the first is `{outside[0].location}`"
        yield finding("R-161", subject, message)


def _told(subject: str, rule: str, fault: Fault | None, what: str) -> Iterator[Finding]:
    if fault is not None:
        more = f", and {fault.count - 1:,} more" if fault.count > 1 else ""
        yield finding(rule, subject, f"`{fault.location}` {what}{more}")


def _sequence_numbers(
    metadata: TableMetadata,
    snapshot: Snapshot,
    manifests: Sequence[int],
    faults: LiveFaults,
    subject: str,
) -> Iterator[Finding]:
    if metadata.format_version == 1 or not manifests:
        return
    greatest = max(int(faults.greatest_number[number]) for number in manifests)
    if greatest > snapshot.sequence_number:
        message = (
            f"a file has sequence number {greatest}, above its own, {snapshot.sequence_number}"
        )
        yield finding("R-044", subject, message)


def _row_ids(
    metadata: TableMetadata, manifests: Sequence[int], faults: LiveFaults, subject: str
) -> Iterator[Finding]:
    if metadata.next_row_id is None or not manifests:
        return
    reached = max(int(faults.greatest_row_id[number]) for number in manifests)
    if reached > metadata.next_row_id:
        message = f"row ids of its files reach {reached}, `next-row-id` is {metadata.next_row_id}"
        yield finding("R-104", subject, message)


def _summary(snapshot: Snapshot, totals: Totals, subject: str) -> Iterator[Finding]:
    """Check that the totals that a summary states are those of the manifests (R-031)."""
    stated = snapshot.summary or {}
    differing = [
        f"{name} is {stated[name]}, not {found}"
        for name, found in summary_counters(totals, "total").items()
        if name in stated and stated[name] != str(found)
    ]
    if differing:
        yield finding("R-031", subject, f"in its summary {'; '.join(differing)}")
