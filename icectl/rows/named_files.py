"""Live files, with what position delete files name, which are read in threads."""

from collections.abc import Mapping
from functools import partial

from icectl.checks.file_identity import StatedFile
from icectl.entries.conditions import Predicate
from icectl.entries.deletes import NamedFiles
from icectl.entries.rows import Entries, by_row
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.schema import Schema
from icectl.format.snapshot import Snapshot
from icectl.rows.deleted_positions import named_data_files
from icectl.rows.read_data import SourceFile, open_own
from icectl.table.context import TableContext
from icectl.table.live_files import LiveFiles, load_live_files
from icectl.table.reading import in_threads, naming, present


def live_files(
    context: TableContext,
    metadata: TableMetadata,
    snapshot: Snapshot | None,
    known: NamedFiles,
    columns: frozenset[str] = frozenset(),
    within: Predicate | None = None,
    *,
    all_deletes: bool = False,
) -> LiveFiles:
    """Load live files as load_live_files does; names in delete files are read in threads."""
    names = partial(read_names, context)
    return load_live_files(
        context,
        metadata,
        snapshot,
        known,
        names,
        columns=columns,
        within=within,
        all_deletes=all_deletes,
    )


def read_names(
    context: TableContext, deletes: Entries, stated: Mapping[str, StatedFile] | None = None
) -> NamedFiles:
    """Read how many rows of which data files position delete files name.

    Raises: as open_own, named_data_files.
    """
    columns = ("location", "file_format", "record_count", "file_size_in_bytes")
    files = list(by_row(deletes, *columns))
    context.progress.phase("reading position deletes", total=len(files))

    def read(delete_file: tuple[str, int, int, int]) -> tuple[str, Mapping[str, int]]:
        location, file_format, rows, size_bytes = delete_file
        source = SourceFile(
            location,
            FileFormat(file_format).name,
            rows,
            0,
            size_bytes=size_bytes,
            stated=(stated or {}).get(location),
        )
        with present(location), context.store.open(location) as file, naming(location):
            names = named_data_files(open_own(file, source, Schema(0, ())))
        context.progress.advance(1)
        return location, names

    sizes = [size for *_, size in files]
    return dict(in_threads(read, files, sizes, threads=context.concurrency))
