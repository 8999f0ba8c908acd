"""One table, by its catalog and the store of its files, what a run may use, and its metadata."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from icectl.catalog.protocol import Catalog, LoadedTable, TablePlace
from icectl.env import Deadline, Env
from icectl.errors import Unsupported
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


_ENCRYPTION_KEY = "encryption.key-id"


def open_table(catalog: Catalog, *, to_show: bool = False) -> LoadedTable:
    """The current metadata of a table that icectl can read; what is only shown may have oddities.

    Versions, types and members that the codec does not know are refused there (R-001).

    Raises: Unsupported, for an encrypted table (R-196); what `Catalog.load` raises.
    """
    loaded = catalog.load(to_show=True) if to_show else catalog.load()
    encrypted = next((s for s in loaded.metadata.snapshots if s.key_id is not None), None)
    if encrypted is not None or _ENCRYPTION_KEY in loaded.metadata.properties:
        raise Unsupported(
            "the table is encrypted, and icectl cannot read encrypted manifests",
            hint="maintain it with the engine that holds its keys",
        )
    return loaded
