"""Commits to tables of the local file system, as another writer makes them."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from icectl.catalog.files import FileSystemCatalog
from icectl.catalog.metadata_files import metadata_version
from icectl.catalog.protocol import Capabilities, CommitOutcome, Committed, LoadedTable
from icectl.env import Env
from icectl.format.metadata import TableMetadata
from icectl.format.updates import SetProperties, Update
from icectl.storage.local.store import LocalStore
from icectl.storage.location import parent
from icectl.storage.store import Store
from tests.builders.expiry import NOW_MS
from tests.stores.fixed_env import FixedEnv


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


def check_one_commits_each_version(
    location: str, store: Callable[[Env], Store], rounds: int
) -> None:
    """Commit in eight threads with catalogs of their own, all from one base at a time."""
    committers = 8
    envs = [FixedEnv(NOW_MS + number) for number in range(committers)]
    catalogs = [FileSystemCatalog(store(env), location, env) for env in envs]
    with ThreadPoolExecutor(committers) as pool:
        for number in range(rounds):
            base = catalogs[0].load()

            def commit(writer: int, base: LoadedTable = base, number: int = number) -> bool:
                told = {"round": str(number), "writer": str(writer)}
                return isinstance(try_properties(catalogs[writer], base, told), Committed)

            won = list(pool.map(commit, range(committers)))
            assert sum(won) == 1
            winner = catalogs[0].load()
            assert winner.version == (base.version or 0) + 1
            assert winner.metadata.properties["writer"] == str(won.index(True))


def loaded_at(location: str, metadata: TableMetadata, capabilities: Capabilities) -> LoadedTable:
    """A table as if it had been read from a metadata file."""
    version = metadata_version(location).version
    return LoadedTable(metadata, location, version, parent(location), capabilities)
