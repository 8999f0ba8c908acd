"""What every command that changes a table works with."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

from icectl.catalog.protocol import Catalog, LoadedTable
from icectl.commit.attempt import Asked, Committer, Landed
from icectl.env import Deadline, Env
from icectl.progress import Progress
from icectl.spec.metadata import TableMetadata
from icectl.spec.requirements import AssertTableUuid
from icectl.spec.updates import Update
from icectl.storage.store import Store

Changes = Callable[[TableMetadata], Sequence[Update]]
"""What a commit makes of the newest metadata."""


@dataclass(frozen=True, slots=True)
class Means:
    """The means to change one table.

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
    def members(self) -> Mapping[str, Any]:
        """All of it by name, for a command that needs more."""
        return {item.name: getattr(self, item.name) for item in fields(Means)}

    def commit(
        self, base: LoadedTable, changes: Changes, asked: Asked, *, forgets: bool = True
    ) -> Landed:
        """Commit to the table that `base` is of; a first Ctrl-C waits for how that ends.

        Whatever ends it, `asked` says whether the commit may have landed.
        Raises: as Committer.commit.
        """
        uuid = base.metadata.table_uuid
        requirements = [] if uuid is None else [AssertTableUuid(uuid)]
        committer = Committer(self.catalog, self.env, self.progress, forgets, asked)
        with self.shield():
            return committer.commit(base, requirements, changes)
