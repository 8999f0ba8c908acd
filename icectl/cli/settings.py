"""Settings of a run, from option, environment, file or default, with the origin of each.

Table properties come between file and default; commands read them, because only they have the
table.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

from icectl.catalog.configured import Layer as CatalogLayer
from icectl.catalog.configured import own_layer
from icectl.cli.console import COLORS, Color
from icectl.errors import UsageError
from icectl.units import (
    DURATION_UNITS_MS,
    names_secret,
    parse_duration,
    parse_ratio,
    parse_size,
    print_size,
)

_Value = TypeVar("_Value")

STORAGE_TABLE = "storage-options"
CATALOG_TABLE = "catalog"
_PREFIX = "ICECTL_"
_MOST_DIGITS = 18
"""Digits of a count: more of them do not fit the 64 bits that libraries count in."""


class Layer(StrEnum):
    """The layers that a value may come from, strongest first.

    The file and what is below it yield to the table's word.
    """

    OPTION = "option"
    ENVIRONMENT = "environment"
    FILE = "file"
    BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class Setting(Generic[_Value]):
    """One thing that can be set on the command line, in the environment and in the file."""

    key: str
    metavar: str
    parse: Callable[[str], _Value]
    built_in: _Value
    about: str
    choices: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """What it does, with its default if that is a value."""
        is_value = self.built_in is not None and not isinstance(self.built_in, bool | tuple)
        return f"{self.about} (default {self.built_in})" if is_value else self.about

    @property
    def is_switch(self) -> bool:
        """Whether its option stands alone, without a value."""
        return self.metavar == "BOOL"

    @property
    def variable(self) -> str:
        """Name of its environment variable."""
        return variable_of(self.key)

    @property
    def option(self) -> str:
        """Name of its option; a key of one command has the command in front."""
        return "--" + self.key.rpartition(".")[2]

    @property
    def parameter(self) -> str:
        """Name of its option in a request."""
        return self.key.rpartition(".")[2].replace("-", "_")

    def concerns(self, command: str) -> bool:
        """Return whether a command goes by it."""
        return "." not in self.key or self.is_of(command)

    def is_of(self, command: str) -> bool:
        """Return whether a command goes by it, and no other."""
        return self.key.rpartition(".")[0] == command


@dataclass(frozen=True, slots=True)
class Origin:
    """The layer a value comes from, and in words: `--concurrency`, `ICECTL_…`, a file's path."""

    layer: Layer
    text: str

    @property
    def name(self) -> str:
        """The name of the origin in messages."""
        return self.text if self.layer is Layer.FILE else f"`{self.text}`"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A setting's value, as it was written, and where it comes from."""

    value: Any
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting's value with its origin, and the storage options and catalogs of the file."""

    values: Mapping[str, Resolved]
    storage_options: Mapping[str, str]
    file: Path | None
    catalogs: CatalogLayer = field(default_factory=dict)
    renamed: Sequence[str] = ()
    """Warnings about former names that were used."""

    def read(self, setting: Setting[_Value]) -> _Value:
        """Return the value."""
        value: _Value = self.values[setting.key].value
        return value

    def read_as(
        self, setting: Setting[str] | Setting[str | None], parse: Callable[[str], _Value]
    ) -> _Value | None:
        """Return what a text means to the command. Raises: UsageError, which names its origin."""
        text, origin = self.values[setting.key].value, self.values[setting.key].origin
        name, key = origin.name, f"`{setting.key}`"
        if origin.layer is Layer.FILE and not name.startswith(key):  # a rule of a policy
            name = f"{key}, {name}"
        return None if text is None else _parse_named(name, text, parse)

    def origin(self, setting: Setting[Any]) -> Origin:
        """Return where the value comes from."""
        return self.values[setting.key].origin

    def lines(self, command: str) -> Iterator[str]:
        """Print what a command goes by and where each value came from, for `--verbose`."""
        for setting in SETTINGS:
            if setting.concerns(command):
                value = self.values[setting.key]
                yield f"setting: {setting.key} = {value.text} ({value.origin.text})"
        for key in self.storage_options:
            yield f"setting: {STORAGE_TABLE}.{key} = *** ({self.file})"


def parse_count(text: str) -> int:
    """Read a number of things, at least one."""
    if not text.isascii() or not text.isdigit() or not text.strip("0"):
        raise UsageError(f"`{text}` is not a whole number above 0")
    if len(text) > _MOST_DIGITS:
        raise UsageError(f"`{text}` is too large a number")
    return int(text)


def parse_whole_number(text: str) -> int:
    """Read a number from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise UsageError(f"`{text}` is not a whole number")
    return int(text)


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def parse_uuid(text: str) -> str:
    """Return a table's uuid in lower case. Raises: UsageError."""
    if _UUID.fullmatch(text) is None:
        raise UsageError(f"`{text}` is not a uuid", hint="give the table-uuid of a metadata file")
    return text.lower()


def split_pair(text: str, option: str, parts: tuple[str, str, str]) -> tuple[str, str]:
    """Return the two parts of an option's text around a `=`.

    Raises: UsageError, where one is missing.
    """
    name, separator, value = parts
    if not separator:
        raise UsageError(f"`{option}`: `{text}` has no `=` between its two parts")
    if not name:
        raise UsageError(f"`{option}`: `{text}` has nothing before its `=`")
    return name, value


def parse_option(option: str, text: str | None, parse: Callable[[str], _Value]) -> _Value | None:
    """Read the value of an option, if it was given. Raises: UsageError, which names the option."""
    return None if text is None else _parse_named(f"`{option}`", text, parse)


def _parse_named(name: str, text: str, parse: Callable[[str], _Value]) -> _Value:
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from error


def parse_positive_size(text: str) -> int:
    """Read a size of at least one byte."""
    size = parse_size(text)
    if size < 1:
        raise UsageError("it is 0")
    return size


def parse_switch(text: str) -> bool:
    """Read `true` or `false`."""
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in known:
        raise UsageError(f"`{text}` is neither `true` nor `false`")
    return known[text.lower()]


def one_of(*choices: str) -> Callable[[str], str]:
    """Return what reads one of a few words."""

    def parse(text: str) -> str:
        if text not in choices:
            listed = ", ".join(f"`{choice}`" for choice in choices)
            raise UsageError(f"`{text}` is not one of {listed}")
        return text

    return parse


def _choice(key: str, metavar: str, choices: tuple[str, ...], default: str, about: str) -> Any:
    return Setting(key, metavar, one_of(*choices), default, about, choices)


def _parse_days(text: str) -> int:
    """Read a duration of a day or more."""
    duration_ms = parse_duration(text)
    if duration_ms < DURATION_UNITS_MS["d"]:
        raise UsageError(f"`{text}` is under a day")
    return duration_ms


def _absolute_folder(text: str) -> Path:
    if not Path(text).is_absolute():  # or it would be another one in each working directory
        raise UsageError(f"`{text}` is not an absolute path")
    return Path(text)


CONCURRENCY: Setting[int | None] = Setting(
    "concurrency", "N", parse_count, None,
    "files read or removed at once (default 8 on local disks, 48 on stores)",
)  # fmt: skip
TIME_LIMIT: Setting[int | None] = Setting(
    "time-limit",
    "DURATION",
    parse_duration,
    None,
    "stop safely after this time, as in 15m (exit 3)",
)
TEMP_DIR: Setting[Path | None] = Setting(
    "temp-dir", "DIR", Path, None, "folder for temporary files"
)
COLOR: Setting[Color] = _choice("color", "WHEN", COLORS, "auto", "auto, always or never")
PROGRESS: Setting[bool] = Setting(
    "progress", "BOOL", parse_switch, built_in=True, about="show progress of long work"
)
METRICS_FILE: Setting[Path | None] = Setting(
    "metrics-file", "PATH", Path, None, "write Prometheus metrics of the run to PATH"
)
STATE_DIR: Setting[Path | None] = Setting(
    "state-dir", "DIR", _absolute_folder, None,
    "folder for the history of runs (default ~/.local/state/icectl)",
)  # fmt: skip
DEFAULT_CATALOG: Setting[str | None] = Setting(
    "default-catalog", "NAME", str, None, "catalog for names without a configured catalog"
)
EXPIRE_OLDER_THAN: Setting[str | None] = Setting(
    "expire-snapshots.older-than", "TIMESTAMP", str, None,
    "expire snapshots older than this: ISO 8601, or 7d for seven days ago",
)  # fmt: skip
EXPIRE_RETAIN_LAST: Setting[int | None] = Setting(
    "expire-snapshots.retain-last", "N", parse_count, None, "keep the newest N of each branch"
)
EXPIRE_KEEP_DAILY: Setting[int | None] = Setting(
    "expire-snapshots.keep-daily", "N", parse_count, None, "keep one a day, for N days"
)
EXPIRE_KEEP_WEEKLY: Setting[int | None] = Setting(
    "expire-snapshots.keep-weekly", "N", parse_count, None, "keep one a week, for N weeks"
)
EXPIRE_KEEP_MONTHLY: Setting[int | None] = Setting(
    "expire-snapshots.keep-monthly", "N", parse_count, None, "keep one a month, for N months"
)
EXPIRE_MIN_AGE: Setting[int | None] = Setting(
    "expire-snapshots.min-age", "DURATION", parse_duration, None,
    "refuse to expire snapshots younger than this, as in 7d",
)  # fmt: skip
EXPIRE_CLEAN_METADATA: Setting[bool] = Setting(
    "expire-snapshots.clean-expired-metadata", "BOOL", parse_switch, built_in=False,
    about="also drop unused schemas and partition specs",
)  # fmt: skip
ORPHANS_OLDER_THAN: Setting[str] = Setting(
    "remove-orphans.older-than", "TIMESTAMP", str, "3d",
    "remove files modified before: ISO 8601, or a duration",
)  # fmt: skip
ORPHANS_MAX_FRACTION: Setting[float] = Setting(
    "remove-orphans.max-fraction", "RATIO", parse_ratio, 0.5,
    "refuse to remove more than this ratio of the listed bytes",
)  # fmt: skip
ORPHANS_QUARANTINE: Setting[str | None] = Setting(
    "remove-orphans.quarantine", "URI", str, None,
    "move orphans to this folder instead of deleting them",
)  # fmt: skip
ORPHANS_PURGE_AFTER: Setting[int | None] = Setting(
    "remove-orphans.purge-quarantine-after", "DURATION", _parse_days, None,
    "delete files that runs of this table quarantined longer ago than this, as in 30d",
)  # fmt: skip
COMPACT_ENGINE: Setting[str] = _choice(
    "compact.engine", "ENGINE", ("auto", "spark", "local"), "auto",
    "spark, local or auto",
)  # fmt: skip
COMPACT_MASTER: Setting[str | None] = Setting(
    "compact.master", "URL", str, None, "the Spark master (default: the local cores)"
)
COMPACT_METHOD: Setting[str] = _choice(
    "compact.method", "NAME", ("auto", "merge", "rewrite"), "auto",
    "merge (concatenates row groups; not MERGE INTO), rewrite (decodes rows) or auto",
)  # fmt: skip
SMALLEST_ROW_GROUP_BYTES = 1 << 20
"""Below this, many row groups take readers longer than it takes to write larger ones once."""


def _parse_row_group(text: str) -> int:
    size = parse_positive_size(text)
    if size < SMALLEST_ROW_GROUP_BYTES:
        least = print_size(SMALLEST_ROW_GROUP_BYTES)
        raise UsageError(f"it is less than {least}: small row groups are slow to read")
    return size


COMPACT_MERGE_ROW_GROUP: Setting[int | None] = Setting(
    "compact.merge-row-group", "SIZE", _parse_row_group, None,
    "with auto, rewrite smaller row groups (default 4MiB)",
)  # fmt: skip
COMPACT_VERIFY: Setting[str] = _choice(
    "compact.verify", "WHAT", ("checksums", "rows"), "checksums",
    "what to compare after a merge: checksums or rows",
)  # fmt: skip
ERASE_KEYS: Setting[str | None] = Setting(
    "erase.keys", "FILE", str, None,
    "erase rows with a key of FILE: Parquet, CSV, or text with one a line; or of a table",
)  # fmt: skip
ERASE_KEY_COLUMNS: Setting[str | None] = Setting(
    "erase.key-columns", "NAMES", str, None, "the columns of the keys, as in a,b"
)
ERASE_REQUESTED_AT: Setting[str | None] = Setting(
    "erase.requested-at", "NAME", str, None,
    "column of the keys with the time of each request (default: the time of their file)",
)  # fmt: skip
ERASE_DEADLINE: Setting[str] = Setting(
    "erase.deadline", "DURATION", str, "30d",
    "time after which health counts a remaining key as overdue",
)  # fmt: skip
UNTRUSTED_POLICY: Setting[bool] = Setting(
    "maintain.untrusted-policy", "BOOL", parse_switch, built_in=False,
    about="refuse Spark settings and steps that delete rows in the policy",
)  # fmt: skip
VALIDATE_LEVEL: Setting[str] = _choice(
    "validate.level", "LEVEL", ("metadata", "files", "footers", "data"), "files",
    "depth of checks: metadata, files, footers or data",
)  # fmt: skip
VALIDATE_FAIL_ON: Setting[str] = _choice(
    "validate.fail-on", "SEVERITY", ("error", "warning"), "error",
    "exit 4 for this severity or worse: error or warning",
)  # fmt: skip

HEALTH_SECTION = "health"


def parse_limits(text: str) -> tuple[float, float]:
    """Read from where on a measure needs attention, and is critical: `5, 1000` or `10%, 30%`."""
    parts = [part.strip() for part in text.split(",")]
    try:
        values = [
            float(part.removesuffix("%")) / (100 if part.endswith("%") else 1) for part in parts
        ]
    except ValueError:
        values = []
    if len(values) != 2 or not 0 <= values[0] <= values[1] < float("inf"):
        raise UsageError(
            f"`{text}` must be two numbers of 0 or more, the second not below the first",
            hint='`"5, 1000"`: attention from 5 on, critical from 1000 on; ratios as `"10%, 30%"`',
        )
    return values[0], values[1]


def _limits(name: str, usual: str, what: str) -> Setting[tuple[float, float]]:
    text = f"limits for attention and critical: {what} (default {usual})"
    return Setting(f"{HEALTH_SECTION}.{name}", "LIMITS", parse_limits, parse_limits(usual), text)


HEALTH_LIMITS = (
    _limits("expired-rows", "0%, 100%", "ratio of rows that may have expired"),
    _limits("overdue-files", "0, 1", "files that hold keys to erase past their deadline"),
    _limits("files-to-save", "0, 1000", "files that compaction would eliminate"),
    _limits("deleted-rows", "0%, 30%", "ratio of rows with position deletes"),
    _limits("deletes-per-file", "5, 100", "delete files on one data file"),
    _limits("clustering-depth", "2, 50", "files that overlap at a value of the sort order"),
    _limits("dangling-deletes", "1, 1000", "dangling delete files"),
    _limits("manifests-to-save", "0, 1000", "manifests that a rewrite would eliminate"),
    _limits("stale-statistics", "0%, 100%", "ratio of rows that changed since the statistics"),
    _limits("snapshots-past-retention", "0, 1000", "snapshots eligible for expiration"),
    _limits("untracked-metadata-files", "0, 1000", "old metadata files that the log lacks"),
    _limits(
        "reclaimable", "25%, 100%", "bytes that expiration would free, as a ratio of the live bytes"
    ),
)
"""The limits of health, each by the name of its measure; 0 is any work that a command has."""


def parse_price(text: str) -> float:
    """Read a price: a number from 0 on. Raises: UsageError."""
    try:
        price = float(text) if text.isascii() and "_" not in text else -1.0
    except ValueError:
        price = -1.0
    if not 0 <= price <= _HIGHEST_PRICE:
        raise UsageError(f"`{text}` is not a price", hint="give a number, as in `0.023`")
    return price


_HIGHEST_PRICE = 1e9


def _price(name: str, what: str) -> Setting[float | None]:
    return Setting(f"prices.{name}", "PRICE", parse_price, None, f"price of {what}")


PRICES = (
    _price("storage-gb-month", "storing 1 GiB for a month"),
    _price("get-1000", "1,000 read requests"),
    _price("put-1000", "1,000 write or list requests"),
    _price("egress-gb", "1 GiB of egress, if icectl runs outside the store's network"),
    _price("cpu-hour", "an hour of CPU time"),
)
"""Prices, in any one currency, in the order of `Prices`."""

RENAMED_KEYS: Mapping[str, str] = {
    "health.deletes-on-one-file": "health.deletes-per-file",
    "health.deletes-of-no-effect": "health.dangling-deletes",
    "health.metadata-files-off-the-log": "health.untracked-metadata-files",
}
"""Former names of settings, accepted with a warning until the release after 0.1."""

SETTINGS: Sequence[Setting[Any]] = (
    CONCURRENCY, TIME_LIMIT, TEMP_DIR, COLOR, PROGRESS, METRICS_FILE, STATE_DIR, DEFAULT_CATALOG,
    EXPIRE_OLDER_THAN, EXPIRE_RETAIN_LAST, EXPIRE_KEEP_DAILY, EXPIRE_KEEP_WEEKLY,
    EXPIRE_KEEP_MONTHLY, EXPIRE_MIN_AGE, EXPIRE_CLEAN_METADATA,
    ORPHANS_OLDER_THAN, ORPHANS_MAX_FRACTION, ORPHANS_QUARANTINE,
    ORPHANS_PURGE_AFTER,
    COMPACT_ENGINE, COMPACT_MASTER, COMPACT_METHOD, COMPACT_MERGE_ROW_GROUP, COMPACT_VERIFY,
    ERASE_KEYS, ERASE_KEY_COLUMNS, ERASE_REQUESTED_AT, ERASE_DEADLINE,
    UNTRUSTED_POLICY, VALIDATE_LEVEL, VALIDATE_FAIL_ON, *HEALTH_LIMITS, *PRICES,
)  # fmt: skip
"""Every setting, in the order of the manual."""


def resolve(
    options: Mapping[str, str], environment: Mapping[str, str], config: str | None
) -> Settings:
    """Give every setting its value, from the strongest layer that has one.

    `options` holds what the command line says, by key. Raises: UsageError for a value that makes
    no sense, an unknown key of the file, a secret in it, or a file that is not there.
    """
    file = _config_file(environment, config)
    in_file, storage_options, catalogs, renamed_in_file = (
        ({}, {}, {}, []) if file is None else _read_file(file)
    )
    new_names = {variable_of(old): variable_of(new) for old, new in RENAMED_KEYS.items()}
    used_names = {old: new for old, new in new_names.items() if environment.get(old)}
    environment = {new: environment[old] for old, new in used_names.items()} | {**environment}
    values: dict[str, Resolved] = {}
    for setting in SETTINGS:
        if setting.key in options:
            text, origin = options[setting.key], Origin(Layer.OPTION, setting.option)
        elif environment.get(setting.variable):
            text = environment[setting.variable]
            origin = Origin(Layer.ENVIRONMENT, setting.variable)
        elif setting.key in in_file:
            text, origin = in_file[setting.key], Origin(Layer.FILE, f"`{setting.key}` in {file}")
        else:
            values[setting.key] = _built_in(setting)
            continue
        values[setting.key] = _resolve(setting, text, origin)
    renamed = [renamed_key(old, new, "the environment") for old, new in used_names.items()]
    return Settings(values, storage_options, file, catalogs, renamed + renamed_in_file)


def renamed_key(old: str, new: str, origin: str) -> str:
    """Return the warning about the former name of a key."""
    return f"`{old}` in {origin} is now `{new}`; the next release drops the old name"


def variable_of(key: str) -> str:
    """Return the environment variable of a setting's key."""
    return _PREFIX + key.replace("-", "_").replace(".", "_").upper()


def texts_of(settings: Settings, command: str) -> dict[str, dict[str, str]]:
    """Return the settings of one command that were set anywhere: texts and their layers, by key."""
    return {
        setting.key: {"value": resolved.text, "layer": resolved.origin.layer.value}
        for setting in SETTINGS
        if setting.is_of(command)
        and (resolved := settings.values[setting.key]).origin.layer is not Layer.BUILT_IN
    }


def as_planned(
    settings: Settings,
    command: str,
    planned: Mapping[str, Mapping[str, str]],
    unplanned: Collection[str],
    options: Mapping[str, str],
) -> Settings:
    """The settings of a run that a plan is made with again: those of its command are the plan's.

    Not those of the options `unplanned`, which are as they are here, or as `given` by their keys.
    Raises: UsageError, for a value that makes no sense.
    """
    values = dict(settings.values)
    for setting in SETTINGS:
        if not setting.is_of(command):
            continue
        if setting.parameter in unplanned:
            if setting.key in options:
                origin = Origin(Layer.OPTION, setting.option)
                values[setting.key] = _resolve(setting, options[setting.key], origin)
        elif setting.key in planned:
            text, layer = planned[setting.key]["value"], planned[setting.key]["layer"]
            origin = Origin(Layer(layer), f"`{setting.key}` of the plan")
            values[setting.key] = _resolve(setting, text, origin)
        else:
            values[setting.key] = _built_in(setting)
    return replace(settings, values=values)


def _built_in(setting: Setting[Any]) -> Resolved:
    value = setting.built_in
    text = "not set" if value is None else str(value).lower()
    return Resolved(value, text, Origin(Layer.BUILT_IN, "built-in"))


def _resolve(setting: Setting[Any], text: str, origin: Origin) -> Resolved:
    if not text.strip():
        raise UsageError(f"{origin.name} is empty")
    return Resolved(_parse_named(origin.name, text, setting.parse), text, origin)


def default_config_file(environment: Mapping[str, str]) -> Path | None:
    """Name the file in the user's configuration folder; None for a user without a home."""
    folder = _folder_of_user(environment, "XDG_CONFIG_HOME", ".config")
    return None if folder is None else folder / "icectl.toml"


def default_state_folder(environment: Mapping[str, str]) -> Path | None:
    """Name the folder of what icectl keeps between runs; None for a user without a home."""
    return _folder_of_user(environment, "XDG_STATE_HOME", ".local/state")


def _folder_of_user(environment: Mapping[str, str], variable: str, usual: str) -> Path | None:
    folder = Path(environment.get(variable, ""))
    try:
        # One that is relative would be the working directory's, which may be anybody's.
        return (folder if folder.is_absolute() else Path.home() / usual) / "icectl"
    except RuntimeError:
        return None


def _config_file(environment: Mapping[str, str], config: str | None) -> Path | None:
    named = config or environment.get("ICECTL_CONFIG")
    if named:
        if not Path(named).exists() or Path(named).is_dir():
            origin = "--config" if config else "ICECTL_CONFIG"
            raise UsageError(
                f"`{origin}`: there is no file `{named}`",
                hint="omit it to read settings from ~/.config/icectl/icectl.toml",
            )
        return Path(named)
    usual = default_config_file(environment)
    return usual if usual is not None and usual.is_file() else None


def _read_file(file: Path) -> tuple[dict[str, str], dict[str, str], CatalogLayer, list[str]]:
    """Return settings by their keys, options of the storage, catalogs, and warnings."""
    import tomllib  # few runs have a file

    try:
        loaded = tomllib.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is one, so is a long number
        raise UsageError(f"{file} is not a TOML file: {error}") from error
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    catalogs = loaded.pop(CATALOG_TABLE, {})
    if not isinstance(catalogs, dict):
        raise UsageError(f"`{CATALOG_TABLE}` in {file} must be a table of catalogs by their names")
    storage_options: dict[str, str] = {}
    values: dict[str, str] = {}
    known = {setting.key for setting in SETTINGS}
    renamed: list[str] = []
    for name, value in _flat(loaded):
        key = RENAMED_KEYS.get(name, name)
        if key != name:
            renamed.append(renamed_key(name, key, str(file)))
        table, _, option = key.partition(".")
        is_storage_option = table == STORAGE_TABLE and bool(option)
        if key not in known and not is_storage_option:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else "`man icectl.toml` lists the keys"
            raise UsageError(f"unknown key `{key}` in {file}", hint=hint)
        if not isinstance(value, bool | str | int | float):
            raise UsageError(f"`{key}` in {file} must be a string, a number or a boolean")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not is_storage_option:
            values[key] = text
        elif is_secret(option) and not text.startswith("env:"):
            raise UsageError(
                f"`{key}` in {file} looks like a secret, and secrets are not allowed there",
                hint=f'`{option} = "env:NAME"` takes it from the environment variable NAME',
            )
        else:
            storage_options[option] = text
    return values, storage_options, own_layer(catalogs, file), renamed


def _flat(loaded: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in loaded.items():
        if isinstance(value, dict) and value:
            for name, item in value.items():
                yield f"{key}.{name}", item
        elif not (value == {} and (key == STORAGE_TABLE or key in _SECTIONS)):
            yield key, value


_SECTIONS = {setting.key.rpartition(".")[0] for setting in SETTINGS}


def is_secret(name: str) -> bool:
    """Return whether a storage option of this name holds a credential."""
    return name == "key" or names_secret(name)


ENV_VARS: Mapping[str, str] = {
    "ICECTL_CONFIG": "the settings file, if `--config` is not given",
    **{setting.variable: f"`{setting.key}`: {setting.help}" for setting in SETTINGS},
    "ICECTL_PAGER": "the command that shows output longer than the screen; `cat` or empty for none",
    "PAGER": "the same, if ICECTL_PAGER is not set; else `less`, with LESS=FRX if LESS is not set",
    "PYICEBERG_HOME": "the folder of PyIceberg's `.pyiceberg.yaml`, whose catalogs are known",
    "PYICEBERG_CATALOG__NAME__KEY": "property KEY of catalog NAME; `__` in it is a dot, `_` a dash",
    "NO_COLOR": "no colour if `--color` and `ICECTL_COLOR` say nothing",
    "FORCE_COLOR": "colour even if the output is not a terminal; `NO_COLOR` wins",
    "TERM": "`dumb` means neither colour nor a progress bar",
    "COLUMNS": "columns of the terminal, if it does not say",
    "XDG_CONFIG_HOME": "the folder of `icectl/icectl.toml` (default `~/.config`)",
    "XDG_STATE_HOME": "the folder of `icectl/runs.jsonl` (default `~/.local/state`)",
}
"""In the order in which the manual lists them."""

_KNOWN = {*ENV_VARS, *map(variable_of, RENAMED_KEYS)}
_OWN = [name.removeprefix(_PREFIX) for name in ENV_VARS if name.startswith(_PREFIX)]


def unknown_variables(environment: Iterable[str]) -> Iterator[str]:
    """Tell of each variable that looks like one of icectl's and is none, as for a misspelt one.

    What tests of icectl go by is left alone.
    """
    for name in sorted(environment):
        if not name.startswith(_PREFIX) or name in _KNOWN or name.startswith(f"{_PREFIX}TEST_"):
            continue
        near = get_close_matches(name.removeprefix(_PREFIX), _OWN, n=1)
        meant = f"; did you mean {_PREFIX}{near[0]}?" if near else ""
        yield f"icectl does not know the environment variable {name}{meant}"
