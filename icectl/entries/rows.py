"""Entries as stored and as inherited, and the vocabulary that plans speak.

Order: every table here is ordered by (`manifest`, `manifest_pos`); masks keep it.
"""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class RawEntries:
    """Rows as their manifests store them: null numbers not yet inherited (R-042)."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows with inheritance resolved: snapshot id and both sequence numbers are non-null."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)
