"""A root of the draft as a file by itself, and its leaves: what its own footer does not say is so.

No table reads a root yet, so that none says where relative locations begin: icectl's exports do in
their footer; of other files it is the folder above `metadata`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icectl.codec.draft_16025.manifest import read_draft
from icectl.codec.draft_16025.mumbling import read_mumbling
from icectl.entries.columns.values import NONE, Positions, mask_of
from icectl.entries.draft_16025.rows import Inherited, are_leaves, are_live, inherit
from icectl.entries.schemes import all_resolved
from icectl.spec.locations import with_scheme
from icectl.storage.location import parent
from icectl.storage.store import Store
from icectl.table.reading import decode_file, read_file

TABLE_LOCATION, SNAPSHOT_ID, SEQUENCE_NUMBER = (
    "icectl.table-location", "icectl.snapshot-id", "icectl.sequence-number",
)  # fmt: skip
"""What the footer of an exported manifest says beside its version, content, schema and specs."""


@dataclass(frozen=True, slots=True)
class DraftManifest:
    """A root or a leaf: its rows, numbers inherited, locations whole; `dead` are rows of a leaf."""

    location: str
    size_bytes: int
    footer: Mapping[str, str]
    rows: pa.Table
    dead: Positions

    @property
    def table_location(self) -> str:
        """What relative locations are below."""
        above = parent(parent(self.location))
        return with_scheme(above, self.footer.get(TABLE_LOCATION) or above)

    @property
    def alive(self) -> npt.NDArray[np.bool_]:
        """Whether each row is live, by its status and what is dead in the leaf."""
        dead = np.isin(np.arange(self.rows.num_rows), self.dead)
        return mask_of(are_live(self.rows)) & ~dead

    @property
    def leaves(self) -> list[Mapping[str, object]]:
        """The entries of live leaves, as rows."""
        listed = self.rows.filter(are_leaves(self.rows)).drop_columns(
            [name for name in ("partition", "content_stats") if name in self.rows.column_names]
        )
        return list(listed.filter(are_live(listed)).to_pylist())


def read_root(store: Store, location: str) -> DraftManifest:
    """Read a root.

    Raises: MissingFile; CorruptTable, with rules of the draft; Unsupported; StorageError.
    """
    content = read_file(store, location)
    return decode_file(location, lambda: _root(location, content))


def read_leaf(store: Store, root: DraftManifest, entry: Mapping[str, object]) -> DraftManifest:
    """Read a leaf by its entry in the root. Raises: as read_root."""
    location = str(entry["location"])
    content = read_file(store, location)
    return decode_file(location, lambda: _leaf(root, entry, content))


def _root(location: str, content: bytes) -> DraftManifest:
    read = read_draft(content)
    found = DraftManifest(location, len(content), read.footer, read.rows, NONE)
    own = Inherited(_number(read.footer, SNAPSHOT_ID), _number(read.footer, SEQUENCE_NUMBER))
    rows = _whole(inherit(read.rows, own), found.table_location)
    return DraftManifest(location, len(content), read.footer, rows, NONE)


def _leaf(root: DraftManifest, entry: Mapping[str, object], content: bytes) -> DraftManifest:
    read = read_draft(content)
    numbers = [entry[name] for name in ("snapshot_id", "sequence_number", "first_row_id")]
    own = Inherited(*(one if isinstance(one, int) else None for one in numbers))
    stored = entry["dead_positions"]
    dead = read_mumbling(stored) if isinstance(stored, bytes) else NONE
    rows = _whole(inherit(read.rows, own), root.table_location)
    return DraftManifest(str(entry["location"]), len(content), read.footer, rows, dead)


def _number(footer: Mapping[str, str], name: str) -> int | None:
    text = footer.get(name, "")
    return int(text) if text.removeprefix("-").isdecimal() else None


def _whole(rows: pa.Table, table_location: str) -> pa.Table:
    """Return the same rows with whole locations. Raises: Unsupported, where one is neither."""
    for name in ("location", "dv_location"):
        at = rows.schema.get_field_index(name)
        found = all_resolved(table_location, rows[name])
        rows = rows.set_column(at, rows.schema.field(name), found)
    return rows
