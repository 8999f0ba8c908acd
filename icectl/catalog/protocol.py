"""The interface of every catalog: list tables, and read and swap a table's current metadata.

`Warehouse` is a configured catalog, `Catalog` one table in it; `resolve` chooses their kinds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from icectl.catalog.configured import CatalogSettings
from icectl.catalog.identifier import TableName
from icectl.env import Deadline, Env, SystemEnv
from icectl.errors import CommitConflict, Refused, Unsupported
from icectl.format.file_names import named_folders
from icectl.format.metadata import TableMetadata
from icectl.format.metadata_json import NEWEST_VERSION
from icectl.storage.location import redacted
from icectl.storage.open import StorageOptions
from icectl.storage.store import Store

if TYPE_CHECKING:  # what changes a table is imported by the commit that does
    from icectl.format.updates import Requirement, Update


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a catalog: what it does for a table, and what it leaves to its clients.

    `is_certain`: what was loaded is known to be current.
    `publishes`: a commit is what every reader sees next; where not, the caller points the catalog
    at the new file, and no file may be deleted before.
    `numbers_versions`: metadata files are numbered in a row, and of all writers one alone can take
    the next number.
    `commits_on_base`: a commit lands only while the metadata that it was built on is current.
    `commits_in_sequence`: no snapshot is added with a sequence number that was passed already. By
    either, what an earlier run may still commit can be ruled out.
    `cleans_metadata`: clients delete metadata files that leave the log (R-024).
    `maintained_by`: who expires snapshots and deletes files in the place of clients; None: clients.
    `updates`: the changes that it can carry out, None for all.
    `newest_version`: the newest format version that it keeps tables of.
    """

    is_certain: bool
    publishes: bool
    numbers_versions: bool
    cleans_metadata: bool
    maintained_by: str | None = None
    updates: "frozenset[type[Update]] | None" = None
    newest_version: int = NEWEST_VERSION
    commits_on_base: bool = False
    commits_in_sequence: bool = False

    @property
    def rules_out_commits(self) -> bool:
        """Whether the metadata can show that the commit of an earlier run will never land."""
        return self.commits_on_base or self.commits_in_sequence

    def allows(self, kind: "type[Update]") -> bool:
        """Whether the catalog can carry out changes of a kind."""
        return self.updates is None or kind in self.updates

    def check_update(self, kind: "type[Update]", purpose: str) -> None:
        """Raises: Unsupported, where the catalog cannot make a change that a purpose needs."""
        if not self.allows(kind):
            raise Unsupported(
                f"the table's catalog cannot {purpose}",
                hint="rewrite the table with an engine that the catalog knows, such as Spark",
            )

    def check_version(self, format_version: int) -> None:
        """Raises: Unsupported, where the catalog does not keep tables of a format version."""
        if format_version > self.newest_version:
            raise Unsupported(
                f"the table's catalog does not support tables of version {format_version}",
                hint=f"it keeps those of version {self.newest_version}; newer ones lie in a "
                "directory by themselves",
            )


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table as its catalog knows it.

    `metadata_location` is where its metadata was found, `version` the number in that file's name;
    new metadata files, manifests and journals go into `metadata_folder`.
    """

    metadata: TableMetadata
    metadata_location: str
    version: int | None
    metadata_folder: str
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class Committed:
    """The changes are in the table, which is now as `table` says."""

    table: LoadedTable


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another writer committed first, or is about to; nothing of ours is visible.

    It `may_land` yet where only the catalog's word says so, and nothing of the table.
    """

    reason: str
    hint: str | None = None
    may_land: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """No response said whether the commit landed (R-156); both texts replace the usual."""

    metadata_location: str
    reason: str
    message: str | None = None
    hint: str | None = None


CommitOutcome = Committed | Conflict | Unknown


class Catalog(Protocol):
    """A catalog, where a table's current metadata is found and replaced."""

    def load(self, *, to_show: bool = False) -> LoadedTable:
        """Read the current metadata; TableNotFound, CorruptTable, StorageError.

        `to_show` reads what it can of metadata that breaks rules, which nothing may be built on.
        """

    def check_writable(self, loaded: LoadedTable) -> None:
        """Refuse, with the way out, where a commit or a clean-up would not be safe.

        Raises: Refused (exit code 5); CommitConflict where another writer is changing just that.
        """

    def settle(self) -> None:
        """Wait until the commits that are under way have ended; CommitConflict for a long one."""

    def commit(
        self, base: LoadedTable, requirements: "Sequence[Requirement]", updates: "Sequence[Update]"
    ) -> CommitOutcome:
        """Change the table that `base` is of, where all requirements hold.

        A catalog that swaps a pointer changes `base` and nothing newer. An exception means that
        nothing was sent: any but those that end the program, which come at any moment.
        """


def check_same_table(loaded: LoadedTable, now: TableMetadata) -> None:
    """Check that metadata is of the table that was loaded (R-002). Raises: Refused."""
    expected = loaded.metadata.table_uuid
    if now.table_uuid != expected:
        raise Refused(
            f"{redacted(loaded.metadata_location)} now belongs to another table: its table-uuid is "
            f"{now.table_uuid}; the table read earlier has {expected}",
            hint="run the command again if you mean that table",
        )


def unpinned_catalog(catalog: Catalog) -> Catalog:
    """Return the catalog itself, of whatever kind it is."""
    return catalog.catalog if isinstance(catalog, PinnedCatalog) else catalog


class PinnedCatalog:
    """The catalog of a table that must be the one with `uuid`.

    Until a commit was asked for that may have landed, its metadata must be at `location` too; None
    stands for any.
    """

    def __init__(self, catalog: Catalog, uuid: str | None, location: str | None) -> None:
        self.catalog = catalog
        self._uuid = uuid
        self._location = location

    def load(self, *, to_show: bool = False) -> LoadedTable:
        """As Catalog. Raises: CommitConflict, where the table has moved on."""
        loaded = self.catalog.load(to_show=to_show)
        if self._uuid is not None and loaded.metadata.table_uuid != self._uuid:
            raise CommitConflict(
                f"the table at {redacted(loaded.metadata_location)} is not the one in the plan: "
                f"its table-uuid is {loaded.metadata.table_uuid}, the plan says {self._uuid}",
                hint="nothing was changed; make a new plan",
            )
        if self._location not in (None, loaded.metadata_location):
            raise CommitConflict(
                f"the table changed since the plan was made, from {redacted(self._location)} "
                f"to {redacted(loaded.metadata_location)}",
                hint="make a new plan, or apply the steps that still hold with `--allow-newer`; "
                "nothing was changed",
                id="plan-outdated",
            )
        return loaded

    def check_writable(self, loaded: LoadedTable) -> None:
        self.catalog.check_writable(loaded)

    def settle(self) -> None:
        self.catalog.settle()

    def commit(
        self, base: LoadedTable, requirements: "Sequence[Requirement]", updates: "Sequence[Update]"
    ) -> CommitOutcome:
        """As Catalog; what is loaded after it may be newer than the plan."""
        outcome = self.catalog.commit(base, requirements, updates)
        if not isinstance(outcome, Conflict):
            self._location = None
            self._uuid = self._uuid or base.metadata.table_uuid
        return outcome


@dataclass(frozen=True, slots=True)
class CatalogAccess:
    """What a catalog is reached with.

    `storage` is what the user gave for storage, which wins over what the catalog says of it. `warn`
    takes what the user should know; `hide` takes secrets that came to light later. No answer is
    waited for behind the `deadline`.
    """

    settings: CatalogSettings
    env: Env
    storage: StorageOptions
    warn: Callable[[str], None]
    hide: Callable[[str], None]
    deadline: Deadline = field(default=Deadline(SystemEnv()))


@dataclass(frozen=True, slots=True)
class TableInCatalog:
    """One table of a catalog, of which nothing is read yet, by its `name` there.

    `store` holds its files; where the catalog hands out credentials with the metadata, it is used
    after `catalog.load()` alone. So is `storage()`: what other processes reach that store with.
    """

    name: TableName
    catalog: Catalog
    store: Store
    storage: Callable[[], StorageOptions]


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A folder that files of a table lie in: its location, or one that its properties name.

    Below the latter (`is_named`) files are in folders of partitions or hashes alone.
    """

    table: TableName
    folder: str
    is_named: bool = False


PlacesByCatalog = dict[str, tuple[TablePlace, ...] | None]
"""The places of all tables, by the name of their catalog; None where it does not tell."""


def places(
    table: TableName, location: str | None, properties: Mapping[str, str]
) -> Iterator[TablePlace]:
    """Yield the places of a table (R-161)."""
    if location is not None:
        yield TablePlace(table, location)
    for folder in named_folders(location or "", properties).values():
        yield TablePlace(table, folder, is_named=True)


class Warehouse(Protocol):
    """One configured catalog. Nothing is connected to before it is asked for something."""

    def namespaces(self, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """Yield those right below one. Raises: TableNotFound, where it is none; StorageError."""

    def tables(self, namespace: tuple[str, ...]) -> Iterator[TableName]:
        """Yield a namespace's tables, no views. Raises: TableNotFound, without it; StorageError."""

    def table(self, name: TableName) -> TableInCatalog:
        """Return one table; whether it exists is seen when it is loaded."""

    def places(self) -> Iterator[TablePlace] | None:
        """Yield where every table of the catalog has its files; None where that cannot be asked.

        Raises: StorageError, while it is read too.
        """
