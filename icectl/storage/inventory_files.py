"""The part of an inventory that lies below a location."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from icectl.errors import UsageError
from icectl.storage import location as locations
from icectl.storage.inventory import read_inventory
from icectl.storage.same_store import SameStore
from icectl.storage.store import Store


@dataclass(frozen=True, slots=True)
class InventoryFiles:
    """An inventory in the place of listings of the store."""

    store: Store
    inventory: str
    same_store: SameStore

    def below(self, location: str) -> Iterator[pa.RecordBatch]:
        """The files below a location, as Store.list gives them.

        Raises: UsageError, where there is none; what reading an inventory raises.
        """
        count = 0
        for batch in read_inventory(self.store, self.inventory):
            found = self._below(batch, location.rstrip("/"))
            count += found.num_rows
            yield found
        if not count:
            raise UsageError(
                f"the inventory names no file below {locations.shown(location)}",
                hint="give an inventory of the bucket that holds the table",
            )

    def _below(self, batch: pa.RecordBatch, location: str) -> pa.RecordBatch:
        """The rows below a location, spelled as it is."""
        import pyarrow.compute as pc

        named = batch["location"]
        start = locations.root(location)
        spellings = [start]
        others = named.filter(pc.invert(pc.starts_with(named, f"{start}/")))
        spellings += [
            root
            for root in locations.distinct_roots(others)
            if root != start and self.same_store.holds(f"{root}/", location)
        ]
        parts = []
        for root in spellings:
            prefix = f"{root}{location[len(start) :]}/"
            mine = batch.filter(pc.starts_with(named, prefix))
            if root != start:
                pattern = "^.{" + str(len(root)) + "}"
                moved = pc.replace_substring_regex(mine["location"], pattern, start)
                mine = mine.set_column(0, batch.schema.field(0), moved)
            parts.append(mine)
        return pa.concat_batches(parts)
