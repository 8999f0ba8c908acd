"""The keys of a policy: options of the commands under their own names, thresholds and budgets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from icectl.cli.options import SPARK_OPTIONS, declared_options
from icectl.cli.settings import (
    SETTINGS,
    VALIDATE_LEVEL,
    Setting,
    parse_count,
    parse_positive_size,
    parse_switch,
)
from icectl.commands.compact.options import CompactRequest
from icectl.commands.expire_snapshots.options import ExpireRequest
from icectl.commands.inspect.health_plan import (
    DANGLING_DELETES,
    DELETED_RATIO,
    DELETES_PER_FILE,
    EXPIRABLE_SNAPSHOTS,
    RECLAIMABLE_RATIO,
    SURPLUS_FILES,
    SURPLUS_MANIFESTS,
    UNTRACKED_METADATA_FILES,
)
from icectl.commands.maintain.needs_plan import STEPS
from icectl.commands.maintain.window import parse_window
from icectl.commands.remove_orphans.options import OrphansRequest
from icectl.commands.rewrite_manifests.options import RewriteRequest
from icectl.errors import UsageError
from icectl.units import parse_duration, parse_ratio

_DAY_MS = 86_400_000

REQUESTS: Mapping[str, type[Any]] = {
    "compact": CompactRequest,
    "rewrite-manifests": RewriteRequest,
    "expire-snapshots": ExpireRequest,
    "remove-orphans": OrphansRequest,
}
"""The options of each step, as its command declares them."""

_NOT_IN_POLICIES: Mapping[str, str | None] = {
    "compact.branch": None,
    "compact.rewrite-all": None,
    "rewrite-manifests.branch": None,
    "expire-snapshots.expire-id": None,
    "remove-orphans.older-than": "remove-orphans.min-age",
    "remove-orphans.allow-recent": "remove-orphans.min-age",
    "remove-orphans.location": None,
    "remove-orphans.inventory": None,
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
        raise UsageError(f"`{text}` is none of {', '.join(f'`{one}`' for one in STEPS)}")
    return text


def _min_age(text: str) -> int:
    found = parse_duration(text)
    if found < _DAY_MS:
        raise UsageError(
            f"`{text}` is under a day, and other writers may be at work on younger files",
            hint="`icectl remove-orphans --allow-recent` is for the one who knows that none is",
        )
    return found


def _whole(limit: float) -> str:
    return f"{limit:g}"


_OWN = (
    Key("enabled", "BOOL", "whether the table is maintained at all", parse_switch, "true"),
    Key("steps", "[STEP,...]", "the steps that may be run", _steps, ",".join(STEPS), is_list=True),
    Key("window", "HH:MM-HH:MM ZONE", "hours in which steps may run", parse_window),
    Key("budget.rewrite-bytes", "SIZE", "bytes of a table that one run rewrites",
        parse_positive_size),
    Key("budget.delete-files", "N", "files of a table that one step may delete; more is refused",
        parse_count),
    Key("budget.time", "DURATION", "time that one run spends on a table", parse_duration),
    Key("compact.small-files", "N", "files that merging has to save", parse_count,
        _whole(SURPLUS_FILES.attention)),
    Key("compact.delete-ratio", "R", "part of the rows that is deleted", parse_ratio,
        _whole(DELETED_RATIO.attention)),
    Key("compact.deletes-per-file", "N", "delete files on one data file; such files are rewritten, "
        "unless `min-delete-files` says otherwise", parse_count,
        _whole(DELETES_PER_FILE.attention)),
    Key("compact.dangling-deletes", "N", "delete files that apply to nothing", parse_count,
        _whole(DANGLING_DELETES.attention)),
    Key("rewrite-manifests.manifests", "N", "manifests that regrouping has to save", parse_count,
        _whole(SURPLUS_MANIFESTS.attention)),
    Key("expire-snapshots.snapshots", "N", "snapshots past retention", parse_count,
        _whole(EXPIRABLE_SNAPSHOTS.attention)),
    Key("expire-snapshots.reclaimable", "R", "bytes to be freed, as part of the live ones",
        parse_ratio, _whole(RECLAIMABLE_RATIO.attention)),
    Key("remove-orphans.metadata-files", "N", "metadata files that the log no longer names",
        parse_count, _whole(UNTRACKED_METADATA_FILES.attention)),
    Key("remove-orphans.every", "DURATION", "time after which orphans are looked for again",
        parse_duration, "7d"),
    Key("remove-orphans.min-age", "DURATION", "age of files that may go, a day at least", _min_age,
        "3d"),
    Key("validate.level", "LEVEL", "how deep tables are checked before a step",
        VALIDATE_LEVEL.parse, "metadata"),
)  # fmt: skip


def _options() -> Iterator[Key]:
    """Yield every option of the steps that a policy may give."""
    settings = {setting.key: setting for setting in SETTINGS}
    for step, request in REQUESTS.items():
        hints = get_type_hints(request)
        for field, option in declared_options(request).items():
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
                is_list=list in (get_origin(kind) for kind in get_args(hints[field])),
                field=None if setting else field,
                setting=setting,
            )


KEYS: Mapping[str, Key] = {key.name: key for key in (*_OWN, *_options())}
"""Every key, those of maintenance itself first."""


SPARK_KEYS = frozenset(
    key.name
    for key in KEYS.values()
    if key.name.rpartition(".")[2].replace("-", "_") in SPARK_OPTIONS
)
"""Keys that say on which Spark a step runs: they can start programs, and send data and secrets."""


def instead_of(name: str) -> str | None:
    """Return the key that stands for an option which policies do not have."""
    return _NOT_IN_POLICIES.get(name)
