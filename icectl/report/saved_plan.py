"""The file of a plan that is kept for review: what was planned, of which table, and how."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icectl import __version__
from icectl.errors import Refused, Unsupported, UsageError
from icectl.report.document import Outcome, clean, table_json
from icectl.units import print_instant

PLAN_FORMAT = 1
_KEYS = frozenset(
    {
        "icectl", "plan", "command", "table", "base", "instant_ms", "instant", "metadata_file",
        "options", "settings", "status", "result",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan was asked for with: what makes the same plan of the same table again.

    `table` is TABLE in full, `instant_ms` the moment that ages were counted from. `options` are
    those of the command as given, `settings` texts and the layers they come from, by key.
    """

    command: str
    table: str
    instant_ms: int
    metadata_file: str | None
    options: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan as its file has it; `uuid` and `metadata_location` are of the table it was made of."""

    request: PlanRequest
    uuid: str | None
    metadata_location: str
    result: Mapping[str, Any]


def plan_text(request: PlanRequest, outcome: Outcome) -> str:
    """Write the file of a plan: JSON, for a reviewer to read, with its own check sum at the end."""
    assert outcome.table is not None
    built = {
        "icectl": __version__,
        "plan": PLAN_FORMAT,
        "command": request.command,
        "table": request.table,
        "base": table_json(outcome.table),
        "instant_ms": request.instant_ms,
        "instant": print_instant(request.instant_ms),
        "metadata_file": request.metadata_file,
        "options": dict(request.options),
        "settings": {key: dict(value) for key, value in request.settings.items()},
        "status": outcome.status,
        "result": clean(outcome.result),
    }
    return sealed_plan(built)


def sealed_plan(built: dict[str, Any]) -> str:
    """Write a plan with its hash behind it."""
    built["hash"] = _hash(built)
    return json.dumps(built, indent=2, allow_nan=False) + "\n"


def open_saved_plan(text: str, name: str) -> dict[str, Any]:
    """Read the file of a plan, and check that it is as it was written; `name` is its own.

    Raises: UsageError, where it is none; Refused, where it was changed after it was written;
    Unsupported, for one of a newer icectl.
    """
    try:
        built = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is no saved plan: it is not JSON", hint=_HINT) from error
    if not isinstance(built, dict) or "plan" not in built or "hash" not in built:
        raise UsageError(f"{name} is no saved plan", hint=_HINT)
    if built["plan"] != PLAN_FORMAT:
        raise Unsupported(
            f"{name} is a plan of format {built['plan']}, and this icectl knows {PLAN_FORMAT}",
            hint=f"apply it with icectl {built.get('icectl')}, which has made it",
        )
    if built.pop("hash") != _hash(built):
        raise not_as_written(name)
    return built


def not_as_written(name: str) -> Refused:
    """Say that a file is not as it was written."""
    return Refused(
        f"{name} was changed after it was made: it does not match its hash",
        hint="make a new plan with `--dry-run --save-plan`",
        id="plan-changed",
    )


def saved_plan(built: Mapping[str, Any], name: str) -> SavedPlan:
    """Make a plan of one command of what its file has. Raises: Refused, where it has not all."""
    if set(built) != _KEYS:
        raise not_as_written(name)
    base = built["base"]
    request = PlanRequest(
        built["command"],
        built["table"],
        built["instant_ms"],
        built["metadata_file"],
        built["options"],
        built["settings"],
    )
    return SavedPlan(request, base["uuid"], base["metadata_location"], built["result"])


_HINT = "`--dry-run --save-plan FILE` writes one"


def _hash(built: Mapping[str, Any]) -> str:
    """The check sum over all that a plan says, whatever its white space and the order of keys."""
    text = json.dumps(built, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()
