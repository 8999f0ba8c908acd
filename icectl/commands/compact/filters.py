"""The data files without the Bloom filters that the properties of a table ask for."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from icectl.entries.rows import Entries, by_row
from icectl.errors import CorruptTable, Refused, StorageError, Unsupported
from icectl.files.parquet.data_file import open_parquet
from icectl.files.parquet.schema import arrow_schema
from icectl.files.parquet.write import filtered_columns
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.properties import bloom_filters
from icectl.rows.read_data import written_schema
from icectl.table.context import TableContext
from icectl.table.live_files import name_mapping
from icectl.table.reading import naming, present, read_in_threads
from icectl.units import print_count

MOST_FOOTERS = 100
"""Files whose footers are read, from all over the table: each takes a request or two."""

_FOOTER_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class FilterFigures:
    """Columns that shall have Bloom filters, and files whose footers were read.

    Of these files some have a column without one. A column whose values are all in dictionaries
    needs none, since readers look a value up there.
    """

    columns: tuple[str, ...] = ()
    looked_at: int = 0
    lacking: int = 0

    @property
    def text(self) -> str:
        if not self.columns:
            return "no property asks for Bloom filters"
        files = print_count(self.looked_at, "file")
        names = ", ".join(f"`{name}`" for name in self.columns)
        if not self.lacking:
            return f"Bloom filters of {names} in all of {files} looked at"
        verb = "lacks" if self.lacking == 1 else "lack"
        return (
            f"{self.lacking:,} of {files} looked at {verb} Bloom filters of {names}; "
            "`compact --rewrite-all --method rewrite` writes them"
        )

    @property
    def members(self) -> Mapping[str, object]:
        return {
            "columns": list(self.columns),
            "footers_read": self.looked_at,
            "files_without": self.lacking,
        }


def filter_figures(context: TableContext, metadata: TableMetadata, data: Entries) -> FilterFigures:
    """Read footers of files, if properties ask for Bloom filters; unreadable ones do not count."""
    schema, names = metadata.current_schema, list[str]()
    with suppress(Refused, Unsupported):  # a rewrite is refused for these, and says why
        ratios = bloom_filters(metadata.properties)
        if any(ratios.values()):
            arrow = arrow_schema(written_schema(schema, metadata.format_version))
            names = filtered_columns(arrow, ratios)
    if not names:
        return FilterFigures()
    ids = {item.id for name in names if (item := schema.field_named(name)) is not None}
    found = list(_lacking(context, metadata, data, ids))
    return FilterFigures(tuple(names), len(found), sum(found))


def _lacking(
    context: TableContext, metadata: TableMetadata, data: Entries, ids: set[int]
) -> Iterator[bool]:
    """Yield for some Parquet files whether a column of one lacks a filter."""
    rows = by_row(data, "location", "file_format")
    parquet = [location for location, form in rows if form == FileFormat.PARQUET]
    step = -(-len(parquet) // MOST_FOOTERS) or 1
    locations = parquet[::step]

    def lacks(location: str) -> bool | None:
        context.deadline.check()
        try:
            with present(location), context.store.open(location) as file, naming(location):
                opened = open_parquet(file, name_mapping(metadata))
                return not ids.isdisjoint(opened.unfiltered)
        except (CorruptTable, Unsupported, StorageError):
            return None

    sizes = [_FOOTER_BYTES] * len(locations)
    for found in read_in_threads(lacks, locations, sizes, threads=context.concurrency):
        if found is not None:
            yield found
