"""What an upgrade must know of the heads of branches, read without holding all files."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, zip_longest
from math import inf, isnan

import numpy as np
import pyarrow as pa

from icectl.checks.bound_types import top_level_ids
from icectl.checks.live_entries import chosen_manifests, expected_places, live_faults
from icectl.checks.metrics import counts_of_other_rows
from icectl.checks.objects import Columns, StoredManifest, merge_faults
from icectl.checks.rule import Finding
from icectl.checks.rules import RULES
from icectl.commands.upgrade_to_v4.plan import BranchHead, UpgradeOptions
from icectl.entries.inherit import inherit
from icectl.entries.locations import are_relative
from icectl.entries.rows import (
    PLANNING_COLUMNS,
    Entries,
    at_places,
    concat,
    count_by_value,
    equality_delete_files,
    in_order,
    live,
    numbers,
    planning,
    position_delete_files,
)
from icectl.entries.rows import part as rows_between
from icectl.errors import CorruptTable, Unsupported
from icectl.files.manifest.schema import check_list_known
from icectl.format.layout import Layout, layout_of
from icectl.format.manifest import (
    Content,
    FileFormat,
    ManifestContent,
    ManifestFile,
    ManifestHeader,
)
from icectl.format.metadata import TableMetadata
from icectl.format.partition import result_types
from icectl.format.rule import Fault
from icectl.format.single_value import decode, encode
from icectl.format.snapshot import Snapshot
from icectl.format.types import PrimitiveType, Type
from icectl.sfc1.manifest_file import ListedRow
from icectl.sfc1.manifests import PLAIN, TreeSchema, can_move, leaf_rows, live_rows, read_leaf
from icectl.sfc1.rules import sound_root
from icectl.storage.ahead import AheadStore
from icectl.table.context import TableContext
from icectl.table.guard import check_head_list, check_live
from icectl.table.live_parts import MOST_WHOLE, LiveParts, LiveReading, PairedEntries
from icectl.table.manifest_lists import read_snapshot_manifests
from icectl.table.manifests import ManifestsRead, Trust, scan_manifests
from icectl.table.removed_files import unless_removed

_COLUMNS = PLANNING_COLUMNS | {"value_counts"}
_AS_LISTED = ("R-044", "R-047", "R-051", "R-053", "R-061", "R-097")
_FLOATS = (PrimitiveType("float"), PrimitiveType("double"))


def read_head(
    context: TableContext,
    metadata: TableMetadata,
    branch: str,
    snapshot: Snapshot,
    options: UpgradeOptions,
    most_whole: int = MOST_WHOLE,
) -> BranchHead:
    """Read what an upgrade must know of the newest snapshot of a branch.

    Raises: CorruptTable, where it is not sure which rows live; StorageError of the store.
    Cost: one pass over the manifests, if it has no root. Of more than `most_whole` live files
    deletes and the files that they name are in memory.
    """
    head = BranchHead(branch, snapshot.snapshot_id, has_root=layout_of(snapshot) is Layout.SFC_1)
    if head.has_root:
        facts = TreeSchema(metadata)
        rows, _ = sound_root(context.store, facts, snapshot)
        if options.mode == "eager":
            older = legacy_leaves(rows)
            legacy = len(movable(context, facts, older))
            head = replace(head, legacy_leaves=legacy, fixed_leaves=len(older) - legacy)
        if not options.convert_position_deletes and options.layout is not Layout.MANIFEST_LISTS:
            return head
    try:
        with unless_removed(context):
            return _read(context, metadata, snapshot, head, options.layout, most_whole)
    except (CorruptTable, Unsupported) as error:
        return BranchHead(branch, snapshot.snapshot_id, unreadable=error.message)


def _read(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot,
    head: BranchHead,
    layout: Layout,
    most_whole: int,
) -> BranchHead:
    manifests = read_snapshot_manifests(context.store, metadata, snapshot)
    check_list_known(manifests)
    if not manifests:
        return head
    places = [*range(len(manifests))]  # deletes first, as the checks of parts want them
    places.sort(key=lambda at: manifests[at].content is not ManifestContent.DELETES)
    becomes_root = layout is Layout.SFC_1 and not head.has_root
    trust: Trust = "own" if becomes_root else "sound"  # of the others a finding tells
    check = LiveParts(metadata, snapshot, manifests)
    reading = LiveReading(check, most_whole, PairedEntries().of)
    headers: dict[int, ManifestHeader] = {}
    spec_ids, equality_deletes = set[int](), set[int]()
    position_deletes, relative, miscounted, misdescribed = Counter[int](), [], [], None
    top_level = top_level_ids(metadata)

    def read() -> Iterator[tuple[ManifestsRead, Entries]]:
        ordered = [manifests[at] for at in places]
        for part in scan_manifests(context, metadata, ordered, _COLUMNS, trust=trust):
            yield part, live(at_places(inherit(planning(part.rows), ordered), places))

    for part, entries in read():
        headers |= zip(places[part.first :], part.headers, strict=False)
        miscounted.append(counts_of_other_rows(Columns(live(part.rows)), top_level))
        if becomes_root and misdescribed is None:
            misdescribed = _misdescribed(metadata, part)
        reading.add(entries)
        spec_ids |= set(count_by_value(entries, "spec_id"))
        relative.append(_relative(entries))
        position_deletes.update(count_by_value(position_delete_files(entries), "manifest"))
        equality_deletes |= set(count_by_value(equality_delete_files(entries), "manifest"))
    if reading.is_reduced and check.is_doubtful:
        entries = in_order(concat([entries for _, entries in read()]))
    else:
        entries = in_order(concat(reading.parts))
    if not reading.is_reduced or check.is_doubtful:
        check_live(metadata, snapshot, manifests, entries)
    check_head_list(context, metadata, snapshot, manifests)
    head = replace(
        head,
        manifests=manifests,
        headers=tuple(headers[at] for at in sorted(headers)),
        spec_ids=frozenset(spec_ids),
        relative=merge_faults(relative),
        position_delete_files=position_deletes.total(),
        equality_deletes=tuple(sorted(equality_deletes)),
        miscounted=merge_faults(miscounted),
        unsound=tuple(_unsound(metadata, manifests, entries)) if becomes_root else (),
        misdescribed=misdescribed,
    )
    if head.has_root:
        return head
    foreign = [
        at
        for at in sorted(headers)
        if metadata.keeps_manifest_lists and headers[at].file_format is FileFormat.PARQUET
    ]
    unmovable = [manifests[at].manifest_path for at in foreign if at in position_deletes]
    return replace(
        head,
        fixed_leaves=len(position_deletes),
        foreign=tuple(manifests[at].manifest_path for at in foreign),
        unmovable=unmovable[0] if unmovable else None,
    )


def _relative(entries: Entries) -> Fault | None:
    locations = entries.table["location"]
    found = locations.filter(are_relative(locations))
    return Fault(len(found), found[0].as_py()) if len(found) else None


def _unsound(
    metadata: TableMetadata, manifests: Sequence[ManifestFile], entries: Entries
) -> Iterator[str]:
    """Yield what would be wrong with live files in a root (sfc-1 U-10)."""
    faults = live_faults(entries, len(manifests), expected_places(metadata))
    everything = chosen_manifests(set(range(len(manifests))), len(manifests))
    for fault, what in (
        (faults.repeated.in_snapshot(everything), "is live more than once"),
        (faults.repeated_vectors.in_snapshot(everything), "has two deletion vectors"),
        (faults.vectors.lost(everything), "has a deletion vector, but is not live"),
    ):
        if fault is not None:
            yield f"`{fault.location}` {what}"


def _misdescribed(metadata: TableMetadata, part: ManifestsRead) -> Finding | None:
    """Find a manifest that its list describes wrongly: its row in a root would be wrong too.

    By counts a root leaves manifests out, and gives row ids; by ranges scans pass over them.
    """
    numbered = replace(metadata, format_version=max(metadata.format_version, 3))  # has row ids
    ends = np.arange(part.first, part.first + len(part.manifests) + 1)
    places = np.searchsorted(numbers(part.rows, "manifest"), ends).tolist()
    for row, header, (start, stop) in zip(
        part.manifests, part.headers, pairwise(places), strict=True
    ):
        columns = Columns(rows_between(part.rows, start, stop))
        described = _without_nan(metadata, row)
        stored = StoredManifest(numbered, [described], header, row.manifest_length, columns)
        for finding in RULES.findings(stored, only=_AS_LISTED):
            if finding.severity == "error":
                return finding
    return None


def _without_nan(metadata: TableMetadata, manifest: ManifestFile) -> ManifestFile:
    """Return a row whose summaries have infinity for NaN, which is no bound in a root."""
    spec = metadata.spec(manifest.partition_spec_id)
    if spec is None or manifest.partitions is None:
        return manifest
    types = result_types(spec, metadata.schemas)
    summaries = [
        replace(
            summary,
            lower_bound=_bound(type_, summary.lower_bound, -inf),
            upper_bound=_bound(type_, summary.upper_bound, inf),
        )
        if type_ in _FLOATS
        else summary
        for summary, type_ in zip_longest(manifest.partitions, types[: len(manifest.partitions)])
    ]
    return replace(manifest, partitions=tuple(summaries))


def _bound(type_: Type | None, bound: bytes | None, end: float) -> bytes | None:
    if type_ is None or bound is None:
        return bound
    try:
        value = decode(type_, bound)
    except ValueError:
        return bound
    return encode(type_, end) if isinstance(value, float) and isnan(value) else bound


def movable(context: TableContext, facts: TreeSchema, older: Sequence[ListedRow]) -> list[str]:
    """Return those of the manifests of older versions whose rows leaves can hold.

    Cost: reads those of deletes.
    """
    store = AheadStore(context.store, context.concurrency)
    read = partial(read_leaf, store, facts, part=PLAIN)
    deletes = (leaf for leaf in older if leaf.content != Content.DATA_MANIFEST)
    with store.ahead((leaf.name, leaf.file_size_in_bytes or 0) for leaf in deletes):
        return [leaf.name for leaf in older if _is_movable(facts, leaf, read)]


def _is_movable(facts: TreeSchema, leaf: ListedRow, read: Callable[[ListedRow], pa.Table]) -> bool:
    if leaf.content == Content.DATA_MANIFEST:
        return facts.can_hold(leaf.spec_id)
    return can_move(facts, read(leaf))


def legacy_leaves(rows: pa.Table) -> list[ListedRow]:
    """Return the manifests of older versions that a root lists."""
    return [leaf for leaf in leaf_rows(live_rows(rows)) if leaf.file_format != FileFormat.PARQUET]
