"""Holding a run to the plan that was reviewed before it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from icectl.catalog.pinned import PinnedCatalog
from icectl.catalog.protocol import Catalog
from icectl.env import InstantEnv
from icectl.errors import CommitConflict
from icectl.table.reviewed import Reviewed, ReviewedAct, acts_of
from icectl.units import print_count

_SHOWN = 3
"""Changes that a message names."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as a plan was made of it; any of its states where there is no location."""

    uuid: str | None
    metadata_location: str | None


@dataclass(frozen=True, slots=True)
class Review:
    """A plan that was reviewed, of `base`; a run does just that, or what of it still holds.

    The latter where it is not `exact`. `clock` stands at the plan's instant until the run's own
    plan was compared.
    """

    command: str
    base: TableState
    reviewed: Reviewed
    clock: InstantEnv
    exact: bool

    def pinned(self, catalog: Catalog) -> Catalog:
        """The catalog, which shows no other table, nor another state of it unless that may be."""
        return PinnedCatalog(catalog, self.base.uuid, self.base.metadata_location)

    def approve(self, result: Callable[[], Mapping[str, Any]]) -> None:
        """Compare what a run is about to do with what was reviewed.

        Raises: CommitConflict, where it is not that, or, on a newer table, more than that.
        """
        acts = acts_of(self.command, result())
        added = acts - self.reviewed.acts
        gone = self.reviewed.acts - acts if self.exact else frozenset()
        if added or gone:
            told = [f"{_named(added)} not in it"] if added else []
            told += [f"{_named(gone)} no longer possible"] if gone else []
            raise CommitConflict(
                f"the table does not give the plan any more: {', '.join(told)}",
                hint="nothing was changed; make a new plan, and look at what is different",
                id="plan-outdated",
            )
        self.clock.release()


def _named(acts: frozenset[ReviewedAct]) -> str:
    shown = ", ".join(sorted(map(str, acts))[:_SHOWN])
    more = ", ..." if len(acts) > _SHOWN else ""
    verb = "is" if len(acts) == 1 else "are"
    return f"{print_count(len(acts), 'change')} ({shown}{more}) {verb}"
