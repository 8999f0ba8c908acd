"""Running `validate`: read the chosen part of a table once, and hand it to the checks."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from icectl.checks.choice import Level, RuleChoice
from icectl.checks.finding import Finding, finding
from icectl.checks.metadata import check_metadata
from icectl.checks.schemas import check_schemas
from icectl.checks.sfc1.metadata import check_tree_metadata, named
from icectl.checks.snapshots import check_snapshots
from icectl.codec.metadata_file import read_members
from icectl.entries.rows import concat, sample
from icectl.errors import Incomplete
from icectl.plan.snapshot_choice import SnapshotChoice, chosen_snapshot
from icectl.run.reader import Reader
from icectl.run.validate.data import HowToCheck, RemoteReaders, check_data
from icectl.run.validate.files import check_files
from icectl.run.validate.found import CheckTally, SnapshotsChecked, check_snapshots_of
from icectl.spec.layout import Layout, layout_of
from icectl.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """The options of a check: how deep to look, at which snapshots and files, for which rules.

    Without a choice the current snapshot is checked; `sample` None looks at every file, else at
    that part of the content files. `elsewhere` is where files are read, if not here.
    """

    level: Level
    choice: SnapshotChoice
    all_snapshots: bool
    sample: float | None
    rules: RuleChoice
    elsewhere: RemoteReaders | None = None


@dataclass(frozen=True, slots=True)
class Validation:
    """The findings, and how much was looked at; `complete` is false after the time limit.

    `files_decoded` were read row by row, `files_judged` by their footers.
    """

    findings: tuple[Finding, ...]
    snapshots_checked: int
    files_checked: int
    files_decoded: int
    files_judged: int
    bytes_read: int
    complete: bool


def validate(reader: Reader, options: ValidateOptions) -> Validation:
    """Check a table as deep as asked.

    Raises: UsageError for a snapshot that is not there; CorruptTable for metadata that cannot be
    used; StorageError where the store itself fails.
    Cost: every manifest list and manifest of the chosen snapshots once; planning columns of all
    their entries in memory.
    """
    snapshots = _snapshots(reader, options)
    found = CheckTally(options.rules)
    try:
        _check(reader, options, snapshots, found)
    except Incomplete:
        complete = False
    else:
        complete = True
    return Validation(
        findings=tuple(found.findings),
        snapshots_checked=found.snapshots,
        files_checked=found.files,
        files_decoded=found.contents_read if options.level == "data" else 0,
        files_judged=found.contents_read if options.level == "footers" else 0,
        bytes_read=found.bytes_read,
        complete=complete,
    )


def _snapshots(reader: Reader, options: ValidateOptions) -> Sequence[Snapshot]:
    if options.all_snapshots:
        return reader.metadata.snapshots
    chosen = chosen_snapshot(reader.metadata, options.choice)
    return () if chosen is None else (chosen,)


def _check(
    reader: Reader, options: ValidateOptions, snapshots: Sequence[Snapshot], found: CheckTally
) -> None:
    metadata = reader.metadata
    _check_metadata(reader, found)
    checked: list[SnapshotsChecked] = []
    for layout in Layout:
        own = [snapshot for snapshot in snapshots if layout_of(snapshot) is layout]
        if own:
            checked.append(check_snapshots_of(layout)(reader, own, found))
    if options.level == "metadata":
        return
    alive = concat([one.live for one in checked])
    chosen = alive
    if options.sample is not None:
        chosen = sample(alive, options.sample, seed=reader.env.new_snapshot_id())
    files = check_files(reader, chosen, snapshots)
    found.add(named(metadata, "files", files.findings))
    found.files += files.files
    for one in checked:
        found.add(one.of_files())
    if options.level not in ("footers", "data"):
        return
    manifests = [manifest for one in checked for manifest in one.manifests()]
    how = HowToCheck(options.sample, options.level == "footers", options.elsewhere)
    read = check_data(reader, manifests, alive, snapshots, how)
    with closing(read):
        for file in read:
            found.add(named(metadata, "contents", file.findings))
            found.bytes_read += file.bytes_read
            found.contents_read += file.is_read
    for one in checked:
        found.add(one.of_contents())


def _check_metadata(reader: Reader, found: CheckTally) -> None:
    odd = {(one.rule, one.message): one for one in reader.metadata.oddities}.values()
    found.add(finding(one.rule, "metadata", one.message, severity="error") for one in odd)
    content = reader.store.read(reader.loaded.metadata_location)
    found.count_file(len(content))
    metadata = reader.metadata
    members = read_members(content)
    for findings in (
        check_metadata(metadata, members), check_schemas(metadata), check_snapshots(metadata),
    ):  # fmt: skip
        found.add(named(metadata, "metadata", findings))
    found.add(check_tree_metadata(metadata, members))
