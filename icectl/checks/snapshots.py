"""Rules of snapshots and refs in the table metadata, and of commits that make and drop them."""

from collections.abc import Iterator, Mapping, Sequence, Set
from shlex import join, quote

from icectl.checks.identity import changed_rows
from icectl.checks.metadata import RETENTION_PROPERTIES, malformed
from icectl.checks.objects import (
    CommitBase,
    ListedChain,
    LiveSnapshot,
    MetadataFile,
    in_refs,
    in_snapshots,
)
from icectl.checks.rule import Breach, Check, at_most_once, other_counters, rule
from icectl.entries.summary import Totals, summary_counters
from icectl.format.layout import Layout, layout_of, layout_of_table
from icectl.format.manifest import ManifestContent, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.properties import GC_ENABLED
from icectl.format.rule import NEXT_COMMIT, OLDER_METADATA, OURS, RESTORE_LIST, ROLL_BACK, WRITER
from icectl.format.snapshot import Snapshot
from icectl.units import read_count

OPERATIONS = frozenset({"append", "replace", "overwrite", "delete"})


def main_elsewhere(base: CommitBase) -> Iterator[Breach]:
    """Branch main is at the current snapshot: else a commit to one would undo the other."""
    main = base.metadata.refs.get("main")
    if main is not None and main.snapshot_id != base.metadata.current_snapshot_id:
        message = (
            f"it is at snapshot {main.snapshot_id}, "
            f"but the current one is {base.metadata.current_snapshot_id}"
        )
        yield Breach(message, "branch main")


# fmt: off
LOST_REFS = in_refs("snapshot {one.snapshot_id} is not in `snapshots`",
                    lambda _, one, metadata: metadata.snapshot(one.snapshot_id) is None)
RETENTION = (
    in_refs("`{one.type}` is neither a branch nor a tag",
            lambda _, one, __: one.type not in ("branch", "tag")),
    in_refs("a tag has the retention settings of a branch",
            lambda _, one, __: one.type == "tag"
            and bool(one.min_snapshots_to_keep or one.max_snapshot_age_ms)),
    in_refs("a retention setting is not positive",
            lambda _, one, __: any(value is not None and value <= 0 for value in
                                   (one.min_snapshots_to_keep, one.max_snapshot_age_ms,
                                    one.max_ref_age_ms))),
    in_refs("main is a tag", lambda name, one, _: name == "main" and one.type == "tag"),
)
UNKNOWN_OPERATIONS = in_snapshots(
    "the operation `{one.operation}` is not one of the format",
    lambda one, _: one.operation is not None and one.operation not in OPERATIONS,
)
"""What the rules of sfc-1 look for too."""
# fmt: on


def _lists_manifests(metadata: TableMetadata) -> bool:
    return layout_of_table(metadata) is Layout.MANIFEST_LISTS


def _circular(file: MetadataFile) -> Iterator[Breach]:
    circular = own_ancestors(file.metadata)
    for snapshot in file.metadata.snapshots:
        if snapshot.snapshot_id in circular:
            yield Breach("is its own ancestor", f"snapshot {snapshot.snapshot_id}")


def own_ancestors(metadata: TableMetadata) -> Set[int]:
    """Return the ids of snapshots that following the parents leads back to.

    Cost: linear in the snapshots, since each is followed once.
    """
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    followed: set[int] = set()
    found: set[int] = set()
    for start in parents:
        way: list[int] = []
        current: int | None = start
        while current is not None and current in parents and current not in followed:
            followed.add(current)
            way.append(current)
            current = parents[current]
        if current in way:
            found.update(way[way.index(current) :])
    return found


def _totals(live: LiveSnapshot) -> Iterator[Breach]:
    """The totals that a summary states are those of the manifests."""
    if not live.is_whole:
        return
    total = sum((live.faults.totals[number] for number in set(live.numbers)), Totals())
    yield from other_counters(live.snapshot.summary or {}, summary_counters(total, "total"))


_CHANGES = {
    ManifestContent.DATA: ("data files", "data-files", "added-data-files", "deleted-data-files"),
    ManifestContent.DELETES: (
        "delete files", "delete-files", "added-delete-files", "removed-delete-files",
    ),
}  # fmt: skip
_COUNTERS = ("added-", "deleted-", "removed-", "changed-partition-count")


def counts_changes(key: str) -> bool:
    """Return whether a member of a summary counts changes: then what is not named is none."""
    return key.startswith(_COUNTERS)


def _live_counts(
    lists: Mapping[int, Sequence[ManifestFile]],
) -> Mapping[ManifestContent, Mapping[int, int | None]]:
    """Count the live files of each content in each list; None where a count is missing.

    Of a list that has most rows of the one before, only the others are counted.
    """
    counts: dict[ManifestContent, dict[int, int | None]] = {content: {} for content in _CHANGES}
    last: tuple[ManifestFile, ...] = ()
    total, unknown = dict.fromkeys(_CHANGES, 0), dict.fromkeys(_CHANGES, 0)
    for id_, listed in lists.items():
        now = tuple(listed)
        for sign, rows in zip((-1, 1), changed_rows(last, now), strict=True):
            for row in rows:
                live_files = row.live_files
                if live_files is None:
                    unknown[row.content] += sign
                else:
                    total[row.content] += sign * live_files
        for content, of_lists in counts.items():
            of_lists[id_] = None if unknown[content] else total[content]
        last = now
    return counts


def _lost_files(chain: ListedChain) -> Iterator[Breach]:
    """Find snapshots that list fewer files than their parent and their own changes leave.

    Roots must not list more either: one that lost a bitmap brings files back. A total proves
    nothing alone: those of some writers are wrong. Only the first snapshot is held to it, whose
    parent has expired; and where a child agrees with the list, the total is wrong.
    """
    known = chain.metadata.snapshots_by_id
    for content, counts in _live_counts(chain.lists).items():
        what, name, *_ = _CHANGES[content]
        agrees: set[int | None] = set()
        expected: dict[int, int | None] = {}
        for id_, count in counts.items():
            parent = known.get(known[id_].parent_snapshot_id or -1)
            before = None if parent is None else counts.get(parent.snapshot_id)
            change = _net_change(known[id_], parent, content)
            if before is not None and change is not None:
                expected[id_] = before + change
                if count == before + change:
                    agrees.add(known[id_].parent_snapshot_id)
        for id_, count in counts.items():
            by_chain = expected.get(id_)
            least = by_chain
            if known[id_].parent_snapshot_id not in known and id_ not in agrees:
                least = _stated(known[id_], f"total-{name}")
            if count is None or least is None:
                continue
            if count < least or _brings_back(known[id_], count, by_chain):
                message = f"it lists {count:,} {what}, by the summaries there are {least:,}"
                hint = _from_lost_files(chain.metadata, id_)
                yield Breach(message, f"snapshot {id_}", "error", hint)


def _from_lost_files(metadata: TableMetadata, snapshot_id: int) -> str:
    """Return the next step for a snapshot whose list has lost files."""
    refs = metadata.refs.items()
    heads = [name for name, ref in refs if (ref.snapshot_id, ref.type) == (snapshot_id, "branch")]
    if snapshot_id == metadata.current_snapshot_id or "main" in heads:
        return RESTORE_LIST.format("")
    if heads:
        return RESTORE_LIST.format(f" --branch {quote(heads[0])}")
    drop = dropping_tags(metadata, [snapshot_id], "TABLE")
    expiry = f"`icectl expire-snapshots TABLE --snapshot-id {snapshot_id} --metadata-only`"
    return f"restore its list from a copy, or expire it: {drop}{expiry}"


def dropping_tags(metadata: TableMetadata, snapshot_ids: Sequence[int], table: str) -> str:
    """Return what comes before the command that expires snapshots: their tags go first."""
    tags = [
        name
        for name, ref in metadata.refs.items()
        if ref.type == "tag" and ref.snapshot_id in snapshot_ids
    ]
    return f"`icectl refs {table} drop {join(tags)}`, then " if tags else ""


def _brings_back(snapshot: Snapshot, count: int, expected: int | None) -> bool:
    return expected is not None and count > expected and layout_of(snapshot) is Layout.SFC_1


def _stated(snapshot: Snapshot, name: str, *, default: str | None = None) -> int | None:
    return read_count((snapshot.summary or {}).get(name, default))


def _net_change(
    snapshot: Snapshot, parent: Snapshot | None, content: ManifestContent
) -> int | None:
    """Return how many more files a snapshot lists than its parent, by its summary.

    None where nothing says so. An append removes no data file, whatever its summary says.
    """
    _, name, added, removed = _CHANGES[content]
    if any(map(counts_changes, snapshot.summary or ())):
        plus, minus = (_stated(snapshot, counter, default="0") for counter in (added, removed))
        if snapshot.operation == "append" and content is ManifestContent.DATA:
            minus = 0
        return None if plus is None or minus is None else plus - minus
    totals = [_stated(one, f"total-{name}") for one in (snapshot, parent) if one is not None]
    own, before = totals if len(totals) == 2 else (None, None)
    return None if own is None or before is None else own - before


def removed_data_files(snapshot: Snapshot) -> int:
    """Return how many data files of its parent a snapshot says that it removed; 0 if it doesn't."""
    is_append = snapshot.operation == "append"
    return 0 if is_append else _stated(snapshot, "deleted-data-files", default="0") or 0


def lists_others(snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> bool:
    """Return whether a list or root lacks files that its snapshot counts: a reason to look.

    So is a root with more.
    """
    for content, counts in _live_counts({0: manifests}).items():
        stated, count = _stated(snapshot, f"total-{_CHANGES[content][1]}"), counts[0]
        if stated is None or count is None:
            continue
        if count < stated or _brings_back(snapshot, count, stated):
            return True
    return False


# fmt: off
SNAPSHOT_RULES = (
    rule("R-015", "the current snapshot exists and is that of branch main", "Table Metadata Fields",
         "error", "set the current snapshot with the engine, or use an older metadata file",
         Check(CommitBase, main_elsewhere)),
    rule("R-020", "snapshots that a ref or its retention keeps are not expired",
         "Snapshot Retention Policy", "error", OURS),
    rule("R-021", "settings of a ref override table properties", "Snapshot Reference", "info",
         "correct the table property",
         malformed(lambda name: name.startswith(RETENTION_PROPERTIES))),
    rule("R-022", "every ref names a snapshot that exists", "Snapshot Retention Policy", "error",
         "`icectl expire-snapshots TABLE` removes refs to lost snapshots", LOST_REFS),
    rule("R-023", "snapshots that no ref reaches stay while they are young",
         "Snapshot Retention Policy", "info",
         "`icectl expire-snapshots TABLE --expire-unreferenced` drops them"),
    rule("R-027", "retention settings are positive and fit the kind of ref", "Snapshot Reference",
         "warning", "set the retention of the ref again", *RETENTION),
    rule("R-028", "a snapshot that a ref names is not expired by its id",
         "Snapshot Retention Policy", "error", "drop the ref first"),
    rule("R-029", "the snapshot at a timestamp is found in the snapshot log", "Appendix F", "info",
         OURS),
    rule("R-030", "snapshots have their required members", "Snapshots", "error", WRITER,
         in_snapshots("names a manifest list, and embeds manifests too",
                      lambda one, metadata: _lists_manifests(metadata)
                      and None not in (one.manifests, one.manifest_list), "warning"),
         in_snapshots("names neither a manifest list nor manifests",
                      lambda one, metadata: _lists_manifests(metadata)
                      and {one.manifests, one.manifest_list, one.root_manifest} == {None}),
         in_snapshots("has no summary",
                      lambda one, metadata: metadata.format_version > 1 and not one.summary,
                      "warning"),
         in_snapshots("its parent {one.parent_snapshot_id} is not in `snapshots`",
                      lambda one, metadata: one.parent_snapshot_id is not None
                      and metadata.snapshot(one.parent_snapshot_id) is None, "info",
                      "nothing to do: expiring a parent leaves its id behind"),
         Check(MetadataFile, _circular)),
    rule("R-031", "the operation of a snapshot is one of four, and its summary adds up",
         "Snapshots", "warning", "rely on the counts that icectl takes from the manifests",
         UNKNOWN_OPERATIONS,
         Check(LiveSnapshot, _totals), Check(ListedChain, _lost_files)),
    rule("R-032", "a snapshot without a summary has an unknown operation", "Snapshots", "info",
         OURS),
    rule("R-033", "snapshot ids are positive and used once", "Appendix F", "error", WRITER,
         at_most_once(CommitBase, "{times} snapshots have this id",
                      lambda base: [("snapshot {value}",
                                     (one.snapshot_id for one in base.metadata.snapshots))]),
         in_snapshots("the id is negative", lambda one, _: one.snapshot_id < 0, "warning")),
    rule("R-035", "version 1 writes no sequence numbers of snapshots", "Appendix E", "info",
         NEXT_COMMIT,
         in_snapshots("has sequence number {one.sequence_number} in version 1",
                      lambda one, metadata: metadata.format_version == 1
                      and bool(one.sequence_number))),
    # Sequence numbers are inherited from lists; without any, every file has number 0.
    rule("R-055", "snapshots of version 2 and 3 have a manifest list", "Manifest Entry Fields",
         "error",
         "the next commit writes a list; `icectl expire-snapshots TABLE` drops old snapshots",
         in_snapshots("embeds its manifests, which only version 1 may",
                      lambda one, metadata: _lists_manifests(metadata)
                      and metadata.format_version > 1 and one.manifests is not None, "warning")),
    rule("R-150", "a commit swaps the metadata file it was based on", "Optimistic Concurrency",
         "error", OURS),
    rule("R-151", "an append never conflicts", "Commit Conflict Resolution", "info", OURS,
         not_enforced="appends of `icectl.spark` are tried again; only a new schema, layout or "
         "version of the table ends one"),
    rule("R-152", "a replace finds its inputs live and without new deletes",
         "Commit Conflict Resolution", "error", "run the command again"),
    rule("R-153", "a delete of named files finds them live", "Commit Conflict Resolution", "error",
         "run the command again"),
    rule("R-154", "a row delta checks what its isolation level asks for", "Optimistic Concurrency",
         "error", OURS),
    rule("R-155", "the schema is the one that the commit was based on",
         "Commit Conflict Resolution", "error", "run the command again"),
    rule("R-156", "nothing is deleted while the outcome of a commit is unknown",
         "Commit status checks", "error", "`icectl inspect TABLE history` shows what is current"),
    rule("R-157", "files of a table never change", "File System Operations", "error", ROLL_BACK),
    rule("R-185", "schemas stay while a snapshot refers to them", "Schemas", "warning",
         "expire the snapshot, or use an older metadata file",
         in_snapshots("its schema {one.schema_id} is not in `schemas`",
                      lambda one, metadata: one.schema_id is not None
                      and metadata.schema(one.schema_id) is None)),
    rule("R-190", "files are deleted only after the commit that drops them",
         "Snapshot Retention Policy", "error", OURS),
    rule("R-191", "only files that no retained snapshot reaches are deleted",
         "Manifest Entry Fields", "error", OURS),
    rule("R-192", "nothing is deleted while a retained manifest is unreadable",
         "Snapshot Retention Policy", "error",
         "restore the unreadable files, or expire the snapshots that need them"),
    rule("R-193", "`gc.enabled=false` forbids deleting files", "Table properties", "error",
         "set `gc.enabled` to true where no other table shares the files",
         malformed(lambda name: name == GC_ENABLED.name)),
    rule("R-194", "a Puffin file stays while one of its deletion vectors is live",
         "Deletion Vectors", "error", OURS),
    rule("R-195", "encryption keys stay while a snapshot uses them", "Encryption Keys", "error",
         OLDER_METADATA),
    rule("R-196", "encrypted metadata is not rewritten", "Manifests", "error",
         "maintain it with the engine that holds its keys"),
    rule("R-210", "young snapshots without a ref stay", "Snapshot Retention Policy", "info", OURS,
         not_enforced="a choice between sources; R-023 enforces it"),
)
# fmt: on
