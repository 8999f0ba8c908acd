"""Whether a manifest list is the file that was written under its name; manifests in doubt.

Another file of the table under that name is whole in itself, and lists other rows. The name of
another snapshot proves that alone. Of lengths, counts, ranges and summaries one may be a mistake
of a writer, and two tell of another file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.entries.columns import Integers, Mask
from icectl.entries.rows import RawEntries
from icectl.errors import OtherFile
from icectl.format.manifest import Content, ManifestContent, ManifestFile, ManifestHeader, Status
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import PUT_BACK, Snapshot
from icectl.units import read_count

SCREENED = frozenset({"snapshot_id", "record_count"})
"""What `doubtful_manifests` looks at, beside columns that are always read."""

_STATUSES = tuple(map(int, Status))
_GREATEST = np.iinfo(np.int64).max


def put_back_id(
    metadata: TableMetadata, snapshot: Snapshot, properties: Mapping[str, str] | None
) -> str | None:
    """Return the id that a snapshot had before icectl put it back; None if it did not.

    `properties` are the header of its manifest list. Where older icectl did it, the summary has no
    mark. Then the list is named after the id in its header, which has a lower sequence number.
    """
    marked = (snapshot.summary or {}).get(PUT_BACK)
    if marked is not None or properties is None or snapshot.parent_snapshot_id is not None:
        return marked
    old_id, number = properties.get("snapshot-id", ""), properties.get("sequence-number")
    others = {str(each) for each in metadata.snapshots_by_id} - {str(snapshot.snapshot_id)}
    _, _, file_name = (snapshot.manifest_list or "").rpartition("/")
    is_named = old_id in re.findall(r"\d+", file_name) and old_id not in others
    written_at = read_count(number)
    is_older = written_at is not None and written_at < snapshot.sequence_number
    return old_id if is_named and is_older else None


def check_own_list(
    metadata: TableMetadata,
    snapshot: Snapshot,
    properties: Mapping[str, str],
    manifests: Sequence[ManifestFile],
) -> None:
    """Do nothing where a manifest list may be that of a snapshot; `properties` are its header.

    Raises: OtherFile R-054.
    """
    named = properties.get("snapshot-id")
    put_back = put_back_id(metadata, snapshot, properties)
    own = put_back or str(snapshot.snapshot_id)
    differences = [] if named in (None, own) else [f"its header says `snapshot-id` {named}"]
    is_known = bool(differences) and any(str(id_) == named for id_ in metadata.snapshots_by_id)
    number = properties.get("sequence-number")
    if put_back is None and number not in (None, str(snapshot.sequence_number)):
        differences.append(
            f"its header says `sequence-number` {number}, not {snapshot.sequence_number}"
        )
    summary = snapshot.summary or {}
    added = {summary.get(name, "0") for name in ("added-data-files", "added-delete-files")}
    is_own = (manifest.added_snapshot_id in (None, snapshot.snapshot_id) for manifest in manifests)
    if named is None and added != {"0"} and not any(is_own):
        differences.append("the snapshot added files, and none of its manifests belongs to it")
    differences += _mismatched_totals(snapshot, manifests)
    if is_known or len(differences) > 1:
        message = f"it is not the list of snapshot {own}: {'; '.join(differences)}"
        raise OtherFile(message, rule="R-054")


_TOTALS = (
    ("total-data-files", ManifestContent.DATA, "files"),
    ("total-delete-files", ManifestContent.DELETES, "files"),
    ("total-records", ManifestContent.DATA, "rows"),
)
_COUNTS = {
    kind: attrgetter(f"added_{kind}_count", f"existing_{kind}_count") for kind in ("files", "rows")
}


def _mismatched_totals(snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> Iterator[str]:
    """Tell which totals of the summary are not those that a list counts, if any."""
    summary = snapshot.summary or {}
    for name, content, kind in _TOTALS:
        if name not in summary:
            continue
        of_content = [manifest for manifest in manifests if manifest.content is content]
        counts = list(chain.from_iterable(map(_COUNTS[kind], of_content)))
        if None not in counts and str(sum(counts)) != summary[name]:
            yield f"it lists {sum(counts)} as `{name}`, the summary {summary[name]}"
            return


_SURE = (
    "partition_spec_id", "sequence_number", "min_sequence_number", "added_snapshot_id",
    "added_files_count", "existing_files_count",
)  # fmt: skip
_SIGNS = (
    ("manifest_length",),
    ("added_rows_count", "existing_rows_count", "deleted_rows_count", "deleted_files_count"),
    ("partitions",),
)
"""Of these one may be a mistake, as validate has it. Where Spark's `rewrite_table_path` copies only
later snapshots, their lists say what length earlier manifests had before."""


def difference(one: ManifestFile, other: ManifestFile) -> tuple[Any, Any] | None:
    """Return what rows of two lists say that can't be of one manifest; None if all can (R-051)."""
    if one == other:
        return None
    differing = _differing(_SURE, one, other)
    signs = [pairs for names in _SIGNS if (pairs := _differing(names, one, other))]
    return (differing or signs[0])[0] if differing or len(signs) > 1 else None


def _differing(
    names: Sequence[str], one: ManifestFile, other: ManifestFile
) -> Sequence[tuple[Any, Any]]:
    """Return members of two rows that differ; None is unknown."""
    pairs = ((getattr(one, name), getattr(other, name)) for name in names)
    return [pair for pair in pairs if pair[0] != pair[1] and None not in pair]


_PATH, _NUMBER = attrgetter("manifest_path"), attrgetter("sequence_number")


def changed_rows(
    before: tuple[ManifestFile, ...], now: tuple[ManifestFile, ...]
) -> tuple[Sequence[ManifestFile], Sequence[ManifestFile]]:
    """Return a part of each of two lists: beside it they have the same rows, and in their order.

    Cost: little, where lists share rows and differ at one end: it may be more than what differs.
    """
    head = _shared(before, now)
    before, now = before[head:], now[head:]
    tail = _shared(before[::-1], now[::-1])
    return before[: len(before) - tail], now[: len(now) - tail]


def _shared(before: tuple[ManifestFile, ...], now: tuple[ManifestFile, ...]) -> int:
    """Return a count of first rows that are the same; ever larger steps down from the largest."""
    most, step = min(len(before), len(now)), 0
    while step < most:
        count = most - step
        if before[count - 1] is now[count - 1] and before[:count] == now[:count]:
            return count
        step = 2 * step + 1
    return 0


class _LastList(local):
    """The list that a thread saw last, with its paths and its greatest sequence number."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.rows: tuple[ManifestFile, ...] = ()
        self.paths: set[str] = set()
        self.greatest = 0


class DoubtfulLists:
    """Tells which manifest lists have to be held against the rules of lists.

    Of a list that has most rows of the last one, only the others are looked at. Safe to share among
    threads, each of which reads several lists in a row.
    """

    def __init__(self) -> None:
        self._last = _LastList()
        self._plain: dict[int, ManifestFile] = {}
        """Rows without doubts, by `id`: lists that are read together share rows."""

    def is_doubtful(
        self, metadata: TableMetadata, snapshot: Snapshot, manifests: tuple[ManifestFile, ...]
    ) -> bool:
        """Return whether something speaks against the list of a snapshot."""
        last = self._last
        removed, added = changed_rows(last.rows, manifests)
        last.paths.difference_update(map(_PATH, removed))
        last.paths.update(map(_PATH, added))
        is_first = metadata.format_version == 1
        for row in () if is_first else added:
            if id(row) not in self._plain and not _is_plain(metadata, row):
                last.forget()
                return True
            self._plain[id(row)] = row
            last.greatest = max(last.greatest, row.sequence_number)
        if len(last.paths) != len(manifests):
            last.forget()
            return True
        last.rows = manifests
        if last.greatest > snapshot.sequence_number:  # it may be that of an earlier list
            last.greatest = max(map(_NUMBER, manifests), default=0)
        return last.greatest > snapshot.sequence_number


def _is_plain(metadata: TableMetadata, row: ManifestFile) -> bool:
    added = metadata.snapshots_by_id.get(row.added_snapshot_id or -1)
    return (
        row.manifest_length >= 0
        and row.min_sequence_number <= row.sequence_number
        and (added is None or added.sequence_number == row.sequence_number)
        and (row.first_row_id or 0) <= (metadata.next_row_id or 0)
        and metadata.spec(row.partition_spec_id) is not None
    )


def doubtful_manifests(
    described: Sequence[ManifestFile],
    headers: Sequence[ManifestHeader],
    sizes: Sequence[int],
    rows: RawEntries,
    first: int,
) -> Sequence[int]:
    """Find manifests that something speaks against; `described` are their rows of a list.

    `rows` are those of all of them, manifest by manifest, with the columns of SCREENED and perhaps
    content and sequence numbers; the first has `manifest` `first`.
    Shape: places in `described`.
    Cost: a pass over numbers.
    """
    table = rows.table
    count = len(described)
    numbers = table["manifest"].to_numpy()
    bounds = np.searchsorted(numbers, np.arange(first, first + count + 1, dtype=numbers.dtype))
    lengths = np.diff(bounds)
    statuses = table["status"].to_numpy()
    counts = _counts_by_status(statuses, table["record_count"].to_numpy(), bounds)

    def places(wrong: Mask) -> Sequence[int]:
        """Return the manifests of the rows that are wrong, mostly of none."""
        found: Sequence[int] = np.searchsorted(bounds, np.flatnonzero(wrong), "right").tolist()
        return [at - 1 for at in found]

    ids = _filled(table["snapshot_id"])
    added = np.repeat([one.added_snapshot_id or -1 for one in described], lengths)
    doubted: set[int] = set()
    if (differs := ids != added).any():
        is_stated = (ids != -1) & (added != -1)
        doubted.update(places(differs & is_stated & (statuses != Status.EXISTING)))
    if "content" in table.column_names:  # data among deletes, or deletes among data
        holds_data = np.repeat([one.content is ManifestContent.DATA for one in described], lengths)
        doubted.update(places((table["content"].to_numpy() == int(Content.DATA)) != holds_data))
    if "sequence_number" in table.column_names:  # which its row excludes
        own = _filled(table["sequence_number"])
        least = np.repeat([one.min_sequence_number for one in described], lengths)
        greatest = np.repeat([one.sequence_number or _GREATEST for one in described], lengths)
        outside = (own < least) | (own > greatest)
        doubted.update(places(outside & (statuses != Status.DELETED) & (own != -1)))
    return [
        place
        for place, (row, header, size) in enumerate(zip(described, headers, sizes, strict=True))
        if row.manifest_length != size
        or place in doubted
        or _says_another_kind(row, header)
        or _counts_others(row, counts[place])
    ]


def _filled(column: pa.ChunkedArray) -> Integers:
    """Return a column of numbers; null is -1."""
    return np.asarray((pc.fill_null(column, -1) if column.null_count else column).to_numpy())


def _counts_by_status(
    statuses: Integers, records: Integers, bounds: Integers
) -> Sequence[tuple[int, ...]]:
    """Count the files of each status between bounds, then their rows. Order: of the statuses."""
    none = [0] * (len(bounds) - 1)
    file_counts, row_counts = [], []
    for status in _STATUSES:
        is_of = statuses == status
        files_of = np.count_nonzero(is_of)
        if not files_of:
            file_counts.append(none)
            row_counts.append(none)
            continue
        if files_of == len(statuses):  # as a rule a few manifests have one status in common
            file_counts.append(np.diff(bounds).tolist())
            row_counts.append(_sums(records, bounds))
        else:
            file_counts.append(_sums(is_of, bounds))
            row_counts.append(_sums(records * is_of, bounds))
    return list(zip(*file_counts, *row_counts, strict=True))


def _sums(values: npt.NDArray[Any], bounds: Integers) -> list[int]:
    """Add up values between bounds."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    differences: list[int] = np.diff(sums[bounds]).tolist()
    return differences


def _says_another_kind(row: ManifestFile, header: ManifestHeader) -> bool:
    if header.spec_id not in (None, row.partition_spec_id):
        return True
    return "content" in header.metadata and header.content is not row.content


_STATED = attrgetter(
    *(f"{status.name.lower()}_{kind}_count" for kind in ("files", "rows") for status in Status)
)


def _counts_others(row: ManifestFile, counted: tuple[int, ...]) -> bool:
    stated = _STATED(row)
    if stated == counted:
        return False
    return any(own not in (None, other) for own, other in zip(stated, counted, strict=True))
