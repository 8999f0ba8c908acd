"""A run's access to one table: its catalog, the store of its files, and the limits of the run."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from icectl.catalog.protocol import Catalog, LoadedTable, TablePlace
from icectl.env import Deadline, Env
from icectl.errors import Unsupported
from icectl.progress import Progress
from icectl.storage.store import Store

CatalogTables = Callable[[], Iterable[tuple[str, TablePlace]] | None]
"""Returns the places of a catalog's other tables, by name; None if it does not name them."""


@dataclass(slots=True)
class LeftoverRemovals:
    """The files of killed runs that this run has removed; `most` is the limit."""

    most: int | None = None
    removed: list[str] = field(default_factory=list)

    def allows(self, count: int) -> bool:
        return self.most is None or len(self.removed) + count <= self.most


@dataclass(frozen=True, slots=True)
class DroppedTables:
    """The uuids of tables that the caller calls dropped, in lower case.

    `cataloged` yields every table of every configured catalog, by name, with its uuid.
    It raises Refused, where a catalog or one of its tables cannot be read.
    """

    uuids: frozenset[str] = frozenset()
    cataloged: Callable[[], Iterable[tuple[str, str | None]]] = tuple


@dataclass(frozen=True, slots=True)
class TableContext:
    """A table to read or change; its metadata is not loaded yet.

    A first Ctrl-C waits for the end of a step in `shield()`. `catalog_tables` returns the other
    tables of the table's catalog. Metadata that `dropped` tables have left may lie beside its own.
    Summaries of new snapshots have the members of `notes`, too.
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
    dropped: DroppedTables = field(default=DroppedTables())
    notes: Mapping[str, str] = field(default_factory=dict)


_ENCRYPTION_KEY = "encryption.key-id"


def open_table(catalog: Catalog, *, to_show: bool = False) -> LoadedTable:
    """Return the current metadata of a table that icectl can read; with oddities `to_show` it.

    The codec refuses unknown versions, types and members (R-001).
    Raises: Unsupported, for an encrypted table (R-196); what `Catalog.load` raises.
    """
    loaded = catalog.load(to_show=True) if to_show else catalog.load()
    encrypted = any(snapshot.key_id is not None for snapshot in loaded.metadata.snapshots)
    if encrypted or _ENCRYPTION_KEY in loaded.metadata.properties:
        raise Unsupported(
            "the table is encrypted, and icectl cannot read encrypted manifests",
            hint="maintain it with the engine that holds its keys",
        )
    return loaded
