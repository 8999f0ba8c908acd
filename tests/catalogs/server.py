"""What a running catalog gives to the tests that every kind of catalog has to pass."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from icectl.catalog.protocol import Catalog, CommitOutcome, LoadedTable, TableInCatalog, Warehouse
from icectl.cli import naming
from icectl.format.updates import Requirement, Update

NAME = "main"
"""What tests call the catalog."""


class Server(Protocol):
    """A running catalog of one kind, of which a test has a part of its own.

    `properties` are what configures it, as in `.pyiceberg.yaml`; its tables lie in `warehouse`, and
    are in `namespace`. `lost_on_the_way` is what comes of commits the first of which got lost.
    `swaps_pointer`: metadata files are icectl's own; else a server makes them of changes.
    """

    properties: dict[str, str]
    warehouse: Path
    swaps_pointer: bool
    namespace: tuple[str, ...]
    lost_on_the_way: Sequence[type]

    def register(self, table: str, metadata_location: str) -> None:
        """Make an entry for a table of the namespace whose files are there."""

    def current(self, table: str) -> str:
        """The metadata location of a table of the namespace, asked without icectl."""

    def change(self, table: str, tag: str, snapshot_id: int) -> None:
        """Set a tag, as another client does."""

    def losing_answer(self, *, landed: bool) -> AbstractContextManager[None]:
        """The next commit is carried out, or is not, and nobody tells."""

    def dying(self) -> AbstractContextManager[None]:
        """The next commit gets no answer, and after it nothing does; it has not landed."""


@dataclass
class Meanwhile:
    """A table's catalog, where something happens right before its first commits."""

    catalog: Catalog
    happens: Callable[[], None]
    times: int
    outcomes: list[CommitOutcome] = field(default_factory=list)

    def load(self, *, to_show: bool = False) -> LoadedTable:
        return self.catalog.load(to_show=to_show)

    def check_writable(self, loaded: LoadedTable) -> None:
        self.catalog.check_writable(loaded)

    def settle(self) -> None:
        self.catalog.settle()

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        if self.times > 0:
            self.times -= 1
            self.happens()
        outcome = self.catalog.commit(base, requirements, updates)
        self.outcomes.append(outcome)
        return outcome


@contextmanager
def meanwhile(
    happens: Callable[[], None] = lambda: None, times: int = 1
) -> Iterator[list[CommitOutcome]]:
    """Between plan and commit of runs in this process something happens; what commits come to."""
    outcomes: list[CommitOutcome] = []
    open_warehouse = naming.open_warehouse

    def opened(means: Any) -> Warehouse:
        found = open_warehouse(means)
        table_of = found.table

        def table(name: Any) -> TableInCatalog:
            own = table_of(name)
            catalog = Meanwhile(own.catalog, happens, times, outcomes)
            return TableInCatalog(own.name, catalog, own.store, own.storage)

        return _Wrapped(found, table)

    with patch.object(naming, "open_warehouse", opened):
        yield outcomes


class _Wrapped:
    """A warehouse whose tables are others."""

    def __init__(self, own: Warehouse, table: Callable[[Any], TableInCatalog]) -> None:
        self._own = own
        self.table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)
