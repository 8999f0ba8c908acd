"""The run of `icectl expire-snapshots`: load, plan, record, commit, clean up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from icectl.catalog.protocol import LoadedTable, check_same_table
from icectl.cli.document import Outcome
from icectl.cli.dropped_tables import dropped_tables
from icectl.cli.options import Change, Common, read_options
from icectl.cli.session import open_session
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.commands.expire_snapshots.options import ExpireRequest
from icectl.commands.expire_snapshots.parsed_options import options_of
from icectl.commands.expire_snapshots.plan import (
    ReachedFiles,
    plan,
    restrict_to_reviewed,
    updates,
    updates_again,
)
from icectl.commands.expire_snapshots.reach import (
    check_replacements,
    read_reached,
    read_reached_since,
)
from icectl.commands.expire_snapshots.report import (
    Expired,
    ExpireOptions,
    Expiry,
    PreparedExpiry,
    deletes_files,
    expiry_line,
    expiry_result,
    print_expiry,
    question,
    superseded,
)
from icectl.commit import deletion as journals
from icectl.commit.attempt import CommitRequest, commit_changes
from icectl.commit.deletion import DeletionJournal, Removal, remove_files
from icectl.commit.journals import ABANDONED_AFTER_MS, journal_location, of_table
from icectl.commit.output_journal import remove_own
from icectl.entries.files import (
    NO_FILES,
    Files,
    excluding,
    folders_of,
    in_batches,
    including,
    keys_ending_with,
    without,
)
from icectl.errors import IcectlError, StorageError, UsageError
from icectl.format import properties
from icectl.format.metadata import TableMetadata
from icectl.format.updates import Update, with_log
from icectl.storage.failures import ACCESS_DENIED
from icectl.storage.location import is_local, join, loosest_key, parent, redacted
from icectl.storage.many_files import FilesByKind, by_location
from icectl.storage.new_files import PROBE, create_if_none, old_temporaries
from icectl.storage.open import link_finder
from icectl.storage.store import FileStatus
from icectl.table.context import TableContext, open_table
from icectl.table.guard import check_deletable, check_gc_enabled, check_statistics
from icectl.table.known_locations import KnownFiles
from icectl.table.live_file_check import check_kept, mismatched_statistics
from icectl.table.own_places import OtherTables, metadata_files_among, own_places
from icectl.table.reachable import dropped_files, log_files
from icectl.table.removed_files import unless_removed
from icectl.table.retention import check_min_age, current_since, decide, decide_again
from icectl.table.reviewed import DELETE_FILE, Reviewed
from icectl.units import print_count, print_duration, print_instant

COMMAND = "expire-snapshots"

_AT_ONCE = 1 << 13
"""Files that a step of the plan takes at a time."""
_QUERIES_TAKE_MS = 3_600_000
"""How long ago queries may have begun that are still running."""


def run(common: Common, table: str, request: ExpireRequest, change: Change) -> Outcome:
    """Plan the expiry; unless only the plan was asked for, ask, and execute it."""
    counts = request.retain_last, request.keep_daily, request.keep_weekly, request.keep_monthly
    policy_options = (request.older_than, *counts, request.expire_unreferenced)
    if request.expire_id and any(policy_options):
        raise UsageError(
            "`--snapshot-id` names the snapshots to expire, and cannot be used with a policy",
            hint="give either `--snapshot-id` or retention options, not both",
        )
    ids = tuple(read_options(request)["expire_id"] or ())
    dropped = dropped_tables(common, table, request.leftover_uuid)
    session = open_session(common, table, read_only=False, change=change, dropped=dropped)
    now_ms = session.context.env.now_ms()
    options = options_of(session.settings, now_ms, request, ids=ids, only=session.reviewed)
    context = session.context
    prepared = prepare(context, options)
    report = Expiry(prepared)

    def finish() -> Finished[Expiry]:
        expired = execute(context, prepared)
        removal = expired.removal
        return Finished(
            replace(report, outcome=expired),
            expired.landed.metadata_location,
            is_complete=not (removal.failed or removal.stopped),
            removed=removal.removed.locations(),
        )

    planned = PlannedChange(
        command=COMMAND,
        loaded=prepared.loaded,
        report=report,
        result=expiry_result,
        show=lambda console, expiry, whole: print_expiry(console, expiry, whole=whole),
        line=expiry_line,
        has_work=prepared.has_work,
        execute=finish,
        superseded=lambda: superseded(
            report, "another writer committed first; nothing was changed"
        ),
        clean_up=lambda: remove_leftovers(context, prepared),
        question=question(report),
        deleted_file_count=len(prepared.deletable),
    )
    return carry_out(session, change, planned)


def prepare(context: TableContext, options: ExpireOptions) -> PreparedExpiry:
    """Load the table and plan its expiry; nothing is written.

    Raises: Refused, where the table must not be touched; StorageError, CorruptTable, where what
    stays cannot be read completely (R-192).
    """
    loaded = open_table(context.catalog)
    prepared = plan_expiry(context, loaded, options)
    metadata, places = loaded.metadata, own_places(loaded)
    check_other_tables(context, prepared)
    if prepared.deletes_files and len(prepared.outside) and not places.has_location:
        context.progress.warn(
            f"the table's location, {redacted(metadata.location)}, does not contain its current "
            "metadata file: no file there is deleted"
        )
    if prepared.plan.unlogged_snapshot_ids:
        unlogged = print_count(len(prepared.plan.unlogged_snapshot_ids), "kept snapshot")
        context.progress.warn(
            f"{unlogged} will no longer be found by time travel (R-026); tag a snapshot to keep "
            "it reachable by name"
        )
    just_read = current_since(
        metadata, prepared.plan.retention.expired, prepared.now_ms - _QUERIES_TAKE_MS
    )
    if prepared.deletes_files and len(prepared.deletable) and just_read:
        context.progress.warn(
            f"{print_count(len(just_read), 'snapshot')} to expire were current within the last "
            f"{print_duration(_QUERIES_TAKE_MS)}, the newest until "
            f"{print_instant(max(just_read.values()))}: queries that still read them will fail"
        )
    return prepared


def check_other_tables(
    context: TableContext, prepared: PreparedExpiry, *, asks_catalog: bool = True
) -> None:
    """Check that no other table lies where files are to be deleted. Raises: Refused; StorageError.

    Cost: lists folders; a catalog that is asked may take a request a table.
    """
    if prepared.deletes_files and len(prepared.deletable):
        own_folders = own_places(prepared.loaded).folders
        folders = chain.from_iterable(map(folders_of, prepared.deletable))
        others = OtherTables(context)
        others.check_around(prepared.loaded, own_folders, folders, asks_catalog=asks_catalog)


def plan_expiry(
    context: TableContext, loaded: LoadedTable, options: ExpireOptions
) -> PreparedExpiry:
    """Plan the expiry of a loaded table; other tables in its place are not looked for.

    Raises: as prepare.
    """
    now_ms = context.env.now_ms()
    check_deletable(context.catalog, loaded, now_ms)
    metadata = loaded.metadata
    policy, only = options.policy(metadata), options.only
    retention = (
        decide(metadata, policy, now_ms)
        if only is None
        else decide_again(metadata, policy, now_ms, only.retention)
    )
    check_min_age(retention, now_ms, options.min_age_ms)
    check_statistics(metadata, {decision.snapshot_id for decision in retention.expired})
    listed = context.store.list_directory(loaded.metadata_folder)
    unfinished, abandoned = _earlier_journals(context, loaded, listed, now_ms)
    sizes = {loosest_key(status.location): status.size_bytes for status in listed}
    deletes = deletes_files(loaded, options)
    reached = ReachedFiles()
    if options.clean_expired_metadata or (deletes and (retention.expired or unfinished)):
        with unless_removed(context):
            trusted = options.trusts_lists or options.keep_files
            reached = read_reached(
                context,
                metadata,
                retention,
                sizes,
                recorded=chain.from_iterable(item.files for item in unfinished),
                trusted=trusted,
                every=options.clean_expired_metadata,
            )
    for lost in reached.unread:
        context.progress.warn(f"{lost.subject} expires, but its files stay: {lost.reason}")
    planned = plan(
        metadata, retention, reached, clean_expired_metadata=options.clean_expired_metadata
    )
    if only is not None:
        planned = restrict_to_reviewed(planned, only)
    dropped = _dropped_metadata_files(loaded, sizes) if planned.changes_table else NO_FILES
    logged = log_files(metadata, loaded.metadata_location).table["key"]
    outside_log = (without(part, logged) for part in in_batches(reached.only_going(), _AT_ONCE))
    inside, outside = _divided(context, loaded, chain(outside_log, [dropped]), only)
    if deletes:
        inside = _true_statistics(context, metadata, inside, sizes)
        with unless_removed(context):
            kept = [metadata.snapshots_by_id[one.snapshot_id] for one in retention.kept]
            check_kept(context, metadata, kept, inside, reached.staying, reached.going)
            check_replacements(context, metadata, inside, reached.replacements)
    return PreparedExpiry(
        loaded,
        options,
        now_ms,
        planned,
        inside,
        outside,
        unfinished,
        abandoned,
        reached.staying,
        old_temporaries(context.store, context.env, listed, ABANDONED_AFTER_MS),
        reached.unread,
        reached.read,
        reached.manifests,
    )


def _divided(
    context: TableContext, loaded: LoadedTable, files: Iterable[Files], only: Reviewed | None
) -> tuple[FilesByKind, FilesByKind]:
    """Return the files to delete that lie in the table's own places, and those that do not.

    Of the former those that were reviewed, if a plan was. Order: that of deletion (R-191).
    """
    metadata, places = loaded.metadata, own_places(loaded)
    reviewed = None if only is None else only.subjects(DELETE_FILE)
    behind_links = link_finder(context.store)
    inside, outside, linked_count, first_linked = FilesByKind(), FilesByKind(), 0, ""
    for part in by_location(FilesByKind(files)):
        own, foreign = places.split(part)
        linked = behind_links(own.table["location"]) if is_local(metadata.location) else []
        linked_count += len(linked)
        first_linked = first_linked or next(iter(linked), "")
        outside.add(foreign)
        outside.add(including(own, linked))
        own = excluding(own, linked)
        inside.add(own if reviewed is None else including(own, reviewed))
    if linked_count:
        context.progress.warn(
            f"{print_count(linked_count, 'file')} behind a link under the table's location are "
            f"kept, as {first_linked}: icectl does not follow links"
        )
    return inside, outside


def _dropped_metadata_files(loaded: LoadedTable, sizes: Mapping[str, int]) -> Files:
    """Return metadata files that the commit drops from the log, if the table wants them deleted.

    Catalogs that delete them themselves have none.
    """
    metadata = loaded.metadata
    deletes = properties.read(metadata.properties, properties.DELETE_AFTER_COMMIT)
    if not deletes or not loaded.capabilities.cleans_metadata:
        return NO_FILES
    _, dropped = with_log(metadata, loaded.metadata_location, metadata.last_updated_ms)
    return dropped_files(metadata_files_among(dropped), sizes)


def _true_statistics(
    context: TableContext, metadata: TableMetadata, files: FilesByKind, sizes: Mapping[str, int]
) -> FilesByKind:
    """Return files without those that may be no statistics, though an entry calls them so."""
    others = mismatched_statistics(context, metadata, files, sizes)
    if not others:
        return files
    more = f" and {print_count(len(others) - 1, 'more file')}" if len(others) > 1 else ""
    context.progress.warn(
        f"{others[0]}{more} is kept: an entry names it as statistics of another size (R-140)"
    )
    return FilesByKind(excluding(part, others) for part in files)


def _earlier_journals(
    context: TableContext, loaded: LoadedTable, listed: Sequence[FileStatus], now_ms: int
) -> tuple[tuple[DeletionJournal, ...], tuple[DeletionJournal, ...]]:
    """Return journals of runs that did not finish deleting, and of runs that never committed."""
    unfinished = journals.unfinished_journals(context.store, listed, COMMAND, context.progress)
    of_this_table = of_table(unfinished, loaded, context.progress)
    landed = tuple(journal for journal in of_this_table if journal.has_landed(loaded.metadata))
    abandoned = tuple(
        journal
        for journal in of_this_table
        if journal not in landed and now_ms - journal.created_ms > ABANDONED_AFTER_MS
    )
    return landed, abandoned


def remove_leftovers(context: TableContext, prepared: PreparedExpiry) -> None:
    """Remove unfinished files of killed runs; never raises."""
    if prepared.deletes_files and prepared.temporaries:
        try:
            newest = context.catalog.load()
            remove_own(context, newest, own_places(newest), prepared.temporaries)
        except IcectlError as error:
            context.progress.warn(f"files of killed runs are kept: {error.message}")


def execute(context: TableContext, prepared: PreparedExpiry) -> Expired:
    """Commit the plan, then delete the files that nothing reaches now (R-190).

    Raises: CommitConflict, CommitUnknown; StorageError, Refused, Incomplete, before any change.
    """
    context.deadline.check()
    record = None
    if prepared.deletes_files and len(prepared.deletable):
        _prove_deletion(context, prepared)
        if prepared.plan.changes_table:
            folder = prepared.loaded.metadata_folder
            record = DeletionJournal(
                journal_location(folder, COMMAND, context.env.new_uuid()),
                prepared.loaded.metadata.table_uuid,
                prepared.now_ms,
                tuple(decision.snapshot_id for decision in prepared.plan.retention.expired),
                prepared.deletable,
            )
    landed = _commit(context, prepared, record)
    remove_leftovers(context, prepared)
    if not prepared.deletes_files:
        return Expired(landed, Removal(FilesByKind(), FilesByKind()))
    to_delete = _to_delete(context, prepared)
    if to_delete is None:
        return Expired(landed, Removal(FilesByKind(), FilesByKind(), stopped=True))
    removal = remove_files(context, *to_delete)
    done = [*([record] if record else []), *prepared.unfinished]
    if len(removal.remaining):
        try:
            journals.write(context.store, context.env, _of_remaining(context, done[0], removal))
        except IcectlError:  # then those that there are name what remains, and more
            done.clear()
    done += prepared.abandoned
    if done:
        journals.discard(context.store, done)
    return Expired(landed, removal)


def _of_remaining(
    context: TableContext, journal: DeletionJournal, removal: Removal
) -> DeletionJournal:
    """Return the journal that names just the files that remain, in place of others."""
    folder = parent(journal.location)
    location = journal_location(folder, COMMAND, context.env.new_uuid())
    return replace(journal, location=location, files=removal.remaining)


def _prove_deletion(context: TableContext, prepared: PreparedExpiry) -> None:
    """Fail before the commit where files cannot be deleted after it."""
    folder = prepared.loaded.metadata_folder
    probe = join(folder, PROBE)
    create_if_none(context.store, context.env, probe)  # one may be of a run that can't delete
    try:
        failed = [item.error for item in context.store.remove([probe])]
    except StorageError as error:
        if error.error_id != ACCESS_DENIED:
            raise
        failed = [error.reason]
    if failed:
        raise StorageError(
            f"files in {redacted(folder)} cannot be deleted: {failed[0]}",
            hint="grant the right to delete, or give `--metadata-only`",
        )


def _commit(
    context: TableContext, prepared: PreparedExpiry, record: DeletionJournal | None
) -> LoadedTable:
    """Commit the plan as far as it still holds, once it is in the journal.

    The record is removed if the commit can't have landed; an unknown outcome keeps it (R-156).
    """
    loaded = prepared.loaded
    if not prepared.plan.changes_table:
        return loaded
    context.progress.phase("committing")

    def build(metadata: TableMetadata) -> Sequence[Update]:
        """Return the updates; retention is decided again if another writer committed before."""
        if metadata is loaded.metadata:
            return updates(metadata, prepared.plan)
        check_gc_enabled(metadata)
        policy = prepared.options.policy(metadata)
        retention = decide_again(metadata, policy, prepared.now_ms, prepared.plan.retention)
        return updates_again(metadata, retention)

    commit_request = CommitRequest()
    try:
        if record is not None:
            journals.write(context.store, context.env, record)
        # The plan names what leaves the log, and `--metadata-only` keeps that too.
        return commit_changes(
            context, loaded, build, commit_request, deletes_dropped_metadata=False
        )
    except BaseException:  # of whatever kind: only whether it was sent counts
        if record is not None and not commit_request.sent:
            journals.discard(context.store, [record])
        raise


def _to_delete(
    context: TableContext, prepared: PreparedExpiry
) -> tuple[FilesByKind, frozenset[str] | None] | None:
    """Return planned files that the newest metadata does not reach.

    Second: checksums of the table's own that stay, as remove_files takes them. None if the
    newest metadata, or a file that it names, cannot be read: then every file stays (R-192).
    """
    if not len(prepared.deletable):
        return FilesByKind(), None
    local = is_local(prepared.loaded.metadata.location)
    known, check_sums = KnownFiles(local=local), set[str]()
    try:
        context.catalog.settle()
        newest = context.catalog.load()
        check_same_table(prepared.loaded, newest.metadata)
        check_gc_enabled(newest.metadata)
        kept_ids = {decision.snapshot_id for decision in prepared.plan.retention.kept}
        with unless_removed(context):
            protected = read_reached_since(
                context, newest, kept_ids, prepared.deletable, prepared.read
            )
        for files in filter(len, chain(prepared.staying if local else (), protected)):
            check_sums.update(keys_ending_with(files, ".crc"))
            for chunk in files.table.select(["location"]).combine_chunks()["location"].chunks:
                known.add(chunk)
        to_delete = FilesByKind(_unknown(part, known) for part in prepared.deletable)
    except IcectlError as error:  # the commit stands, so this is no reason to fail
        context.progress.warn(f"nothing is deleted: {error.message}")
        return None
    return to_delete, frozenset(check_sums) if local else None


def _unknown(files: Files, known: KnownFiles) -> Files:
    """Return the files that are none of the known ones, by way of a link or mount either."""
    are_known = [known.contain(chunk) for chunk in files.table["location"].chunks]
    return Files(files.table.filter(pc.invert(pa.chunked_array(are_known, pa.bool_()))))
