"""What `icectl compact` would do to a table, in figures."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from icectl.cli.options import RunLimits
from icectl.commands.bill import Work
from icectl.commands.compact.clustering import MIN_DEPTH
from icectl.commands.compact.filters import FilterFigures, filter_figures
from icectl.commands.compact.options import CompactRequest
from icectl.commands.compact.parsed_options import engine_choice, options_of, with_method
from icectl.commands.compact.plan import ChosenFiles, choose
from icectl.commands.compact.plan_options import MIN_DELETE_FILES, CompactOptions
from icectl.commands.compact.work import converting_work, rewriting_work, work_of
from icectl.commands.sight import Sight
from icectl.commands.steps import (
    OPEN_COST_BYTES,
    HealthCheck,
    Judgement,
    Limit,
    Measure,
    Step,
    first_error,
)
from icectl.entries.deletes import delete_counts
from icectl.entries.file_verdicts import FileVerdict
from icectl.entries.partition_records import compared_rows
from icectl.entries.rows import equality_delete_files, smaller_than, total
from icectl.entries.summary import Totals
from icectl.errors import CorruptTable, Unsupported
from icectl.files.manifest.schema import check_list_known
from icectl.rows.choice import EngineChoice, weigh_engine
from icectl.rows.sort_rows import order_words
from icectl.table.rewrite_tasks import LOADED_COLUMNS
from icectl.units import print_count, print_reduction, print_size

COMMAND = "compact"
_NO_FILES, _LOCAL, _NO_FILTERS = Totals(), EngineChoice("local"), FilterFigures()
_SHOWN_PARTITIONS = 10
_COMPARED = ("data_file_count", "key_count", "row_count")


@dataclass(frozen=True, slots=True)
class CompactFigures:
    """Live files, and what a compaction makes of those that it rewrites.

    `compared` has what readers compare for equality deletes, as compared_rows. `order` is that of
    rows in words, and `depth` the number of files that hold the value of a row on average; of
    `overlapping` files up to `most_overlapping` hold one value.
    """

    totals: Totals = _NO_FILES
    small_files: int = 0
    small_bytes: int = 0
    smallest_bytes: int = 0
    target_bytes: int = 0
    input_files: int = 0
    output_files: int = 0
    merge_bytes: int = 0
    rewrite_bytes: int = 0
    deleted_rows: int = 0
    touched_files: int = 0
    most_deletes: int = 0
    dangling: int = 0
    compared: tuple[Mapping[str, Any], ...] = ()
    converted_deletes: int = 0
    order: str | None = None
    depth: float | None = None
    overlapping: int = 0
    most_overlapping: int = 0
    engine: EngineChoice = _LOCAL
    filters: FilterFigures = _NO_FILTERS

    @property
    def saved_files(self) -> int:
        """The number of files that there are fewer."""
        return max(self.input_files - self.output_files, 0)

    @property
    def deleted_ratio(self) -> float:
        """The part of the rows that position deletes and vectors remove."""
        records = self.totals.record_count
        return min(self.deleted_rows / records, 1.0) if records else 0.0


def plan(sight: Sight, request: CompactRequest) -> Judgement:
    """Plan a compaction as far as its groups of files; tasks are not made."""
    metadata = sight.metadata
    options = with_method(options_of(request, RunLimits())(metadata), request, sight.settings)
    has_bounds = options.order is not None and not options.every
    files = sight.files_with_bounds if has_bounds else sight.files
    counts = delete_counts(files.matches)
    small = smaller_than(files.data, options.sizes.smallest)
    compared: tuple[Mapping[str, Any], ...] = ()
    if len(equality_delete_files(files.deletes)):
        compared = tuple(compared_rows(files.matches, metadata))
    figures = CompactFigures(
        totals=sight.totals,
        small_files=len(small),
        small_bytes=total(small, "file_size_in_bytes"),
        smallest_bytes=options.sizes.smallest,
        target_bytes=options.sizes.target,
        deleted_rows=sight.deleted_row_count,
        touched_files=int((counts > 0).sum()),
        most_deletes=int(counts.max(initial=0)),
        dangling=sight.dangling_count,
        compared=compared,
        filters=filter_figures(sight.reader.context, metadata, files.data),
    )
    error = first_error(sight.check_base, sight.check_files, sight.check_deletes)
    if isinstance(error, CorruptTable):
        return Judgement(figures, error=error)
    if options.deletes_only:
        return _of_deletes(sight, options, figures)
    try:
        chosen = choose(metadata, files, options)
        chosen.check()
        converting = _converting(sight, chosen)
    except (Unsupported, CorruptTable) as problem:
        return Judgement(figures, error=error or problem)
    rewritten, decoded = chosen.stored_bytes, chosen.decoded_bytes
    overlaps, current_schema = chosen.planning.layout.overlaps, metadata.current_schema
    figures = replace(
        figures,
        input_files=len(chosen.rows),
        output_files=chosen.expected_files,
        merge_bytes=rewritten - decoded,
        rewrite_bytes=decoded,
        converted_deletes=len(chosen.converted_rows),
        order=None if options.order is None else order_words(options.order, current_schema),
        depth=chosen.planning.layout.average_depth,
        overlapping=sum(len(overlap.files) for overlap in overlaps),
        most_overlapping=max((overlap.depth for overlap in overlaps), default=0),
        engine=weigh_engine(engine_choice(sight.settings, request), rewritten),
    )
    measures = _measures(chosen, figures)
    if (chosen.drafts or figures.converted_deletes) and error is None:
        error = first_error(
            lambda: check_list_known(sight.manifests), lambda: _check_output(sight, chosen)
        )
    removed = figures.dangling + figures.converted_deletes
    if chosen.drafts:
        removed = figures.totals.delete_file_count
    rewriting = rewriting_work(
        files,
        chosen.rows,
        decoded_bytes=decoded,
        new_bytes=chosen.expected_bytes,
        new_files=figures.output_files,
        saved_depth=chosen.saved_depth,
    )
    return Judgement(
        figures,
        measures,
        benefit_bytes=(figures.saved_files + removed) * OPEN_COST_BYTES,
        error=error if measures else None,
        options=_options(request, figures),
        note=str(figures.engine),
        work=sight.run_work + Work(fewer_requests=removed) + rewriting + converting,
    )


def _converting(sight: Sight, chosen: ChosenFiles) -> Work:
    """Return what conversions take; manifests are read again, where there are any."""
    if not len(chosen.converted_rows):
        return Work()
    from icectl.commands.compact.conversions import stated_of_conversions  # only where some are due

    files = sight.files_with(LOADED_COLUMNS)
    stated = stated_of_conversions(sight.reader.context, sight.metadata, files)
    planned = replace(chosen, planning=replace(chosen.planning, files=files))
    return converting_work(planned.conversions(stated))


def _check_output(sight: Sight, chosen: ChosenFiles) -> None:
    from icectl.rows.jobs import check_output  # only where there is work

    keys = {draft.partition_key for draft in chosen.drafts}
    options = chosen.planning.options
    check_output(sight.metadata, options.order, options.output_spec_id, keys)


def _measures(chosen: ChosenFiles, figures: CompactFigures) -> tuple[Measure, ...]:
    measures = []
    by_size = chosen.count(FileVerdict.SMALL, FileVerdict.LARGE)
    by_rows = chosen.count(FileVerdict.MANY_DELETED_ROWS)
    by_files = chosen.count(FileVerdict.MANY_DELETE_FILES)
    if by_size:
        measures.append(Measure("files-to-save", figures.saved_files, _reduced(figures)))
    if figures.overlapping:
        text = f"{_overlap(figures)} in the order of the table"
        measures.append(Measure("clustering-depth", figures.most_overlapping, text))
    if by_rows:
        text = f"many rows of {print_count(by_rows, 'file')} are deleted"
        measures.append(Measure("deleted-rows", figures.deleted_ratio, text))
    if by_files:
        text = f"{print_count(figures.most_deletes, 'delete file')} on one data file"
        measures.append(Measure("deletes-per-file", figures.most_deletes, text))
    if figures.converted_deletes:
        files = print_count(figures.converted_deletes, "equality delete file")
        text = f"{files} to convert, {figures.most_deletes:,} delete files on one data file"
        measures.append(Measure("deletes-per-file", figures.most_deletes, text))
    if figures.dangling:
        verb = "applies" if figures.dangling == 1 else "apply"
        text = f"{print_count(figures.dangling, 'delete file')} {verb} to nothing"
        measures.append(Measure("dangling-deletes", figures.dangling, text))
    return tuple(measures)


def _reduced(figures: CompactFigures) -> str:
    files = print_count(figures.input_files, "file")
    if figures.saved_files:
        return print_reduction(figures.input_files, figures.saved_files)
    return f"compaction would make {figures.output_files:,} of {files}"


def _of_deletes(sight: Sight, options: CompactOptions, figures: CompactFigures) -> Judgement:
    """Return what `--deletes-only` would do, which no limit is for; the table is loaded again."""
    from icectl.commands.compact.run import prepare  # only policies ask for that

    prepared = prepare(sight.reader.context, "main", lambda _: options)
    if not prepared.plan.has_work:
        return Judgement(figures)
    count = sum(group.input_files for group in prepared.plan.groups) + figures.dangling
    text = f"{print_count(count, 'delete file')} would be merged or removed"
    work = work_of(prepared.plan, prepared.files, prepared.removed_delete_files)
    measures, benefit = (Measure("", 0, text),), count * OPEN_COST_BYTES
    return Judgement(figures, measures, benefit, work=sight.run_work + work)


def _options(request: CompactRequest, figures: CompactFigures) -> tuple[str, ...]:
    given = {
        "--strategy": None if figures.order is None else request.strategy,
        "--min-delete-files": request.min_delete_files,
        "--min-depth": request.min_depth,
        "--sort-ratio": request.sort_ratio,
    }
    return tuple(
        word for name, value in given.items() if value is not None for word in (name, value)
    )


def with_limits(request: CompactRequest, limits: Mapping[str, float]) -> CompactRequest:
    """Return the request that takes files with as many deletes, and overlaps, as limits say."""
    if request.deletes_only:
        return request
    deletes = limits.get("deletes-per-file", MIN_DELETE_FILES)
    if request.min_delete_files is None and deletes != MIN_DELETE_FILES:
        request = replace(request, min_delete_files=f"{max(deletes, 1):.0f}")
    depth = limits.get("clustering-depth", MIN_DEPTH)
    if request.min_depth is None and depth != MIN_DEPTH:
        request = replace(request, min_depth=f"{max(ceil(depth), MIN_DEPTH)}")
    return request


def _overlap(figures: CompactFigures) -> str:
    files = print_count(figures.overlapping, "file")
    return f"{files} overlap, up to {figures.most_overlapping:,} at one value,"


def _clustering(figures: CompactFigures) -> str:
    if figures.order is None:
        return "no sort order to compare files by"
    text = f"rows {figures.order}: "
    text += "no bounds" if figures.depth is None else f"average depth {figures.depth:,.2f}"
    if not figures.overlapping:
        return f"{text}; no files overlap that are due"
    return f"{text}; {_overlap(figures).rstrip(',')}"


def _clustering_members(figures: CompactFigures) -> Mapping[str, object]:
    return {
        "order": figures.order,
        "average_depth": None if figures.depth is None else round(figures.depth, 4),
        "overlapping_file_count": figures.overlapping,
        "most_overlapping": figures.most_overlapping,
    }


def _small_files(figures: CompactFigures) -> str:
    text = (
        f"{figures.small_files:,} of {print_count(figures.totals.data_file_count, 'data file')} "
        f"below {print_size(figures.smallest_bytes)}"
    )
    if not figures.input_files:
        return f"{text}; no file group meets the thresholds"
    ways = (
        f"{print_size(figures.merge_bytes)} copied without decoding, "
        f"{print_size(figures.rewrite_bytes)} rewritten"
    )
    return f"{text}; {_reduced(figures)} ({ways})"


def _deletes(figures: CompactFigures) -> str:
    totals = figures.totals
    if not totals.delete_file_count:
        return "no delete files"
    return (
        f"{print_count(totals.delete_file_count, 'delete file')} on {figures.touched_files:,} of "
        f"{print_count(totals.data_file_count, 'data file')}, at most {figures.most_deletes:,} on "
        f"one; {figures.deleted_ratio:.1%} of the rows deleted by position; "
        f"{figures.dangling:,} dangling{_keys(figures)}"
    )


def _keys(figures: CompactFigures) -> str:
    if not figures.compared:
        return ""
    keys = print_count(_sum(figures, "key_count"), "key")
    rows = print_count(_sum(figures, "row_count"), "row")
    text = f"; readers compare {keys} of equality deletes with {rows}"
    if len(figures.compared) > 1:
        worst = figures.compared[0]
        text += f", most in `{worst['partition_path']}`: {worst['key_count']:,} with "
        text += f"{worst['row_count']:,}"
    return text if figures.converted_deletes else f"{text}; `compact --deletes-only` converts them"


def _sum(figures: CompactFigures, column: str) -> int:
    return sum(row[column] for row in figures.compared)


def _small_members(figures: CompactFigures) -> Mapping[str, object]:
    return {
        "small_file_count": figures.small_files,
        "small_file_bytes": figures.small_bytes,
        "small_below_bytes": figures.smallest_bytes,
        "reducible_file_count": figures.input_files,
        "surplus_file_count": figures.saved_files,
        "merge_bytes": figures.merge_bytes,
        "rewrite_bytes": figures.rewrite_bytes,
    }


def _delete_members(figures: CompactFigures) -> Mapping[str, object]:
    totals = figures.totals
    return {
        "position_delete_file_count": totals.position_delete_file_count,
        "equality_delete_file_count": totals.equality_delete_file_count,
        "deletion_vector_count": totals.deletion_vector_count,
        "delete_file_bytes": totals.delete_file_bytes,
        "dangling_delete_count": figures.dangling,
        "touched_data_file_count": figures.touched_files,
        "most_deletes_on_one_file": figures.most_deletes,
        "compared_key_count": _sum(figures, "key_count"),
        "compared_row_count": _sum(figures, "row_count"),
        "compared_partitions": [
            {
                "partition": row["partition_path"],
                **{name: row[name] for name in ("spec_id", *_COMPARED)},
            }
            for row in figures.compared[:_SHOWN_PARTITIONS]
        ],
        "converted_delete_file_count": figures.converted_deletes,
        "position_delete_count": figures.deleted_rows,
        "deleted_ratio": round(figures.deleted_ratio, 4),
    }


_LIMITS = (
    Limit("files-to-save", "fewer files", "compact if that eliminates N files or more"),
    Limit(
        "deleted-rows",
        "of the rows",
        "compact if this ratio of the table's rows or more is deleted",
        is_ratio=True,
    ),
    Limit(
        "deletes-per-file",
        "on one data file",
        "compact if a data file has at least N delete files; such files are rewritten, or their "
        "equality deletes converted, unless `min-delete-files` sets another number",
    ),
    Limit(
        "clustering-depth",
        "files at one value",
        "compact if N or more files overlap in the table's sort order; only such files are sorted, "
        "unless `min-depth` sets another number",
    ),
    Limit("dangling-deletes", "dangling", "compact if at least N delete files apply to nothing"),
)

STEP: Step = Step(
    COMMAND,
    CompactRequest,
    lambda _settings, _now_ms, request: options_of(request, RunLimits()),
    plan,
    CompactFigures(),
    _LIMITS,
    (
        HealthCheck("small_files", "small files", ("files-to-save",), _small_files, _small_members),
        HealthCheck(
            "overlaps", "clustering", ("clustering-depth",), _clustering, _clustering_members
        ),
        HealthCheck(
            "delete_debt",
            "deletes",
            ("deleted-rows", "deletes-per-file", "dangling-deletes"),
            _deletes,
            _delete_members,
        ),
        HealthCheck(
            "bloom_filters",
            "Bloom filters",
            (),
            lambda figures: figures.filters.text,
            lambda figures: figures.filters.members,
        ),
    ),
    not_in_policies={"branch": None, "rewrite-all": None, "max-rewrite": "budget.rewrite-bytes"},
    with_limits=with_limits,
    asked_by_health=lambda: CompactRequest(strategy="auto"),
)
