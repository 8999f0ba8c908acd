"""The access to a table that every command which changes it has."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from icectl.catalog.protocol import Catalog
from icectl.env import Deadline, Env
from icectl.progress import Progress
from icectl.storage.store import Store
from icectl.table.other_tables import CatalogTables, OtherTables
from icectl.table.reachable import ReachReader


@dataclass(slots=True)
class LeftoverRemovals:
    """The locations of what killed runs had left and this run has removed: at most so many."""

    most: int | None = None
    removed: list[str] = field(default_factory=list)

    def allows(self, count: int) -> bool:
        """Return whether so many more may be removed."""
        return self.most is None or len(self.removed) + count <= self.most


@dataclass(frozen=True, slots=True)
class TableAccess:
    """One table, by its catalog and the store of its files, and what a run may use of the machine.

    `shield()` is for steps that a first Ctrl-C must not cut in two. `catalog_tables` are the other
    tables of the catalog that the table was named in.
    """

    store: Store
    catalog: Catalog
    env: Env
    progress: Progress
    deadline: Deadline
    concurrency: int
    shield: Callable[[], AbstractContextManager[object]]
    catalog_tables: CatalogTables | None = None
    leftovers: LeftoverRemovals = field(default_factory=LeftoverRemovals)

    @property
    def reach(self) -> ReachReader:
        """The means to read what snapshots reach."""
        return ReachReader(self.store, self.concurrency, self.progress)

    @property
    def others(self) -> OtherTables:
        """A search for other tables, with nothing looked at yet."""
        return OtherTables(
            self.store, self.env, self.concurrency, self.progress, self.catalog_tables
        )
