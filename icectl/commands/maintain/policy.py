"""The policy of maintenance: its keys, its file of defaults and rules, and that of one table."""

import datetime as dt
import math
import os
import re
import stat
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

from icectl.catalog.configured import flattened
from icectl.catalog.identifier import without_quoted
from icectl.cli.options import SPARK_OPTIONS, declared_options
from icectl.cli.patterns import covers, fixed_part, is_pattern
from icectl.cli.settings import (
    ERASE_DEADLINE,
    ERASE_REQUESTED_AT,
    HEALTH_LIMITS,
    HEALTH_SECTION,
    SETTINGS,
    VALIDATE_LEVEL,
    Layer,
    Setting,
    Settings,
    parse_count,
    parse_positive_size,
    parse_switch,
    parse_whole_number,
    renamed_key,
)
from icectl.cli.targets import parts_of
from icectl.commands.steps import STEPS, step_of
from icectl.errors import Refused, UsageError
from icectl.units import parse_duration, print_count

_WINDOW = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)(?:\s+(\S+))?")
_DAY_MINUTES = 24 * 60
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Window:
    """From one minute of the day up to another, in a zone; it may reach over midnight."""

    text: str
    from_minute: int
    to_minute: int
    zone: str

    def left_ms(self, now_ms: int) -> int | None:
        """Return milliseconds until it closes, by the clock on the wall; None if it is closed."""
        now = dt.datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self.zone))
        minute = now.hour * 60 + now.minute
        length = (self.to_minute - self.from_minute) % _DAY_MINUTES or _DAY_MINUTES
        since = (minute - self.from_minute) % _DAY_MINUTES
        if since >= length:
            return None
        within = now.second * 1000 + now.microsecond // 1000
        return (length - since) * _MINUTE_MS - within


def parse_window(text: str) -> Window:
    """Read hours and a zone, UTC where there is none. Raises: UsageError."""
    hint = "write a window as 22:00-06:00 Europe/Berlin; without a zone it is in UTC"
    match = _WINDOW.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"`{text}` is not a time window", hint=hint)
    hours = [int(match[1]), int(match[3])]
    minutes = [int(match[2]), int(match[4])]
    ends = [60 * hour + minute for hour, minute in zip(hours, minutes, strict=True)]
    if max(minutes) > 59 or ends[0] >= _DAY_MINUTES or ends[1] > _DAY_MINUTES:
        raise UsageError(f"`{text}` is not a time window: there is no such time of day", hint=hint)
    zone = match[5] or "UTC"
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"this machine has no time zone `{zone}`",
            hint="use a name such as Europe/Berlin; `pip install tzdata` installs all zones",
        ) from error
    return Window(text.strip(), ends[0], ends[1] % _DAY_MINUTES, zone)


_DAY_MS = 86_400_000

_NOT_IN_POLICIES: Mapping[str, str | None] = {
    f"{step}.{option}": instead
    for step in STEPS
    for option, instead in step_of(step).not_in_policies.items()
}
"""Options of one run on one table, or of no rule, each with what stands for it."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a policy. `default` is None where nothing is said, or the command decides.

    `field` is the option of the step's request that it gives, `setting` the setting; both None for
    keys of maintenance itself.
    """

    name: str
    metavar: str
    help: str
    parse: Callable[[str], Any] = str
    default: str | None = None
    is_list: bool = False
    field: str | None = None
    setting: Setting[Any] | None = None

    @property
    def section(self) -> str:
        """The table of the file that it stands in; empty at the top."""
        return self.name.rpartition(".")[0]


def _steps(text: str) -> str:
    if text not in STEPS:
        raise UsageError(f"`{text}` is not one of {', '.join(f'`{step}`' for step in STEPS)}")
    return text


def _min_age(text: str) -> int:
    age_ms = parse_duration(text)
    if age_ms < _DAY_MS:
        raise UsageError(
            f"`{text}` is under a day, and other writers may still use younger files",
            hint="run `icectl remove-orphans TABLE --allow-recent`, only if no writer is active",
        )
    return age_ms


def _parse_part(text: str) -> float:
    """Read a percentage, which may be above 100: `25%`, `200%`."""
    number = text.strip()
    try:
        part = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        part = -1.0
    if not 0 <= part < float("inf"):
        raise UsageError(f"`{text}` is not a ratio", hint="give a number from 0 on, or 25%")
    return part


def _whole(limit: float) -> str:
    return f"{limit:g}"


def _limit_keys() -> Iterator[Key]:
    """Yield the limits of steps: each is a threshold, by default the one that health has."""
    defaults = {limit.key: limit.built_in[0] for limit in HEALTH_LIMITS}
    for step in STEPS:
        for limit in step_of(step).limits:
            metavar, parse = ("R", _parse_part) if limit.is_ratio else ("N", parse_whole_number)
            default = _whole(defaults[f"{HEALTH_SECTION}.{limit.name}"])
            yield Key(f"{step}.{limit.name}", metavar, limit.policy_help, parse, default)


DELETES_ROWS = ("expire-rows", "erase")
"""Steps that run only if they are asked for: properties of a table alone delete no rows."""

_BUILT_IN = "built-in"

_OWN = (
    Key("enabled", "BOOL", "maintain the table", parse_switch, "true"),
    Key("steps", "[STEP,...]",
        "steps that may run; keys of expire-rows or erase enable these steps too", _steps,
        ", ".join(step for step in STEPS if step not in DELETES_ROWS), is_list=True),
    Key("window", "HH:MM-HH:MM ZONE", "hours in which steps may run", parse_window),
    Key("budget.rewrite-bytes", "SIZE",
        "limit of bytes that one run rewrites, or reads to convert equality deletes",
        parse_positive_size),
    Key("budget.delete-files", "N", "refuse to delete more files in one step", parse_count),
    Key("budget.time", "DURATION", "limit of the time that one run spends on a table",
        parse_duration),
    Key("payback-max", "DURATION", "skip steps that take longer to pay back, by `[prices]` of "
        "icectl.toml", parse_duration),
    Key("scans-per-day", "N", "full scans of the table per day, to estimate payback",
        parse_whole_number),
    *_limit_keys(),
    Key("remove-orphans.every", "DURATION", "search for orphans again after this time",
        parse_duration, "7d"),
    Key("remove-orphans.older-than", "DURATION", "delete files older than this, at least a day",
        _min_age, "3d"),
    Key("erase.requested-at", "NAME", ERASE_REQUESTED_AT.about),
    Key("erase.deadline", "DURATION", ERASE_DEADLINE.about, parse_duration),
    Key("validate.level", "LEVEL", "depth of checks before a step",
        VALIDATE_LEVEL.parse, "metadata"),
)  # fmt: skip


def _options() -> Iterator[Key]:
    """Yield the options of steps that a policy may set."""
    settings = {setting.key: setting for setting in SETTINGS}
    for step, request in ((step, step_of(step).request) for step in STEPS):
        hints = get_type_hints(request)
        for parameter, option in declared_options(request).items():
            name = f"{step}.{option.name.removeprefix('--')}"
            if name in _NOT_IN_POLICIES:
                continue
            setting = settings.get(name)
            parse = parse_switch if option.metavar is None else option.parse
            yield Key(
                name,
                option.metavar or "BOOL",
                option.help,
                setting.parse if setting else parse,
                is_list=list in (get_origin(kind) for kind in get_args(hints[parameter])),
                field=None if setting else parameter,
                setting=setting,
            )


KEYS: Mapping[str, Key] = {key.name: key for key in (*_OWN, *_options())}
"""Every key, those of maintenance itself first."""

RENAMED_KEYS: Mapping[str, str] = {
    "compact.small-files": "compact.files-to-save",
    "compact.delete-ratio": "compact.deleted-rows",
    "rewrite-manifests.manifests": "rewrite-manifests.manifests-to-save",
    "expire-snapshots.snapshots": "expire-snapshots.snapshots-past-retention",
    "expire-snapshots.keep-files": "expire-snapshots.metadata-only",
    "remove-orphans.metadata-files": "remove-orphans.untracked-metadata-files",
    "remove-orphans.min-age": "remove-orphans.older-than",
}
"""Former names of keys, accepted with a warning until the release after 0.1."""

_LIMIT_KEYS: Mapping[str, Key] = {
    f"{HEALTH_SECTION}.{key.name.rpartition('.')[2]}": key for key in _OWN if key.section in STEPS
}
"""The key of each limit of health: a threshold has one name in a policy and in the settings."""


def thresholds_in(settings: Settings) -> Mapping[str, "PolicyValue"]:
    """Return the thresholds that the limits of health in the settings stand for, by key."""
    thresholds: dict[str, PolicyValue] = {}
    for limit in HEALTH_LIMITS:
        values = settings.read(limit)
        if settings.origin(limit).layer is not Layer.BUILT_IN:
            key = _LIMIT_KEYS[limit.key]
            attention = math.ceil(values[0]) if key.metavar == "N" else values[0]
            thresholds[key.name] = PolicyValue(_whole(attention), settings.origin(limit).text)
    return thresholds


SPARK_KEYS = frozenset(
    key.name
    for key in KEYS.values()
    if key.name.rpartition(".")[2].replace("-", "_") in SPARK_OPTIONS
)
"""Keys that say on which Spark a step runs: they can start programs, and send data and secrets."""


_RULES, _TABLES = "rule", "tables"

_HINT = "`icectl man maintain.toml` lists the keys"

Text = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyValue:
    """What a key has been given, as text, and where: the file, one of its rules, icectl itself."""

    text: Text
    origin: str

    @property
    def shown(self) -> str:
        """The value in one line."""
        return self.text if isinstance(self.text, str) else ", ".join(self.text)


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """The values that hold for one table, by key; a key that nothing is said of is not there."""

    values: Mapping[str, PolicyValue]

    def steps(self, only: Collection[str]) -> tuple[str, ...]:
        """Return the steps that may be run, of those that a run is limited to.

        If the policy does not name steps, a step that deletes rows is asked for by one of its keys,
        or by `only`.
        """
        named = {*self.read("steps")}
        if self.values["steps"].origin == _BUILT_IN:
            own = {KEYS[name].section for name, it in self.values.items() if it.origin != _BUILT_IN}
            asked = own if len(only) == len(STEPS) else own.union(only)
            named |= asked.intersection(DELETES_ROWS)
        return tuple(step for step in STEPS if step in named and step in only)

    def read(self, name: str) -> Any:
        """Return the value of a key, read as the key wants it; None where nothing is said."""
        value = self.values.get(name)
        if value is None:
            return None
        parse = KEYS[name].parse
        if isinstance(value.text, str):
            return parse(value.text)
        return tuple(parse(item) for item in value.text)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A part of a policy: the patterns of the tables that it is for, and what it says."""

    origin: str
    patterns: tuple[str, ...]
    values: Mapping[str, Text]


@dataclass(frozen=True, slots=True)
class MaintenancePolicy:
    """Rules, of which later ones override earlier ones, key by key.

    `base` has values of the settings, below all rules; `renamed` warns of former names.
    """

    rules: tuple[PolicyRule, ...] = ()
    base: Mapping[str, PolicyValue] = field(default_factory=dict)
    renamed: tuple[str, ...] = ()

    def of(self, name: str) -> TablePolicy:
        """Return what holds for a table of this name or location."""
        values: dict[str, PolicyValue] = {}
        for key in KEYS.values():
            if key.default is not None:
                text = tuple(key.default.split(", ")) if key.is_list else key.default
                values[key.name] = PolicyValue(text, _BUILT_IN)
        values |= self.base
        for rule in self.rules:
            if any(covers(parts_of(pattern), parts_of(name)) for pattern in rule.patterns):
                values |= {key: PolicyValue(text, rule.origin) for key, text in rule.values.items()}
        return TablePolicy(values)


def idle_rules(
    policy: MaintenancePolicy,
    targets: Sequence[str],
    tables: Sequence[str],
    is_catalog: Callable[[str], bool],
) -> Iterator[str]:
    """Describe patterns of rules that match no table, though their tables are in the targets.

    A policy may have rules for tables that this run is not for; one whose catalog is not configured
    is for none. `tables` and `targets` are full names.
    """
    within = []  # fixed parts of targets that stand for all tables below them
    for target in targets:
        parts = parts_of(target)
        if parts[-1] == "**" or not any(map(is_pattern, parts)):
            within.append([part.lower() for part in fixed_part(parts)])
    for rule in policy.rules[1:]:
        for text in rule.patterns:
            pattern = parts_of(text)
            if any(covers(pattern, parts_of(table)) for table in tables):
                continue
            fixed = fixed_part(pattern)
            if fixed and "/" not in without_quoted(text) and not is_catalog(fixed[0]):
                yield f"{rule.origin}: `{text}` names no configured catalog"
                continue
            # In lower case: a rule that matches nothing may be one in other letters.
            lower = [part.lower() for part in fixed]
            if any(lower[: len(prefix)] == prefix for prefix in within):
                yield f"{rule.origin}: `{text}` matches none of {print_count(len(tables), 'table')}"


def read_policy(path: str, *, is_trusted: bool = True) -> MaintenancePolicy:
    """Read a policy file. Raises: UsageError, which names the key and the rule.

    Refused, for keys of Spark in a file that is not trusted, or that others may change, and where
    one that is not trusted asks for a step that deletes rows.
    """
    try:
        with Path(path).open("rb") as file:
            loaded = tomllib.loads(file.read().decode("utf-8"))
            others = _others_who_may_write(Path(path), os.fstat(file.fileno()))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"`--policy`: {path} is not a TOML file: {error}", hint=_HINT) from error
    except OSError as error:
        raise UsageError(f"`--policy`: cannot read {path}: {error.strerror}") from error
    rules = loaded.pop(_RULES, [])
    if not isinstance(rules, list) or not all(isinstance(rule_table, dict) for rule_table in rules):
        raise UsageError(f"`{_RULES}` in {path} must be written `[[{_RULES}]]`", hint=_HINT)
    if _TABLES in loaded:
        hint = f"a `[[{_RULES}]]` with `{_TABLES}` is for some tables"
        raise UsageError(f"`{_TABLES}` in {path} is outside a rule", hint=hint)
    renamed: list[str] = []
    policy_rules = [PolicyRule(path, ("**",), _values(loaded, path, renamed))]
    for number, rule_table in enumerate(rules, start=1):
        origin = f"rule {number} in {path}"
        patterns = _patterns(rule_table.pop(_TABLES, None), origin)
        policy_rules.append(PolicyRule(origin, patterns, _values(rule_table, origin, renamed)))
    for rule in policy_rules:
        for key in sorted(SPARK_KEYS & set(rule.values)):
            if not is_trusted or others is not None:
                raise Refused(
                    f"`{key}`, {rule.origin}: it can start programs, and "
                    f"{others if is_trusted else 'the policy is untrusted'}",
                    hint="remove it, and give it on the command line with "
                    f"`--{key.rpartition('.')[2]}`",
                    id="untrusted-policy",
                )
        deleting = [key for key in sorted(rule.values) if KEYS[key].section in DELETES_ROWS]
        if not {*DELETES_ROWS}.isdisjoint(rule.values.get("steps", ())):
            deleting.append("steps")
        if deleting and not is_trusted:
            raise Refused(
                f"`{deleting[0]}`, {rule.origin}: it may delete rows, and the policy is untrusted",
                hint="remove it, and delete rows with a policy of your own",
                id="untrusted-policy",
            )
    return MaintenancePolicy(tuple(policy_rules), renamed=tuple(renamed))


def _others_who_may_write(path: Path, status: os.stat_result) -> str | None:
    """Return the users beside the caller and root who may change or replace a file."""
    folders = {path.absolute().parent, path.resolve().parent}
    for place, place_status in ((path, status), *((folder, folder.stat()) for folder in folders)):
        if place_status.st_uid not in (0, os.geteuid()):
            return f"{place} belongs to another user"
        if place_status.st_mode & 0o022 and not place_status.st_mode & stat.S_ISVTX:
            return f"others may write to {place}"
    return None


def _patterns(value: Any, origin: str) -> tuple[str, ...]:
    patterns = [value] if isinstance(value, str) else value
    if (
        not isinstance(patterns, list)
        or not patterns
        or not all(isinstance(item, str) for item in patterns)
    ):
        raise UsageError(
            f"{origin} does not say which tables it is for",
            hint=f'`{_TABLES} = ["prod.sales.*"]` does',
        )
    for pattern in patterns:
        parts_of(pattern)
    return tuple(patterns)


def _values(loaded: Mapping[str, Any], origin: str, renamed: list[str]) -> Mapping[str, Text]:
    """Return the values by key, and add a warning to `renamed` for each former name."""
    texts: dict[str, Text] = {}
    for key_text, value in flattened(loaded):
        name = RENAMED_KEYS.get(key_text, key_text)
        if name != key_text:
            renamed.append(renamed_key(key_text, name, origin))
        key = KEYS.get(name)
        if key is None:
            instead = _NOT_IN_POLICIES.get(name)
            if name in _NOT_IN_POLICIES and instead is None:
                raise UsageError(
                    f"`{name}`, {origin}: policies must not set this option",
                    hint=f"give it to one run of `icectl {name.partition('.')[0]}`",
                )
            close = [instead] if instead else get_close_matches(name, KEYS, n=1)
            hint = f"did you mean `{close[0]}`?" if close else _HINT
            raise UsageError(f"unknown key `{name}`, {origin}", hint=hint)
        items = value if key.is_list and isinstance(value, list) else [value]
        scalars = tuple(_scalar(key, item, origin) for item in items)
        text: Text = scalars if key.is_list else scalars[0]
        check_text(key, text, origin)
        texts[name] = text
    return texts


def check_text(key: Key, text: Text, origin: str) -> None:
    """Raises: UsageError, where a text is not a value of a key."""
    for item in (text,) if isinstance(text, str) else text:
        try:
            key.parse(item)
        except UsageError as error:
            hint = _HINT if error.hint == UsageError.default_hint else error.hint
            raise UsageError(f"`{key.name}`, {origin}: {error.message}", hint=hint) from error


def _scalar(key: Key, value: Any, origin: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float) and str(value).strip():
        return str(value)
    expected = "a list of strings" if key.is_list else "a string, a number or a boolean"
    raise UsageError(f"`{key.name}`, {origin}: it must be {expected}", hint=_HINT)
