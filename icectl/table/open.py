"""Loading a table's metadata, and refusing what icectl cannot carry on safely."""

from icectl.catalog.protocol import Catalog, LoadedTable
from icectl.errors import Unsupported

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
