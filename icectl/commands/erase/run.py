"""The run of `icectl erase`: find, rewrite each branch, expire what holds rows, look again."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from icectl.catalog.protocol import LoadedTable
from icectl.cli.document import Outcome, document, failure
from icectl.cli.engines import engine_of
from icectl.cli.failures import error_and_code
from icectl.cli.options import Change, Common, RunLimits
from icectl.cli.session import connect_to, identity_of, open_session
from icectl.cli.settings import ERASE_KEYS
from icectl.commands.change import Finished, MetadataReport, PlannedChange, carry_out
from icectl.commands.change import commit_metadata as commit_refs
from icectl.commands.erase import versions
from icectl.commands.erase.options import EraseRequest
from icectl.commands.erase.parsed_options import EraseOptions, options_of
from icectl.commands.erase.plan import (
    ErasePlan,
    HoldingBranch,
    Left,
    Sought,
    is_dropped,
    plan_erasure,
    question,
    refs_on,
    what_holds,
)
from icectl.commands.erase.proof import Proof, prove
from icectl.commands.erase.report import (
    Erased,
    Erasure,
    erasure_line,
    erasure_result,
    print_erasure,
)
from icectl.commands.erase.signed_report import check_place, signer_of, write_report
from icectl.commands.erase.versions import NotingStore
from icectl.commands.expire_rows.plan import expiring_files, over_fraction
from icectl.commands.expire_rows.run import EngineFinder, rewriter
from icectl.commands.expire_snapshots.report import ExpireOptions, PreparedExpiry
from icectl.commands.expire_snapshots.run import execute as expire
from icectl.commands.expire_snapshots.run import prepare as prepare_expiry
from icectl.commands.matching import Matches, MatchSearch, Sifted
from icectl.commands.refs.plan import plan_drop
from icectl.commands.refs.plan import updates as refs_updates
from icectl.commands.remove_orphans.deletion import execute as delete_orphans
from icectl.commands.remove_orphans.search import OrphanOptions
from icectl.commands.remove_orphans.search import prepare as prepare_orphans
from icectl.commands.rewrite_manifests.run import every_manifest
from icectl.commands.rewrite_manifests.run import execute as rewrite_manifests
from icectl.commands.rewrite_manifests.run import prepare as prepare_manifests
from icectl.commands.rows.change import changing
from icectl.commands.rows.deletion import (
    Finder,
    FoundDeletion,
    RowDeletion,
    RowSearch,
    SearchedFiles,
)
from icectl.commit.output_journal import Leftovers
from icectl.commit.snapshot import branch_head
from icectl.commit.transaction import DataOutputs, data_places, outputs_of
from icectl.entries.file_verdicts import at_locations
from icectl.entries.files import including
from icectl.errors import (
    CommitConflict,
    CommitUnknown,
    Declined,
    IcectlError,
    Incomplete,
    ProblemsFound,
    Refused,
    SelfCheckFailed,
    StorageError,
    UsageError,
)
from icectl.format.manifest import Content, ManifestContent
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import ERASED_COLUMNS, ERASED_ROWS, ERASURE
from icectl.rows.choice import choose_engine, confirm_engine, weigh_engine
from icectl.rows.find_job import FindJob, Tried
from icectl.rows.local import LocalEngine
from icectl.rows.orphan_search import LocalOrphanSearch
from icectl.rows.spark_rewrite import SparkEngine
from icectl.storage.location import parent, redacted
from icectl.storage.many_files import ManyFiles, each_file
from icectl.table.context import TableContext
from icectl.table.guard import check_deletable, open_to_change
from icectl.table.live_files import with_dropped_columns
from icectl.table.orphan_verdicts import listed_metadata
from icectl.table.own_places import OtherTables, own_places
from icectl.table.reader import Gaps, Reader
from icectl.table.retention import AskedRetention
from icectl.table.reviewed import REWRITE_MANIFEST, Reviewed, ReviewedAct
from icectl.table.rewrite_tasks import RewriteTask
from icectl.units import parse_instant

COMMAND = "erase"


@dataclass(frozen=True, slots=True)
class PreparedErasure:
    """A plan, the table that it is of, and the search that made it.

    `pending` is an expiry that an earlier run has not finished.
    """

    loaded: LoadedTable
    plan: ErasePlan
    search: MatchSearch
    pending: PreparedExpiry | None = None


class Sifting(NamedTuple):
    """What is looked for in a table, and the files that may hold it by partitions and bounds."""

    reader: Reader
    sought: Sought
    search: MatchSearch
    sifted: Sifted


@dataclass(frozen=True, slots=True)
class _SparkSearcher:
    """Looks into files on Spark."""

    engine: SparkEngine
    places: DataOutputs

    def search(self, tasks: Sequence[RewriteTask], job: FindJob) -> Iterable[Tried]:
        """Find rows in the file of each task, or say why it can't be read. Order: of the tasks."""
        return self.engine.search(tasks, job, self.places)


def run(common: Common, table: str, request: EraseRequest, change: Change) -> Outcome:
    """Plan the erasure and, unless only the plan was asked for, carry it out; or look alone.

    Write the report, if it is asked for, also where the run ends early.
    """
    with ExitStack() as files:
        settings = common.shell.settings
        other = partial(connect_to, common)
        options = options_of(request, settings, common.shell.env.now_ms(), files, other)
        _check_change(request, change)
        so_far: list[Erasure] = []
        carried_out = partial(_run, common, table, request, change, options, so_far.append)
        if request.report is None:
            return carried_out()
        read = {
            "--keys": settings.read(ERASE_KEYS),
            "--digest-key": request.digest_key,
            "--sign-key": request.sign_key,
        }
        check_place(request.report, read)
        sign = None if request.sign_key is None else signer_of(request.sign_key)
        write = partial(write_report, request.report, sign=sign, env=common.shell.env)
        try:
            outcome = carried_out()
        except (UsageError, Declined):
            raise
        except BaseException as ended:
            error, code = error_and_code(ended)
            error.message = common.shell.console.redact(error.message)
            result = erasure_result(so_far[-1]) if so_far else None
            with suppress(StorageError):
                write(failure(error, code, COMMAND) | {"result": result})
            raise
        write(document(outcome))
        return outcome


def _run(
    common: Common,
    table: str,
    request: EraseRequest,
    change: Change,
    options: EraseOptions,
    noted: Callable[[Erasure], None],
) -> Outcome:
    """Run the command; what is known so far is `noted`."""
    session = open_session(common, table, read_only=request.verify, change=change)
    has_session = session.spark is not None
    for_spark = bool(request.master or request.remote or request.spark_conf or has_session)
    choice = choose_engine(request.engine, for_spark=for_spark)
    spark = request.spark_conf or (), request.remote
    engine_of(session, choice, *spark)  # refuses options of another engine before any work
    context = session.context
    if request.verify:
        reader = session.open_for_reading("looked at")
        sifting = sift(replace(reader, gaps=Gaps()), options)
    else:
        context = replace(context, store=NotingStore(context.store))
        loaded = open_to_change(context.catalog)
        check_deletable(context.catalog, loaded, context.env.now_ms())
        sifting = sift(Reader(context, loaded), options)
    choice = confirm_engine(weigh_engine(choice, sifting.sifted.read_bytes))
    if choice.name == "spark":
        session.console.note(str(choice))
    with engine_of(session, choice, *spark) as engine:
        if isinstance(engine, SparkEngine):
            sifting.search.searcher = _SparkSearcher(engine, _places(context, sifting.reader))
        if request.verify:
            return _verified(sifting, options)
        prepared = prepare(context, engine, sifting, options)
        plan, loaded = prepared.plan, prepared.loaded
        report = Erasure(loaded.metadata, plan)
        has_work = bool(plan.found.files or plan.found.unread or prepared.pending)
        if not has_work:
            if not (change.dry_run or change.check):
                Leftovers(context, (COMMAND,)).remove(loaded)
            reader = Reader(context, loaded)
            report = _looked(report, reader, prepared.search, options.quarantine)
            has_work = bool(report.left)
        noted(report)

        def finish() -> Finished[Erasure]:
            def note(erased: Erased) -> None:
                noted(replace(report, outcome=erased))

            erased, landed = execute(context, engine, prepared, options, note)
            return Finished(
                replace(report, outcome=erased),
                landed.metadata_location,
                is_complete=not erased.left,
                removed=erased.deleted_files,
            )

        planned = PlannedChange(
            command=COMMAND,
            loaded=loaded,
            report=report,
            result=erasure_result,
            show=lambda console, shown, whole: print_erasure(console, shown, whole=whole),
            line=erasure_line,
            has_work=has_work,
            execute=finish,
            superseded=lambda: report,
            question=question(
                plan,
                redacted(loaded.metadata.location),
                report.orphans,
                deletes_versions=options.deletes_versions,
            ),
            refusal=plan.refusal,
            deleted_file_count=len(plan.found.files) if plan.expires else 0,
        )
        return carry_out(session, change, planned)


def _check_change(request: EraseRequest, change: Change) -> None:
    """Check the options of the run beside those of the erasure. Raises: UsageError."""
    changing_options = {
        "--expire-history": request.expire_history,
        "--drop-tags": request.drop_tags,
        "--delete-versions": request.delete_versions,
        "--rounds": request.rounds,
        "--max-fraction": request.max_fraction,
        "--dry-run": change.dry_run,
        "--check": change.check,
    }
    used = [name for name, value in changing_options.items() if value]
    if request.verify and used:
        raise UsageError(f"`--verify` changes nothing, and cannot be used with `{used[0]}`")
    if request.sign_key is not None and request.report is None:
        raise UsageError("`--sign-key` needs `--report`")
    if change.save_plan is not None:
        raise UsageError("erase cannot save plans", hint="print the plan with `--dry-run --json`")
    if change.metadata_file is not None and not (change.dry_run or change.check):
        raise UsageError("erase makes several commits, and `--metadata-file` allows only one")


def _verified(sifting: Sifting, options: EraseOptions) -> Outcome:
    """Look whether such rows are left; nothing is written."""
    reader, sought, search, sifted = sifting
    loaded, found = reader.loaded, search.look(reader, sifted)
    plan = plan_erasure(
        loaded.metadata, sought, found, (), (), expires=False, max_fraction=options.max_fraction
    )
    report = _looked(Erasure(loaded.metadata, plan), reader, search, options.quarantine)
    proof = report.proof
    assert proof is not None
    is_incomplete = proof.has_unreadable or bool(found.unread)
    code = (Incomplete if is_incomplete else ProblemsFound).exit_code if report.left else 0
    return Outcome(
        command=COMMAND,
        result=erasure_result(report),
        render=lambda console: print_erasure(console, report, whole=False),
        table=identity_of(loaded),
        exit_code=code,
        status="incomplete" if code == Incomplete.exit_code else "done",
    )


def _looked(
    report: Erasure, reader: Reader, search: MatchSearch, quarantine: str | None
) -> Erasure:
    """Return the report with a look at every file, and what is left by it."""
    found = report.plan.found
    proof = prove(reader, search, found, quarantine)
    held = what_holds(reader.metadata, found, expires=False, patterns=())
    return replace(report, proof=proof, left=(*held, *_gaps(reader.gaps, found), *proof.left))


def _gaps(gaps: Gaps | None, found: Matches) -> list[Left]:
    """Return what could not be read of lists and manifests."""
    told = set(found.unread.values())
    return [
        Left("a list or manifest", f"it can't be read: {problem.message}")
        for problem in (gaps.problems.values() if gaps else ())
        if problem.message not in told
    ]


def prepare(
    context: TableContext,
    engine: LocalEngine | SparkEngine,
    sifting: Sifting,
    options: EraseOptions,
) -> PreparedErasure:
    """Find what holds rows to erase; nothing is written.

    Raises: Refused, where the table does not own a file that holds rows; Unsupported; CorruptTable;
    StorageError.
    """
    reader, loaded = sifting.reader, sifting.reader.loaded
    plan = planned(sifting, EngineFinder(engine, _places(context, reader)), options)
    _check_own(context, loaded, plan.found)
    pending = None
    if options.expires:
        nothing = prepare_expiry(context, _expiry_of(()))
        pending = nothing if nothing.unfinished else None
    return PreparedErasure(loaded, plan, sifting.search, pending)


def sift(reader: Reader, options: EraseOptions) -> Sifting:
    """Read what is looked for, and which files may hold it by partitions and bounds.

    Raises: UsageError, for a column that there is not, and keys that are none; CorruptTable;
    StorageError.
    """
    sought, wanted = options.sought(reader.metadata)
    search = MatchSearch(wanted, deleted_files=True)
    return Sifting(reader, sought, search, search.sift(reader))


def planned(sifting: Sifting, finder: Finder, options: EraseOptions) -> ErasePlan:
    """Find what holds rows to erase. Raises: as prepare, but Refused."""
    reader, sought, search, sifted = sifting
    context, metadata = reader.context, reader.metadata
    found = search.look(reader, sifted)
    holding = found.snapshots_of(found.files)
    branches = []
    for name in refs_on(metadata.refs, "branch", holding):
        branch_search = _row_search(context, finder, search, found)
        looked = branch_search.look(metadata, metadata.snapshot(metadata.refs[name].snapshot_id))
        live = branch_search.live_count(looked, options.max_fraction)
        parts = expiring_files(looked, branch_search.counted)
        files = [file for part in parts for file in part]
        branches.append(HoldingBranch(name, live, tuple(files)))
    return plan_erasure(
        metadata,
        sought,
        found,
        branches,
        options.patterns,
        expires=options.expires,
        max_fraction=options.max_fraction,
    )


def _check_own(context: TableContext, loaded: LoadedTable, found: Matches) -> None:
    """Check that no other table may need what would be deleted.

    Raises: Refused; StorageError. Cost: a listing of the table's folders.
    """
    places = own_places(loaded)
    if not places.folders:
        raise Refused(
            f"the table's location, {redacted(loaded.metadata.location)}, does not contain its "
            "current metadata file: no file there is its own",
            hint="run erase where the table's metadata is",
            id="location-not-own",
        )
    others = OtherTables(context)
    others.check_above(loaded, places.folders)
    others.check_catalog(places.folders)
    batches = (batch for folder in places.folders for batch in context.store.list(folder))
    others.check(loaded, [location for batch in batches for location in listed_metadata(batch)])
    foreign = [file.location for file in found.files if not places.holds(file.location)]
    if not foreign:
        return
    others.check_in_and_above(loaded, sorted({parent(location) for location in foreign}))
    raise Refused(
        f"{redacted(foreign[0])} has such rows, but does not belong to the table",
        hint="erase the rows in the table that owns the file",
        id="foreign-file",
    )


def _places(context: TableContext, reader: Reader) -> DataOutputs:
    """Return where workers would write files; they write none."""
    outputs = outputs_of(context.store, context.env, reader.loaded, COMMAND)
    return DataOutputs(reader.metadata, outputs)


def _row_search(
    context: TableContext, finder: Finder, search: MatchSearch, found: Matches
) -> RowSearch:
    """Return a search for rows of a head, deleted ones too, in files that hold some or are new.

    Files that can't be read are left.
    """
    known = frozenset(found.listed) - {file.location for file in found.files}
    known |= found.unread.keys()

    def restrict(_: TableMetadata, chosen: SearchedFiles) -> SearchedFiles:
        """Have every file read: bounds that are wrong must not drop another row."""
        is_known = at_locations(chosen.files.data, known)
        rows = [row for row in (*chosen.whole, *chosen.partial) if not is_known[row]]
        return replace(chosen, whole=[], partial=sorted(rows))

    return RowSearch(
        context, finder, search.wanted, restrict, finds_deleted=True, known=search.rows
    )


def _expiry_of(holding: Collection[int]) -> ExpireOptions:
    """Return the options to expire those of these snapshots that the table has, and at no ref."""

    def policy(metadata: TableMetadata) -> AskedRetention:
        at_refs = {ref.snapshot_id for ref in metadata.refs.values()}
        known = metadata.snapshots_by_id
        return AskedRetention(
            expire_ids=tuple(id_ for id_ in holding if id_ in known and id_ not in at_refs)
        )

    return ExpireOptions(policy)


def execute(
    context: TableContext,
    engine: LocalEngine | SparkEngine,
    prepared: PreparedErasure,
    options: EraseOptions,
    noted: Callable[[Erased], None],
) -> tuple[Erased, LoadedTable]:
    """Rewrite the branches, expire history if asked to, and look again.

    Each commit leaves a table from which another run goes on: what fails after the first ends the
    run without a proof. What was done by then is `noted` if this raises.
    Raises: Refused, where other commits made them too many rows; CommitUnknown; SelfCheckFailed; as
    prepare.
    """
    fields = with_dropped_columns(prepared.loaded.metadata).current_schema
    names = sorted(filter(None, map(fields.name_of, prepared.search.field_ids)))
    notes = {ERASURE: context.env.new_uuid(), ERASED_COLUMNS: ",".join(names)}
    erasing = _Erasing(context, engine, prepared.search, options, notes=notes)
    try:
        erasing.clean_branches()
        if options.expires:
            erasing.expire_history()
        loaded = open_to_change(context.catalog)
        Leftovers(context, (COMMAND,)).remove(loaded)
        erased = erasing.look_again(loaded)
        if options.expires and erased.proof and erasing.remove_more(loaded, erased.proof):
            erased = erasing.look_again(loaded)
    except BaseException as ended:
        error = error_and_code(ended)[0]
        erased, loaded = erasing.ended(prepared.plan, error.message), prepared.loaded
        is_told = isinstance(ended, IcectlError | OSError) and erasing.has_changed
        if not is_told or isinstance(ended, CommitUnknown | SelfCheckFailed):
            noted(erased)
            raise
        with suppress(IcectlError, OSError):
            loaded = open_to_change(context.catalog)
    return erased, loaded


@dataclass(slots=True)
class _Erasing:
    """An erasure under way: what was changed so far."""

    context: TableContext
    engine: LocalEngine | SparkEngine
    search: MatchSearch
    options: EraseOptions
    row_count: int = 0
    snapshot_ids: list[int] = field(default_factory=list)
    expired_ids: list[int] = field(default_factory=list)
    dropped_tags: list[str] = field(default_factory=list)
    deleted_files: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def noting(self) -> TableContext:
        """The context of a commit, whose summary tells of the erasure, but of no key."""
        rows = {ERASED_ROWS: str(self.row_count)} if self.row_count else {}
        return replace(self.context, notes={**self.notes, **rows})

    @property
    def has_changed(self) -> bool:
        return bool(self.snapshot_ids or self.dropped_tags or self.expired_ids)

    def look_again(self, loaded: LoadedTable) -> Erased:
        """Look at everything once more, and return what became of it."""
        reader, options = Reader(self.context, loaded), self.options
        found = self.search.look(reader)
        proof = prove(reader, self.search, found, options.quarantine)
        held = what_holds(
            loaded.metadata, found, expires=options.expires, patterns=options.patterns
        )
        return self._so_far((*held, *self.left, *proof.left), proof)

    def ended(self, plan: ErasePlan, reason: str) -> Erased:
        """Return what was done by a run that ended early, and what may be left, without a look."""
        refs = [
            *(f"branch {branch.name}" for branch in plan.branches),
            *(f"tag {name}" for name in plan.tags if name not in self.dropped_tags),
            *(f"snapshot {id_}" for id_ in plan.snapshot_ids if id_ not in self.expired_ids),
        ]
        left = [Left(ref, "it named files with such rows when the run began") for ref in refs]
        why = Left("the run", f"it ended early: {reason}; run the command again to continue")
        return self._so_far((why, *left, *self.left))

    def _so_far(self, left: Sequence[Left], proof: Proof | None = None) -> Erased:
        return Erased(
            self.row_count,
            tuple(self.snapshot_ids),
            tuple(self.expired_ids),
            tuple(self.dropped_tags),
            tuple(self.deleted_files),
            tuple(left),
            proof,
        )

    def clean_branches(self) -> None:
        """Rewrite the branches until no head names a file with matches, or rounds are used up."""
        for _ in range(self.options.rounds):
            loaded = open_to_change(self.context.catalog)
            found = self.search.look(Reader(self.context, loaded))
            names = refs_on(loaded.metadata.refs, "branch", found.snapshots_of(found.files))
            if not names:
                return
            for name in names:
                self.clean(name, found)

    def clean(self, branch: str, found: Matches) -> None:
        """Rewrite what a branch's head names of files with matches; others' commits come first."""
        try:
            deletes = [file for file in found.files if file.content is not Content.DATA]
            if any(not file.has_paths for file in deletes):
                has_rows = any(
                    it.content is Content.POSITION_DELETES and it.count for it in deletes
                )
                self._convert_deletes(branch, rewrite_all=has_rows)
            self._rewrite_rows(branch, found)
            if any(file.has_paths for file in deletes):
                self._convert_deletes(branch, rewrite_all=True)
            self._rewrite_manifests(branch)
        except CommitConflict:
            self.context.progress.warn(f"other writers committed to {branch} first")
        except UsageError:
            if branch in open_to_change(self.context.catalog).metadata.refs:
                raise
            self.context.progress.warn(f"{branch} was dropped by another writer")

    def _convert_deletes(self, branch: str, *, rewrite_all: bool) -> None:
        """Make deletes by position of the equality deletes of a branch, and drop unused deletes.

        With `rewrite_all`, all its deletes are written again: whole rows in position deletes go,
        and so do paths of other data files in Puffin files.
        """
        from icectl.commands.compact.options import CompactRequest
        from icectl.commands.compact.parsed_options import options_of
        from icectl.commands.compact.run import execute as compact
        from icectl.commands.compact.run import prepare as prepare_compaction

        request = CompactRequest(deletes_only=True, rewrite_all=rewrite_all, branch=branch)
        make = options_of(request, RunLimits())
        prepared = prepare_compaction(self.context, branch, make)
        if prepared.plan.has_work:
            self.snapshot_ids += compact(
                self.noting, self.engine, prepared, command=COMMAND
            ).snapshot_ids

    def _rewrite_rows(self, branch: str, found: Matches) -> None:
        """Rewrite data files of a branch without the rows, also those that are deleted already."""
        context, engine = self.noting, self.engine
        loaded = open_to_change(context.catalog)
        finder = EngineFinder(engine, _places(context, Reader(context, loaded)))
        search = _row_search(context, finder, self.search, found)

        def check(looked: FoundDeletion) -> None:
            most = self.options.max_fraction
            live = search.live_count(looked, most)
            refusal = over_fraction(looked.deleted_rows(search.counted), live, most)
            if refusal is not None:
                raise refusal

        places = data_places(loaded.metadata, [None])
        with changing(context, loaded, branch, places, COMMAND) as change:
            rewrite = rewriter(context, engine, change.opened.outputs)
            deletion = RowDeletion(search, change, rewrite, check)
            landed = deletion.commit()
        if landed is not None:
            self.snapshot_ids.append(change.snapshot_id)
            self.row_count += deletion.deleted_rows

    def _rewrite_manifests(self, branch: str) -> None:
        """Rewrite manifests of a branch's head that name files with matches as deleted ones.

        Those that name deletes as deleted are rewritten, too: their partitions may have gone with
        the rows.
        """
        loaded = open_to_change(self.context.catalog)
        reader = Reader(self.context, loaded)
        found = self.search.look(reader)
        snapshot = branch_head(loaded.metadata, branch)
        if snapshot is None:
            return
        head = found.manifests[snapshot.snapshot_id]
        holding = {one for file in found.files for one in file.manifests} & head
        paths = {path for path, _, _ in holding}
        for item in reader.manifests_by_snapshot([snapshot])[snapshot.snapshot_id]:
            if item.content is ManifestContent.DELETES and (
                item.deleted_files_count != 0 or item.dead_count
            ):
                paths.add(item.manifest_path)
        if not paths:
            return
        acts = frozenset(ReviewedAct(REWRITE_MANIFEST, path) for path in paths)
        prepared = prepare_manifests(
            self.context,
            branch,
            lambda metadata: replace(every_manifest(metadata), only=Reviewed(acts)),
        )
        if prepared.rewrite.plan.chosen:
            self.snapshot_ids.append(rewrite_manifests(self.noting, prepared, COMMAND).snapshot_id)

    def remove_more(self, loaded: LoadedTable, proof: Proof) -> bool:
        """Delete orphans, and previous versions if asked to; whether anything went."""
        has_orphans = self.remove_orphans(loaded, proof)
        if not self.options.deletes_versions:
            return has_orphans
        if isinstance(self.context.store, NotingStore):
            versions.record_locations(self.context, loaded, self.context.store.removed)
        count, staying = versions.remove(self.context, loaded)
        if self.options.quarantine is not None:
            more, more_staying = versions.remove_quarantined(
                self.context, self.options.quarantine, self.quarantined
            )
            count, staying = count + more, [*staying, *more_staying]
        self.left += staying
        return has_orphans or count > 0

    def remove_orphans(self, loaded: LoadedTable, proof: Proof) -> bool:
        """Delete orphans that are old enough, and quarantined ones, as remove-orphans does.

        Returns whether any went, or a list that names some.
        """
        age, quarantine = self.options.orphans_older_than, self.options.quarantine
        options = OrphanOptions(older_than=lambda now_ms: parse_instant(age, now_ms))
        has_changed = False
        if proof.orphans:
            has_changed |= self._remove(loaded, options, proof.orphans)
        if proof.quarantined:
            options = replace(options, quarantine=quarantine, purge_after_ms=0)
            has_changed |= self._remove(loaded, options, proof.quarantined)
        return has_changed

    def _remove(
        self, loaded: LoadedTable, options: OrphanOptions, locations: Sequence[str]
    ) -> bool:
        context = self.context
        search = LocalOrphanSearch(context.store.list, context.progress, context.deadline)
        try:
            prepared = prepare_orphans(context, search, options)
            orphans = _named(prepared.plan.orphans, locations)
            purge = prepared.purge
            if purge is not None:
                purge = replace(purge, files=_named(purge.files, locations))
            plan = replace(prepared.plan, orphans=orphans, outside=ManyFiles())
            if self.options.deletes_versions:
                places = [file.location for file in each_file(orphans)]
                versions.record_locations(context, loaded, places)
            with self._noting_removed(locations):
                gone = delete_orphans(context, replace(prepared, plan=plan, purge=purge))
        except Refused as error:  # it lies where others may have files: it is told of as left
            context.progress.warn(f"no orphan is deleted: {error.message}")
            return False
        for removed in (gone.removed, gone.purged):
            self.deleted_files += [file.location for file in each_file(removed)]
        self.quarantined += [*(file.location for file in each_file(gone.purged)), *gone.tidied]
        return bool(len(gone.removed) or len(gone.purged) or gone.tidied)

    @contextmanager
    def _noting_removed(self, doomed: Iterable[str]) -> Iterator[None]:
        """Note which of some files are gone if their deletion raises."""
        try:
            yield
        except BaseException:
            store = self.context.store
            if isinstance(store, NotingStore):
                self.deleted_files += sorted(store.removed.intersection(doomed))
            raise

    def expire_history(self) -> None:
        """Drop the tags that were named, expire snapshots that hold rows, delete their files."""
        context = self.context
        loaded = open_to_change(context.catalog)
        found = self.search.look(Reader(context, loaded))
        holding = found.snapshots_of(found.files)
        tags = refs_on(loaded.metadata.refs, "tag", holding)
        dropping = [tag for tag in tags if is_dropped(tag, self.options.patterns)]
        if dropping:
            changes = [plan_drop(loaded.metadata, tag) for tag in dropping]
            report = MetadataReport(loaded.metadata, [it for it in changes if it is not None])
            commit_refs(context, Leftovers(context, (COMMAND,)), loaded, report, refs_updates)
            self.dropped_tags += dropping
        prepared = prepare_expiry(context, _expiry_of(holding))
        if not prepared.has_work:
            return
        for location in prepared.outside.locations():
            self.left.append(Left(location, "it does not belong to the table, and was not deleted"))
        for part in prepared.unread:
            self.left.append(Left(part.subject, f"its files stay: {part.reason}"))
        gone = tuple(it.snapshot_id for it in prepared.plan.retention.expired)
        if self.options.deletes_versions:
            versions.record(context, prepared.loaded, gone, prepared.deletable)
        with self._noting_removed(prepared.deletable.locations()):
            expired = expire(context, prepared)
        removal = expired.removal
        self.expired_ids += gone
        self.deleted_files += removal.removed.locations()
        self.left += [Left(it.location, f"it was not deleted: {it.error}") for it in removal.failed]
        if removal.stopped:
            self.left.append(Left("files to delete", "the run stopped; run the command again"))


def _named(listed: ManyFiles, locations: Sequence[str]) -> ManyFiles:
    return ManyFiles(including(part, locations) for part in listed)
