"""Options that commands share, each declared once, and the decorator that makes a command.

The options of `Common` and `Change` are added to the signature of every command function that
takes a `common: Common` or a `change: Change`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from icectl.cli.console import Color, Console
from icectl.cli.document import Outcome
from icectl.cli.settings import (
    COLOR,
    COMPACT_MASTER,
    CONCURRENCY,
    METRICS_FILE,
    SETTINGS,
    TEMP_DIR,
    TIME_LIMIT,
    Setting,
    Settings,
    one_of,
    parse_option,
    parse_uuid,
)
from icectl.cli.signals import Interrupts
from icectl.env import Deadline, Env
from icectl.errors import CorruptTable, Refused
from icectl.units import print_count

if TYPE_CHECKING:  # catalogs are imported by the runs that need them, not for help
    from icectl.catalog.protocol import PlacesByCatalog

FORMATS = ("text", "json", "github", "junit", "sarif")
"""What runs whose findings CI reads can print."""

OUTPUT = "Output"
RUNNING = "Running"
STORAGE = "Finding and reading the table"
POLICY = "Choosing snapshots"
CHANGING = "Changing the table"
FILES = "Choosing files"
OUTPUT_FILES = "Output files"
ENGINE = "Engine and Spark"


@dataclass(frozen=True, slots=True)
class Option:
    """The one declaration of an option, beside the type and the default of its field.

    `parse` reads its text, or each of its texts; `choices` are the values that completion offers.
    The option of a `setting` has its value from there, and is read there. Its `former` name is
    accepted on the command line, and stands in no help. `--help` only names one that `is_rare`.
    """

    names: tuple[str, ...]
    help: str
    group: str = "Options"
    metavar: str | None = None
    parse: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()
    is_counted: bool = False
    setting: Setting[Any] | None = None
    former: str | None = None
    is_rare: bool = False

    @property
    def name(self) -> str:
        """Its long name."""
        return next(name for name in self.names if name.startswith("--"))


def option(
    names: str,
    help: str,  # noqa: A002
    group: str = "Options",
    metavar: str | None = None,
    *,
    choices: tuple[str, ...] = (),
    parse: Callable[[str], Any] | None = None,
    former: str | None = None,
    is_rare: bool = False,
) -> Option:
    """Declare an option; `names` are separated by spaces.

    One with choices and no `parse` takes nothing else.
    """
    if parse is None:
        parse = one_of(*choices) if choices else str
    return Option(
        tuple(names.split()), help, group, metavar, parse, choices, former=former, is_rare=is_rare
    )


def option_of(setting: Setting[Any], *, group: str = "Options", is_rare: bool = False) -> Option:
    """Declare the option of a setting, which has its name, help and values."""
    metavar = None if setting.is_switch else setting.metavar
    choices = setting.choices
    return Option(
        (setting.option,),
        setting.help,
        group,
        metavar,
        choices=choices,
        setting=setting,
        is_rare=is_rare,
    )


def declared_options(kind: type[Any]) -> Mapping[str, Option]:
    """Return the options that a dataclass declares, by its fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: declared
        for name, hint in hints.items()
        for declared in getattr(hint, "__metadata__", ())
        if isinstance(declared, Option)
    }


def read_options(request: Any) -> dict[str, Any]:
    """Return the values of a request, each text as its option reads it.

    Raises: UsageError, which names the option.
    """
    values = {}
    for name, declared in declared_options(type(request)).items():
        value = getattr(request, name)
        if isinstance(value, str):
            value = parse_option(declared.name, value, declared.parse)
        elif isinstance(value, list | tuple):
            value = [parse_option(declared.name, text, declared.parse) for text in value]
        values[name] = value
    return values


TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="CATALOG.NAMESPACE.TABLE, path or URI",
        show_default=False,
    ),
]
TablesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE...",
        help="CATALOG.NAMESPACE.TABLE, path or URI, or a glob",
        show_default=False,
    ),
]
SparkMaster = Annotated[str | None, option_of(COMPACT_MASTER, group=ENGINE, is_rare=True)]
DistrustSummaries = Annotated[
    bool,
    option(
        "--distrust-summaries",
        "continue even if a snapshot lists fewer files than its summary says",
        is_rare=True,
    ),
]
SparkConf = Annotated[
    list[str] | None,
    option("--spark-conf", "a Spark setting; repeatable", ENGINE, "KEY=VALUE", is_rare=True),
]
SparkRemote = Annotated[
    str | None,
    option("--remote", "a Spark Connect server: sc://host:15002", ENGINE, "URL", is_rare=True),
]
LeftoverUuids = Annotated[
    list[str] | None,
    option(
        "--leftover-uuid",
        "treat metadata of this table as left by a drop, if no configured catalog has it; "
        "repeatable",
        metavar="UUID",
        parse=parse_uuid,
    ),
]
CheckFormat = Annotated[
    str | None,
    option(
        "--format",
        "text, json; with --check: github, junit, sarif",
        CHANGING,
        "FORMAT",
        choices=FORMATS,
        parse=str,
        is_rare=True,
    ),
]
SavePlan = Annotated[
    str | None,
    option(
        "--save-plan",
        "with --dry-run or --check: write the plan to FILE, for `icectl apply`",
        CHANGING,
        "FILE",
        is_rare=True,
    ),
]
DeletedList = Annotated[
    str | None,
    option(
        "--deleted-list",
        "write the location of every deleted file to FILE",
        CHANGING,
        "FILE",
        is_rare=True,
    ),
]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What a run may do to one table at most; None for no limit.

    Where it `is_strict`, a limit that lets nothing be done is an error. Where `is_shared`, the
    bytes are the table's part of what a run may rewrite of all tables.
    """

    rewritten_bytes: int | None = None
    deleted_files: int | None = None
    is_strict: bool = False
    is_shared: bool = False

    def check_deleted(self, count: int) -> None:
        """Raises: Refused, where so many files are too many."""
        if self.deleted_files is not None and count > self.deleted_files:
            raise Refused(
                f"{print_count(count, 'file')} would be deleted, but the budget allows "
                f"{self.deleted_files:,}",
                hint="check them with `--dry-run`, or raise `budget.delete-files`",
                id="over-budget",
            )


@dataclass(frozen=True, slots=True)
class Shell:
    """The place where a command runs: console, clock, settings, time limit, and what may end it.

    `recovery_hints` make better hints of what is whole in the tables that the command opened.
    `spark` is the session of the program that runs the command, if it is one with a session. What
    the run removes of what killed runs had left is added to `leftovers`. A `review` (a
    cli.plans.Review) holds the command to a plan. `places_by_catalog` keeps what each catalog has
    answered about the places of its tables: it is asked once in a run.
    """

    console: Console
    env: Env
    settings: Settings
    deadline: Deadline
    interrupts: Interrupts
    recovery_hints: list[Callable[[CorruptTable], str | None]] = field(default_factory=list)
    spark: Any = None
    limits: RunLimits = field(default_factory=RunLimits)
    leftovers: list[str] = field(default_factory=list)
    review: Any = None
    places_by_catalog: "PlacesByCatalog" = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """The options that every command takes, as given; settings have them resolved."""

    shell: Shell
    json: Annotated[bool, option("--json", "print one JSON document", OUTPUT)] = False
    quiet: Annotated[bool, option("--quiet -q", "no progress, notes and reports", OUTPUT)] = False
    verbose: Annotated[
        int,
        Option(
            ("--verbose", "-v"), "print more; twice: each store call too", OUTPUT, is_counted=True
        ),
    ] = 0
    color: Annotated[Color | None, option_of(COLOR, group=OUTPUT)] = None
    no_progress: Annotated[bool, option("--no-progress", "do not show progress", OUTPUT)] = False
    no_pager: Annotated[
        bool, option("--no-pager", "do not show long output in a pager", OUTPUT)
    ] = False
    metrics_file: Annotated[str | None, option_of(METRICS_FILE, group=OUTPUT)] = None
    concurrency: Annotated[str | None, option_of(CONCURRENCY, group=RUNNING)] = None
    time_limit: Annotated[str | None, option_of(TIME_LIMIT, group=RUNNING)] = None
    temp_dir: Annotated[str | None, option_of(TEMP_DIR, group=RUNNING)] = None
    config: Annotated[
        str | None,
        option("--config", "settings file (default ~/.config/icectl/icectl.toml)", RUNNING, "FILE"),
    ] = None
    catalog: Annotated[
        str | None,
        option("--catalog", "catalog that has the table; TABLE is its name there", STORAGE, "NAME"),
    ] = None
    catalog_option: Annotated[
        list[str] | None,
        option(
            "--catalog-option",
            "property of the catalog, repeatable; KEY=env:NAME takes the value from the "
            "environment",
            STORAGE,
            "KEY=VALUE",
        ),
    ] = None
    storage_option: Annotated[
        list[str] | None,
        option(
            "--storage-option",
            "option for the storage, repeatable; KEY=env:NAME takes the value from the environment",
            STORAGE,
            "KEY=VALUE",
        ),
    ] = None
    path_map: Annotated[
        list[str] | None,
        option(
            "--path-map",
            "read locations that begin with FROM at TO, repeatable",
            STORAGE,
            "FROM=TO",
        ),
    ] = None
    path_map_file: Annotated[
        str | None,
        option("--path-map-file", "lines of FROM and TO, separated by a tab", STORAGE, "FILE"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The options of commands that change a table."""

    dry_run: Annotated[
        bool, option("--dry-run -n", "print the whole plan, change nothing", CHANGING)
    ] = False
    check: Annotated[bool, option("--check", "plan only; exit 4 if there is work", CHANGING)] = (
        False
    )
    format: CheckFormat = None
    save_plan: SavePlan = None
    yes: Annotated[bool, option("--yes -y", "do not ask", CHANGING)] = False
    metadata_file: Annotated[
        str | None,
        option(
            "--metadata-file",
            "the current metadata file of a catalog's table; a commit writes the next one "
            "next to it, and deletes no file",
            CHANGING,
            "FILE",
            is_rare=True,
        ),
    ] = None
    deleted_list: DeletedList = None
    skip_if_busy: Annotated[
        bool,
        option("--skip-if-busy", "exit 0 if another writer commits first", CHANGING, is_rare=True),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRun:
    """The Spark that a run is on: options that no plan has, and that start programs."""

    master: SparkMaster = None
    remote: SparkRemote = None
    spark_conf: SparkConf = None


SPARK_OPTIONS = frozenset(entry.name for entry in fields(SparkRun))


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """One command: its function, and what its help says."""

    name: str
    function: Callable[..., Outcome]
    help: str
    examples: Sequence[tuple[str, str]]
    exit_codes: Sequence[int]
    choices: Mapping[str, Sequence[str]]
    callback: Callable[..., "Invocation"]
    has_workers: bool

    @property
    def parameters(self) -> frozenset[str]:
        """The names of all of its options and arguments."""
        return frozenset(inspect.signature(self.callback).parameters)

    @property
    def former_options(self) -> Mapping[str, str]:
        """The former names of options, with those of today."""
        return {
            declared.former: declared.name
            for declared in self._declared.values()
            if declared.former is not None
        }

    @property
    def rare_options(self) -> frozenset[str]:
        """The parameters of options that `--help` names without explaining them."""
        return frozenset(name for name, declared in self._declared.items() if declared.is_rare)

    @property
    def _declared(self) -> Mapping[str, Option]:
        return {
            name: declared
            for bundle in _bundles(self.function).values()
            for name, declared in declared_options(bundle).items()
        }

    @property
    def planned_options(self) -> Mapping[str, Any]:
        """The options that a plan of the command may have, with their types.

        They are those of its request; not those of the run and of its Spark, and none that
        reaches beyond the table.
        """
        shared = {entry.name for kind in (Common, Change, SparkRun) for entry in fields(kind)}
        return {
            name: kind
            for bundle in _bundles(self.function).values()
            for name, kind in get_type_hints(bundle).items()
            if name not in {*shared, *NEVER_PLANNED}
        }


NEVER_PLANNED = frozenset({"delete_outside"})
"""Options that let files go which are not the table's: only the user of the command gives them."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command with the values that the command line gave it."""

    command: Command
    values: Mapping[str, Any]

    @classmethod
    def on(cls, command: Command, table: str, values: Mapping[str, Any]) -> "Invocation":
        """Name one table, as a command line would do it."""
        named = {"tables": [table]} if "tables" in command.parameters else {"table": table}
        return cls(command, {**named, **values})

    def value(self, name: str) -> Any:
        """Return one option as given; None where the command has no such option."""
        return self.values.get(name)

    @property
    def table(self) -> str | None:
        """The one TABLE of the command line; None where there is none, or there are several."""
        table: str | None = self.values.get("table")
        if table is not None:
            return table
        several: list[str] = self.values.get("tables") or []
        return several[0] if len(several) == 1 else None

    def with_tables(self, name_of: Callable[[str], str]) -> "Invocation":
        """Call each TABLE what a function says; not what stands there for a view of `inspect`."""
        values, views = dict(self.values), self.command.choices.get("view", ())
        if values.get("table") is not None and values["table"] not in views:
            values["table"] = name_of(values["table"])
        if values.get("tables") is not None:
            values["tables"] = [name_of(table) for table in values["tables"]]
        if values.get("more"):  # then the first words are tables too, and the last is the view
            more: list[str] = values["more"]
            values["view"] = name_of(values["view"])
            values["more"] = [*map(name_of, more[:-1]), more[-1]]
        return replace(self, values=values)

    def option_settings(self) -> dict[str, str]:
        """Name the settings that stand on the command line, as text, by key."""
        return option_settings(self.command.name, self.values)

    def run(self, shell: Shell) -> Outcome:
        """Call the command's function."""
        values = dict(self.values)
        arguments: dict[str, Any] = {}
        for name, kind in _bundles(self.command.function).items():
            bundled = {
                entry.name: values.pop(entry.name) for entry in fields(kind) if entry.name in values
            }
            arguments[name] = Common(shell=shell, **bundled) if kind is Common else kind(**bundled)
            read_options(arguments[name])  # what makes no sense is refused before work begins
        return self.command.function(**arguments, **values)


def option_settings(command: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Name the settings that the values of a command's options are, as text, by key."""
    texts: dict[str, str] = {}
    for setting in SETTINGS:
        value = values.get(setting.parameter)
        if setting.concerns(command) and value is not None and value is not False:
            texts[setting.key] = "true" if value is True else str(value)
    if values.get("no_progress"):
        texts["progress"] = "false"
    return texts


def command(
    name: str,
    *,
    examples: Sequence[tuple[str, str]],
    exit_codes: Sequence[int],
    choices: Mapping[str, Sequence[str]] | None = None,
    has_workers: bool = False,
) -> Callable[[Callable[..., Outcome]], Command]:
    """Make a command of a function.

    The docstring is its help. `examples` pairs a command line with what it is for; `exit_codes`
    lists those that the command can give beside 0, 1, 2, 130 and 143. `choices` names, for
    completion, the values of its arguments. `has_workers` where processes may read rows for it.
    """

    def decorate(function: Callable[..., Outcome]) -> Command:
        def callback(**values: Any) -> Invocation:
            return Invocation(declared, values)

        callback.__name__ = function.__name__
        parameters = _parameters(function)
        callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        callback.__annotations__ = {entry.name: entry.annotation for entry in parameters}
        option_choices: dict[str, Sequence[str]] = {
            name: declared_option.choices
            for kind in _bundles(function).values()
            for name, declared_option in declared_options(kind).items()
            if declared_option.choices
        }
        declared = Command(
            name=name,
            function=function,
            help=inspect.getdoc(function) or "",
            examples=examples,
            exit_codes=sorted({0, 1, 2, *exit_codes, 130, 143}),
            choices=option_choices | dict(choices or {}),
            callback=callback,
            has_workers=has_workers,
        )
        return declared

    return decorate


@cache
def _bundles(function: Callable[..., Outcome]) -> dict[str, type[Any]]:
    """Return the parameters that stand for many options."""
    hints = get_type_hints(function)
    return {name: hints[name] for name in hints if name != "return" and is_dataclass(hints[name])}


def _parameters(function: Callable[..., Outcome]) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    bundles = _bundles(function)
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in bundles
    ]
    kinds = sorted(bundles.values(), key=lambda kind: (kind is Common, kind is Change))
    return parameters + [parameter for kind in kinds for parameter in _option_parameters(kind)]


def _option_parameters(kind: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)  # of arguments the typer.Argument too
    for name, declared in declared_options(kind).items():
        parsed = typer.Option(
            *declared.names,
            help=declared.help,
            rich_help_panel=declared.group,
            show_default=False,
            metavar=declared.metavar,
            count=declared.is_counted,
        )
        hints[name] = Annotated[get_args(hints[name])[0], parsed]
    return [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=entry.default,
            annotation=hints[entry.name],
        )
        for entry in fields(kind)
        if entry.default is not MISSING
    ]
