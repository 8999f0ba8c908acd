"""The search for orphans: where they are looked for, what the table refers to, what is left."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from shlex import quote

import pyarrow.compute as pc

from icectl.catalog.files import load_file
from icectl.catalog.metadata_files import metadata_version
from icectl.catalog.protocol import LoadedTable, check_same_table
from icectl.commands.remove_orphans.purge import PurgePlan, plan_purge
from icectl.commit.output_journal import running
from icectl.entries.files import ListedFiles, below, excluding
from icectl.errors import CorruptTable, MissingFile, Refused, TableNotFound
from icectl.files.metadata_file import read_version_hint
from icectl.format.file_names import VERSION_HINT, named_folders
from icectl.format.locations import is_relative
from icectl.format.metadata import TableMetadata
from icectl.rows.orphan_search import Listing, OrphanSearch
from icectl.storage.identity import SameStore, place_key, real_location
from icectl.storage.location import is_within, join, redacted
from icectl.storage.many_files import ManyFiles
from icectl.storage.open import add_root
from icectl.storage.store import dating_clock_ms
from icectl.table.context import TableContext, open_table
from icectl.table.guard import check_deletable
from icectl.table.known_locations import KnownLocations, file_hashes
from icectl.table.live_file_check import check_resized, missing_statistics
from icectl.table.orphan_verdicts import (
    OrphanPlan,
    OrphanRule,
    OrphanVerdict,
    lone_check_sums,
    orphans_among,
    restrict_to_reviewed,
)
from icectl.table.own_places import OtherTables, own_places
from icectl.table.reachable import References, every_statistics_file
from icectl.table.removed_files import unless_removed
from icectl.table.reviewed import Reviewed
from icectl.units import DURATION_UNITS_MS, print_count, print_duration


@dataclass(frozen=True, slots=True)
class SearchedPlaces:
    """The locations that are listed, none below another, and the bases that they belong to.

    `outside` are bases elsewhere than the table, folders of its files that the caller named. Where
    the table does not own its location (`owns_table`), what is in there counts as outside too.
    """

    table: str
    listed: tuple[str, ...]
    outside: tuple[str, ...] = ()
    owns_table: bool = True


def places_of(loaded: LoadedTable, chosen: Sequence[str], same_store: SameStore) -> SearchedPlaces:
    """Tell what is listed where the caller names locations, and where not: the table's own.

    Raises: Refused, for a location that is neither at nor below the table, nor in a folder that its
    properties name; where none is named and the table does not own its location.
    """
    metadata, owns_table = loaded.metadata, own_places(loaded).has_location
    table = metadata.location.rstrip("/")
    if not chosen and not owns_table:
        raise Refused(
            f"the table's location, {redacted(table)}, does not contain its current metadata file, "
            f"{redacted(loaded.metadata_location)}: the files there may belong to another table",
            hint=f"`--location {quote(table)} --delete-outside` confirms that all files there are "
            "the table's",
            id="location-not-own",
        )
    if not chosen:
        return SearchedPlaces(table, (table,))
    listed, outside = [], []
    for location in chosen:
        inside = same_store.respelled(location, table)
        if inside is None:
            outside.append(_named_folder(metadata, location, same_store))
        listed.append(outside[-1] if inside is None else inside)
    alone: list[str] = []
    for place in sorted(listed):  # a location comes before those below it
        if not any(is_within(place, other) for other in alone):
            alone.append(place)
    return SearchedPlaces(table, tuple(alone), tuple(dict.fromkeys(outside)), owns_table)


def _named_folder(metadata: TableMetadata, location: str, same_store: SameStore) -> str:
    named = named_folders(metadata.location, metadata.properties)
    for folder in named.values():
        respelled = same_store.respelled(location, folder)
        if respelled is not None:
            return respelled
    names = ", ".join(f"`{name}`" for name in named)
    others = f"of {names}" if named else "that its properties name"
    raise Refused(
        f"{redacted(location)} is neither at nor under the table's location, "
        f"{redacted(metadata.location)}, nor a folder {others}",
        hint="name a folder of the table; other files may belong to other tables",
        id="location-outside",
    )


def check_quarantine(quarantine: str, places: SearchedPlaces) -> None:
    """Check that a quarantine and the table lie beside each other.

    Raises: Refused, where it would lie in the table, the table in it, or on other storage.
    """
    for place in (places.table, *places.listed):
        if not SameStore().same_scheme(quarantine, place):
            raise Refused(
                f"the quarantine {redacted(quarantine)} is on other storage than "
                f"{redacted(place)}, and files can only be moved within one",
                hint="choose a quarantine on the table's own storage",
                id="quarantine-place",
            )
        first, second = place_key(quarantine), place_key(place)
        if first.startswith(second) or second.startswith(first):
            raise Refused(
                f"the quarantine {redacted(quarantine)} is at, above or below {redacted(place)}",
                hint="choose a quarantine outside all tables",
                id="quarantine-place",
            )


COMMAND = "remove-orphans"
LEAST_AGE_MS = DURATION_UNITS_MS["d"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanOptions:
    """What the caller asks for; `older_than` is the limit of age, given what time it is.

    What was moved to the quarantine `purge_after_ms` ago is deleted, if that is given.

    No other files go than a plan names that was reviewed, where there is one (`only`). `engine` is
    what reports call the search.
    """

    older_than: Callable[[int], int]
    locations: Sequence[str] = ()
    same_store: SameStore = field(default_factory=SameStore)
    ignore_mismatch: bool = False
    max_fraction: float = 0.5
    allow_recent: bool = False
    trusts_lists: bool = False
    delete_outside: bool = False
    quarantine: str | None = None
    purge_after_ms: int | None = None
    only: Reviewed | None = None
    engine: str = "local"


@dataclass(frozen=True, slots=True)
class PreparedRemoval:
    """A plan, and what it was made from; `references` grows when the table does.

    `purge` is None if the quarantine is not to be purged.
    """

    loaded: LoadedTable
    options: OrphanOptions
    places: SearchedPlaces
    plan: OrphanPlan
    references: References
    purge: PurgePlan | None = None

    @property
    def doomed(self) -> Sequence[ManyFiles]:
        """The files that a run deletes or moves."""
        return [self.plan.orphans, *([self.plan.outside] if self.plan.deletes_outside else [])]

    def gone(self) -> Iterator[ListedFiles]:
        """Yield the files that a run deletes or moves, and those that it purges."""
        purged = [] if self.purge is None else [self.purge.files]
        return chain.from_iterable([*self.doomed, *purged])


def prepare(context: TableContext, search: OrphanSearch, options: OrphanOptions) -> PreparedRemoval:
    """List files, then load the table and find those that it does not refer to.

    The listing comes first, so that concurrent commits are referred to (R-191); the table
    is looked at before it too, so that a refusal does not take as long as a listing.
    Raises: Refused, where files must not be deleted; StorageError, CorruptTable, where what the
    table refers to cannot be read completely.
    """
    before = open_deletable(context)
    for place in options.locations:
        add_root(context.store, place)
    places = places_of(before, options.locations, options.same_store)
    for name, folder in named_folders(places.table, before.metadata.properties).items():
        is_listed = any(is_within(place, folder) for place in places.outside)
        if not is_listed and not is_within(folder, places.table):
            context.progress.warn(
                f"`{name}` is {redacted(folder)}, outside the table's location: icectl searches "
                "it for orphans only if `--location` names it"
            )
    older_than_ms = _limit(context, options, places)
    if options.quarantine is not None:
        check_quarantine(options.quarantine, places)
    others = OtherTables(context)
    context.progress.phase("searching for other tables")
    folders = [*places.listed, *filter(None, [options.quarantine])]
    others.check_above(before, folders)
    others.check_catalog(folders)
    context.deadline.check()
    with search.list(places.listed) as listing:
        loaded = open_deletable(context)
        check_same_place(before, loaded)
        others.check(loaded, listing.metadata_files)
        others.check_newest(loaded)
        listed = listing.files()
        references = _read_references(context, loaded, options, places, listing, listed)
        # Two sets of all files would be twice the memory.
        statistics = every_statistics_file(loaded.metadata).table
        listed = listed.among(file_hashes(statistics["location"], statistics["size_bytes"]))
        _add_forks(context, references, others.forks(loaded))
        _add_from_hint(context, references, loaded, tuple(others.accepted))
        specs = loaded.metadata.partition_specs
        names = tuple(dict.fromkeys(field.name for spec in specs for field in spec.fields))
        outputs = running(context.store, context.env, loaded)
        rule = OrphanRule(older_than_ms, (places.table, *places.outside), names, outputs)
        plan = _plan(context, options, places, listing, references, rule)
        plan = replace(plan, former_metadata=tuple(others.accepted))
    purge = _purge(context, options, loaded, references)
    if options.only is not None:
        plan = restrict_to_reviewed(plan, options.only)
        purge = None if purge is None else purge.restricted(options.only)
    prepared = PreparedRemoval(loaded, options, places, plan, references, purge)
    doomed = chain.from_iterable(prepared.doomed)
    check_resized(context, loaded.metadata, references.resized, references.rewritten, doomed)
    _check_statistics(context, prepared, listed)
    _check_snapshots(prepared)
    return prepared


_LIST_NAME = r"(?:snap|root)-(?P<id>[0-9]+)[-.][^/]*$"
"""How all writers name manifest lists and roots."""


def _check_snapshots(prepared: PreparedRemoval) -> None:
    """Raise CorruptTable R-026 where the list of a snapshot would go that only the log names.

    Writers cut the log when snapshots expire: the metadata has lost the snapshot.
    """
    metadata = prepared.loaded.metadata
    known = metadata.snapshots_by_id
    gone = {one.snapshot_id for one in metadata.snapshot_log if one.snapshot_id not in known}
    if not gone:
        return
    for part in prepared.gone():
        stored = part.table["location"]
        names = stored.filter(pc.match_substring_regex(stored, _LIST_NAME))
        ids = pc.struct_field(pc.extract_regex(names, _LIST_NAME), "id").to_pylist()
        for location, text in zip(names.to_pylist(), ids, strict=True):
            if int(text) in gone:
                raise CorruptTable(
                    f"the snapshot log names snapshot {text}, which the metadata does not have; "
                    f"`{redacted(location)}`, which would be deleted, is its list",
                    rule="R-026",
                    hint="restore the metadata file from a copy; if the snapshot has expired, "
                    f"`icectl expire-snapshots {quote(metadata.location)}` cuts the log once "
                    "another snapshot expires",
                )


def _check_statistics(
    context: TableContext, prepared: PreparedRemoval, listed: KnownLocations
) -> None:
    """Warn of statistics files that are missing. Raises: CorruptTable R-140; StorageError."""
    metadata = prepared.loaded.metadata
    named, places = every_statistics_file(metadata), prepared.places.listed
    missing = missing_statistics(context, metadata, named, places, listed, prepared.gone())
    if missing:
        others = f" and {len(missing) - 1:,} more are" if len(missing) > 1 else " is"
        context.progress.warn(
            f"statistics file {redacted(missing[0])}{others} missing, and nothing to delete has "
            f"its size; `icectl repair {quote(metadata.location)}` removes the entry (R-140)"
        )


def _purge(
    context: TableContext, options: OrphanOptions, loaded: LoadedTable, references: References
) -> PurgePlan | None:
    """Plan to purge the quarantine, if that is asked for."""
    quarantine = options.quarantine
    if quarantine is None or options.purge_after_ms is None:
        return None
    context.progress.phase("searching the quarantine")
    add_root(context.store, quarantine)
    now_ms = min(context.env.now_ms(), dating_clock_ms(context.store, context.env, quarantine))
    older_than_ms = now_ms - options.purge_after_ms
    return plan_purge(context, loaded, quarantine, older_than_ms, references)


def open_deletable(context: TableContext) -> LoadedTable:
    """Return the table as it is now. Raises: Refused, where its files must not be deleted."""
    loaded = open_table(context.catalog)
    check_deletable(context.catalog, loaded, context.env.now_ms())
    return loaded


def check_same_place(before: LoadedTable, loaded: LoadedTable) -> None:
    """Check that a table is the same one, whose files are where they were. Raises: Refused."""
    check_same_table(before, loaded.metadata)
    if before.metadata.location != loaded.metadata.location:
        message = f"the table's location has changed to {loaded.metadata.location}"
        raise Refused(message, hint="run the command again")


def _limit(context: TableContext, options: OrphanOptions, places: SearchedPlaces) -> int:
    """Return the instant before which files are old, by the clock that dates them.

    Or by this machine's, if that is earlier: something on the way may have dated the answers.
    """
    clocks_ms = [dating_clock_ms(context.store, context.env, place) for place in places.listed]
    now_ms = min(context.env.now_ms(), *clocks_ms)
    limit_ms = options.older_than(now_ms)
    if not options.allow_recent:
        check_age(now_ms - limit_ms)
    return limit_ms


def check_age(age_ms: int) -> None:
    """Check that files of this age cannot belong to a commit in progress. Raises: Refused."""
    if age_ms < LEAST_AGE_MS:
        raise Refused(
            f"files that are only {print_duration(age_ms)} old may belong to a commit in progress",
            hint="give an `--older-than` of at least 24h; use `--allow-recent` only if no other "
            "writer is active",
            id="too-recent",
        )


def _read_references(
    context: TableContext,
    loaded: LoadedTable,
    options: OrphanOptions,
    places: SearchedPlaces,
    listing: Listing,
    locations: KnownLocations,
) -> References:
    purged = [] if options.purge_after_ms is None else [options.quarantine]
    listed = [*places.listed, *filter(None, purged)]
    references = References(context, listed, options.same_store)
    with unless_removed(context):
        references.add(loaded, locations, trusted=options.trusts_lists)
    references.add_files([real_location(link) for link in listing.links])
    if references.doubtful and not options.ignore_mismatch:
        location = next(iter(references.doubtful.values()))
        why = "it is relative" if is_relative(location) else "scheme or authority differ"
        raise Refused(
            f"the metadata names {redacted(location)}, which may or may not be a file in "
            f"{redacted(places.listed[0])}: {why}",
            hint="`--equal-scheme A=B` or `--equal-authority A=B` treats both as one store; "
            "`--prefix-mismatch ignore` continues, and keeps every file whose path is named",
            id="prefix-mismatch",
        )
    return references


def _add_forks(context: TableContext, references: References, forks: Sequence[str]) -> None:
    """Keep what metadata files name that are no versions of the table, but may be some elsewhere.

    What only a commit that failed has written is kept so too, until the log has gone past it.
    """
    for location in forks:
        try:
            fork = load_file(context.store, location)
        except (TableNotFound, CorruptTable):  # no catalog can use it
            continue
        try:
            if not _is_added(references, fork):
                # Expiries of one table delete files that both name.
                for snapshots in ((), *((one,) for one in references.unread(fork.metadata))):
                    part = replace(fork.metadata, snapshots=snapshots)
                    _is_added(references, replace(fork, metadata=part))
        except CorruptTable as error:
            raise Refused(
                f"another catalog may use {redacted(location)}, and a file that it names cannot be "
                f"read: {error.message}",
                hint="move it away if it is left over from a failed commit",
                id="unreadable-fork",
            ) from error
    if forks:
        more = f" and {len(forks) - 1:,} more are" if len(forks) > 1 else " is"
        context.progress.warn(
            f"{redacted(forks[-1])}{more} no version of this table: what they name stays; move "
            "them away if they are left over from failed commits"
        )


def _is_added(references: References, loaded: LoadedTable) -> bool:
    """Add a table; return false if a file that it names is missing."""
    try:
        references.add(loaded, trusted=True)
    except MissingFile:
        return False
    return True


def _add_from_hint(
    context: TableContext, references: References, loaded: LoadedTable, own: Sequence[str]
) -> None:
    """Keep versions from that of the hint on: readers go from one to the next (R-163)."""
    passed = versions_from_hint(context, loaded, own)
    references.add_files(passed)
    if passed:
        context.progress.warn(
            f"{VERSION_HINT} is behind: {print_count(len(passed), 'metadata file')} stay for "
            f"readers that begin there; `icectl repair {quote(loaded.metadata.location)}` corrects "
            "it"
        )


def versions_from_hint(
    context: TableContext, loaded: LoadedTable, own: Sequence[str]
) -> Sequence[str]:
    """Return those of a table's own metadata files that are not older than the version hint."""
    if not loaded.capabilities.numbers_versions:
        return ()
    try:
        content = context.store.read(join(loaded.metadata_folder, VERSION_HINT))
    except FileNotFoundError:
        return ()
    hint = read_version_hint(content)
    return [
        place
        for place in own
        if isinstance(hint, int) and (metadata_version(place).version or -1) >= hint
    ]


def _plan(
    context: TableContext,
    options: OrphanOptions,
    places: SearchedPlaces,
    listing: Listing,
    references: References,
    rule: OrphanRule,
) -> OrphanPlan:
    context.progress.phase("comparing", total=listing.file_count)
    unreached = listing.unreached(references.known, rule)
    unneeded, left_alone = orphans_among(unreached, references.reach)
    check_sums = [
        check_sum
        for check_sum, file in lone_check_sums(unneeded)
        if context.store.stat(file) is not None
    ]
    left_alone[OrphanVerdict.RECENT] += len(check_sums)  # with the file that each belongs to
    own = (places.table,) if places.owns_table else ()
    orphans, outside = ManyFiles(), ManyFiles()
    for part in unneeded:
        inside, beyond = below(excluding(part, check_sums), own)
        orphans.add(inside)
        outside.add(beyond)
    return OrphanPlan(
        rule=rule,
        listed_count=listing.file_count,
        listed_bytes=listing.total_bytes,
        referenced_count=len(references.known),
        orphans=orphans,
        outside=outside,
        left_alone=left_alone,
        deletes_outside=options.delete_outside,
        max_fraction=options.max_fraction,
    )
