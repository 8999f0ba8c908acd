"""Running `validate`: read the chosen part of a table once, and hand it to the checks."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from icectl.codec.metadata_file import read_members
from icectl.entries.inherit import inherit
from icectl.entries.live_faults import live_faults
from icectl.entries.rows import Entries, RawEntries, concat, live, numbered, planning, sample
from icectl.errors import CorruptTable, Incomplete, MissingFile
from icectl.plan.model import Finding
from icectl.plan.sfc1.validate_manifests import files_of_version_4, vectors_of_version_4
from icectl.plan.sfc1.validate_metadata import as_version_4, check_tree_metadata
from icectl.plan.snapshot_choice import SnapshotChoice, chosen_snapshot
from icectl.plan.validate.choice import Level, RuleChoice
from icectl.plan.validate.entries import CHECKED_COLUMNS, check_entries, types_of_bounds
from icectl.plan.validate.finding import READ_AGAIN, finding
from icectl.plan.validate.live_entries import check_live_entries, roots
from icectl.plan.validate.manifest_lists import check_manifest_list
from icectl.plan.validate.manifests import check_manifest
from icectl.plan.validate.metadata import check_metadata
from icectl.plan.validate.schemas import check_schemas
from icectl.plan.validate.snapshots import check_snapshots
from icectl.run.reader import Reader
from icectl.run.sfc1.validate import NO_TREES, check_trees
from icectl.run.sfc1.validate_vectors import check_replaced
from icectl.run.validate_data import check_data
from icectl.run.validate_files import check_files, check_gone
from icectl.run.validate_found import Found
from icectl.spec.manifest import ManifestFile
from icectl.spec.snapshot import Snapshot
from icectl.table.manifest_lists import ManifestListRead, distinct_manifests, try_manifest_lists
from icectl.table.manifests import try_manifests
from icectl.table.reading import Problem


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """How deep to look, at which snapshots, at which part of the content files, for which rules.

    Without a choice the current snapshot is checked; `sample` None looks at every file.
    """

    level: Level
    choice: SnapshotChoice
    all_snapshots: bool
    sample: float | None
    rules: RuleChoice


@dataclass(frozen=True, slots=True)
class Validation:
    """What was found, and how much was looked at; `complete` is false after the time limit.

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
    found = Found(options.rules)
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
    reader: Reader, options: ValidateOptions, snapshots: Sequence[Snapshot], found: Found
) -> None:
    _check_metadata(reader, found)
    rooted = [snapshot for snapshot in snapshots if snapshot.root_manifest is not None]
    older = [snapshot for snapshot in snapshots if snapshot.root_manifest is None]
    lists = _check_lists(reader, older, found)
    described = _described(lists)
    entries, numbers = _check_manifests(reader, described, found)
    _check_snapshots(reader, lists, entries, numbers, found)
    trees = check_trees(reader, rooted, found) if rooted else NO_TREES
    if options.level == "metadata":
        return
    alive = concat([planning(live(entries)), planning(trees.live)])
    chosen = alive
    if options.sample is not None:
        chosen = sample(alive, options.sample, seed=reader.env.new_snapshot_id())
    checked = check_files(reader, chosen, snapshots)
    is_tree = reader.metadata.format_version >= 4
    found.add(files_of_version_4(checked.findings) if is_tree else checked.findings)
    found.files += checked.files
    found.add(check_gone(reader, trees.gone))
    if options.level in ("footers", "data"):
        manifests = [rows[0] for rows in described.values()]
        manifests += _leaves(reader, rooted)
        by_footers = options.level == "footers"
        read = check_data(
            reader, manifests, alive, snapshots, options.sample, by_footers=by_footers
        )
        with closing(read):
            for file in read:
                found.add(vectors_of_version_4(file.findings) if is_tree else file.findings)
                found.bytes_read += file.bytes_read
                found.contents_read += file.is_read
        found.add(check_replaced(reader.store, trees.replaced))


def _leaves(reader: Reader, snapshots: Sequence[Snapshot]) -> Sequence[ManifestFile]:
    """The leaves of snapshots, as far as their roots can be read."""
    read = try_manifest_lists(
        reader.store,
        reader.metadata,
        snapshots,
        concurrency=reader.concurrency,
        progress=reader.progress,
    )
    with closing(read):
        return distinct_manifests([listed.manifests for listed in read])


def _check_metadata(reader: Reader, found: Found) -> None:
    odd = {(one.rule, one.message): one for one in reader.metadata.oddities}.values()
    found.add(finding(one.rule, "metadata", one.message, severity="error") for one in odd)
    content = reader.store.read(reader.loaded.metadata_location)
    found.count_file(len(content))
    metadata = reader.metadata
    members = read_members(content)
    for findings in (
        check_metadata(metadata, members), check_schemas(metadata), check_snapshots(metadata),
    ):  # fmt: skip
        found.add(as_version_4(findings) if metadata.format_version >= 4 else findings)
    found.add(check_tree_metadata(metadata, members))


def _check_lists(
    reader: Reader, snapshots: Sequence[Snapshot], found: Found
) -> Sequence[ManifestListRead]:
    """Read what the snapshots list. Order: theirs."""
    lists = []
    metadata = reader.metadata
    read = try_manifest_lists(
        reader.store,
        metadata,
        snapshots,
        concurrency=reader.concurrency,
        progress=reader.progress,
    )
    with closing(read):
        for listed in read:
            reader.deadline.check()
            found.snapshots += 1
            found.count_file(listed.size_bytes)
            found.add(_of_list(reader, *problem) for problem in listed.problems)
            found.add(
                check_manifest_list(metadata, listed.snapshot, listed.properties, listed.manifests)
            )
            lists.append(listed)
    return lists


def _of_list(reader: Reader, location: str, problem: Problem) -> Finding:
    """What is wrong with a manifest list; in version 4 a root may stand there."""
    is_tree = reader.metadata.format_version >= 4 and type(problem) is CorruptTable
    if is_tree and reader.store.read_range(location, 0, 4) == b"PAR1":  # V4-035
        message = "it is a Parquet file, where a snapshot names a manifest list"
        return finding("V4-035", location, message, severity="error")
    return _unreadable(location, problem)


def _described(lists: Iterable[ManifestListRead]) -> Mapping[str, Sequence[ManifestFile]]:
    """The distinct rows of manifest lists by the manifest that they describe."""
    rows: dict[str, dict[ManifestFile, None]] = {}
    for listed in lists:
        for manifest in listed.manifests:
            rows.setdefault(manifest.manifest_path, {})[manifest] = None
    return {location: tuple(distinct) for location, distinct in rows.items()}


def _check_manifests(
    reader: Reader, described: Mapping[str, Sequence[ManifestFile]], found: Found
) -> tuple[Entries, Mapping[str, int | None]]:
    """Read every manifest once.

    First: the planning columns of all entries; their `manifest` is the number of the manifest.
    Second: the number of each manifest, None where it could not be read.
    """
    metadata = reader.metadata
    manifests = [rows[0] for rows in described.values()]
    types = types_of_bounds(metadata)
    parts: list[Entries] = []
    numbers: dict[str, int | None] = dict.fromkeys(described)
    read = try_manifests(
        reader.store,
        metadata,
        manifests,
        columns=CHECKED_COLUMNS,
        concurrency=reader.concurrency,
        progress=reader.progress,
    )
    with closing(read):
        for one in read:
            reader.deadline.check()
            manifest = manifests[one.index]
            found.count_file(one.size_bytes)
            if one.problem is not None or one.size_bytes is None:
                found.add([_unreadable(manifest.manifest_path, one.problem)])
                continue
            header, rows = one.content
            rows_of_lists = described[manifest.manifest_path]
            found.add(check_manifest(metadata, rows_of_lists, header, one.size_bytes, rows))
            faults = tuple(check_entries(metadata, manifest, header, rows, types))
            found.add(faults)
            try:
                parts.append(_inherited(rows, manifest, one.index))
            except CorruptTable as error:
                if error.rule not in {fault.rule for fault in faults}:
                    found.add([_unreadable(manifest.manifest_path, error)])
            else:
                numbers[manifest.manifest_path] = one.index
    return concat(parts), numbers


def _inherited(rows: RawEntries, manifest: ManifestFile, number: int) -> Entries:
    """The planning columns of a manifest's entries. Raises: CorruptTable where none inherits."""
    return numbered(inherit(numbered(planning(rows), 0), [manifest]), number)


def _check_snapshots(
    reader: Reader,
    lists: Sequence[ManifestListRead],
    entries: Entries,
    numbers: Mapping[str, int | None],
    found: Found,
) -> None:
    metadata = reader.metadata
    faults = live_faults(entries, len(numbers), roots(metadata))
    reader.progress.phase("checking snapshots", total=len(lists))
    for listed in lists:
        reader.deadline.check()
        known = [numbers[manifest.manifest_path] for manifest in listed.manifests]
        chosen = [number for number in known if number is not None]
        is_whole = not listed.problems and len(chosen) == len(known)
        found.add(check_live_entries(metadata, listed.snapshot, chosen, faults, is_whole=is_whole))
        reader.progress.advance(1)


def _unreadable(location: str, problem: Problem | None) -> Finding:
    """A file that cannot be read: by the rule that its content breaks, or as missing (R-034)."""
    if isinstance(problem, MissingFile):
        return finding("R-034", location, "the file is missing")
    if isinstance(problem, CorruptTable):
        message = problem.message.removesuffix(f" ({problem.rule})")
        told = message.removeprefix(f"`{location}`: ")
        return finding(problem.rule, location, f"it cannot be read: {told}", severity="error")
    told = "" if problem is None else problem.message.removeprefix(f"`{location}`: ")
    return finding("R-034", location, f"it cannot be read: {told}", hint=READ_AGAIN)
