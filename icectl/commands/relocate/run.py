"""The run of `icectl relocate`: read and prepare everything, then write it, the metadata last."""

import csv
import io
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from icectl.catalog.commit_file import create_file
from icectl.catalog.files import (
    FILE_SYSTEM,
    NAMED_FILE,
    FileSystemCatalog,
    NamedFileCatalog,
    next_version_name,
    refresh_hint,
)
from icectl.catalog.metadata_files import (
    METADATA_FOLDER,
    is_metadata_file_name,
    is_same_place,
    list_versions,
    wants_gzip,
)
from icectl.catalog.protocol import Committed, Conflict, LoadedTable, unpinned_catalog
from icectl.catalog.resolve import located
from icectl.cli.console import Console
from icectl.cli.document import Outcome, put_in_place
from icectl.cli.naming import name_in_catalog
from icectl.cli.options import Change, Common
from icectl.cli.session import Session, open_session
from icectl.cli.tables import print_pairs
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.commands.relocate.options import RelocateRequest
from icectl.commands.relocate.plan import (
    FileToCopy,
    Move,
    RelocatePlan,
    decide_move,
    is_same_table,
    new_metadata,
    spelled_like,
)
from icectl.commands.relocate.prepare import Preparation, Prepared, WaitingFile
from icectl.commit.attempt import CommitRequest, unknown_outcome
from icectl.commit.output_journal import DataPlaces, Leftovers, OutputJournal, new_journal
from icectl.commit.transaction import Outputs
from icectl.entries.files import FileKind, rows
from icectl.errors import (
    CommitConflict,
    CorruptTable,
    MissingFile,
    Refused,
    StorageError,
    TableNotFound,
    UsageError,
)
from icectl.files.metadata_file import is_gzip, read_metadata_json
from icectl.format.file_names import catalog_metadata_file_name, metadata_file_name
from icectl.format.metadata import TableMetadata
from icectl.format.properties import METADATA_PATH
from icectl.storage import location as locations
from icectl.storage.new_files import create_own
from icectl.storage.open import PathMapStore, add_root, open_store
from icectl.storage.store import FileStatus, Store, check_creatable
from icectl.table.context import TableContext, open_table
from icectl.table.guard import require_safe_base
from icectl.table.stored import compare_with_store
from icectl.units import is_text, print_count, print_size

_SHOWN = {
    "position_delete_files": "position delete file",
    "deletion_vector_files": "deletion vector file",
    "manifests": "manifest",
    "manifest_lists": "manifest list",
}

_STATISTICS = (FileKind.STATISTICS_FILES, FileKind.PARTITION_STATISTICS_FILES)

_REGISTRATIONS = (
    ("Spark", "CALL c.system.register_table('db.t', 'NEW')"),
    ("Trino", "CALL c.system.register_table('db', 't', 'DIRECTORY', 'FILE')"),
    ("PyIceberg", 'catalog.register_table("db.t", "NEW")'),
    ("REST", 'POST .../register {"name": "t", "metadata-location": "NEW"}'),
)
"""How catalogs take a table that has metadata already."""


def relocate_result(plan: RelocatePlan) -> dict[str, Any]:
    """Return the JSON members of a plan or of a run."""
    move, metadata = plan.move, plan.metadata
    return {
        "from": list(move.sources),
        "to": move.target,
        "location": move.location,
        "location_after": move.new_location,
        "uuid_after": metadata.table_uuid if plan.done and metadata is not None else None,
        "snapshots": plan.snapshot_count,
        "written": {kind: (plan.written or {}).get(kind, 0) for kind in _SHOWN},
        "kept_files": plan.kept_files,
        "kept_bytes": plan.kept_bytes,
        "to_copy": [  # often all files of a table, and `asdict` takes ten times as long
            {
                "source": file.source,
                "target": file.target,
                "size_bytes": file.size_bytes,
                "found_bytes": file.found_bytes,
            }
            for file in plan.missing
        ],
        "to_copy_bytes": plan.missing_bytes,
        "copy_list": plan.copy_list,
        "metadata_file": plan.metadata_file,
        "needs_registering": plan.needs_registering,
        "set_aside": list(plan.set_aside),
    }


def print_relocation(console: Console, plan: RelocatePlan) -> None:
    """Print a plan or a run."""
    move = plan.move
    if not plan.has_work:
        console.say(f"nothing to do: the table names its files in {move.new_location}")
        return
    if plan.metadata is None:
        _print_set_aside(console, plan)
        return
    pairs = [("from", move.location), ("to", move.new_location)]
    if move.sources != (move.location,):
        pairs.append(("locations", f"{', '.join(move.sources)} becomes {move.target}"))
    print_pairs(console, pairs)
    written = ", ".join(
        print_count(count, _SHOWN[kind]) for kind, count in (plan.written or {}).items() if count
    )
    verb = "wrote" if plan.done else "would write"
    snapshots = print_count(plan.snapshot_count, "snapshot")
    size = print_size(plan.written_bytes)
    console.say(f"{verb} {written or 'no file'} and the metadata file, for {snapshots}: {size}")
    kept_files = print_count(plan.kept_files, "file")
    console.say(f"{kept_files} of {print_size(plan.kept_bytes)} keep their content and their names")
    _print_set_aside(console, plan)
    if plan.missing:
        console.say(
            f"{print_count(len(plan.missing), 'file')} of {print_size(plan.missing_bytes)} not at "
            "the new place yet" + (f": {plan.copy_list} lists them" if plan.copy_list else "")
        )
        if plan.done:
            console.say("copy them before anyone reads the table")
        elif plan.copy_list is None:
            console.hint(_COPY_FIRST)
    if plan.done:
        console.say(f"new metadata file: {plan.metadata_file}")
        if plan.needs_registering:
            console.say("register it under a separate name; NEW is that file:")
            for kind, statement in _REGISTRATIONS:
                console.say(f"  {kind:<9}  {statement}")


def _print_set_aside(console: Console, plan: RelocatePlan) -> None:
    if plan.set_aside:
        console.say(
            f"{print_count(len(plan.set_aside), 'metadata file')} of the original "
            + ("renamed" if plan.done else "will be renamed")
            + ", to *.original"
        )


COMMAND = "relocate"

_COPY_FIRST = (
    "copy the files first: `--copy-list FILE --dry-run` lists them as source,target; "
    "`--copy-list FILE` without `--dry-run` writes the metadata all the same"
)

_ASIDE = ".original"
"""What names of the original's metadata files end with from then on: no reader takes them."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The new place: its store and context, what the next metadata file follows, its name.

    `base` has the new location, and the metadata as they were.
    """

    context: TableContext
    base: LoadedTable
    file_name: str
    gzip: bool

    @property
    def store(self) -> Store:
        """The store of the new place."""
        return self.context.store


def run(common: Common, table: str, request: RelocateRequest, change: Change) -> Outcome:
    """Plan the relocation; unless only the plan was asked for, execute it."""
    if change.save_plan is not None:
        raise UsageError(
            "`--save-plan` cannot be used with `relocate`",
            hint="`--copy-list FILE --dry-run` lists the files to copy",
        )
    session = open_session(common, table, read_only=False, change=change)
    loaded = open_table(session.context.catalog)
    require_safe_base(loaded.metadata)
    folder = locations.parent(loaded.metadata_location)
    if name_in_catalog(common, table) is None:
        place = located(table)
    elif locations.name(folder) == METADATA_FOLDER:
        place = locations.parent(folder)
    else:
        place = loaded.metadata.location
    recorded, version = loaded.metadata.location, loaded.metadata.format_version
    place = spelled_like(recorded, place, version)
    target = request.target
    if target is not None:
        target = spelled_like(recorded, located(target), version)
    is_home = is_same_place(place, recorded)
    sources = request.sources or ()
    move = decide_move(recorded, place, is_home=is_home, sources=sources, target=target)
    if move.is_done:
        return _at_home(session, request, change, loaded, move)
    if not is_text(move.new_location):
        raise UsageError(
            f"{locations.redacted(move.new_location)} is not text in UTF-8, as a location is",
            hint="rename the folder, or name another one with `--to`",
        )
    is_there = is_same_place(move.new_location, place)
    if not is_there and not is_same_place(recorded, place):
        raise UsageError(
            f"the table is in {locations.redacted(place)}, and says that it is in "
            f"{locations.redacted(recorded)}; `--to` is neither, but "
            f"{locations.redacted(move.new_location)}",
            hint=f"`icectl relocate {locations.redacted(place)}` makes it a table of that place",
        )
    is_own = request.new_uuid and (not is_there or name_in_catalog(common, table) is None)
    if is_own:  # as no table has it that is in no catalog
        kept = {k: v for k, v in loaded.metadata.properties.items() if k != METADATA_PATH.name}
        loaded = replace(loaded, metadata=replace(loaded.metadata, properties=kept))
    place_to_be = _target(session, common, loaded, move, is_there=is_there, is_own=is_own)
    return _relocate(session, request, change, loaded, move, place_to_be, is_there=is_there)


def _target(
    session: Session,
    common: Common,
    loaded: LoadedTable,
    move: Move,
    *,
    is_there: bool,
    is_own: bool,
) -> _Target:
    """Look at the new place. A table that `is_own` is a file-system table there, in no catalog.

    Raises: Refused, where another table lies there, or which metadata file is current is not known;
    Unsupported; StorageError.
    """
    context, shell = session.context, common.shell
    check_creatable(move.new_location)
    numbers_versions = loaded.capabilities.numbers_versions or is_own
    capabilities = FILE_SYSTEM if numbers_versions else NAMED_FILE
    uuid = context.env.new_uuid()
    gzip = wants_gzip(loaded, otherwise=is_gzip(context.store.read(loaded.metadata_location)))
    folder, usual = loaded.metadata_folder, locations.join(move.new_location, METADATA_FOLDER)
    if is_there:
        catalog = unpinned_catalog(context.catalog)
        if not loaded.capabilities.is_certain:
            _take_newest(context, loaded, is_own=is_own)
        elif isinstance(catalog, FileSystemCatalog | NamedFileCatalog):
            catalog.check_current(loaded)
        add_root(context.store, move.new_location)
        if is_own:
            own = FileSystemCatalog(context.store, move.new_location, shell.env)
            context = replace(context, catalog=own)
        folder = usual if is_own or is_same_place(usual, folder) else folder
        number = (loaded.version or 0) + 1
    else:
        options = replace(session.storage(), home=move.new_location, path_map=())
        options = replace(options, user_locations=(*options.user_locations, move.new_location))
        store = open_store(options, shell.env, shell.deadline)
        catalog = FileSystemCatalog(store, move.new_location, shell.env)
        context = replace(context, store=store, catalog=catalog, catalog_tables=None)
        folder = usual if is_own else locations.moved(folder, move.path_map) or usual
        number = 0
    if not numbers_versions:
        name = catalog_metadata_file_name(number, uuid, gzip=gzip)
    elif is_there and loaded.capabilities.numbers_versions:
        name = next_version_name(loaded, number)
    else:
        name = metadata_file_name(max(number, 1), gzip=gzip)
    base = replace(loaded, metadata_folder=folder, capabilities=capabilities)
    return _Target(context, base, name, gzip)


def _take_newest(context: TableContext, loaded: LoadedTable, *, is_own: bool) -> None:
    """Take the newest metadata file of a copy for the current one, with a warning.

    Raises: Refused, if the table stays a catalog's, or two files are the newest.
    """
    name = locations.name(loaded.metadata_location)
    beside = list_versions(context.store, locations.parent(loaded.metadata_location))
    newest = [version.name for version in beside if version.version == loaded.version]
    if not is_own or len(newest) > 1:
        what = f": {' and '.join(newest)} have one number" if is_own else ""
        raise Refused(
            "this table belonged to a catalog, and only that catalog knows the current "
            f"metadata file{what}",
            hint=f"`--metadata-file {name}` takes the newest as current",
            id="current-unknown",
        )
    context.progress.warn(
        f"{name} is the newest metadata file and is treated as current; the original's catalog "
        "may have another one (name it by `--metadata-file`)"
    )


def _relocate(
    session: Session,
    request: RelocateRequest,
    change: Change,
    loaded: LoadedTable,
    move: Move,
    target: _Target,
    *,
    is_there: bool,
) -> Outcome:
    env = session.context.env
    journal = new_journal(env, target.base, COMMAND, DataPlaces())
    uuid = env.new_uuid() if request.new_uuid else None
    reading = session.context
    there = PathMapStore(target.store, move.path_map)
    if is_there:
        reading = replace(reading, store=there)
    elif _is_at_target(target, loaded.metadata, move, new_uuid=request.new_uuid):
        landed = target.context.catalog.load()
        return _nothing_to_do(session, target.context, change, landed, replace(move, is_done=True))
    with tempfile.TemporaryDirectory(prefix="icectl-relocate-") as temporary:
        preparation = Preparation(
            reading,
            move,
            loaded.metadata,
            target.base.metadata_folder,
            journal.uuid,
            Path(temporary),
            trusts_summaries=not request.distrust_summaries,
        )
        try:
            prepared = preparation.run()
        except MissingFile as error:
            if not is_there:
                raise
            raise _not_copied(error, move) from error
        journal = replace(journal, data=DataPlaces(prepared.folders))
        metadata = new_metadata(
            loaded.metadata,
            move,
            prepared.lists,
            size_changes=prepared.size_changes,
            uuid=uuid,
            now_ms=env.now_ms(),
        )
        missing = _missing(replace(reading, store=there), prepared, loaded, move)
        plan = RelocatePlan(
            move,
            metadata,
            len(metadata.snapshots),
            prepared.counts,
            sum(file.size_bytes for file in prepared.files),
            len(prepared.kept),
            sum(size or 0 for _, _, size in rows(prepared.kept)),
            missing,
            request.copy_list,
            needs_registering=not target.base.capabilities.publishes,
            set_aside=_originals(target, loaded) if is_there and uuid is not None else (),
        )
        if request.copy_list is not None:
            if not is_there:
                _check_sources(reading, prepared, loaded)
            _write_copy_list(session, request.copy_list, plan)

        def execute() -> Finished[RelocatePlan]:
            landed = _write(target, prepared, journal, metadata, plan.set_aside)
            done = replace(plan, done=True, metadata_file=landed.metadata_location)
            return Finished(done, landed.metadata_location)

        return _carry_out(session, change, loaded, plan, execute)


def _at_home(
    session: Session, request: RelocateRequest, change: Change, loaded: LoadedTable, move: Move
) -> Outcome:
    """Report that the table is at its place; copied metadata files of an original are renamed.

    They are there if the run that made the copy a table was killed.
    Raises: UsageError, if no copy was made, and a new uuid is asked for.
    """
    if not request.new_uuid or request.target is not None:
        return _nothing_to_do(session, session.context, change, loaded, move)
    context, folder = session.context, loaded.metadata_folder
    beside = context.store.list_directory(folder)
    left = _left_over(context.store, loaded, beside)
    if not left and not any(file.location.endswith(_ASIDE) for file in beside):
        raise UsageError(
            f"`--new-uuid` makes a copy an independent table, and the table in "
            f"{locations.redacted(move.location)} is not a copy",
            hint="copy its folder and name the copy as TABLE; or name the place of a copy with "
            "`--to` and `--copy-list`",
        )
    plan = RelocatePlan(move, set_aside=left)

    def execute() -> Finished[RelocatePlan]:
        _set_aside(context, left)
        return Finished(replace(plan, done=True), loaded.metadata_location)

    return _carry_out(session, change, loaded, plan, execute)


def _left_over(store: Store, loaded: LoadedTable, beside: Sequence[FileStatus]) -> tuple[str, ...]:
    """Return the copied metadata files of the original that a killed run has not renamed.

    They are among those `beside` the table's. Other tables may keep their metadata here too. The
    original is a table of another place that has a snapshot of this one.
    """
    metadata, folder = loaded.metadata, loaded.metadata_folder
    if not is_same_place(folder, locations.join(metadata.location, METADATA_FOLDER)):
        return ()
    others: dict[str, tuple[object, str]] = {}
    of_original = set[object]()
    for file in beside:
        if not is_metadata_file_name(locations.name(file.location).removesuffix(_ASIDE)):
            continue
        try:
            members = read_metadata_json(store.read(file.location))
        except (CorruptTable, FileNotFoundError):
            continue
        uuid, place = members.get("table-uuid"), members.get("location")
        if (
            uuid == metadata.table_uuid
            or not isinstance(place, str)
            or is_same_place(place, metadata.location)
        ):
            continue
        others[file.location] = uuid, place
        if not metadata.snapshots_by_id.keys().isdisjoint(_snapshot_ids(members)):
            of_original.update((uuid, place))
    return tuple(
        location
        for location, identity in others.items()
        if not location.endswith(_ASIDE) and not of_original.isdisjoint(identity)
    )


def _snapshot_ids(members: Mapping[str, Any]) -> Iterator[int]:
    snapshots = members.get("snapshots")
    for snapshot in snapshots if isinstance(snapshots, list) else ():
        id_ = snapshot.get("snapshot-id") if isinstance(snapshot, dict) else None
        if isinstance(id_, int):
            yield id_


def _nothing_to_do(
    session: Session, context: TableContext, change: Change, loaded: LoadedTable, move: Move
) -> Outcome:
    """Report that the table is at its place; leftovers of killed relocations are removed."""
    plan = RelocatePlan(move)
    return _carry_out(
        session,
        change,
        loaded,
        plan,
        execute=lambda: Finished(plan, loaded.metadata_location),
        clean_up=lambda: Leftovers(context, (COMMAND,)).remove(loaded),
    )


def _carry_out(
    session: Session,
    change: Change,
    loaded: LoadedTable,
    plan: RelocatePlan,
    execute: Callable[[], Finished[RelocatePlan]],
    clean_up: Callable[[], None] = lambda: None,
) -> Outcome:
    refusal = None
    if plan.missing and plan.copy_list is None:
        first, others = plan.missing[0], len(plan.missing) - 1
        what = "is not there"
        if first.found_bytes is not None:
            expected = first.size_bytes or 0
            what = f"has {first.found_bytes:,} bytes where the table says {expected:,}"
        more = f"; so with {print_count(others, 'other file')}" if others else ""
        message = f"{locations.redacted(first.target)} {what}{more}"
        refusal = Refused(message, hint=_COPY_FIRST, id="files-missing")
    return carry_out(
        session,
        change,
        PlannedChange(
            command=COMMAND,
            loaded=loaded,
            report=plan,
            result=relocate_result,
            show=lambda console, relocation, _: print_relocation(console, relocation),
            has_work=plan.has_work,
            execute=execute,
            clean_up=clean_up,
            superseded=lambda: RelocatePlan(plan.move),
            refusal=refusal,
        ),
    )


def _originals(target: _Target, loaded: LoadedTable) -> tuple[str, ...]:
    """List the metadata files beside the new one that were copied with the table.

    They have its old uuid, or say that they are of its old location, as files do that a dropped
    table has left there. A table would find another table's metadata in its folder, and delete
    nothing. Raises: Refused, if the new table would be taken for a catalog's by another file.
    """
    metadata, copied = loaded.metadata, []
    for version in list_versions(target.store, target.base.metadata_folder):
        try:
            members = read_metadata_json(target.store.read(version.location))
        except FileNotFoundError:
            continue
        except CorruptTable:
            members = {}
        location = members.get("location")
        is_of_old_place = isinstance(location, str) and is_same_place(location, metadata.location)
        if members.get("table-uuid") == metadata.table_uuid or is_of_old_place:
            copied.append(version.location)
        elif version.kind not in ("file-system", "uncommitted"):
            raise Refused(
                f"{locations.redacted(version.location)} belongs neither to this table nor to "
                "its old location, and would make the copy a catalog's table",
                hint="move that file away",
                id="place-taken",
            )
    return tuple(copied)


def _is_at_target(target: _Target, metadata: TableMetadata, move: Move, *, new_uuid: bool) -> bool:
    """Return whether the new place has this table. Raises: Refused, if it has another."""
    try:
        loaded = target.context.catalog.load()
    except TableNotFound:
        folder = target.base.metadata_folder
        if list_versions(target.store, folder):
            raise _taken(move) from None
        return False
    expected = new_metadata(metadata, move, {}, uuid=None, now_ms=0)
    if is_same_table(expected, loaded.metadata, new_uuid=new_uuid):
        return True
    raise _taken(move)


def _taken(move: Move) -> Refused:
    return Refused(
        f"there is already a table in {locations.redacted(move.new_location)}",
        hint="if it is a copy of this one, name it as TABLE; else give another `--to`",
        id="place-taken",
    )


def _missing(
    there: TableContext, prepared: Prepared, loaded: LoadedTable, move: Move
) -> tuple[FileToCopy, ...]:
    """Return kept files that are not at the new place with their size."""
    missing = compare_with_store(there, prepared.kept, loaded.metadata.location)
    return tuple(
        FileToCopy(
            discrepancy.location,
            move.of(discrepancy.location),
            discrepancy.expected,
            discrepancy.found,
        )
        for discrepancy in missing.discrepancies
    )


def _check_sources(context: TableContext, prepared: Prepared, loaded: LoadedTable) -> None:
    """Check that the files to copy are at the old place, as large as their entries say.

    Raises: MissingFile R-034; CorruptTable R-063; StorageError.
    """
    compared = compare_with_store(context, prepared.kept, loaded.metadata.location)
    for item in compared.discrepancies:
        if item.found is not None and item.kind not in _STATISTICS:
            raise CorruptTable(
                f"`{item.location}` has {item.found:,} bytes, its entry says {item.expected:,}",
                rule="R-063",
                hint="restore the file that the entry means, or expire the snapshots that name it",
            )
        if item.found is None and item.problem is None:
            error = MissingFile(item.location)
            error.hint = (
                "restore the file, or expire the snapshots that name it: "
                "`icectl validate TABLE --all-snapshots --level files` names them"
            )
            raise error


def _not_copied(error: MissingFile, move: Move) -> Refused:
    location = error.location
    place = locations.moved(location, move.path_map) or location
    return Refused(
        f"`{locations.redacted(place)}` is missing, but the table's metadata names it, as "
        f"`{locations.redacted(location)}`",
        hint="copy the folder `metadata` and all delete files; if the old location lacks the file "
        "too, expire the snapshots that name it there",
        id="files-missing",
    )


def _write_copy_list(session: Session, path: str, plan: RelocatePlan) -> None:
    """Write the files to copy as CSV lines. Raises: StorageError."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        (file.source, file.target) for file in plan.missing
    )
    try:
        put_in_place(Path(path), [text.getvalue()], session.context.env)
    except OSError as error:
        raise StorageError(f"cannot write the copy list to {path}: {error.strerror}") from error


def _write(
    target: _Target,
    prepared: Prepared,
    journal: OutputJournal,
    metadata: TableMetadata,
    set_aside: Sequence[str],
) -> LoadedTable:
    """Write the new files, then the metadata file that names them.

    Raises: CommitConflict, where another file has its name; CommitUnknown; StorageError.
    """
    with Leftovers(target.context, (COMMAND,)).removed_after(target.base):
        is_journalled = target.base.capabilities.rules_out_commits
        outputs = Outputs(
            target.store, target.context.env, target.base.metadata_folder, journal, is_journalled
        )
        commit_request = CommitRequest()
        try:
            _write_files(target.context, prepared.files, outputs)
            outputs.check()
            landed = _publish(target, metadata, commit_request)
        except BaseException:
            if not commit_request.sent:
                outputs.keep(())
            raise
        if target.base.capabilities.publishes:
            refresh_hint(target.store, landed.metadata_location)
        outputs.keep(outputs.locations)
        _set_aside(target.context, set_aside)
        return landed


def _set_aside(context: TableContext, copied: Sequence[str]) -> None:
    """Rename copied metadata files of the original; what stays is named in warnings."""
    store = context.store
    for location in copied:
        aside = location + _ASIDE
        try:
            try:
                store.copy(location, aside)
            except FileExistsError:  # of a run that was killed before it removed the file
                if store.read(location) != store.read(aside):
                    raise StorageError(f"{locations.name(aside)} has other content") from None
            failed = [item.error for item in store.remove([location])]
        except StorageError as error:
            failed = [error.message]
        if failed:
            context.progress.warn(
                f"{locations.name(location)} belongs to the original and stays: {failed[0]}"
            )


def _publish(
    target: _Target, metadata: TableMetadata, commit_request: CommitRequest
) -> LoadedTable:
    """Write the metadata file; `commit_request` says from then on whether it may be there.

    Raises: CommitConflict; CommitUnknown; StorageError.
    """
    commit_request.sent = True
    try:
        with target.context.shield():
            outcome = create_file(
                target.store, target.base, metadata, target.file_name, gzip=target.gzip
            )
    except Exception:  # then nothing was written; what ends the program comes at any moment
        commit_request.sent = False
        raise
    if isinstance(outcome, Conflict):
        commit_request.sent = False
        raise CommitConflict(outcome.reason, hint=outcome.hint)
    if not isinstance(outcome, Committed):
        raise unknown_outcome(outcome)
    return outcome.table


def _write_files(context: TableContext, files: Sequence[WaitingFile], outputs: Outputs) -> None:
    """Write the prepared files. Raises: StorageError; Incomplete."""
    context.progress.phase("writing files", total=len(files))
    outputs.begin()

    def write(file: WaitingFile) -> None:
        context.deadline.check()
        content = file.waiting.read_bytes()
        try:
            create_own(context.store, context.env, outputs.add(file.location), content)
        except FileExistsError as error:
            raise CommitConflict(f"{file.location} exists already") from error
        context.progress.advance(1)

    with ThreadPoolExecutor(context.concurrency, thread_name_prefix="icectl-write") as pool:
        for _ in pool.map(write, files):
            pass
