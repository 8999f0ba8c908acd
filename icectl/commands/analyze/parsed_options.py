"""The options of `icectl analyze`, checked and converted."""

from icectl.cli.options import read_options
from icectl.commands.analyze.options import EVERY_COLUMN, AnalyzeRequest
from icectl.commands.analyze.plan import MAX_REMOVED, AnalyzeOptions


def options_of(request: AnalyzeRequest) -> AnalyzeOptions:
    """Check the request, and return what is computed. Raises: UsageError."""
    values = read_options(request)
    columns, ratio = values["columns"], values["max_removed"]
    return AnalyzeOptions(
        columns=None if columns == (EVERY_COLUMN,) else columns,
        most_column_bytes=values["max_column_bytes"],
        of_columns=request.only != "partitions",
        of_partitions=request.only != "columns",
        full=request.full,
        refresh=request.refresh,
        sample=values["sample"],
        exact_deletes=request.exact_deletes,
        max_removed=MAX_REMOVED if ratio is None else ratio,
    )
