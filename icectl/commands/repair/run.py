"""The run of `icectl repair`: look as `validate` does, plan what is provable, carry it out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, cast

from icectl.catalog.protocol import LoadedTable
from icectl.checks.rule import Finding
from icectl.checks.rules import RuleChoice
from icectl.cli.console import Console
from icectl.cli.document import Outcome, id_text, print_new_metadata_file
from icectl.cli.failures import with_table
from icectl.cli.naming import name_in_hints
from icectl.cli.options import Change, Common
from icectl.cli.session import open_session, unpublished_metadata
from icectl.commands.change import Finished, PlannedChange, carry_out
from icectl.commands.repair.head import (
    HeadFix,
    HeadRepair,
    ReadHead,
    proposal,
    read_head,
    write_manifests,
)
from icectl.commands.repair.lost_list import with_proven_list
from icectl.commands.repair.metadata import WholeTable, find, restore
from icectl.commands.repair.options import RepairRequest
from icectl.commands.repair.plan import (
    OF_STATISTICS,
    Fix,
    RemainingFinding,
    RepairLevel,
    RepairPlan,
    plan,
)
from icectl.commands.repair.repairs import Accepted, find_head_fixes
from icectl.commands.validate.report import print_wrapped
from icectl.commands.validate.run import ValidateOptions, validate
from icectl.commit.output_journal import Leftovers
from icectl.commit.snapshot import branch_head
from icectl.commit.transaction import Proposal, transaction
from icectl.errors import CommitConflict, IcectlError, Refused, UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, SnapshotRef, ancestors
from icectl.format.updates import (
    RemovePartitionStatistics,
    RemoveStatistics,
    SetSnapshotRef,
    Update,
)
from icectl.table.context import TableContext
from icectl.table.reader import Reader, SnapshotChoice, parse_snapshot_id, snapshot_by_id
from icectl.table.recovery import (
    NOTHING,
    Loss,
    WayOut,
    WholeLevel,
    WholeSnapshots,
    going_back,
    loss_of_going_back,
)
from icectl.units import print_count

COMMAND = "repair"
LATEST_COMPLETE = "latest-complete"
_FORMER_LATEST_COMPLETE = "whole"
_DESTROYED = "R-099"
"""The rule of files of rows that are there and cannot be read."""


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """The options of a repair; `to_snapshot` is an id, or LATEST_COMPLETE."""

    level: RepairLevel
    branch: str
    to_snapshot: int | str | None
    skip: frozenset[str]
    accepted: Accepted


@dataclass(frozen=True, slots=True)
class PreparedRepair:
    """A plan and what it was made from; `ways_out` are in the order of their losses.

    `target` is the snapshot that the branch goes back to.
    """

    found: WholeTable
    plan: RepairPlan
    options: RepairOptions
    head: Snapshot | None
    head_repair: HeadRepair | None = None
    target: Snapshot | None = None
    ways_out: tuple[WayOut, ...] = ()

    @property
    def loaded(self) -> LoadedTable:
        """The table as its newest whole metadata has it."""
        return self.found.loaded


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a run; `remaining` are findings after it, None if they could not be read."""

    landed: LoadedTable
    snapshot_id: int | None
    remaining: tuple[Finding, ...] | None


@dataclass(frozen=True, slots=True)
class Repair:
    """The plan of a repair, and its outcome; `table` is what the caller calls it by."""

    table: str
    prepared: PreparedRepair
    outcome: Repaired | None = None


def repair_result(repair: Repair) -> dict[str, Any]:
    """Return the result of a plan or a run."""
    prepared, outcome = repair.prepared, repair.outcome
    plan, target = prepared.plan, prepared.target
    remaining = None if outcome is None else outcome.remaining
    return {
        "level": plan.level,
        "branch": plan.branch,
        "repairs": [_fix(fix) for fix in plan.fixes],
        "skipped": [_fix(fix) for fix in plan.skipped],
        "left": [
            {**_named(repair, left.finding).json(), "reason": left.reason} for left in plan.left
        ],
        "to_snapshot": None if target is None else id_text(target.snapshot_id),
        "way_back": next(
            (way.options[1] for way in prepared.ways_out if way.options[0] == "--to-snapshot"), None
        ),
        "ways_out": [
            {"options": list(way.options), **_loss(way.loss), "errors_left": way.errors_left}
            for way in prepared.ways_out
        ],
        "snapshot_id": id_text(None if outcome is None else outcome.snapshot_id),
        "remaining": (
            None if remaining is None else [_named(repair, finding).json() for finding in remaining]
        ),
    }


def repair_line(repair: Repair) -> str:
    """Return how many repairs were carried out, or would be, and how many errors stay."""
    plan, outcome = repair.prepared.plan, repair.outcome
    left = plan.errors_left if outcome is None else outcome.remaining or ()
    errors = sum(finding.severity == "error" for finding in left)
    repairs = print_count(len(plan.fixes), "repair")
    texts = [repairs if outcome is None else f"{repairs} done"]
    if plan.fixes and plan.loss != NOTHING:
        texts.append(str(plan.loss))
    return ", ".join([*texts, *([f"{print_count(errors, 'error')} left"] if errors else [])])


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "id": fix.id,
        "kind": fix.kind,
        "subject": fix.subject,
        "what": fix.what,
        "proof": fix.proof,
        **_loss(fix.loss),
        "rules": sorted({finding.rule for finding in fix.answers}),
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {
        "rows_lost": loss.rows,
        "rows_back": loss.rows_back,
        "snapshots_dropped": loss.snapshots,
    }


def question(repair: Repair) -> str:
    """Return the question that the user is asked before anything happens."""
    plan = repair.prepared.plan
    repairs, loss = print_count(len(plan.fixes), "repair"), plan.loss
    return f"apply {repairs}?" if loss == NOTHING else f"apply {repairs} ({loss})?"


def print_repair(console: Console, repair: Repair) -> None:
    """Print what would be set right, or was, and what stays broken."""
    plan, outcome = repair.prepared.plan, repair.outcome
    if outcome is None:
        _print_plan(console, repair)
        return
    for fix in plan.fixes:
        print_wrapped(console, f"done {fix.id}: {fix.what}", "", "  ")
    if outcome.snapshot_id is not None:
        console.say(f"branch {plan.branch} is at snapshot {outcome.snapshot_id} now")
    if outcome.remaining is not None:
        for finding in outcome.remaining:
            if finding.severity != "info":
                _print_left(console, repair, finding, _named(repair, finding).hint)
        if not any(finding.severity == "error" for finding in outcome.remaining):
            console.say(f"no errors are left at level {plan.level}")
    print_new_metadata_file(console, unpublished_metadata(outcome.landed))


def _print_plan(console: Console, repair: Repair) -> None:
    plan = repair.prepared.plan
    if not (plan.fixes or plan.left):
        console.say(f"nothing to repair at level {plan.level}")
    for fix in plan.fixes:
        subject = _shown(repair, fix.subject)
        print_wrapped(console, f"repair {fix.id}: {subject}: {fix.what}", "", "  ")
        print_wrapped(console, f"because {fix.proof}", "  ", "  ")
        if fix.loss != NOTHING:
            print_wrapped(console, str(fix.loss), "  ", "  ")
    for fix in plan.skipped:
        console.print(f"skipped {fix.id}")
    for remaining in plan.left:
        _print_left(console, repair, remaining.finding, remaining.reason)
    ways_out = repair.prepared.ways_out
    if ways_out:
        console.print("option:" if len(ways_out) == 1 else "options, the smallest loss first:")
    for way in ways_out:
        errors = print_count(way.errors_left, "error")
        loss = f"{way.loss}, and leaves {errors}" if way.errors_left else str(way.loss)
        command = f"`{way.command(repair.table, branch=repair.prepared.options.branch)}`"
        print_wrapped(console, f"{command} {loss}", "  ", "    ")


def _print_left(console: Console, repair: Repair, finding: Finding, reason: str) -> None:
    line = (
        f"{finding.severity} {finding.rule}: {_shown(repair, finding.subject)}: {finding.message}"
    )
    print_wrapped(console, line, "", "  ")
    print_wrapped(console, f"not repaired: {reason}", "  ", "  ")


def _named(repair: Repair, finding: Finding) -> Finding:
    """Return a finding whose hint names the table."""
    return replace(finding, hint=with_table(finding.hint, repair.table))


def _shown(repair: Repair, subject: str) -> str:
    return subject.removeprefix(f"{repair.prepared.loaded.metadata.location.rstrip('/')}/")


def run(common: Common, table: str, request: RepairRequest, change: Change) -> Outcome:
    """Plan the repair; unless only the plan was asked for, ask, and execute it."""
    target = request.to_snapshot
    if target is not None and (request.drop_missing or request.accept_undeleted):
        raise UsageError("`--to-snapshot` rolls back, and does not repair later snapshots")
    options = RepairOptions(
        level=cast("RepairLevel", request.level),  # the option takes nothing else
        branch=request.branch,
        to_snapshot=(
            LATEST_COMPLETE
            if target in (LATEST_COMPLETE, _FORMER_LATEST_COMPLETE)
            else parse_snapshot_id("--to-snapshot", target)
        ),
        skip=frozenset(request.skip or ()),
        accepted=Accepted(request.drop_missing, request.accept_undeleted),
    )
    session = open_session(common, table, read_only=False, change=change)
    context = session.context
    prepared = prepare(context, options)
    report = Repair(name_in_hints(common, table), prepared)

    def finish() -> Finished[Repair]:
        repaired = execute(context, prepared)
        remaining = repaired.remaining
        return Finished(
            replace(report, outcome=repaired),
            repaired.landed.metadata_location,
            is_complete=remaining is not None
            and all(finding.severity != "error" for finding in remaining),
        )

    planned = PlannedChange(
        command=COMMAND,
        loaded=prepared.loaded,
        report=report,
        result=repair_result,
        show=lambda console, repair, _: print_repair(console, repair),
        line=repair_line,
        has_work=prepared.plan.has_work,
        execute=finish,
        superseded=lambda: replace(
            report, prepared=replace(prepared, plan=replace(prepared.plan, fixes=()))
        ),
        clean_up=lambda: Leftovers(context, (COMMAND,)).remove(prepared.loaded),
        question=question(report),
        errors_left=bool(prepared.plan.errors_left),
    )
    return carry_out(session, change, planned)


def prepare(context: TableContext, options: RepairOptions) -> PreparedRepair:
    """Validate a table and plan its repair; nothing is written.

    Raises: CorruptTable, where no metadata file can be read; Refused, where the table must not be
    touched, or `to_snapshot` is not whole; UsageError; StorageError of the store.
    """
    whole = find(context)
    if whole.broken is None and not whole.is_ahead:
        context.catalog.check_writable(whole.loaded)
    metadata = whole.loaded.metadata
    head = branch_head(metadata, options.branch)
    reader = Reader(context, whole.loaded)
    findings = _findings(reader, options, head)
    fixes = []
    for fix in whole.fixes:
        answers = frozenset(finding for finding in findings if finding.subject == fix.subject)
        fixes.append(replace(fix, answers=answers))
    fixes += statistics_fixes(metadata, findings)
    if options.to_snapshot is not None:
        target = _target(reader, options, findings, head)
        fixes += _set_back_fix(metadata, options, findings, head, target)
        planned = plan(options.level, options.branch, fixes, findings, options.skip)
        return PreparedRepair(whole, planned, options, head, target=target)
    read = _read_head(reader, head)
    head_fixes: list[HeadFix] = []
    reasons: list[RemainingFinding] = []
    if read is not None:
        head_fixes, reasons = find_head_fixes(reader, read, findings, options.accepted)
    fixes += [head_fix.fix for head_fix in head_fixes]
    planned = plan(options.level, options.branch, fixes, findings, options.skip, reasons)
    chosen = tuple(head_fix for head_fix in head_fixes if head_fix.fix in planned.fixes)
    head_repair = HeadRepair(options.branch, read, chosen) if chosen and read is not None else None
    ways_out: list[WayOut] = []
    if planned.errors_left and head is not None:
        broken = [left.finding for left in planned.left]
        snapshot = _whole_snapshots(reader, options, broken).newest(options.branch)
        if snapshot is not None and snapshot != head:
            ways_out.append(going_back(metadata, head, snapshot))
        if read is not None:
            ways_out += _ways_with_loss(reader, read, findings, options, planned)
    ways_out.sort(key=lambda way: way.order)
    return PreparedRepair(whole, planned, options, head, head_repair, ways_out=tuple(ways_out))


def _findings(reader: Reader, options: RepairOptions, head: Snapshot | None) -> tuple[Finding, ...]:
    """Return what `validate` finds on the head of the branch. Raises: Incomplete."""
    choice = SnapshotChoice(snapshot_id=None if head is None else head.snapshot_id)
    validate_options = ValidateOptions(
        level=options.level, choice=choice, all_snapshots=False, sample=None, rules=RuleChoice()
    )
    validation = validate(reader, validate_options)
    if not validation.complete:
        reader.context.deadline.check()
    return validation.findings


def statistics_fixes(metadata: TableMetadata, findings: Sequence[Finding]) -> list[Fix]:
    """Return entries of statistics files that are gone, not as described, or of no snapshot."""
    of_statistics = [finding for finding in findings if finding.rule in OF_STATISTICS]
    named = {finding.subject for finding in findings if finding.rule == "R-034"}
    fixes = []
    entries = metadata.every_statistics
    for snapshot_id in dict.fromkeys(entry.snapshot_id for entry in entries):
        places = {entry.statistics_path for entry in entries if entry.snapshot_id == snapshot_id}
        of_places = [finding for finding in findings if finding.subject in named & places]
        answers = frozenset(
            finding
            for finding in [*of_statistics, *of_places]
            if finding.subject in places or finding.subject == f"snapshot {snapshot_id}"
        )
        if answers:
            fixes.append(
                Fix(
                    "statistics",
                    str(snapshot_id),
                    f"statistics of snapshot {snapshot_id}",
                    "remove them from the metadata",
                    "no row depends on them, and an engine can compute them again",
                    answers=answers,
                )
            )
    return fixes


def _read_head(reader: Reader, head: Snapshot | None) -> ReadHead | None:
    """Read the manifests of the head; None for roots of version 4, which are left as they are."""
    if head is None or head.manifest_list is None or reader.metadata.format_version > 3:
        return None
    read = read_head(reader, head)
    return with_proven_list(reader, read) if read.listed.problems else read


def _target(
    reader: Reader, options: RepairOptions, findings: Sequence[Finding], head: Snapshot | None
) -> Snapshot:
    """Return the whole snapshot that the branch goes back to."""
    if head is None:
        raise UsageError(f"branch `{options.branch}` has no snapshot to roll back from")
    whole = _whole_snapshots(reader, options, findings)
    if options.to_snapshot == LATEST_COMPLETE:
        snapshot = whole.newest(options.branch)
        if snapshot is None:
            raise Refused(
                f"no snapshot of branch {options.branch} is complete",
                hint="restore the files that `icectl validate TABLE --all-snapshots` names",
            )
        return snapshot
    snapshot = snapshot_by_id(reader.metadata, int(options.to_snapshot or 0))
    if not whole.is_whole(snapshot):
        raise Refused(
            f"snapshot {snapshot.snapshot_id} is not complete either",
            hint=f"`icectl validate TABLE --snapshot {snapshot.snapshot_id}` shows what is broken; "
            "`--to-snapshot latest-complete` selects the newest complete one",
        )
    if snapshot not in ancestors(reader.metadata.snapshots_by_id, head.snapshot_id):
        raise Refused(
            f"snapshot {snapshot.snapshot_id} is not an ancestor of `{options.branch}`",
            hint=f"`icectl refs TABLE branch {quote(options.branch)} --at {snapshot.snapshot_id} "
            "--replace` moves it anywhere",
        )
    return snapshot


def _whole_snapshots(
    reader: Reader, options: RepairOptions, findings: Sequence[Finding]
) -> WholeSnapshots:
    level: WholeLevel = "metadata" if options.level == "metadata" else "files"
    return WholeSnapshots(
        reader.context,
        reader.metadata,
        level,
        frozenset(finding.subject for finding in findings if finding.rule == _DESTROYED),
    )


def _set_back_fix(
    metadata: TableMetadata,
    options: RepairOptions,
    findings: Sequence[Finding],
    head: Snapshot | None,
    target: Snapshot,
) -> list[Fix]:
    """Return the branch set back, unless it is there already.

    Raises: Refused, where nothing is wrong with its head.
    """
    if head is None or target == head:
        return []
    files = frozenset(finding for finding in findings if "/" in finding.subject)
    listed = frozenset(finding for finding in findings if str(head.snapshot_id) in finding.subject)
    if not any(file.severity == "error" for file in files | listed):
        raise Refused(
            f"branch {options.branch} has no error at level {options.level} that a rollback "
            "would repair",
            hint=f"`icectl refs TABLE rollback {quote(options.branch)} --to {target.snapshot_id}` "
            "rolls back a healthy branch",
        )
    loss = loss_of_going_back(metadata, head, target)
    fix = Fix(
        "to-snapshot",
        None,
        f"branch {options.branch}",
        f"roll it back from snapshot {head.snapshot_id} to {target.snapshot_id}",
        f"snapshot {target.snapshot_id} is complete; later snapshots stay in the table until they "
        "expire",
        loss,
        answers=files | listed,
    )
    return [fix]


def _ways_with_loss(
    reader: Reader,
    read: ReadHead,
    findings: Sequence[Finding],
    options: RepairOptions,
    planned: RepairPlan,
) -> list[WayOut]:
    """Return the options that accept a loss, if they leave fewer errors."""
    accepted = Accepted(drop_missing=True, accept_undeleted=True)
    if accepted == options.accepted:
        return []
    head_fixes, reasons = find_head_fixes(reader, read, findings, accepted)
    of_head = [head_fix.fix for head_fix in head_fixes]
    fixes = list(dict.fromkeys([*planned.fixes, *planned.skipped, *of_head]))
    best = plan(options.level, options.branch, fixes, findings, options.skip, reasons)
    if len(best.errors_left) >= len(planned.errors_left):
        return []
    kinds = {"lost-data": "--drop-missing", "lost-deletes": "--accept-undeleted"}
    words = tuple(word for kind, word in kinds.items() if any(fix.kind == kind for fix in of_head))
    return [WayOut(words, best.loss, len(best.errors_left))]


def execute(context: TableContext, prepared: PreparedRepair) -> Repaired:
    """Restore the way to the metadata, then commit the other fixes, then validate again.

    Raises: CommitConflict, CommitUnknown; Refused, StorageError, Incomplete, before more than the
    way to the metadata has changed.
    """
    context.deadline.check()
    kinds = frozenset[str](fix.kind for fix in prepared.plan.fixes)
    commits = bool(kinds - {"metadata-file", "version-hint"})
    needed = ["metadata-file"] if prepared.found.broken is not None else []
    if commits:
        needed += ["version-hint"] if prepared.found.is_ahead else []
    elif "version-hint" not in kinds:
        needed = []
    for kind in needed:
        if kind not in kinds:
            raise Refused(
                f"plan the other repairs again after `{kind}`",
                hint=f"leave `--skip {kind}` out, or skip the others too",
            )
    restore(context, prepared.found, kinds)
    landed, snapshot_id = prepared.loaded, None
    if commits:
        context.catalog.check_writable(prepared.loaded)
        landed, snapshot_id = _commit(context, prepared)
    try:
        head = branch_head(landed.metadata, prepared.options.branch)
        remaining = _findings(Reader(context, landed), prepared.options, head)
    except IcectlError as error:
        context.progress.warn(f"the result was not checked: {error.message}")
        return Repaired(landed, snapshot_id, None)
    known = {(finding.rule, finding.subject) for finding in remaining}
    # An error that no fix answers remains, even if it is no longer seen.
    unseen = [
        finding
        for finding in prepared.plan.errors_left
        if (finding.rule, finding.subject) not in known
    ]
    return Repaired(landed, snapshot_id, (*remaining, *unseen))


def _commit(context: TableContext, prepared: PreparedRepair) -> tuple[LoadedTable, int | None]:
    """Commit changes of metadata; second: the id of a new snapshot."""
    snapshot_id = context.env.new_snapshot_id()
    head_repair = prepared.head_repair
    with transaction(context, prepared.loaded, COMMAND) as opened:
        repaired = None
        if head_repair is not None:
            reader = Reader(context, prepared.loaded)
            repaired = write_manifests(reader, head_repair, opened.outputs)

        def propose(metadata: TableMetadata) -> Proposal:
            others = _without_statistics(metadata, prepared)
            others += _set_back_updates(metadata, prepared)
            if repaired is None:
                return Proposal(others)
            proposed = proposal(context, metadata, repaired, snapshot_id, opened.outputs)
            return Proposal((*others, *proposed.updates), proposed.files)

        landed = opened.commit(propose)
    return landed, None if repaired is None else snapshot_id


def _without_statistics(metadata: TableMetadata, prepared: PreparedRepair) -> list[Update]:
    """Return the removal of statistics, by snapshots, unless newer ones were set since the plan."""
    planned = prepared.loaded.metadata.every_statistics
    newer = {file.snapshot_id for file in metadata.every_statistics if file not in planned}
    fixed_ids = {int(fix.name or 0) for fix in prepared.plan.of("statistics")} - newer
    whole = {file.snapshot_id for file in metadata.statistics} & fixed_ids
    partition = {file.snapshot_id for file in metadata.partition_statistics} & fixed_ids
    return [
        *map(RemoveStatistics, sorted(whole)),
        *map(RemovePartitionStatistics, sorted(partition)),
    ]


def _set_back_updates(metadata: TableMetadata, prepared: PreparedRepair) -> list[Update]:
    """Return the branch at its target. Raises: CommitConflict, where it has moved on."""
    target, branch = prepared.target, prepared.options.branch
    if target is None or not prepared.plan.of("to-snapshot"):
        return []
    if branch_head(metadata, branch) != prepared.head:
        raise CommitConflict(f"branch {branch} has changed; run the repair again")
    old = metadata.refs.get(branch)
    ref = SnapshotRef(target.snapshot_id, "branch")
    return [
        SetSnapshotRef(branch, ref if old is None else replace(old, snapshot_id=target.snapshot_id))
    ]
