"""The run of `icectl remove-orphans`: options, search, question, deletion, outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from icectl.cli.document import Outcome
from icectl.cli.dropped_tables import dropped_tables
from icectl.cli.options import Change, Common
from icectl.cli.session import Session, open_session, unpublished_metadata
from icectl.cli.settings import (
    ORPHANS_MAX_FRACTION,
    ORPHANS_OLDER_THAN,
    ORPHANS_PURGE_AFTER,
    ORPHANS_QUARANTINE,
)
from icectl.cli.spark_options import check_no_spark_options, spark_options
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.commands.remove_orphans.deletion import execute
from icectl.commands.remove_orphans.options import OrphansRequest
from icectl.commands.remove_orphans.report import (
    Orphans,
    orphans_line,
    orphans_result,
    print_orphans,
    question,
)
from icectl.commands.remove_orphans.search import COMMAND, OrphanOptions, prepare
from icectl.commands.remove_orphans.step import check_purge_options
from icectl.errors import Refused, UsageError
from icectl.rows.orphan_search import LocalOrphanSearch, OrphanSearch
from icectl.rows.spark_orphans import SparkOrphanSearch
from icectl.storage.identity import SameStore
from icectl.storage.inventory import InventoryFiles
from icectl.storage.local.store import LocalStore
from icectl.storage.location import is_local, name, scheme
from icectl.storage.many_files import ManyFiles, each_file
from icectl.table.orphan_verdicts import OrphanPlan
from icectl.units import parse_instant


def run(common: Common, table: str, request: OrphansRequest, change: Change) -> Outcome:
    """Plan the removal; unless only the plan was asked for, ask, and execute it."""
    if request.engine != "spark":
        check_no_spark_options(request.master, request.spark_conf or ())
    elif request.inventory is not None:
        raise UsageError(
            "`--inventory` needs `--engine local`: with an inventory there is nothing to list on "
            "Spark"
        )
    same_store = SameStore(
        _equal("--equal-scheme", request.equal_scheme or ()),
        _equal("--equal-authority", request.equal_authority or ()),
    )
    dropped = dropped_tables(common, table, request.leftover_uuid)
    session = open_session(common, table, read_only=False, change=change, dropped=dropped)
    options = _options(session, request, same_store)
    context = session.context
    prepared = prepare(context, _search(session, request, same_store), options)
    loaded, plan = prepared.loaded, prepared.plan
    metadata_file = unpublished_metadata(loaded)
    report = Orphans(
        loaded.metadata.location,
        plan,
        moves=options.quarantine is not None,
        given_metadata_file=None if metadata_file is None else name(metadata_file),
        engine=options.engine,
        purge=prepared.purge,
    )
    purged_count = 0 if prepared.purge is None else len(prepared.purge.files)

    def finish() -> Finished[Orphans]:
        deleted = execute(context, prepared)
        return Finished(
            replace(report, outcome=deleted),
            loaded.metadata_location,
            is_complete=not (deleted.failed or deleted.stopped),
            removed=(
                file.location
                for files in (deleted.removed, deleted.purged)
                for file in each_file(files)
            ),
        )

    refusal = _too_much(plan) if plan.deletable_count and plan.is_too_much else None
    no_files = ManyFiles()
    planned = PlannedChange(
        command=COMMAND,
        loaded=loaded,
        report=report,
        result=orphans_result,
        show=lambda console, orphans, whole: print_orphans(console, orphans, whole=whole),
        line=orphans_line,
        has_work=bool(plan.deletable_count + purged_count),
        execute=finish,
        superseded=lambda: replace(
            report, plan=replace(plan, orphans=no_files, outside=no_files), purge=None
        ),
        question=question(report),
        refusal=refusal,
        deleted_file_count=plan.deletable_count + purged_count,
        warnings=() if refusal is None else [f"{refusal.message}: refused"],
    )
    return carry_out(session, change, planned)


def _search(session: Session, request: OrphansRequest, same_store: SameStore) -> OrphanSearch:
    """Return the chosen engine, over the store or an inventory."""
    context, store, conf = session.context, session.context.store, request.spark_conf or ()
    if request.engine == "spark":
        options, storage = spark_options(session, request.master, conf), session.storage()
        return SparkOrphanSearch(options, storage, store, context.progress, context.deadline)
    files_below = store.list
    if request.inventory is not None:  # on this machine, of a bucket's files too
        inventory = _absolute(request.inventory)
        store = LocalStore() if is_local(inventory) else store
        files_below = InventoryFiles(store, inventory, same_store).below
    return LocalOrphanSearch(files_below, context.progress, context.deadline)


def _options(session: Session, request: OrphansRequest, same_store: SameStore) -> OrphanOptions:
    settings = session.settings
    older_than = settings.read(ORPHANS_OLDER_THAN)
    now_ms = session.context.env.now_ms()  # wrong usage shows before anything is read
    settings.read_as(ORPHANS_OLDER_THAN, lambda text: parse_instant(text, now_ms))
    check_purge_options(settings)
    quarantine = settings.read(ORPHANS_QUARANTINE)
    return OrphanOptions(
        older_than=lambda now_ms: parse_instant(older_than, now_ms),
        locations=[_absolute(location) for location in request.location or ()],
        same_store=same_store,
        ignore_mismatch=request.prefix_mismatch == "ignore",
        max_fraction=settings.read(ORPHANS_MAX_FRACTION),
        allow_recent=request.allow_recent,
        trusts_lists=request.distrust_summaries,
        delete_outside=request.delete_outside,
        quarantine=None if quarantine is None else _absolute(quarantine),
        purge_after_ms=settings.read(ORPHANS_PURGE_AFTER),
        only=session.reviewed,
        engine=request.engine,
    )


def _absolute(location: str) -> str:
    trimmed = location.rstrip("/") or location
    return trimmed if scheme(location) else str(Path(location).absolute())


def _equal(option: str, pairs: Sequence[str]) -> Mapping[str, str]:
    """Split each `A=B` at its last `=`. Raises: UsageError."""
    equal = {}
    for text in pairs:
        name, separator, equal_name = text.rpartition("=")
        if not separator or not name or not equal_name:
            raise UsageError(f"`{option}`: `{text}` is not of the form A=B")
        equal[name] = equal_name
    return equal


def _percent(share: float) -> str:
    return f"{share:.0%}" if share == 0 or share >= 0.1 else f"{100 * share:.2g}%"


def _too_much(plan: OrphanPlan) -> Refused:
    share = plan.unproven_bytes / plan.listed_bytes
    return Refused(
        f"{_percent(share)} of the listed bytes are orphans (limit {_percent(plan.max_fraction)}): "
        "refused, as that many can mean a wrong --location or catalog",
        hint="check the list with `--dry-run`, or raise `--max-fraction`",
        id="too-much",
    )
