"""Rules of snapshots and refs in the table metadata, and of commits that make and drop them."""

from collections import Counter
from collections.abc import Iterator, Set

from icectl.checks.objects import CommitBase, LiveSnapshot, MetadataFile
from icectl.checks.rule import Breach, Check, Rule
from icectl.entries.summary import Totals, summary_counters
from icectl.format.layout import Layout, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.rule import NEXT_COMMIT, OLDER_METADATA, OURS, ROLL_BACK, WRITER

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


def lost_refs(file: MetadataFile) -> Iterator[Breach]:
    """Find refs to snapshots that are gone."""
    for name, ref in file.metadata.refs.items():
        if file.metadata.snapshot(ref.snapshot_id) is None:
            message = f"snapshot {ref.snapshot_id} is not in `snapshots`"
            yield Breach(message, f"{ref.type} {name}")


def faults_of_retention(file: MetadataFile) -> Iterator[Breach]:
    """Find kinds of refs that there are not, and settings that they cannot have."""
    for name, ref in file.metadata.refs.items():
        subject = f"{ref.type} {name}"
        if ref.type not in ("branch", "tag"):
            yield Breach(f"`{ref.type}` is neither a branch nor a tag", subject)
        if ref.type == "tag" and (ref.min_snapshots_to_keep or ref.max_snapshot_age_ms):
            yield Breach("a tag has the retention settings of a branch", subject)
        settings = ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms
        if any(value is not None and value <= 0 for value in settings):
            yield Breach("a retention setting is not positive", subject)
        if name == "main" and ref.type == "tag":
            yield Breach("main is a tag", subject)


def _members(file: MetadataFile) -> Iterator[Breach]:
    metadata = file.metadata
    circular = own_ancestors(metadata)
    for snapshot in metadata.snapshots:
        subject = f"snapshot {snapshot.snapshot_id}"
        embeds, lists = snapshot.manifests is not None, snapshot.manifest_list is not None
        if layout_of_table(metadata) is Layout.MANIFEST_LISTS:
            if embeds and lists:
                message = "names a manifest list, and embeds manifests too"
                yield Breach(message, subject, "warning")
            if not embeds and not lists and snapshot.root_manifest is None:
                yield Breach("names neither a manifest list nor manifests", subject)
        if metadata.format_version > 1 and not snapshot.summary:
            yield Breach("has no summary", subject, "warning")
        if snapshot.parent_snapshot_id is None:
            continue
        if metadata.snapshot(snapshot.parent_snapshot_id) is None:
            message = f"its parent {snapshot.parent_snapshot_id} is not in `snapshots`"
            hint = "nothing to do: expiring a parent leaves its id behind"
            yield Breach(message, subject, "info", hint)
        elif snapshot.snapshot_id in circular:
            yield Breach("is its own ancestor", subject)


def own_ancestors(metadata: TableMetadata) -> Set[int]:
    """Return the ids of snapshots that following the parents leads back to.

    Cost: linear in the snapshots, since each is followed once.
    """
    parents = {one.snapshot_id: one.parent_snapshot_id for one in metadata.snapshots}
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


def unknown_operations(file: MetadataFile) -> Iterator[Breach]:
    """Find operations that are none of the format."""
    for snapshot in file.metadata.snapshots:
        if snapshot.operation is not None and snapshot.operation not in OPERATIONS:
            message = f"the operation `{snapshot.operation}` is none of the format"
            yield Breach(message, f"snapshot {snapshot.snapshot_id}")


def _totals(live: LiveSnapshot) -> Iterator[Breach]:
    """The totals that a summary states are those of the manifests."""
    if not live.is_whole:
        return
    total = sum((live.faults.totals[number] for number in set(live.numbers)), Totals())
    stated = live.snapshot.summary or {}
    differing = [
        f"{name} is {stated[name]}, not {count}"
        for name, count in summary_counters(total, "total").items()
        if name in stated and stated[name] != str(count)
    ]
    if differing:
        yield Breach(f"in its summary {'; '.join(differing)}")


def _snapshot_ids(file: MetadataFile) -> Iterator[Breach]:
    for snapshot_id, times in Counter(one.snapshot_id for one in file.metadata.snapshots).items():
        if times > 1:
            yield Breach(f"{times} snapshots have this id", f"snapshot {snapshot_id}")
    for snapshot in file.metadata.snapshots:
        if snapshot.snapshot_id < 0:
            yield Breach("the id is negative", f"snapshot {snapshot.snapshot_id}", "warning")


def _numbers_in_version_1(file: MetadataFile) -> Iterator[Breach]:
    for snapshot in file.metadata.snapshots if file.version == 1 else ():
        if snapshot.sequence_number:
            message = f"has sequence number {snapshot.sequence_number} in version 1"
            yield Breach(message, f"snapshot {snapshot.snapshot_id}")


def _embedded_manifests(file: MetadataFile) -> Iterator[Breach]:
    if layout_of_table(file.metadata) is not Layout.MANIFEST_LISTS:
        return
    for snapshot in file.metadata.snapshots if file.version > 1 else ():
        if snapshot.manifests is not None:
            # Sequence numbers are inherited from lists; without any, every file has number 0.
            message = "embeds its manifests, which only version 1 may"
            yield Breach(message, f"snapshot {snapshot.snapshot_id}", "warning")


def _lost_schemas(file: MetadataFile) -> Iterator[Breach]:
    for snapshot in file.metadata.snapshots:
        if snapshot.schema_id is not None and file.metadata.schema(snapshot.schema_id) is None:
            message = f"its schema {snapshot.schema_id} is not in `schemas`"
            yield Breach(message, f"snapshot {snapshot.snapshot_id}")


# fmt: off
SNAPSHOT_RULES = (
    Rule("R-015", "the current snapshot exists and is that of branch main",
         "Table Metadata Fields", "error",
         "set the current snapshot with the engine, or go back to an older metadata file", (
        Check(CommitBase, main_elsewhere),
    )),
    Rule("R-020", "snapshots that a ref or its retention keeps are not expired",
         "Snapshot Retention Policy", "error", OURS),
    Rule("R-021", "settings of a ref override table properties", "Snapshot Reference", "info",
         OURS),
    Rule("R-022", "every ref names a snapshot that exists", "Snapshot Retention Policy", "error",
         "`icectl expire-snapshots TABLE` removes refs to lost snapshots", (
        Check(MetadataFile, lost_refs),
    )),
    Rule("R-023", "snapshots that no ref reaches stay while they are young",
         "Snapshot Retention Policy", "info",
         "`icectl expire-snapshots TABLE --expire-unreferenced` drops them"),
    Rule("R-027", "retention settings are positive and fit the kind of ref",
         "Snapshot Reference", "warning", "set the retention of the ref again", (
        Check(MetadataFile, faults_of_retention),
    )),
    Rule("R-028", "a snapshot that a ref names is not expired by its id",
         "Snapshot Retention Policy", "error", "drop the ref first"),
    Rule("R-029", "the snapshot of an instant is found in the snapshot log", "Appendix F", "info",
         OURS),
    Rule("R-030", "snapshots have their required members", "Snapshots", "error", WRITER, (
        Check(MetadataFile, _members),
    )),
    Rule("R-031", "the operation of a snapshot is one of four, and its summary adds up",
         "Snapshots", "warning", "rely on the counts that icectl takes from the manifests", (
        Check(MetadataFile, unknown_operations),
        Check(LiveSnapshot, _totals),
    )),
    Rule("R-032", "a snapshot without a summary has an unknown operation", "Snapshots", "info",
         OURS),
    Rule("R-033", "snapshot ids are positive and used once", "Appendix F", "error", WRITER, (
        Check(MetadataFile, _snapshot_ids),
    )),
    Rule("R-035", "version 1 writes no sequence numbers of snapshots", "Appendix E", "info",
         NEXT_COMMIT, (
        Check(MetadataFile, _numbers_in_version_1),
    )),
    Rule("R-055", "snapshots of version 2 and 3 have a manifest list",
         "Manifest Entry Fields", "error", "`icectl migrate-v1-v2 TABLE` writes the lists", (
        Check(MetadataFile, _embedded_manifests),
    )),
    Rule("R-150", "a commit swaps the metadata file it was based on", "Optimistic Concurrency",
         "error", OURS),
    Rule("R-151", "an append never conflicts", "Commit Conflict Resolution", "info", OURS,
         not_enforced="icectl appends no rows"),
    Rule("R-152", "a replace finds its inputs live and without new deletes",
         "Commit Conflict Resolution", "error", "run the command again"),
    Rule("R-153", "a delete of named files finds them live", "Commit Conflict Resolution",
         "error", OURS, not_enforced="icectl deletes no rows"),
    Rule("R-154", "a row delta checks what its isolation level asks for",
         "Optimistic Concurrency", "error", OURS, not_enforced="icectl changes no rows"),
    Rule("R-155", "the schema is the one that the commit was based on",
         "Commit Conflict Resolution", "error", "run the command again"),
    Rule("R-156", "nothing is deleted while the outcome of a commit is unknown",
         "Commit status checks", "error", "`icectl inspect TABLE history` shows what is current"),
    Rule("R-157", "files of a table never change", "File System Operations", "error", ROLL_BACK),
    Rule("R-185", "schemas stay while a snapshot refers to them", "Schemas", "warning",
         "expire the snapshot, or go back to an older metadata file", (
        Check(MetadataFile, _lost_schemas),
    )),
    Rule("R-190", "files are deleted only after the commit that drops them",
         "Snapshot Retention Policy", "error", OURS),
    Rule("R-191", "only files that no retained snapshot reaches are deleted",
         "Manifest Entry Fields", "error", OURS),
    Rule("R-192", "nothing is deleted while a retained manifest is unreadable",
         "Snapshot Retention Policy", "error",
         "restore the unreadable files, or expire the snapshots that need them"),
    Rule("R-193", "`gc.enabled=false` forbids deleting files", "Table properties", "error",
         "set `gc.enabled` to true where no other table shares the files"),
    Rule("R-194", "a Puffin file stays while one of its deletion vectors is live",
         "Deletion Vectors", "error", OURS),
    Rule("R-195", "encryption keys stay while a snapshot uses them", "Encryption Keys", "error",
         OLDER_METADATA),
    Rule("R-196", "encrypted metadata is not rewritten", "Manifests", "error",
         "maintain it with the engine that holds its keys"),
    Rule("R-210", "young snapshots without a ref stay", "Snapshot Retention Policy", "info",
         OURS, not_enforced="a choice between sources; R-023 enforces it"),
)
# fmt: on
