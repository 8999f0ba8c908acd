"""Repairing what leads to the current metadata: a truncated newest file, and the version hint."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from icectl.catalog.files import FILE_SYSTEM, FileSystemCatalog
from icectl.catalog.metadata_files import (
    COMMIT_TAKES_MS,
    METADATA_FOLDER,
    MetadataVersion,
    check_own_version,
    check_place,
    doubled_versions,
    is_file_system_table,
    list_versions,
    loaded_from,
    newer_than,
    read_file,
    without_uncommitted,
)
from icectl.catalog.protocol import LoadedTable, unpinned_catalog
from icectl.commands.repair.plan import Fix
from icectl.errors import CommitConflict, CorruptTable, OtherFile, Refused, StorageError
from icectl.files.metadata_file import read_version_hint
from icectl.format.file_names import VERSION_HINT
from icectl.storage import location as locations
from icectl.storage.store import dating_clock_ms
from icectl.table.context import TableContext, open_table
from icectl.table.recovery import newest_whole_metadata
from icectl.units import print_duration


@dataclass(frozen=True, slots=True)
class WholeTable:
    """The table as its newest whole metadata file has it, and what stands in the way of that.

    `broken` is the newer file that cannot be read, `aside` where it goes, `hint` what the version
    hint should say. While that `is_ahead` of the files, no commit is safe.
    """

    loaded: LoadedTable
    fixes: tuple[Fix, ...] = ()
    broken: MetadataVersion | None = None
    aside: str | None = None
    hint: bytes | None = None
    is_ahead: bool = False


def find(context: TableContext) -> WholeTable:
    """Load the newest metadata file that is whole.

    Raises: CorruptTable, where the newest one is broken and nothing proves that the one before it
    may take its place; Refused, with the way out; what loading a table raises.
    """
    try:
        loaded = open_table(context.catalog)
        check_own_version(loaded.metadata, loaded.metadata_location)
    except CorruptTable as error:
        whole = _before_a_broken_one(context, error)
    else:
        whole = WholeTable(loaded)
    return _with_hint(context, whole)


def _before_a_broken_one(context: TableContext, error: CorruptTable) -> WholeTable:
    """Return the table by the file before a truncated or unreadable one."""
    catalog = unpinned_catalog(context.catalog)
    is_other = isinstance(error, OtherFile)
    is_lost = is_other or error.rule in ("R-005", "R-006")
    if not isinstance(catalog, FileSystemCatalog) or not is_lost:
        raise error
    folder = locations.join(catalog.table_location, METADATA_FOLDER)
    listed = list_versions(context.store, folder)
    versions = without_uncommitted(listed)
    broken = _newest(versions)
    if broken is None or not is_file_system_table(listed) or doubled_versions(versions):
        raise error
    try:
        check_own_version(read_file(context.store, broken.location), broken.location)
    except CorruptTable:
        whole = newest_whole_metadata(context.store, versions, broken.location)
    else:
        raise error
    if whole is None:
        raise error
    assert broken.version is not None  # is_file_system_table
    if whole.version.version != broken.version - 1:
        raise CorruptTable(
            error.what,
            rule=error.rule,
            hint=f"the newest complete metadata file is {whole.version.name}, and those after "
            "it are broken or gone: restore them from a copy, or move the broken ones out of "
            "the directory if that version is meant",
        ) from error
    now_ms = dating_clock_ms(context.store, context.env, broken.location)
    if broken.modified_ms is None or now_ms - broken.modified_ms < COMMIT_TAKES_MS:
        raise Refused(
            f"cannot read {broken.name}, and it is recent: a writer may be writing it",
            hint="run the command again once it is "
            f"{print_duration(COMMIT_TAKES_MS)} old; it is kept until then",
        )
    loaded = loaded_from(whole.metadata, whole.version.location, FILE_SYSTEM)
    check_place(context.store, catalog.table_location, loaded)
    aside = locations.join(
        loaded.metadata_folder, f"_broken-{broken.name}-{context.env.new_uuid()[:8]}"
    )
    why = "is another version" if is_other else "cannot be read"
    fix = Fix(
        "metadata-file",
        None,
        broken.location,
        f"move it aside, to {locations.name(aside)}; {whole.version.name} is current again",
        f"it {why}, {whole.version.name} before it is complete, and no newer file exists; "
        "the changes of its commit are lost unless a copy exists",
    )
    return WholeTable(loaded, (fix,), broken, aside)


def _with_hint(context: TableContext, whole: WholeTable) -> WholeTable:
    """Add the correct version hint, if the stored one differs (R-163)."""
    loaded = whole.loaded
    if not loaded.capabilities.numbers_versions:
        return whole
    assert loaded.version is not None
    try:
        content = context.store.read(locations.join(loaded.metadata_folder, VERSION_HINT))
    except FileNotFoundError:
        return whole
    says = read_version_hint(content)
    if says == loaded.version:
        return whole
    newest = locations.name(loaded.metadata_location)
    is_ahead = isinstance(says, int) and says > loaded.version
    if is_ahead:
        names = f"says {says}, which is ahead of {newest}"
        proof = "that is the newest file; commits after it are lost with their files"
    elif isinstance(says, int):
        names, proof = f"says {says}, which is behind {newest}", "that is the newest file"
    else:
        names, proof = "names no version", f"{newest} is the newest file"
    fix = Fix("version-hint", None, VERSION_HINT, f"it {names}: write {loaded.version}", proof)
    hint = str(loaded.version).encode()
    return replace(whole, fixes=(*whole.fixes, fix), hint=hint, is_ahead=is_ahead)


def restore(context: TableContext, whole: WholeTable, kinds: frozenset[str]) -> None:
    """Move a broken metadata file aside and correct the hint, as far as `kinds` has them.

    A file is copied before it goes, so that whatever ends the run loses nothing of it.
    Raises: CommitConflict, where it is another one now; Refused; StorageError.
    """
    with context.shield():
        if "metadata-file" in kinds and whole.broken is not None:
            assert whole.aside is not None
            broken = whole.broken
            now = list_versions(context.store, locations.parent(broken.location))
            if _newest(without_uncommitted(now)) != broken:
                raise CommitConflict(
                    f"{broken.name} was changed since then, or there is a newer file"
                )
            # On a disk, as a second name of the same file.
            context.store.copy(broken.location, whole.aside)
            failed = context.store.remove([broken.location, locations.check_sum(broken.location)])
            if failed:
                raise StorageError(
                    f"`{failed[0].location}` stays, with a copy beside it: {failed[0].error}"
                )
        if "version-hint" in kinds and whole.hint is not None:
            folder = whole.loaded.metadata_folder
            if newer := newer_than(whole.loaded, list_versions(context.store, folder)):
                raise CommitConflict(f"{newer[0].name} was committed by another writer")
            place = locations.join(folder, VERSION_HINT)
            context.store.remove([locations.check_sum(place)])
            context.store.replace(place, whole.hint)


def _newest(versions: Sequence[MetadataVersion]) -> MetadataVersion | None:
    return max(versions, key=lambda version: version.version or 0, default=None)
