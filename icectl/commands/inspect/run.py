"""The views of `icectl inspect`: options checked, the view run, its output chosen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from errno import ENOSPC
from functools import partial
from itertools import chain, islice
from pathlib import Path
from shlex import quote

from icectl.catalog.identifier import without_quoted
from icectl.catalog.metadata_files import METADATA_FOLDER
from icectl.cli.console import Console
from icectl.cli.document import Outcome, id_text, put_in_place
from icectl.cli.naming import (
    configuration_of,
    in_quotes,
    may_be_short,
    name_in_catalog,
    name_in_hints,
    options_in_hints,
)
from icectl.cli.options import Common, read_options
from icectl.cli.patterns import is_pattern
from icectl.cli.session import connect_to, identity_of, open_session
from icectl.cli.settings import DEFAULT_CATALOG, Settings, parse_option
from icectl.cli.targets import is_many as is_many_tables
from icectl.commands.inspect.options import ViewRequest
from icectl.commands.inspect.summary import is_incomplete, oddities_of, print_summary, read_summary
from icectl.commands.inspect.views import VIEWS, Row, RowSet, View, columns_hint
from icectl.env import Env
from icectl.errors import (
    NO_TABLE,
    Incomplete,
    MissingFile,
    ProblemsFound,
    StorageError,
    TableNotFound,
    UsageError,
)
from icectl.storage.kept import KeepingStore
from icectl.table.context import TableContext
from icectl.table.reader import Gaps, Reader, SnapshotChoice, chosen_snapshot, parse_snapshot_id
from icectl.units import parse_instant

_HEALTH = "health"
_DEFAULT_TREE_LIMIT = 20
_LAZY_TEXT = frozenset({"files", "entries"})
"""Views whose text form asks the manifests only for what it prints."""


@dataclass(frozen=True, slots=True)
class _ParsedRequest:
    """The options, parsed; what does not concern the view was refused."""

    view: View
    options: ViewRequest
    format: str
    choice: SnapshotChoice
    from_id: int | None
    to_id: int | None
    columns: tuple[str, ...] | None
    limit: int | None
    settings: Settings
    table: str
    hint_options: str
    name_in_logs: str | None
    other: Callable[[str], TableContext]

    @property
    def is_name(self) -> bool:
        """Whether the table is named in a catalog."""
        return self.name_in_logs is not None


_Shown = tuple[Row, Callable[[Console], None]]
"""A view's result for JSON, and how to print it otherwise."""


def run(
    common: Common, table: str | None, view: str, options: ViewRequest, more: Sequence[str] = ()
) -> Outcome:
    """Run one view; with `more` words the last is the view, and the others are tables.

    Without a table the catalog of `--catalog`, or the default one, is shown, or its health.
    Raises: UsageError for options that make no sense together; what reading the table raises.
    """
    default = common.shell.settings.read(DEFAULT_CATALOG)
    if table in (None, _HEALTH) and common.catalog is None and default is not None:
        common = replace(common, catalog=default)
    if table is None or (table == _HEALTH and view == "summary" and common.catalog is not None):
        if common.catalog is None:
            message, hint = "`TABLE` is missing", "`icectl inspect --help` shows how it is used"
            raise UsageError(message, hint=hint)
        configuration = configuration_of(common)
        if common.catalog not in configuration and not common.catalog_option:
            raise configuration.unknown(common.catalog)
        view = view if table is None else _HEALTH
        table, common = in_quotes(common.catalog), replace(common, catalog=None)
    words = [table, view, *more]
    tables, view = words[:-1], words[-1]
    if len(tables) > 1 and _view(tables[0], view).name != _HEALTH:
        raise UsageError(
            f"the view `{view}` shows one table, but {len(tables)} are named",
            hint="only `health` takes several",
        )
    if view == _HEALTH and _is_warehouse(common, tables, options):
        return _show_warehouse(common, tables, options)
    try:
        return _of_one(common, table, view, options)
    except TableNotFound as error:
        plain = without_quoted(table)
        if view != _HEALTH and is_pattern(plain) and "/" not in plain:
            raise UsageError(
                f"the view `{view}` shows one table, and `{table}` is a pattern",
                hint=f"`icectl inspect {quote(table)} health` is the only view for patterns",
            ) from None
        if view != _HEALTH or error.error_id != TableNotFound.id or _is_of_snapshot(options):
            raise
        return _or_the_first(error, lambda: _show_warehouse(common, tables, options))


def _is_warehouse(common: Common, tables: Sequence[str], options: ViewRequest) -> bool:
    """Return whether the health of several tables, or of a listing, is asked for."""
    if _is_of_snapshot(options) or (len(tables) == 1 and tables[0] in VIEWS):
        return False
    asks_for_rows = _asks_for_rows(common, options)
    is_many = is_many_tables(common, tables) or _is_namespace(common, tables[0])
    return is_many or asks_for_rows or bool(options.html)


def _asks_for_rows(common: Common, options: ViewRequest) -> bool:
    is_of_rows = bool(options.limit or options.columns)
    return is_of_rows or _format(common, options) in ("jsonl", "csv")


def _is_of_snapshot(options: ViewRequest) -> bool:
    return bool(options.snapshot or options.ref or options.as_of)


def _show_warehouse(common: Common, tables: Sequence[str], options: ViewRequest) -> Outcome:
    from icectl.commands.inspect import warehouse
    from icectl.commands.inspect.rows_report import headings_of, print_chosen
    from icectl.commands.inspect.warehouse_plan import WAREHOUSE_COLUMNS

    form = _format(common, options)
    _check_options(VIEWS[_HEALTH], options, form, several=True)
    columns = _columns("warehouse", options.columns)
    unknown = set(columns or ()) - set(WAREHOUSE_COLUMNS)
    if unknown:
        raise UsageError(
            f"the health of tables has no column `{min(unknown)}`",
            hint=columns_hint(WAREHOUSE_COLUMNS, headings_of("warehouse")),
        )
    request = warehouse.WarehouseRequest(
        failing=_failing(options),
        printer=_row_printer(form) or (print_chosen if columns else None),
        columns=columns,
        limit=read_options(options)["limit"],
        html=options.html,
        write=lambda path, text: _write(path, text, common.shell.env),
    )
    return warehouse.run(common, tables, request)


def _of_one(common: Common, table: str, view: str, options: ViewRequest) -> Outcome:
    if _may_be_listing(view, options) and table not in VIEWS:
        is_listing = _is_namespace(common, table)
        is_of_rows = not is_listing and _asks_for_rows(common, options)
        if is_listing or (is_of_rows and not Path(table, METADATA_FOLDER).is_dir()):
            return _listing(common, table, options)
    try:
        return _show_table(common, table, view, options)
    except TableNotFound as error:
        if error.error_id != TableNotFound.id or not _may_be_listing(view, options):
            raise
        return _or_the_first(error, lambda: _listing(common, table, options))


def _or_the_first(error: TableNotFound, look: Callable[[], Outcome]) -> Outcome:
    """Look below a folder that is no table; if nothing is there, the first error stands.

    Its hint does not name the listing then, which has found nothing.
    """
    try:
        return look()
    except TableNotFound:
        error.hint = error.hint_after_listing
        raise error from None
    except StorageError as cause:
        raise error from cause


def _is_namespace(common: Common, table: str) -> bool:
    """Return whether TABLE is a name in a catalog too short for a table's."""
    if not may_be_short(common, table):
        return False
    name = name_in_catalog(common, table)
    return name is not None and len(name.parts) < 2


def _may_be_listing(view: str, options: ViewRequest) -> bool:
    """Return whether no option is of one table only."""
    return view == "summary" and not any(
        (options.snapshot, options.ref, options.as_of, options.all_snapshots, options.content,
         options.where, options.from_, options.to, options.html, options.check, options.fail_on)
    )  # fmt: skip


def _listing(common: Common, table: str, options: ViewRequest) -> Outcome:
    from icectl.commands.inspect.warehouse import VIEW, list_tables

    columns, form = _columns(VIEW, options.columns), _format(common, options)
    return list_tables(common, table, columns, options.limit, form)


def _format(common: Common, options: ViewRequest) -> str:
    """Return the format of the output. Raises: UsageError, for two formats."""
    if common.json and options.format not in (None, "json"):
        raise UsageError(
            f"`--json` and `--format {options.format}` cannot be used together",
            hint="leave one out",
        )
    return "json" if common.json else options.format or "text"


def _show_table(common: Common, table: str, view: str, options: ViewRequest) -> Outcome:
    request = _parse(common, table, view, options)
    reader = open_session(common, table, read_only=True).open_for_reading("shown")
    reader, (result, print_result) = _read_view(reader, request)

    is_read = request.format == "json" or not request.view.rows
    incomplete = is_read and _lacks(reader, request)

    def render(console: Console) -> None:
        print_result(console)
        missing = Incomplete("part of the view is missing: see the warnings above")
        if incomplete:
            console.error(missing)
        elif not is_read and _lacks(reader, request):  # read while it was printed
            raise missing

    checks = [check for check in (result, *result.values()) if isinstance(check, Mapping)]
    fails = any(check.get("verdict") in _failing(options) for check in checks)
    fails |= options.check and request.view.name == "matches" and bool(result["files"])
    return Outcome(
        command="inspect",
        result={"view": request.view.name, **result},
        render=render,
        table=identity_of(reader.loaded),
        exit_code=ProblemsFound.exit_code if fails else Incomplete.exit_code if incomplete else 0,
        status="incomplete" if incomplete and not fails else "done",
    )


def _read_view(reader: Reader, request: _ParsedRequest) -> tuple[Reader, _Shown]:
    """Read the view, and again if a commit has removed files that it lacks.

    Returns the reader whose table is shown, too.
    """
    read = _SHOW.get(request.view.name, _show_rows)
    with_gaps = request.view.name != "changes"  # what one side lacks would be shown as a change
    reader = replace(reader, gaps=Gaps() if with_gaps else None)
    try:
        shown = read(reader, request)
        problems = reader.gaps.problems.values() if reader.gaps is not None else ()
        raised = next((one for one in problems if isinstance(one, MissingFile)), None)
    except MissingFile as error:
        shown, raised = None, error
    if raised is not None:
        newest = reader.context.catalog.load(to_show=True)
        if newest.metadata_location != reader.loaded.metadata_location:
            reader = replace(reader, loaded=newest, gaps=Gaps() if with_gaps else None)
            return reader, read(reader, request)
        if shown is None:
            raise raised
    assert shown is not None
    return reader, shown


def _show_summary(reader: Reader, request: _ParsedRequest) -> _Shown:
    result = read_summary(reader, request.choice)
    name = request.table if request.is_name else None
    return result, lambda console: print_summary(console, result, name)


def _show_health(reader: Reader, request: _ParsedRequest) -> _Shown:
    from icectl.commands.inspect.health import health, print_health

    context = replace(reader.context, store=KeepingStore(reader.context.store))
    reader = replace(reader, context=context)
    shown = health(reader, request.choice, request.settings, request.table, request.other)
    return shown.row, lambda console: print_health(
        console, shown, request.table, request.hint_options
    )


def _show_clustering(reader: Reader, request: _ParsedRequest) -> _Shown:
    from icectl.commands.inspect.clustering import SHOWN_PARTITIONS, clustering, print_clustering

    limit = request.limit or SHOWN_PARTITIONS
    result = clustering(reader, request.choice, request.columns, limit)
    return result, lambda console: print_clustering(console, result)


def _show_advice(reader: Reader, request: _ParsedRequest) -> _Shown:
    from icectl.commands.inspect.advice import AdviceRequest, advice, print_advice

    options = request.options
    if not options.queries and request.columns is None:
        raise UsageError(
            "the view `advice` needs logs of queries",
            hint="give logs with `--queries FILE`, or searched columns with `--columns`",
        )
    name = (
        options.queries_table
        or request.name_in_logs
        or ".".join(
            part.removesuffix(".db")
            for part in reader.metadata.location.rstrip("/").split("/")[-2:]
        )
    )
    result = advice(
        reader,
        request.choice,
        AdviceRequest(
            options.queries or (),
            request.columns,
            (name, reader.metadata.location.rstrip("/")),
            request.table,
            request.hint_options,
            request.settings,
        ),
    )
    return result, lambda console: print_advice(console, result)


def _show_matches(reader: Reader, request: _ParsedRequest) -> _Shown:
    from icectl.commands.inspect.matches import matches, print_matches

    result = matches(reader, request.options.where)
    return result, lambda console: print_matches(console, result)


def _show_changes(reader: Reader, request: _ParsedRequest) -> _Shown:
    from icectl.commands.inspect.changes import changes, print_changes
    from icectl.commands.inspect.changes_plan import CHANGED_FILE_COLUMNS

    result = changes(reader, request.from_id, request.to_id, request.limit)
    printer = _row_printer(request.format)
    if printer is not None:
        files = RowSet(CHANGED_FILE_COLUMNS, result["files"])
        return result, lambda console: printer(console, files)
    return result, lambda console: print_changes(console, result, reader.metadata.location)


def _show_tree(reader: Reader, request: _ParsedRequest) -> _Shown:
    from icectl.commands.inspect.summary import tree
    from icectl.commands.inspect.tree_plan import tree_json
    from icectl.commands.inspect.tree_report import mermaid, print_tree, tree_page

    root = tree(reader, request.choice, request.limit or _DEFAULT_TREE_LIMIT)
    base, html = reader.metadata.location, request.options.html
    result = {"tree": tree_json(root), "html": html}
    if html is not None:
        _write(html, tree_page(root, base), reader.context.env)
        return result, lambda console: console.say(f"wrote {html}")
    if request.format == "mermaid":
        return result, lambda console: console.write(mermaid(root, base))
    return result, lambda console: print_tree(console, root, base)


def _show_rows(reader: Reader, request: _ParsedRequest) -> _Shown:
    from icectl.commands.inspect import read_rows
    from icectl.commands.inspect import rows_report as report

    columns, view, every = request.columns, request.view.name, request.options.all_snapshots
    if columns is not None:
        columns = report.source_names(view, columns)
    elif request.format == "text" and view in _LAZY_TEXT:
        columns = report.text_members(view)
    where = None
    if request.options.where is not None:
        from icectl.entries.conditions import parse_where

        where = parse_where(request.options.where, reader.metadata)
    rows = read_rows.read_view(
        reader,
        read_rows.RowRequest(
            view=request.view,
            choice=request.choice,
            all_snapshots=every,
            content=request.options.content,
            where=where,
            columns=columns,
            headings=report.headings_of(view),
            limit=request.limit,
        ),
    )
    if request.columns is not None and request.format in ("text", "csv"):
        rows = report.with_headings(view, rows, request.columns)
    has_snapshot = request.view.of_snapshot and not every
    snapshot = chosen_snapshot(reader.metadata, request.choice) if has_snapshot else None
    result: dict[str, object] = {"snapshot_id": id_text(snapshot.snapshot_id) if snapshot else None}
    if request.format == "json":
        return result | {"rows": list(rows.rows)}, lambda _: None
    remaining = iter(rows.rows)
    first = list(islice(remaining, 1))
    if not first:  # before a header is printed it is known what keeps all rows from being read
        is_incomplete(reader, request.view, request.choice, all_snapshots=every)
    rows = RowSet(rows.columns, chain(first, remaining))
    printer = _row_printer(request.format)
    if printer is not None:
        return result, lambda console: printer(console, rows)
    if request.columns is not None:
        return result, lambda console: report.print_chosen(console, rows)
    base = reader.metadata.location
    return result, lambda console: report.print_rows(console, view, rows, base)


def _lacks(reader: Reader, request: _ParsedRequest) -> bool:
    """Tell of what is odd in what was shown, and whether part of it is missing.

    Raises: what keeps all of it from being shown.
    """
    every = request.options.all_snapshots
    incomplete = is_incomplete(reader, request.view, request.choice, all_snapshots=every)
    for message in oddities_of(reader):
        reader.context.progress.warn(message)
    return incomplete


def _write(path: str, text: str, env: Env) -> None:
    try:
        put_in_place(Path(path), [text], env)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(
            f"`--html`: cannot write `{path}`: {reason}",
            hint="free some space there, then run the command again"
            if error.errno == ENOSPC
            else "name a file in an existing folder that can be written to",
        ) from error


_SHOW: Mapping[str, Callable[[Reader, _ParsedRequest], _Shown]] = {
    "summary": _show_summary, "health": _show_health, "changes": _show_changes,
    "clustering": _show_clustering, "advice": _show_advice, "matches": _show_matches,
    "tree": _show_tree,
}  # fmt: skip


def _row_printer(form: str) -> Callable[[Console, RowSet], None] | None:
    from icectl.commands.inspect.rows_report import print_csv, print_json_lines

    return {"jsonl": print_json_lines, "csv": print_csv}.get(form)


def _parse(common: Common, table: str, view_name: str, options: ViewRequest) -> _ParsedRequest:
    view = _view(table, view_name)
    form = _format(common, options)
    _check_options(view, options, form)
    now_ms = common.shell.env.now_ms()
    choice = SnapshotChoice(
        snapshot_id=parse_snapshot_id("--snapshot", options.snapshot),
        ref=options.ref,
        as_of_ms=parse_option("--as-of", options.as_of, lambda text: parse_instant(text, now_ms)),
    )
    if choice.count > 1:
        raise UsageError("`--snapshot`, `--ref` and `--as-of` cannot be used together")
    if choice.count and options.all_snapshots:
        raise UsageError(
            "`--all-snapshots` cannot be used with `--snapshot`, `--ref` or `--as-of`",
            hint="leave one out",
        )
    name = name_in_catalog(common, table)
    return _ParsedRequest(
        view=view,
        options=options,
        format=form,
        choice=choice,
        from_id=parse_snapshot_id("--from", options.from_),
        to_id=parse_snapshot_id("--to", options.to),
        columns=_columns(view.name, options.columns),
        limit=read_options(options)["limit"],
        settings=common.shell.settings,
        table=name_in_hints(common, table),
        hint_options=options_in_hints(common),
        name_in_logs=None if name is None else ".".join(name.parts),
        other=partial(connect_to, common),
    )


def _failing(options: ViewRequest) -> frozenset[str]:
    """Return the verdicts that exit with 4."""
    if options.fail_on == "critical":
        return frozenset({"critical"})
    return frozenset({"attention", "critical"} if options.check or options.fail_on else ())


def _view(table: str, name: str) -> View:
    """Return a view by its name; the error says if the name is in the place of the table."""
    view = VIEWS.get(name)
    if view is not None and not (table in VIEWS and not Path(table).is_dir()):
        return view
    if table in VIEWS and name not in VIEWS:
        raise UsageError(
            "the table comes before the view", hint=f"`icectl inspect {quote(name)} {table}`"
        )
    if view is not None:
        raise UsageError(
            f"`{table}` is a view, and no table is named",
            hint=f"`icectl inspect TABLE {table}`",
            id=NO_TABLE,
        )
    near = get_close_matches(name, VIEWS, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"views: {', '.join(VIEWS)}"
    if name == "runs":
        hint = f"`icectl runs {quote(table)}` shows what `maintain` and `apply` did"
    raise UsageError(f"there is no view `{name}`", hint=hint)


def _check_options(view: View, options: ViewRequest, form: str, *, several: bool = False) -> None:
    """Refuse options that the view lacks; `several` if it shows several tables."""
    changes, tree, clustering, advice = (
        view.name == name for name in ("changes", "tree", "clustering", "advice")
    )
    rows = view.rows or several
    for option, value, concerned in (
        ("--snapshot", options.snapshot, view.of_snapshot),
        ("--ref", options.ref, view.of_snapshot),
        ("--as-of", options.as_of, view.of_snapshot),
        ("--all-snapshots", options.all_snapshots or None, view.all_snapshots),
        ("--content", options.content, view.by_content),
        ("--where", options.where, view.by_content or view.name == "matches"),
        ("--from", options.from_, changes),
        ("--to", options.to, changes),
        ("--columns", options.columns, rows or clustering or advice),
        ("--queries", options.queries, advice),
        ("--queries-table", options.queries_table, advice),
        ("--limit", options.limit, rows or changes or tree or clustering),
        ("--html", options.html, tree or several),
        ("--check", options.check or None, view.name in ("health", "matches")),
        ("--fail-on", options.fail_on, view.name == "health"),
    ):
        if value is not None and not concerned:
            raise UsageError(f"`{option}` does not apply to the view `{view.name}`")
    formats = ["text", "json"]
    formats += ["jsonl", "csv"] if rows or changes else []
    formats += ["mermaid"] if tree else []
    if options.check or options.fail_on:
        from icectl.cli.ci import CI_FORMATS

        formats += CI_FORMATS
    if form not in formats:
        message = f"`--format {form}` is not a format of this view; it has {', '.join(formats)}"
        raise UsageError(message)


def _columns(view: str, text: str | None) -> tuple[str, ...] | None:
    """Return the named columns; headings of the text form are names too."""
    if text is None:
        return None
    from icectl.commands.inspect.rows_report import TEXT_VIEWS, named_columns

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError("`--columns` names no column")
    return named_columns(view, names) if view in TEXT_VIEWS else names
