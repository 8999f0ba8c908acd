"""Deletes by position of data files, merged: one delete file or one vector for each of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from icectl.errors import CorruptTable, SelfCheckFailed
from icectl.files.data_file import open_data_file
from icectl.files.parquet.metrics import FileMetrics, read_metrics
from icectl.files.parquet.schema import arrow_schema
from icectl.files.parquet.write import ParquetOptions, ParquetWriter
from icectl.files.puffin.container import read_puffin, write_puffin
from icectl.files.puffin.positions import Positions, dv_blob
from icectl.format.locations import relative_location
from icectl.format.schema import POSITION_DELETES
from icectl.rows.deleted_positions import named_positions, spelled_otherwise, vector_positions
from icectl.rows.rewrite_data import DeletesOfGroup, positions_of
from icectl.rows.write_data import FileOutputs
from icectl.storage.location import loosest_key

_ROW_GROUP_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class MergedDeletes:
    """All deletes by position of one data file: a delete file, or a vector at `content_offset`."""

    data_file: str
    location: str
    file_size_in_bytes: int
    record_count: int
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    metrics: FileMetrics | None = None


def merged_positions(
    locations: Collection[str], deletes: DeletesOfGroup, outputs: FileOutputs
) -> Mapping[str, Positions]:
    """Return the deleted positions of data files, of those that have some (R-115).

    Order: positions ascend, each once.
    Raises: CorruptTable; Unsupported, where deletes name a data file in another spelling.
    Cost: memory for each deleted position.
    """
    found: dict[str, list[Positions]] = {}
    by_key = {loosest_key(location): location for location in locations}
    for vector, positions in positions_of(deletes.vectors, outputs):
        found.setdefault(vector.data_file, []).append(positions)
    for one in deletes.position_deletes:
        with outputs.reading(one.file.location) as file:
            named = named_positions(
                one.open(file), one.applies_to, by_key, deletes.scheme, only=one.named
            )
            for target, numbers in named:
                if not target.is_exact:
                    raise spelled_otherwise(target.location, len(numbers))
                if len(numbers) and int(numbers.min()) < 0:
                    raise CorruptTable("a position is below 0", rule="R-121")
                found.setdefault(target.location, []).append(numbers.astype(np.uint64))
    return {location: np.unique(np.concatenate(parts)) for location, parts in found.items()}


def write_delete_file(
    data_file: str, positions: Positions, path: str, options: ParquetOptions, outputs: FileOutputs
) -> MergedDeletes:
    """Write the positions of one data file as a delete file in a partition, and read it again.

    Raises: SelfCheckFailed, where other positions are read than were written.
    """
    location = outputs.next_location(path)
    schema = arrow_schema(POSITION_DELETES)
    with outputs.create(location) as file:
        writer = ParquetWriter(file, schema, options, {"delete-type": "position"})
        try:
            for start in range(0, len(positions), _ROW_GROUP_ROWS):
                part = positions[start : start + _ROW_GROUP_ROWS].astype(np.int64)
                paths = pa.repeat(pa.scalar(data_file, pa.string()), len(part))
                batch = pa.record_batch([paths, pa.array(part)], schema=schema)
                writer.write_row_group([batch])
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        size_bytes = writer.size_bytes
    with outputs.reading(location) as file:
        metrics = read_metrics(file, POSITION_DELETES)
        read = [
            numbers
            for target, numbers in named_positions(
                open_data_file(file, "parquet"), [data_file], {loosest_key(data_file): data_file}
            )
            if target.is_exact
        ]
    _check(location, positions, np.concatenate(read))
    return MergedDeletes(data_file, location, size_bytes, len(positions), metrics=metrics)


def write_vectors(
    merged: Mapping[str, Positions], created_by: str, outputs: FileOutputs, base: str = ""
) -> Sequence[MergedDeletes]:
    """Write the positions of data files as vectors of one Puffin file, and read them again.

    Locations are stored relative to `base`, if there is one (sfc-1 DD5).
    Raises: SelfCheckFailed, where other positions are read than were written.
    Cost: memory for the file.
    """
    if not merged:
        return ()
    blobs = [
        dv_blob(positions, relative_location(base, data_file) if base else data_file)
        for data_file, positions in merged.items()
    ]
    content = write_puffin(blobs, {"created-by": created_by})
    location = outputs.next_location("")
    with outputs.create(location) as file:
        file.write(content)
    places = read_puffin(content).blobs
    with outputs.reading(location) as file:
        for (_, positions), blob in zip(merged.items(), places, strict=True):
            read = vector_positions(file, blob.offset, blob.length, len(positions))
            _check(location, positions, read)
    return tuple(
        MergedDeletes(data_file, location, len(content), len(positions), blob.offset, blob.length)
        for (data_file, positions), blob in zip(merged.items(), places, strict=True)
    )


def _check(location: str, written: Positions, read: Positions) -> None:
    if not np.array_equal(written.astype(np.int64), read.astype(np.int64)):
        raise SelfCheckFailed(f"{location} deletes other rows than were to be deleted")
