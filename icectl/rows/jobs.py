"""What all tasks of a compaction have in common, and whether new files can be written."""

from collections.abc import Collection

from icectl.errors import Unsupported
from icectl.files.parquet.schema import arrow_schema
from icectl.format.locations import relative_base, scheme_of_entries
from icectl.format.metadata import TableMetadata
from icectl.format.metrics_modes import metrics_modes
from icectl.format.properties import FORMAT_DEFAULT, LOCATION_PROVIDER, read
from icectl.rows.compact_job import CompactJob, MergeJob, typed_specs
from icectl.rows.partition_rows import partitioner
from icectl.rows.read_data import written_schema
from icectl.rows.rewrite_data import TableColumns
from icectl.rows.sort_rows import RowOrder, Sorting, sort_keys
from icectl.rows.write_data import parquet_options, write_options
from icectl.table.live_files import every_column, name_mapping

SORT_BYTES = 64 << 20
"""Rows that a task sorts in memory, which takes twice that and more."""


def check_output(
    metadata: TableMetadata,
    order: RowOrder | None,
    spec_id: int,
    partition_keys: Collection[bytes | None],
) -> None:
    """Check that new files can be written as the table asks for.

    `partition_keys` are those of groups whose data files are rewritten: None if the partitions of
    rows must be found.
    Raises: Unsupported; Refused.
    """
    provider = read(metadata.properties, LOCATION_PROVIDER)
    if provider is not None:
        raise Unsupported(
            f"the Java class `{provider}` places the table's data files "
            f"(`{LOCATION_PROVIDER.name}`), and icectl cannot run it",
            hint="remove the property to place files by the other properties, or compact with an "
            "engine that has the class",
        )
    if not partition_keys:
        return
    data_format = read(metadata.properties, FORMAT_DEFAULT)
    if data_format != "parquet":
        message = f"the table asks for {data_format} files (`write.format.default`)"
        raise Unsupported(message, hint="icectl writes Parquet; set the property to parquet")
    columns = job_of(metadata, order).columns
    spec = metadata.spec(spec_id)
    if None in partition_keys and spec is not None:
        partitioner(spec, columns.written, columns.arrow)


def job_of(metadata: TableMetadata, order: RowOrder | None) -> CompactJob:
    """Collect what all tasks of a run have in common.

    Raises: Unsupported, for columns that can't be carried over or sorted by; Refused.
    """
    schema = metadata.current_schema
    columns = TableColumns(
        written_schema(schema, metadata.format_version),
        every_column(metadata),
        name_mapping(metadata),
    )
    table_order = metadata.sort_order(metadata.default_sort_order_id)
    ordered_ids = table_order.ordered_ids if table_order else ()
    modes = metrics_modes(metadata.properties, schema, ordered_ids)
    sorting = None
    if order is not None:
        sort_keys(order, columns.written, arrow_schema(columns.written))
        sorting = Sorting(order, SORT_BYTES)
    options = write_options(metadata.properties, 0, modes)
    return CompactJob(columns, typed_specs(metadata), options, sorting, scheme_of_entries(metadata))


def merge_job(metadata: TableMetadata) -> MergeJob:
    """Collect what all tasks that merge deletes have in common."""
    return MergeJob(
        typed_specs(metadata),
        parquet_options(metadata.properties),
        scheme_of_entries(metadata),
        relative_base(metadata),
    )
