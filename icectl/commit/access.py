"""The access to a table that every command which changes it has."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from icectl.catalog.protocol import Catalog
from icectl.env import Deadline, Env
from icectl.progress import Progress
from icectl.storage.store import Store
from icectl.table.reachable import ReachReader


@dataclass(frozen=True, slots=True)
class TableAccess:
    """One table, by its catalog and the store of its files, and what a run may use of the machine.

    `shield()` is for steps that a first Ctrl-C must not cut in two.
    """

    store: Store
    catalog: Catalog
    env: Env
    progress: Progress
    deadline: Deadline
    concurrency: int
    shield: Callable[[], AbstractContextManager[object]]

    @property
    def reach(self) -> ReachReader:
        """The means to read what snapshots reach."""
        return ReachReader(self.store, self.concurrency, self.progress)
