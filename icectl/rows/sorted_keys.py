"""Many keys to look for, sorted by their hashes into files that all processes of a machine map.

Memory is that of the pages that are in use, and of a part of the keys while they are sorted.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from icectl.files.row_hash import Hashes
from icectl.rows.equality_deletes import Chain, EqualityIndex, SortedIndex
from icectl.storage.listing import temporary_file
from icectl.storage.spill import Spill

_PARTS_BITS = 6
_ROWS = pa.schema([pa.field("hash", pa.uint64()), pa.field("key", pa.binary())])
_KEYS = pa.schema([_ROWS.field("key")])
_HASHES, _SORTED = "hashes", "keys.arrow"


def sort_keys_into(folder: Path, chain: Chain, keys: Iterable[tuple[Hashes, pa.Array]]) -> None:
    """Write keys, with their hashes, into a folder. Raises: StorageError, without room for them."""
    spill = Spill(_ROWS, 1 << _PARTS_BITS)
    shift = np.uint64(64 - _PARTS_BITS)
    try:
        for hashes, encoded in keys:
            columns = [pa.array(hashes), encoded]
            spill.add(hashes >> shift, pa.RecordBatch.from_arrays(columns, schema=_ROWS))
        with (
            temporary_file(),
            (folder / _HASHES).open("wb") as file,
            pa.ipc.new_file(str(folder / _SORTED), _KEYS) as writer,
        ):
            for table in spill.tables():
                if not len(table):
                    continue
                part = table["hash"].to_numpy(), table["key"].combine_chunks(), 0
                hashes, distinct = EqualityIndex(chain, [part]).sorted_keys
                file.write(hashes.tobytes())
                writer.write_batch(pa.RecordBatch.from_arrays([distinct], schema=_KEYS))
    finally:
        spill.close()


def map_keys(folder: Path, chain: Chain) -> EqualityIndex:
    """Return an index of the keys in a folder."""
    hashes = np.memmap(folder / _HASHES, np.uint64, "r")
    keys = pa.ipc.open_file(pa.memory_map(str(folder / _SORTED))).read_all()["key"]
    return SortedIndex(chain, hashes, keys)
