"""The options of `icectl rewrite-manifests`, checked and converted for a table."""

from collections.abc import Callable
from typing import Literal, cast

from icectl.cli.options import read_options
from icectl.commands.rewrite_manifests.options import RewriteRequest
from icectl.errors import UsageError
from icectl.format.layout import Layout, layout_name, layout_of_table
from icectl.format.manifest import FileFormat
from icectl.format.metadata import TableMetadata
from icectl.format.properties import LEAF_MAX_ENTRIES, TARGET_MANIFEST_SIZE_BYTES, read
from icectl.table.leaf_debt import limits_of
from icectl.table.manifest_groups import RewriteOptions
from icectl.table.manifest_lists import reader_of

Content = Literal["all", "data", "deletes"]
_FORMATS = {"avro": FileFormat.AVRO, "parquet": FileFormat.PARQUET}


def options_of(request: RewriteRequest) -> Callable[[TableMetadata], RewriteOptions]:
    """Check the request, and return what makes options of it for a table. Raises: UsageError."""
    values = read_options(request)
    form = request.manifest_format

    def of(metadata: TableMetadata) -> RewriteOptions:
        if form is not None and layout_name(metadata) != "iceberg-1.12":
            raise UsageError(
                "`--manifest-format` is for tables of version 4 as Iceberg 1.12 writes it",
                hint="for other tables, omit it: their version and layout decide the format",
            )
        layout = layout_of_table(metadata)
        target = values["target_size"] or read(metadata.properties, TARGET_MANIFEST_SIZE_BYTES)
        return RewriteOptions(
            target_size_bytes=reader_of(metadata, layout).manifest_target(target),
            every=request.rewrite_all,
            spec_id=values["spec_id"],
            sort_by=values["sort_by"] or (),
            min_manifests=values["min_manifests"] or 2,
            content=cast("Content", request.content),  # checked above
            max_entries=read(metadata.properties, LEAF_MAX_ENTRIES)
            if layout is Layout.SFC_1
            else None,
            leaf_limits=limits_of(metadata),
            file_format=None if form is None else _FORMATS[form],
        )

    return of
