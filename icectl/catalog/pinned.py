"""A catalog that shows a table only as a plan saw it, until a commit of the plan has landed."""

from collections.abc import Sequence

from icectl.catalog.protocol import Catalog, CommitOutcome, Conflict, LoadedTable
from icectl.errors import CommitConflict
from icectl.format.updates import Requirement, Update
from icectl.storage.location import redacted


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
                f"another table is at {redacted(loaded.metadata_location)} than in the plan: "
                f"its table-uuid is {loaded.metadata.table_uuid}, the plan says {self._uuid}",
                hint="nothing was changed; make a new plan",
            )
        if self._location not in (None, loaded.metadata_location):
            raise CommitConflict(
                f"the table changed since the plan was made, from {redacted(self._location)} "
                f"to {redacted(loaded.metadata_location)}",
                hint="nothing was changed; make a new plan, or do what of this one still holds "
                "with `--allow-newer`",
                id="plan-outdated",
            )
        return loaded

    def check_writable(self, loaded: LoadedTable) -> None:
        self.catalog.check_writable(loaded)

    def settle(self) -> None:
        self.catalog.settle()

    def commit(
        self, base: LoadedTable, requirements: Sequence[Requirement], updates: Sequence[Update]
    ) -> CommitOutcome:
        """As Catalog; what is loaded after it may be newer than the plan."""
        outcome = self.catalog.commit(base, requirements, updates)
        if not isinstance(outcome, Conflict):
            self._location = None
            self._uuid = self._uuid or base.metadata.table_uuid
        return outcome


def unpinned_catalog(catalog: Catalog) -> Catalog:
    """Return the catalog itself, of whatever kind it is."""
    return catalog.catalog if isinstance(catalog, PinnedCatalog) else catalog
