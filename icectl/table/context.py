"""One table, by its catalog and the store of its files, and what a run may use of the machine."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from icectl.catalog.protocol import Catalog
from icectl.catalog.warehouse import TablePlace
from icectl.env import Deadline, Env
from icectl.progress import Progress
from icectl.storage.store import Store

CatalogTables = Callable[[], Iterable[tuple[str, TablePlace]] | None]
"""Asks a catalog for the places of its other tables, by name; None where it does not tell."""


@dataclass(slots=True)
class LeftoverRemovals:
    """The files of killed runs that this run has removed; `most` is the limit."""

    most: int | None = None
    removed: list[str] = field(default_factory=list)

    def allows(self, count: int) -> bool:
        """Return whether so many more may be removed."""
        return self.most is None or len(self.removed) + count <= self.most


@dataclass(frozen=True, slots=True)
class TableContext:
    """A table to read or change; metadata are not loaded yet.

    A first Ctrl-C waits for the end of a step in `shield()`. `catalog_tables` are the other tables
    of the catalog that the table was named in.
    """

    store: Store
    catalog: Catalog
    env: Env
    progress: Progress
    deadline: Deadline
    concurrency: int
    shield: Callable[[], AbstractContextManager[object]] = nullcontext
    catalog_tables: CatalogTables | None = None
    leftovers: LeftoverRemovals = field(default_factory=LeftoverRemovals)
