"""Commits to tables of the local file system, as another writer makes them."""

from collections.abc import Mapping
from pathlib import Path

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.metadata_files import metadata_version
from icectl.catalog.protocol import Capabilities, CommitOutcome, Committed, LoadedTable
from icectl.env import Env
from icectl.format.metadata import TableMetadata
from icectl.format.updates import SetProperties, Update
from icectl.storage.local.store import LocalStore
from icectl.storage.location import parent


def commit_updates(directory: Path | str, env: Env, *updates: Update) -> LoadedTable:
    """Commit changes to the newest version, which nobody else may do at the same time."""
    catalog = FileSystemCatalog(LocalStore(), str(directory), env)
    outcome = catalog.commit(catalog.load(), (), updates)
    assert isinstance(outcome, Committed), outcome
    return outcome.table


def set_properties(directory: Path | str, env: Env, properties: Mapping[str, str]) -> LoadedTable:
    """Commit table properties, which touch no file."""
    return commit_updates(directory, env, SetProperties(properties))


def try_properties(
    catalog: FileSystemCatalog, base: LoadedTable, properties: Mapping[str, str]
) -> CommitOutcome:
    """Commit table properties to a base that may not be the newest."""
    return catalog.commit(base, (), [SetProperties(properties)])


def loaded_at(location: str, metadata: TableMetadata, capabilities: Capabilities) -> LoadedTable:
    """A table as if it had been read from a metadata file."""
    version = metadata_version(location).version
    return LoadedTable(metadata, location, version, parent(location), capabilities)
