"""What `icectl remove-orphans` would do to a table, as far as its metadata folder shows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from icectl.cli.settings import (
    ORPHANS_OLDER_THAN,
    ORPHANS_PURGE_AFTER,
    ORPHANS_QUARANTINE,
    Settings,
)
from icectl.commands.bill import Work
from icectl.commands.remove_orphans.options import OrphansRequest
from icectl.commands.sight import Sight
from icectl.commands.steps import HealthCheck, Judgement, Limit, Measure, Step, first_error
from icectl.errors import UsageError
from icectl.format.file_names import parse_metadata_file_name
from icectl.format.properties import last_orphan_scan_ms
from icectl.storage import location as locations
from icectl.storage.identity import SameStore
from icectl.storage.store import FileStatus
from icectl.table.guard import check_deletable
from icectl.table.own_places import OtherTables
from icectl.units import parse_instant, print_count, print_duration, print_size

COMMAND = "remove-orphans"

_FILES_OF_LISTING = 1000
"""Files that a store lists by one request."""


def check_purge_options(settings: Settings) -> None:
    """Raises: UsageError, where there is no quarantine to purge."""
    if settings.read(ORPHANS_PURGE_AFTER) is not None and settings.read(ORPHANS_QUARANTINE) is None:
        origin = settings.origin(ORPHANS_PURGE_AFTER).name
        raise UsageError(f"{origin} needs a quarantine", hint="name it with `--quarantine URI`")


@dataclass(frozen=True, slots=True)
class MetadataFileFigures:
    """The metadata files in the folder of the current one; `old` untracked ones can be removed."""

    count: int = 0
    size_bytes: int = 0
    logged: int = 0
    untracked: int = 0
    old: int = 0
    old_bytes: int = 0


def plan(sight: Sight, request: OrphansRequest) -> Judgement:  # noqa: ARG001 - as all steps
    """Look for metadata files that nothing refers to, and at when orphans were last looked for.

    Data files are not looked for: that takes a listing of all.
    """
    metadata, loaded, now_ms = sight.metadata, sight.reader.loaded, sight.now_ms
    limit_ms = parse_instant(sight.settings.read(ORPHANS_OLDER_THAN), now_ms)
    logged = [entry.metadata_file for entry in metadata.metadata_log]
    tracked = {locations.loosest_key(item) for item in (loaded.metadata_location, *logged)}
    files = [
        status
        for status in sight.listed
        if parse_metadata_file_name(locations.name(status.location)) is not None
    ]
    untracked = [file for file in files if locations.loosest_key(file.location) not in tracked]
    old = [
        file for file in untracked if file.modified_ms is not None and file.modified_ms < limit_ms
    ]
    context, others = sight.reader.context, OtherTables(sight.reader.context)
    checks = [lambda: check_deletable(context.catalog, loaded, now_ms)]
    if old and sight.is_exact:
        checks.append(lambda: _check_place(sight, others, untracked, now_ms - limit_ms))
    error = first_error(*checks)
    if len(checks) > 1 and error is None:
        stay = _kept(sight, others)
        old = [file for file in old if file.location not in stay]
    figures = MetadataFileFigures(
        len(files),
        sum(file.size_bytes for file in files),
        len(logged),
        len(untracked),
        len(old),
        sum(file.size_bytes for file in old),
    )
    last_ms = last_orphan_scan_ms(metadata.properties, now_ms)
    age_ms = now_ms - (last_ms or 0)
    last = "never searched"
    if last_ms is not None:
        last = f"last searched {print_duration(max(age_ms, 1))} ago"
    measures = [Measure("every", age_ms, last)]
    if old:
        text = f"{print_count(len(old), 'metadata file')} not in the log"
        measures.append(Measure("untracked-metadata-files", len(old), text))
    # Files that nothing refers to are not known before a listing: they come to these.
    listings = 1 + (len(files) + sight.totals.data_file_count) // _FILES_OF_LISTING
    work = replace(sight.run_work, written_bytes=0, put_requests=0) + sight.history_work
    work += Work(put_requests=listings, freed_files=figures.old, freed_bytes=figures.old_bytes)
    return Judgement(figures, tuple(measures), figures.old_bytes, error, work=work)


def _check_place(
    sight: Sight, others: OtherTables, untracked: Sequence[FileStatus], age_ms: int
) -> None:
    """Refuse as the command does, as far as metadata files show. Raises: Refused; StorageError."""
    from icectl.commands.remove_orphans import search  # only where there is work

    loaded = sight.reader.loaded
    search.check_age(age_ms)
    others.check_above(loaded, [search.places_of(loaded, (), SameStore()).table])
    others.check(loaded, [file.location for file in untracked])
    others.check_newest(loaded)


def _kept(sight: Sight, others: OtherTables) -> Collection[str]:
    """Return the metadata files that are not in the log, and that the command keeps."""
    from icectl.commands.remove_orphans.search import versions_from_hint

    context, loaded = sight.reader.context, sight.reader.loaded
    passed = versions_from_hint(context, loaded, tuple(others.accepted))
    return {*others.forks(loaded), *passed}


def _found(figures: MetadataFileFigures) -> str:
    files = print_count(figures.count, "metadata file")
    text = f"{files}, {print_size(figures.size_bytes)}"
    text = f"{text}; {figures.untracked:,} not in the metadata log"
    return f"{text}, {figures.old:,} of them old enough to remove" if figures.untracked else text


def _members(figures: MetadataFileFigures) -> Mapping[str, object]:
    return {
        "metadata_file_count": figures.count,
        "metadata_file_bytes": figures.size_bytes,
        "metadata_log_length": figures.logged,
        "untracked_metadata_file_count": figures.untracked,
    }


_LIMIT = Limit(
    "untracked-metadata-files",
    "files not in the log",
    "search if the log lacks N metadata files or more",
)
_CHECK = HealthCheck("metadata_file_debt", "metadata files", (_LIMIT.name,), _found, _members)

STEP: Step = Step(
    COMMAND,
    OrphansRequest,
    lambda settings, _now_ms, _request: check_purge_options(settings),
    plan,
    MetadataFileFigures(),
    (_LIMIT,),
    (_CHECK,),
    deletes=True,
    not_in_policies={
        "older-than": None, "allow-recent": "remove-orphans.older-than", "leftover-uuid": None,
        "location": None, "inventory": None,
    },
)  # fmt: skip
