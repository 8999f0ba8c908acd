"""The run of `icectl validate`: read the chosen part of a table once, and check it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import cast

from icectl.catalog.metadata_files import check_own_version
from icectl.checks.objects import CommitBase, ListedChain, MetadataFile
from icectl.checks.rule import Breach, Finding
from icectl.checks.rules import RULES, Level, RuleChoice, fails, finding, rules_of_metadata
from icectl.cli.document import Outcome
from icectl.cli.failures import with_table
from icectl.cli.naming import changed_in_hints, name_in_hints
from icectl.cli.options import Common, read_options
from icectl.cli.session import Session, identity_of, open_session
from icectl.cli.settings import VALIDATE_FAIL_ON, VALIDATE_LEVEL
from icectl.cli.spark_options import check_no_spark_options, spark_options
from icectl.commands.validate.data import RemoteReaders, check_data
from icectl.commands.validate.files import check_files, check_version_hint
from icectl.commands.validate.lists import CheckTally, SnapshotsChecked, check_snapshots_of
from icectl.commands.validate.options import ValidateRequest
from icectl.commands.validate.report import (
    CheckedTable,
    checked_line,
    checked_result,
    print_checked,
)
from icectl.entries.conditions import Predicate, parse_where
from icectl.entries.rows import concat, sample
from icectl.errors import CommitConflict, Incomplete, OtherFile, UsageError
from icectl.files.metadata_file import read_metadata_json
from icectl.format.layout import Layout, layout_of, layout_of_table
from icectl.format.metadata import TableMetadata
from icectl.format.rule import Severity
from icectl.format.snapshot import Snapshot
from icectl.rows.spark import Spark
from icectl.rows.spark_connect import open_spark
from icectl.sfc1.rules import EVERY_RULE
from icectl.table.guard import lost_rows
from icectl.table.reader import Reader, SnapshotChoice, chosen_snapshot, parse_snapshot_id
from icectl.table.recovery import BrokenTable

_CHECKS = 3
"""How often a table is checked whose snapshots expire during the check."""


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """The options of a check: how deep to look, at which snapshots and files, for which rules.

    Without a choice the current snapshot is checked; `sample` None looks at every file, else at
    that part of the content files. `where` is a condition that their rows may match. `elsewhere` is
    where files are read, if not here.
    """

    level: Level
    choice: SnapshotChoice
    all_snapshots: bool
    sample: float | None
    rules: RuleChoice
    where: Predicate | None = None
    elsewhere: RemoteReaders | None = None


def run(common: Common, table: str, request: ValidateRequest) -> Outcome:
    """Check a table and say what was found.

    Raises: UsageError for options that make no sense together; what reading the metadata raises.
    """
    settings = common.shell.settings
    level = cast("Level", settings.read(VALIDATE_LEVEL))  # the setting takes nothing else
    fail_on = cast("Severity", settings.read(VALIDATE_FAIL_ON))
    options = _options(request, level)
    session = open_session(common, table, read_only=True)
    elsewhere = _elsewhere(session, request)
    reader = session.open_for_reading("checked")
    if elsewhere is not None:
        options = replace(options, elsewhere=RemoteReaders(elsewhere, session.storage()))
    if request.where is not None:
        options = replace(options, where=parse_where(request.where, reader.metadata))
    checked = replace(validate(reader, options), where=request.where)
    name = name_in_hints(common, table)
    broken = BrokenTable(session.context, changed_in_hints(name))
    findings = broken.hinted(checked.findings, "metadata" if level == "metadata" else "files")
    hinted = (replace(item, hint=with_table(item.hint, name)) for item in findings)
    checked = replace(checked, findings=tuple(hinted))
    failed = fails(checked.findings, fail_on)  # errors count more than incomplete checks
    return Outcome(
        command="validate",
        result=checked_result(checked),
        render=lambda console: print_checked(
            console, checked, whole=session.console.options.verbosity > 0
        ),
        table=identity_of(reader.loaded),
        exit_code=4 if failed else 0 if checked.complete else 3,
        status="done" if checked.complete else "incomplete",
        line=checked_line(checked),
    )


def _elsewhere(
    session: Session, request: ValidateRequest
) -> Callable[[], AbstractContextManager[Spark]] | None:
    """Return a function that opens Spark, if that is asked for. Raises: UsageError."""
    conf = request.spark_conf or ()
    if request.engine != "spark":
        check_no_spark_options(request.master, conf, request.remote)
        return None
    spark = spark_options(session, request.master, conf, remote=request.remote)
    return partial(open_spark, spark, session.context.progress, session.context.deadline)


def _options(request: ValidateRequest, level: Level) -> ValidateOptions:
    if request.engine == "spark" and level not in ("footers", "data"):
        raise UsageError(
            f"`--engine spark` reads data files, which level `{level}` does not",
            hint="`--level footers` and `--level data` read them",
        )
    choice = SnapshotChoice(
        snapshot_id=parse_snapshot_id("--snapshot", request.snapshot), ref=request.ref
    )
    if choice.count > 1:
        raise UsageError("`--snapshot` and `--ref` cannot be used together")
    if choice.count and request.all_snapshots:
        raise UsageError(
            "`--all-snapshots` cannot be used with `--snapshot` or `--ref`", hint="leave one out"
        )
    sample = read_options(request)["sample"]
    if sample == 0:
        raise UsageError("`--sample`: a sample of 0 checks no file", hint="give 5%, for example")
    if sample is not None and level == "metadata":
        raise UsageError(
            "`--sample` chooses among data files, which level `metadata` does not check"
        )
    return ValidateOptions(
        level=level,
        choice=choice,
        all_snapshots=request.all_snapshots,
        sample=sample,
        rules=RuleChoice(
            _rule_ids("--rule", request.rule or ()), _rule_ids("--skip", request.skip or ())
        ),
    )


def _rule_ids(option: str, texts: Iterable[str]) -> frozenset[str]:
    """Return the rules that an option names. Raises: UsageError, for unknown rules."""
    ids = frozenset(text.strip().upper() for text in texts)
    for id_ in sorted(ids - EVERY_RULE.keys()):
        near = get_close_matches(id_, EVERY_RULE, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "rules are named like `R-066`"
        raise UsageError(f"`{option}`: there is no rule `{id_}`", hint=hint)
    return ids


def validate(reader: Reader, options: ValidateOptions) -> CheckedTable:
    """Check a table as deep as asked.

    If snapshots expire and something is found, the table is checked again as it is then.
    Raises: UsageError for a snapshot that is not there; CorruptTable for metadata that cannot be
    used; StorageError where the store itself fails; CommitConflict, if snapshots go on expiring.
    Cost: every manifest list and manifest of the chosen snapshots once; planning columns of all
    their entries in memory.
    """
    for _ in range(_CHECKS):
        snapshots: Sequence[Snapshot] = reader.metadata.snapshots
        if not options.all_snapshots:
            chosen = chosen_snapshot(reader.metadata, options.choice)
            snapshots = () if chosen is None else (chosen,)
        tally, complete = CheckTally(_kept_rules(options), options.where), True
        try:
            _check(reader, options, snapshots, tally)
        except Incomplete:
            complete = False
        if not tally.findings:
            break
        newest = reader.context.catalog.load(to_show=True)
        before = {entry.metadata_file for entry in reader.metadata.metadata_log}
        is_older = newest.metadata_location in before  # of a caller who publishes the newest
        known = newest.metadata.snapshots_by_id.keys()
        if is_older or {one.snapshot_id for one in snapshots} <= known:
            break
        reader.context.progress.warn("snapshots expired since the table was loaded; checking again")
        reader = replace(reader, loaded=newest)
    else:
        raise CommitConflict("snapshots expire while they are checked", hint="run it again later")
    return CheckedTable(
        table_location=reader.metadata.location,
        level=options.level,
        findings=tuple(tally.findings),
        snapshots_checked=tally.snapshots,
        files_checked=tally.files,
        files_decoded=tally.contents_read if options.level == "data" else 0,
        files_judged=tally.contents_read if options.level == "footers" else 0,
        bytes_read=tally.bytes_read,
        sample=options.sample,
        complete=complete,
        skipped_manifests=len(tally.skipped_manifests),
        skipped_files=tally.skipped_files + sum(tally.skipped_manifests.values()),
    )


def _kept_rules(options: ValidateOptions) -> RuleChoice:
    """Return the rules to report; whether deletes are left over, a part of the files can't tell."""
    if options.where is None:
        return options.rules
    return replace(options.rules, skipped=options.rules.skipped | {"R-111"})


def _check(
    reader: Reader, options: ValidateOptions, snapshots: Sequence[Snapshot], tally: CheckTally
) -> None:
    metadata = reader.metadata
    _check_metadata(reader, tally)
    checked: list[SnapshotsChecked] = []
    for layout in Layout:
        of_layout = [snapshot for snapshot in snapshots if layout_of(snapshot) is layout]
        if of_layout:
            checked.append(check_snapshots_of(layout)(reader, of_layout, tally))
    lists = {id_: listed for part in checked for id_, listed in part.lists.items()}
    tally.add(RULES.findings(ListedChain(metadata, lists)))
    for snapshot in snapshots:
        listed = lists.get(snapshot.snapshot_id)
        if listed is not None and snapshot.parent_snapshot_id not in lists:
            tally.add(lost_rows(reader.context, metadata, snapshot, listed) or ())
    if options.level == "metadata":
        return
    alive = concat([part.live for part in checked])
    chosen = concat([part.chosen for part in checked])
    if options.sample is not None:
        chosen = sample(chosen, options.sample, seed=reader.context.env.new_snapshot_id())
    files = check_files(reader, chosen, snapshots)
    tally.add(_with_layout_ids(metadata, _OF_FILES, files.findings))
    tally.files += files.files
    for part in checked:
        tally.add(part.of_files())
    if options.level not in ("footers", "data"):
        return
    manifests = [manifest for part in checked for manifest in part.manifests()]
    read = check_data(
        reader, manifests, alive, snapshots, part=options.sample, within=options.where,
        by_footers=options.level == "footers", elsewhere=options.elsewhere,
    )  # fmt: skip
    with closing(read):
        for file in read:
            tally.add(_with_layout_ids(metadata, _OF_CONTENTS, file.findings))
            tally.bytes_read += file.bytes_read
            tally.contents_read += file.is_read
    for part in checked:
        tally.add(part.of_contents())


_OF_FILES = {"R-034": "V4-182", "R-063": "V4-182"}
_OF_CONTENTS = {"R-118": "V4-123", "R-119": "V4-123"}
"""The ids in sfc-1 of rules of stored files, and of delete vectors of data files."""


def _with_layout_ids(
    metadata: TableMetadata, ids: Mapping[str, str], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """Yield findings under the rule ids of the table's layout."""
    for item in findings:
        id_ = ids.get(item.rule) if layout_of_table(metadata) is Layout.SFC_1 else None
        breach = Breach(item.message, severity=item.severity)
        yield item if id_ is None else EVERY_RULE[id_].finding(item.subject, breach)


def _check_metadata(reader: Reader, tally: CheckTally) -> None:
    odd = {(oddity.rule, oddity.message): oddity for oddity in reader.metadata.oddities}.values()
    tally.add(finding(item.rule, "metadata", item.message, severity="error") for item in odd)
    location = reader.loaded.metadata_location
    try:
        check_own_version(reader.metadata, location)
    except OtherFile as error:
        broken = finding(error.rule, location, error.reason, severity="error", hint=error.hint)
        tally.add([broken])
    content = reader.context.store.read(location)
    tally.count_file(len(content))
    metadata = reader.metadata
    rules = rules_of_metadata(metadata)
    tally.add(rules.findings(MetadataFile(metadata, read_metadata_json(content))))
    tally.add(rules.findings(CommitBase(metadata)))
    if reader.loaded.capabilities.numbers_versions:
        with suppress(FileNotFoundError):
            hint, version = reader.hinted_version(), reader.loaded.version
            tally.add(check_version_hint(hint, version, metadata.location))
