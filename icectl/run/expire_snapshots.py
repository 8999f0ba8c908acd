"""Running an expiry: load, plan, record, commit, clean up."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from icectl.catalog.protocol import Catalog, LoadedTable
from icectl.commit.attempt import Committer, Landed
from icectl.entries.files import (
    NO_FILES,
    FileKind,
    Files,
    beginning_with,
    distinct,
    excluding,
    files,
    rows,
    together,
)
from icectl.env import Deadline, Env
from icectl.errors import CommitConflict, CorruptTable, Refused, StorageError
from icectl.plan.expire_snapshots import ExpirePlan, Reached, plan, still_deletable, updates
from icectl.plan.model import Pin
from icectl.plan.retention import Policy, decide, decide_again
from icectl.progress import Progress
from icectl.run import journal as journals
from icectl.run.cleanup import Cleaner, Removal
from icectl.run.journal import Journal
from icectl.spec import properties
from icectl.spec.manifest import ManifestFile
from icectl.spec.metadata import TableMetadata
from icectl.spec.requirements import AssertTableUuid
from icectl.spec.snapshot import Snapshot
from icectl.spec.updates import Update
from icectl.storage.location import is_within, join, loosest_key, parent
from icectl.storage.store import FileStatus, Store
from icectl.table.open import open_table
from icectl.table.reachable import (
    ReachReader,
    all_manifests,
    live_files,
    manifest_lists,
    metadata_files,
)

COMMAND = "expire-snapshots"
CLOCK_TOLERANCE_MS = 60_000


@dataclass(frozen=True, slots=True)
class ExpireOptions:
    """What the caller asks for; `policy` is made from the table's properties by who knows them."""

    policy: Callable[[TableMetadata], Policy]
    clean_expired_metadata: bool = False
    keep_files: bool = False


@dataclass(frozen=True, slots=True)
class Expiry:
    """The means to expire snapshots of one table."""

    store: Store
    catalog: Catalog
    env: Env
    progress: Progress
    deadline: Deadline
    concurrency: int
    shield: Callable[[], AbstractContextManager[object]]

    @property
    def reader(self) -> ReachReader:
        """The means to read what snapshots reach."""
        return ReachReader(self.store, self.concurrency, self.progress)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and what it was made from.

    `deletable` and `outside` are the plan's files inside and outside the table's location, together
    with those that an earlier run recorded and did not finish deleting (`unfinished`). The commit
    of an `abandoned` run never landed.
    """

    loaded: LoadedTable
    options: ExpireOptions
    now_ms: int
    plan: ExpirePlan
    deletable: Files
    outside: Files
    unfinished: tuple[Journal, ...]
    abandoned: tuple[Journal, ...]

    @property
    def has_work(self) -> bool:
        """Whether a run would change anything."""
        return self.plan.changes_table or len(self.deletable) > 0

    @property
    def deletes_files(self) -> bool:
        """Whether a run deletes files at all: not where only the caller knows what is current."""
        return not self.options.keep_files and self.loaded.current == "file-system"


@dataclass(frozen=True, slots=True)
class Expired:
    """What a run did."""

    landed: Landed
    removal: Removal


def prepare(expiry: Expiry, options: ExpireOptions) -> Prepared:
    """Load the table and plan its expiry; nothing is written.

    Raises: Refused, where the table must not be touched; StorageError, CorruptTable, where what
    stays cannot be read completely (R-192).
    """
    loaded = open_table(expiry.catalog)
    now_ms = expiry.env.now_ms()
    _check(expiry, loaded, now_ms)
    metadata = loaded.metadata
    retention = decide(metadata, options.policy(metadata), now_ms)
    listed = expiry.store.list_directory(parent(loaded.metadata_location))
    unfinished, abandoned = _earlier_runs(expiry, metadata, listed, now_ms)
    going_ids = {decision.snapshot_id for decision in retention.expired}
    planned = plan(
        metadata,
        _pin(loaded),
        retention,
        _reached(expiry, metadata, going_ids, listed),
        clean_expired_metadata=options.clean_expired_metadata,
    )
    left = still_deletable(
        [planned.deletable, *(item.files for item in unfinished)], [planned.protected]
    )
    inside, outside = _by_place(left, metadata.location)
    return Prepared(loaded, options, now_ms, planned, inside, outside, unfinished, abandoned)


def _earlier_runs(
    expiry: Expiry, metadata: TableMetadata, listed: Sequence[FileStatus], now_ms: int
) -> tuple[tuple[Journal, ...], tuple[Journal, ...]]:
    """Journals of runs that committed and did not finish, and of runs that never committed."""
    found = journals.unfinished(expiry.store, listed, COMMAND, expiry.progress)
    ours = [item for item in found if item.table_uuid == metadata.table_uuid]
    landed = tuple(item for item in ours if item.has_landed(metadata))
    abandoned = tuple(
        item
        for item in ours
        if item not in landed and now_ms - item.created_ms > journals.ABANDONED_AFTER_MS
    )
    return landed, abandoned


def _pin(loaded: LoadedTable) -> Pin:
    metadata = loaded.metadata
    return Pin(
        metadata.table_uuid,
        loaded.metadata_location,
        metadata.current_snapshot_id,
        metadata.last_sequence_number,
    )


def _check(expiry: Expiry, loaded: LoadedTable, now_ms: int) -> None:
    metadata = loaded.metadata
    if not properties.read(metadata.properties, properties.GC_ENABLED):
        raise Refused(
            "the table property `gc.enabled` is false: its files may belong to other tables too",
            hint="set `gc.enabled` to true if no other table uses them",
            id="gc-disabled",
        )
    if now_ms < metadata.last_updated_ms - CLOCK_TOLERANCE_MS:
        raise Refused(
            "this machine's clock is more than a minute behind the table's last commit",
            hint="set the clock; ages of snapshots cannot be told before",
            id="clock-behind",
        )
    main = metadata.refs.get("main")
    if main is not None and main.snapshot_id != metadata.current_snapshot_id:
        raise CorruptTable(
            f"branch main is at {main.snapshot_id}, "
            f"the current snapshot is {metadata.current_snapshot_id}",
            rule="R-015",
        )
    expiry.catalog.check_writable(loaded)


def _reached(
    expiry: Expiry, metadata: TableMetadata, going_ids: set[int], listed: Sequence[FileStatus]
) -> Reached:
    """What the snapshots reach; all that stays is read, or this raises (R-192)."""
    sizes = {loosest_key(status.location): status.size_bytes for status in listed}
    kept = [item for item in metadata.snapshots if item.snapshot_id not in going_ids]
    going = [item for item in metadata.snapshots if item.snapshot_id in going_ids]
    lists = manifest_lists(expiry.reader, metadata, kept)
    staying = all_manifests(lists, kept)
    staying_files = together(
        [
            live_files(expiry.reader, metadata, staying),
            metadata_files(metadata, kept, staying, sizes),
        ]
    )
    kept_paths = {manifest.manifest_path for manifest in staying}
    only_going = [
        manifest
        for manifest in _lists_of_going(expiry, metadata, going)
        if manifest.manifest_path not in kept_paths
    ]
    going_files = together(
        [
            _live_files_of_going(expiry, metadata, only_going),
            metadata_files(metadata, going, only_going, sizes),
        ]
    )
    specs = frozenset(manifest.partition_spec_id for manifest in staying)
    return Reached(going_files, staying_files, specs)


def _lists_of_going(
    expiry: Expiry, metadata: TableMetadata, going: Sequence[Snapshot]
) -> tuple[ManifestFile, ...]:
    """The manifests of snapshots that go; a list that cannot be read hides its files from us."""
    try:
        return all_manifests(manifest_lists(expiry.reader, metadata, going), going)
    except (StorageError, CorruptTable):
        found: dict[int, tuple[ManifestFile, ...]] = {}
        for snapshot in going:
            try:
                found |= manifest_lists(expiry.reader, metadata, [snapshot])
            except (StorageError, CorruptTable) as error:
                _warn_left(expiry.progress, f"snapshot {snapshot.snapshot_id}", error)
        return all_manifests(found, [item for item in going if item.snapshot_id in found])


def _live_files_of_going(
    expiry: Expiry, metadata: TableMetadata, manifests: Sequence[ManifestFile]
) -> Files:
    try:
        return live_files(expiry.reader, metadata, manifests)
    except (StorageError, CorruptTable):
        parts = []
        for manifest in manifests:
            try:
                parts.append(live_files(expiry.reader, metadata, [manifest]))
            except (StorageError, CorruptTable) as error:
                _warn_left(expiry.progress, f"manifest {manifest.manifest_path}", error)
        return together(parts)


def _warn_left(progress: Progress, subject: str, error: StorageError | CorruptTable) -> None:
    progress.warn(f"{subject} expires, but its files are left: {error.message}")


def _by_place(found: Files, table_location: str) -> tuple[Files, Files]:
    """Files inside and outside the table's location; only the first may be deleted."""
    inside, others = beginning_with(found, table_location.rstrip("/") + "/")
    climbing = [place for place, _, _ in rows(inside) if "/../" in place]
    elsewhere = [
        place for place, _, _ in rows(others) if not is_within(place, table_location)
    ] + climbing
    outside = set(elsewhere)
    within = excluding(found, outside) if outside else found
    return within, excluding(found, [place for place, _, _ in rows(within)])


def execute(expiry: Expiry, prepared: Prepared) -> Expired:
    """Commit the plan, then delete what nothing reaches any more.

    Raises: CommitConflict, CommitUnknown; StorageError, Refused, before anything has changed.
    """
    record = None
    if prepared.deletes_files and len(prepared.deletable):
        _prove_deletion(expiry, prepared)
        if prepared.plan.changes_table:
            record = _record(expiry, prepared)
    landed = _commit(expiry, prepared, record)
    if not prepared.deletes_files:
        return Expired(landed, Removal(NO_FILES, (), stopped=False))
    doomed = _doomed(expiry, prepared, landed)
    if doomed is None:
        return Expired(landed, Removal(NO_FILES, (), stopped=True))
    cleaner = Cleaner(expiry.store, expiry.progress, expiry.deadline, expiry.shield)
    removal = cleaner.remove(doomed)
    if not removal.failed and not removal.stopped:
        done = (*prepared.unfinished, *prepared.abandoned, *([record] if record else ()))
        for item in done:
            journals.discard(expiry.store, item)
    return Expired(landed, removal)


def _prove_deletion(expiry: Expiry, prepared: Prepared) -> None:
    """Fail before the commit where files cannot be deleted after it."""
    folder = parent(prepared.loaded.metadata_location)
    probe = join(folder, f".icectl-probe-{expiry.env.new_uuid()}")
    expiry.store.create(probe, b"")
    failed = expiry.store.remove([probe])
    if failed:
        raise StorageError(
            f"files in {folder} cannot be deleted: {failed[0].error}",
            hint="grant the right to delete, or give `--keep-files`",
        )


def _record(expiry: Expiry, prepared: Prepared) -> Journal:
    where = prepared.loaded.metadata_location
    record = Journal(
        journals.journal_location(where, COMMAND, expiry.env.new_uuid()),
        prepared.loaded.metadata.table_uuid,
        prepared.now_ms,
        tuple(decision.snapshot_id for decision in prepared.plan.retention.expired),
        prepared.deletable,
    )
    journals.write(expiry.store, record)
    return record


def _commit(expiry: Expiry, prepared: Prepared, record: Journal | None) -> Landed:
    """Commit what of the plan still holds; an unknown outcome keeps the journal."""
    loaded = prepared.loaded
    if not prepared.plan.changes_table:
        return Landed(loaded.metadata, loaded.metadata_location, (), changed=False)
    expiry.progress.phase("committing")
    uuid = loaded.metadata.table_uuid
    requirements = [] if uuid is None else [AssertTableUuid(uuid)]

    def build(metadata: TableMetadata) -> Sequence[Update]:
        policy = prepared.options.policy(metadata)
        again = decide_again(metadata, policy, prepared.now_ms, prepared.plan.retention)
        return updates(prepared.plan, metadata, again)

    committer = Committer(expiry.catalog, expiry.env, expiry.progress)
    try:
        with expiry.shield():
            return committer.commit(loaded, requirements, build)
    except (CommitConflict, Refused, StorageError):
        if record is not None:
            journals.discard(expiry.store, record)
        raise


def _doomed(expiry: Expiry, prepared: Prepared, landed: Landed) -> Files | None:
    """Planned, and unreachable from the newest metadata, which may be newer than ours.

    None where the newest metadata or what it names cannot be read: then every file stays (R-192).
    """
    dropped = _dropped_metadata(landed)
    if not len(prepared.deletable):
        return dropped
    try:
        newest = expiry.catalog.load().metadata
        kept = {decision.snapshot_id for decision in prepared.plan.retention.kept}
        unseen = [item for item in newest.snapshots if item.snapshot_id not in kept]
        lists = manifest_lists(expiry.reader, newest, unseen)
        manifests = all_manifests(lists, unseen)
        fresh = [
            live_files(expiry.reader, newest, manifests),
            metadata_files(newest, unseen, manifests, {}),
        ]
    except (StorageError, CorruptTable) as error:
        expiry.progress.warn(f"nothing is deleted, the newest state is unreadable: {error.message}")
        return None
    keys = [found.table["key"] for found in fresh]
    return together([still_deletable([prepared.deletable], keys), dropped])


def _dropped_metadata(landed: Landed) -> Files:
    """Metadata files that left the log, where the table wants them deleted (R-024)."""
    location = landed.metadata.location
    if not properties.read(landed.metadata.properties, properties.DELETE_AFTER_COMMIT):
        return NO_FILES
    named = [place for place in landed.dropped if is_within(place, location)]
    keys = [loosest_key(place) for place in named]
    return distinct(files(named, keys, FileKind.METADATA_FILES, [None] * len(named)))
