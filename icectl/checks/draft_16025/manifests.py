"""What roots and leaves of the draft say, against the rules of the draft: pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.finding import Finding, finding
from icectl.entries.columns.values import NONE, Positions
from icectl.entries.draft_16025.rows import COUNTS, DraftStatus, are_leaves
from icectl.spec.manifest import Content

Bitmaps = Mapping[str, Positions]
"""The positions that an entry of a leaf names, by the column that holds them."""

_OF_LEAVES = {
    Content.DATA_MANIFEST: Content.DATA,
    Content.DELETE_MANIFEST: Content.EQUALITY_DELETES,
}


def check_entries(location: str, rows: pa.Table, *, content: Content | None) -> Iterator[Finding]:
    """Check which members the entries of a manifest have; `content` is that of a leaf's entry.

    Spec: V4-205 to V4-207.
    """
    is_leaf = are_leaves(rows)
    lacking = [rows[name].is_null() for name in COUNTS]
    partly = lacking[0]
    for one in lacking[1:]:
        partly = pc.or_(partly, one)
    for_files = pc.or_(rows["deleted_positions"].is_valid(), rows["replaced_positions"].is_valid())
    has_info = pc.or_(pc.invert(lacking[0]), for_files)
    wrong = pc.if_else(is_leaf, partly, has_info)
    yield from _told("V4-205", location, rows, wrong, "has members of another kind of entry")
    if content is not None:
        strange = pc.not_equal(rows["content"], _OF_LEAVES[content])
        yield from _told("V4-206", location, rows, strange, "does not belong into this leaf")
    is_data = pc.equal(rows["content"], Content.DATA)
    is_equality = pc.equal(rows["content"], Content.EQUALITY_DELETES)
    vectors = pc.and_(rows["dv_location"].is_valid(), pc.invert(is_data))
    yield from _told("V4-207", location, rows, vectors, "is no data file, and has a vector")
    has_ids = pc.fill_null(pc.greater(pc.list_value_length(rows["equality_ids"]), 0), False)  # noqa: FBT003
    other = pc.xor(has_ids, is_equality)
    yield from _told(
        "V4-207", location, rows, other, "has equality ids where none belong, or lacks"
    )


def check_bitmaps(entry: Mapping[str, object], bitmaps: Bitmaps) -> Iterator[Finding]:
    """Check the bitmaps of a leaf's entry against each other. Spec: V4-203, V4-204."""
    location, count = str(entry["location"]), entry["record_count"]
    for name, positions in bitmaps.items():
        if len(positions) and int(positions[-1]) >= (count if isinstance(count, int) else 0):
            message = f"{name} name row {int(positions[-1]):,} of {count}"
            yield finding("V4-203", location, message)
    dead = bitmaps.get("dead_positions", NONE)
    for name in ("deleted_positions", "replaced_positions"):
        lost = np.setdiff1d(bitmaps.get(name, NONE), dead)
        if len(lost):
            yield finding("V4-204", location, f"{name} name row {int(lost[0]):,}, which is alive")


def check_counts(entry: Mapping[str, object], rows: pa.Table) -> Iterator[Finding]:
    """Check what an entry says of its leaf. Spec: V4-209."""
    statuses = rows["status"].to_numpy()
    records = rows["record_count"].to_numpy()
    groups = (
        ("added", (DraftStatus.ADDED,)),
        ("existing", (DraftStatus.EXISTING, DraftStatus.MODIFIED)),
        ("deleted", (DraftStatus.DELETED,)),
        ("replaced", (DraftStatus.REPLACED,)),
    )
    found = {"record_count": rows.num_rows}
    for name, group in groups:
        mask = np.isin(statuses, group)
        found[f"{name}_files_count"] = int(mask.sum())
        found[f"{name}_rows_count"] = int(records[mask].sum())
    for name, number in found.items():
        if entry[name] not in (number, None):
            message = f"{name} is {entry[name]}, and the leaf has {number:,}"
            yield finding("V4-209", str(entry["location"]), message)


def check_live_once(root: str, locations: Sequence[str]) -> Iterator[Finding]:
    """Check that no file is live twice; `locations` are those of all live files. Spec: V4-210."""
    for location, count in Counter(locations).items():
        if count > 1:
            yield finding("V4-210", root, f"`{location}` is live {count} times")


def _told(
    rule: str, location: str, rows: pa.Table, wrong: pa.ChunkedArray, told: str
) -> Iterator[Finding]:
    places: npt.NDArray[np.int64] = np.flatnonzero(pc.fill_null(wrong, True).to_numpy())  # noqa: FBT003
    if len(places):
        first = rows["location"][int(places[0])]
        more = f", and {len(places) - 1:,} more" if len(places) > 1 else ""
        yield finding(rule, location, f"`{first}` {told}{more}")
