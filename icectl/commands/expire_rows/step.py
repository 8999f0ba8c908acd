"""What `icectl expire-rows` would do to a table, in figures: by manifests alone, or by its plan."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from icectl.cli.options import read_options
from icectl.commands.bill import GETS_OF_DATA_FILE, Work, gets_in_ranges, gets_of, puts_of
from icectl.commands.expire_rows.options import ExpireRowsRequest
from icectl.commands.sight import Sight
from icectl.commands.steps import HealthCheck, Judgement, Limit, Measure, Step, first_error
from icectl.entries.columns import Integers
from icectl.entries.may_match import all_match, may_match
from icectl.entries.rows import numbers
from icectl.errors import CorruptTable, Refused, StorageError, Unsupported, UsageError
from icectl.files.manifest.schema import check_list_known
from icectl.format.properties import TTL_AGE, TTL_COLUMN
from icectl.table.live_files import check_deletes
from icectl.units import print_count

if TYPE_CHECKING:  # few tables have such rows
    from icectl.commands.expire_rows.plan import ExpireRowsPlan

COMMAND = "expire-rows"
_FOOTER_BYTES = 64 << 10

_LIMIT = Limit(
    "expired-rows",
    "of the rows",
    "delete rows if this ratio of them or more may have expired",
    is_ratio=True,
)


@dataclass(frozen=True, slots=True)
class ExpiringFigures:
    """The expired rows, `whole_rows` in `whole_files`.

    As far as bounds and partitions show, these files have no others; some rows of `partial_files`
    may have expired too. There are none of those where the files were read.
    """

    filter: str | None = None
    live_rows: int = 0
    whole_files: int = 0
    whole_rows: int = 0
    partial_files: int = 0
    partial_rows: int = 0

    @property
    def most_ratio(self) -> float:
        """The part of the rows that may go, at most."""
        return min((self.whole_rows + self.partial_rows) / max(self.live_rows, 1), 1.0)


def plan(sight: Sight, request: ExpireRowsRequest) -> Judgement:
    """Plan a deletion by manifests; where the sight is exact, files are read as the command does.

    A table without a filter, in the request or its properties, needs none. One that is not clear
    is withheld work.
    """
    metadata = sight.metadata
    has_rule = any(item.name in metadata.properties for item in (TTL_COLUMN, TTL_AGE))
    if request.where is None and not has_rule:
        return Judgement(ExpiringFigures())
    from icectl.commands.expire_rows.plan import (  # few tables have such rows
        MAX_FRACTION,
        filter_of,
        over_fraction,
    )
    from icectl.commands.rows.deletion import live_counts

    try:
        chosen = filter_of(metadata, request.where, sight.now_ms, any_filter=False)
    except (UsageError, Refused) as problem:
        unknown = Measure(_LIMIT.name, 1.0, "the filter for expired rows is ambiguous")
        return Judgement(ExpiringFigures(), (unknown,), error=problem)
    error = first_error(sight.check_base, sight.check_files)
    if isinstance(error, CorruptTable):
        return Judgement(ExpiringFigures(), error=error)
    files = sight.files_with_bounds
    scope = chosen.predicate, metadata.partition_specs, metadata.schemas
    may, every = may_match(files.data, *scope), all_match(files.data, *scope)
    live = live_counts(files)
    whole, partial = may & every & (live > 0), may & ~every & (live > 0)
    figures = ExpiringFigures(
        filter=chosen.text,
        live_rows=int(live.sum()),
        whole_files=int(whole.sum()),
        whole_rows=int(live[whole].sum()),
        partial_files=int(partial.sum()),
        partial_rows=int(live[partial].sum()),
    )
    if not (figures.whole_files or figures.partial_files):
        return Judgement(figures, error=error)
    sizes = numbers(files.data, "file_size_in_bytes")
    ratio = read_options(request)["max_fraction"]
    most = MAX_FRACTION if ratio is None else ratio
    refusal = over_fraction(figures.whole_rows, figures.live_rows, most)
    error = error or first_error(
        lambda: check_deletes(files, np.flatnonzero(whole | partial)),
        lambda: check_list_known(files.listed),
    )
    if sight.is_exact and error is None:
        try:
            found = _looked(sight, request, most)
        except (Refused, Unsupported, CorruptTable, StorageError) as problem:
            error = problem
        else:
            figures = replace(
                figures,
                whole_files=len(found.files),
                whole_rows=found.deleted_row_count,
                partial_files=0,
                partial_rows=0,
            )
            refusal = found.refusal
            if not found.has_work:
                return Judgement(figures)
    footers = np.minimum(sizes[whole], _FOOTER_BYTES)
    is_rewrite = request.method == "rewrite" or metadata.format_version == 1
    work = sight.run_work + _work_of_rows(sizes[partial], is_rewrite=is_rewrite)
    work += Work(
        other_bytes=int(footers.sum()),
        get_requests=figures.whole_files,
        fewer_requests=GETS_OF_DATA_FILE * figures.whole_files,
    )
    return Judgement(
        figures,
        (Measure(_LIMIT.name, figures.most_ratio, f"{_rows(figures)} expired"),),
        benefit_bytes=int(sizes[whole].sum()),
        error=error or refusal,
        work=work,
    )


def _looked(sight: Sight, request: ExpireRowsRequest, most: float) -> "ExpireRowsPlan":
    """Return the plan of the command. Raises and cost: as its own."""
    from icectl.commands.expire_rows.run import ExpireRowsOptions, look
    from icectl.commands.rows.deletion import ThreadFinder

    context = sight.reader.context
    options = ExpireRowsOptions(
        branch=request.branch,
        where=request.where,
        any_filter=request.yes_any_filter,
        method=request.method,
        verify=request.verify,
        max_fraction=most,
        now_ms=sight.now_ms,
    )
    return look(context, ThreadFinder(context), sight.metadata, sight.snapshot, options)[0]


def _work_of_rows(sizes: Integers, *, is_rewrite: bool) -> Work:
    """Return what it takes to find rows in files, and to write files without them, or deletes.

    A rewrite reads each file again, and its new one. How many rows go is not known, so they count
    as none.
    """
    count, size_bytes = len(sizes), int(sizes.sum())
    gets, deletes = gets_of(sizes.tolist()), 2 * count  # what is new is looked up, and read again
    if not is_rewrite:
        return Work(decoded_bytes=size_bytes, get_requests=gets + deletes, put_requests=count)
    return Work(
        decoded_bytes=2 * size_bytes,
        other_bytes=size_bytes,
        written_bytes=size_bytes,
        get_requests=2 * gets + deletes + 2 * count + gets_in_ranges(size_bytes, count),
        put_requests=puts_of(size_bytes, count),
    )


def _rows(figures: ExpiringFigures) -> str:
    whole = (
        f"{print_count(figures.whole_rows, 'row')} in {print_count(figures.whole_files, 'file')}"
    )
    some = f"some of {figures.partial_rows:,} in {print_count(figures.partial_files, 'file')}"
    if not figures.partial_files:
        return whole
    return f"{whole}, and {some}" if figures.whole_files else some


def _found(figures: ExpiringFigures) -> str:
    if figures.filter is None:
        return "no row has a date of expiry; `icectl.ttl.column` and `icectl.ttl.age` give one"
    if not (figures.whole_files or figures.partial_files):
        return f"no row with {figures.filter}"
    rows = print_count(figures.live_rows, "row")
    return f"of {rows}, {_rows(figures)} are expired: {figures.filter}"


def _members(figures: ExpiringFigures) -> Mapping[str, object]:
    return {
        "filter": figures.filter,
        "live_row_count": figures.live_rows,
        "expired_file_count": figures.whole_files,
        "expired_row_count": figures.whole_rows,
        "doubtful_file_count": figures.partial_files,
        "doubtful_row_count": figures.partial_rows,
        "most_expired_ratio": figures.most_ratio,
    }


STEP: Step = Step(
    COMMAND,
    ExpireRowsRequest,
    lambda _settings, _now_ms, request: read_options(request),
    plan,
    ExpiringFigures(),
    (_LIMIT,),
    (HealthCheck("expired_rows", "expired rows", (_LIMIT.name,), _found, _members),),
    deletes=True,
    is_owed=True,
    not_in_policies={"branch": None, "yes-any-filter": None},
)
