"""A commit as a metadata file: the one that follows a base, under a name that is free."""

import logging
from collections.abc import Sequence

from icectl.catalog.metadata_files import metadata_version, wants_gzip
from icectl.catalog.protocol import (
    CommitOutcome,
    Committed,
    Conflict,
    LoadedTable,
    Unknown,
    check_same_table,
)
from icectl.env import Env
from icectl.errors import IcectlError, StorageError
from icectl.files.metadata_file import is_gzip, read_metadata, write_metadata
from icectl.format.metadata import TableMetadata
from icectl.format.updates import Requirement, Update, apply_all, check, with_log
from icectl.storage import location as locations
from icectl.storage.failures import AnswerLost
from icectl.storage.store import Store

_LOGGER = logging.getLogger(__name__)


def commit_file(
    store: Store,
    env: Env,
    base: LoadedTable,
    requirements: Sequence[Requirement],
    updates: Sequence[Update],
    name: str,
) -> CommitOutcome:
    """Write the metadata file that follows `base`, under a name that no other writer may take.

    Raises: Refused, where another table is there, or an update breaks a rule; StorageError; each of
    them only where nothing was written.
    """
    try:
        content = store.read(base.metadata_location)
    except FileNotFoundError:
        return Conflict(f"{locations.name(base.metadata_location)} is gone")
    problem = why_changed(base, content) or unmet(base.metadata, requirements)
    if problem is not None:
        return Conflict(problem)
    updated = next_metadata(base, updates, env.now_ms())
    return create_file(
        store, base, updated, name, gzip=wants_gzip(base, otherwise=is_gzip(content))
    )


def create_file(
    store: Store, base: LoadedTable, metadata: TableMetadata, name: str, *, gzip: bool
) -> CommitOutcome:
    """Write a metadata file into the folder of `base`, under a name that no other writer may take.

    Raises: StorageError, only where nothing was written.
    """
    target = locations.join(base.metadata_folder, name)
    version = metadata_version(target).version
    committed = Committed(
        LoadedTable(metadata, target, version, base.metadata_folder, base.capabilities)
    )
    written = write_metadata(metadata, compressed=gzip)
    try:
        store.create(target, written)
    except Exception as error:  # whatever it is, the file may be there
        if isinstance(error, IcectlError) and not isinstance(error, StorageError):
            raise
        return _landed_or_not(store, committed, written, error)
    return committed


def next_metadata(base: LoadedTable, updates: Sequence[Update], now_ms: int) -> TableMetadata:
    """Return the metadata that follow `base`. Raises: Refused, where an update breaks a rule."""
    now_ms = max(now_ms, base.metadata.last_updated_ms)
    applied = apply_all(base.metadata, updates)
    return with_log(applied, base.metadata_location, now_ms)[0]


def why_changed(base: LoadedTable, content: bytes) -> str | None:
    """Return why the loaded file is no longer a base, if so. Raises: Refused, for another table."""
    newer = read_metadata(content)
    check_same_table(base, newer)
    if newer != base.metadata:
        return f"{locations.name(base.metadata_location)} was rewritten by another writer"
    return None


def unmet(metadata: TableMetadata, requirements: Sequence[Requirement]) -> str | None:
    """Return why a requirement does not hold; None where all do."""
    reasons = (check(metadata, requirement) for requirement in requirements)
    return next((reason for reason in reasons if reason is not None), None)


def came_between(base_location: str, now: TableMetadata) -> Sequence[str] | None:
    """Return the files between a base and now, if the log goes back so far. Order: oldest first."""
    log = [entry.metadata_file for entry in now.metadata_log]
    keys = [locations.loosest_key(location) for location in log]
    if locations.loosest_key(base_location) not in keys:
        return None
    return log[len(keys) - keys[::-1].index(locations.loosest_key(base_location)) :]


def _landed_or_not(
    store: Store, committed: Committed, written: bytes, error: Exception
) -> CommitOutcome:
    """Look whether a write that did not succeed, or did not say so, has landed (R-156)."""
    target = committed.table.metadata_location
    try:
        content = store.read(target)
    except FileNotFoundError:
        if isinstance(error, StorageError) and not isinstance(error, AnswerLost):
            raise error from None
        return Unknown(target, _reason(error))
    except Exception:
        _LOGGER.debug("cannot look for %s", target, exc_info=True)
        return Unknown(target, _reason(error))
    if content == written:
        return committed
    return Conflict(f"{locations.name(target)} was committed by another writer")


def _reason(error: Exception) -> str:
    """Tell why a write is not known to have happened."""
    if isinstance(error, FileExistsError):
        return "the file appeared and disappeared"
    _LOGGER.debug("the write failed", exc_info=error)
    return error.message if isinstance(error, StorageError) else f"{type(error).__name__}: {error}"
