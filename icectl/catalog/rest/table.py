"""One table of a REST catalog, by the protocol of catalogs."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from icectl.catalog.protocol import CommitOutcome, LoadedTable
from icectl.catalog.rest import addresses
from icectl.catalog.rest.commits import Attempt
from icectl.catalog.rest.outcome import not_shown
from icectl.catalog.rest.served import ServedTable, time_ordered_uuid
from icectl.catalog.rest.wire import check_updates
from icectl.errors import IcectlError, Unsupported
from icectl.spec.requirements import Requirement
from icectl.spec.updates import Update

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestTable:
    """A table of a REST catalog; `checked` has the metadata files that its server knows whole."""

    served: ServedTable
    checked: set[str] = field(default_factory=set)

    def load(self, *, to_show: bool = False) -> LoadedTable:
        """Ask the server for the table.

        Raises: TableNotFound, with names that are near; CorruptTable; Unsupported; StorageError.
        """
        return self.served.load(to_show=to_show)

    def check_writable(self, loaded: LoadedTable) -> None:
        """Do nothing where the server can carry out changes of the table, and loses nothing of it.

        Raises: Unsupported; Refused.
        """
        self.served.client.check_offers(addresses.UPDATE_TABLE, "changing a table")
        loaded.capabilities.check_version(loaded.metadata.format_version)
        if loaded.metadata_location not in self.checked:
            self._check_shown(loaded)
            self.checked.add(loaded.metadata_location)

    def settle(self) -> None:
        """Do nothing: the server lets commits in one by one."""

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        """Ask the server for changes, and find out what became of them.

        Raises: Unsupported, Refused, TableNotFound, StorageError: where nothing has changed.
        """
        check_updates(updates)
        self.check_writable(base)
        key = time_ordered_uuid(self.served.client.env)
        return Attempt(self.served, base, requirements, updates, key).outcome()

    def _check_shown(self, loaded: LoadedTable) -> None:
        """Raises: Unsupported, where the server's commits would lose what the table has."""
        try:
            stored = self.served.stored(loaded.metadata_location)
        except (OSError, IcectlError):
            _LOGGER.debug("cannot compare with %s", loaded.metadata_location, exc_info=True)
            return
        lost = not_shown(stored, loaded.metadata)
        if lost:
            raise Unsupported(
                f"the server does not know what the metadata of {self.served.shown} has "
                f"({', '.join(lost[:5])}), and would lose it with any change",
                hint="a server that knows it keeps it; or remove it with the engine that wrote it",
            )
