"""The health view: what maintenance a table needs, by what each command would do.

A check is not ok only if its command has work. Limits say from which figure on that needs
attention, and is critical.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from icectl.cli.document import id_text
from icectl.commands.bill import Prices, Rates, bill, bill_row
from icectl.commands.inspect.views import Row
from icectl.commands.steps import STEPS, HealthCheck, Judgement, Limit, Step, step_of
from icectl.entries.rows import Entries
from icectl.entries.summary import SIZE_BANDS, Totals, size_histogram
from icectl.format.snapshot import Snapshot


class HealthVerdict(StrEnum):
    """The verdict on a measure: how much it matters."""

    OK = "ok"
    UNKNOWN = "unknown"
    ATTENTION = "attention"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class MeasureLimits:
    """The limits of a measure: from which value on work needs attention, and is critical."""

    attention: float
    critical: float

    def judge(self, value: float) -> HealthVerdict:
        """Compare a measure."""
        if value >= self.critical:
            return HealthVerdict.CRITICAL
        return HealthVerdict.ATTENTION if value >= self.attention else HealthVerdict.OK


HealthLimits = Mapping[str, MeasureLimits]
"""The limits of every measure by its name, as they are or as the settings have them."""


@dataclass(frozen=True, slots=True)
class HealthSource:
    """The source that health is shown by: live files, and what each step would do.

    `target_bytes` is the size that data files are to have, from a table property if
    `is_target_set`. Where part of the table could not be read it is not `is_whole`, and nothing is
    known to be fine.
    """

    snapshot: Snapshot | None
    data: Entries
    totals: Totals
    judged: Mapping[str, Judgement]
    limits: HealthLimits
    target_bytes: int
    is_target_set: bool
    engine: str
    rates: Rates
    prices: Prices
    is_whole: bool = True


def every_check() -> Iterator[tuple[Step, HealthCheck]]:
    """Yield the checks of a table's health, each with the step that they are about."""
    for step in map(step_of, STEPS):
        for check in step.checks:
            yield step, check


def health(source: HealthSource) -> Row:
    """Return a table's health; `benefit_bytes` are what the needed commands save.

    Units: bytes; ratios from 0 to 1.
    """
    checks = {
        check.name: _check(step, check, source.judged[step.command], source)
        for step, check in every_check()
    }
    needed = {check["command"] for check in checks.values()} - {None}
    histogram = size_histogram(source.data)
    ends: list[int | None] = [0, *SIZE_BANDS, None]
    bands = zip(ends[:-1], ends[1:], histogram.file_counts, histogram.byte_counts, strict=True)
    return {
        "snapshot_id": id_text(source.snapshot.snapshot_id) if source.snapshot else None,
        "verdict": _worst(*(HealthVerdict(check["verdict"]) for check in checks.values())).value,
        "target_file_size_bytes": source.target_bytes,
        "target_file_size_origin": "table property" if source.is_target_set else "default",
        "data_file_count": source.totals.data_file_count,
        "data_file_bytes": source.totals.data_file_bytes,
        "file_sizes": [
            {"from_bytes": low, "below_bytes": high, "file_count": count, "bytes": size}
            for low, high, count, size in bands
        ],
        **checks,
        "engine": source.engine,
        "benefit_bytes": sum(source.judged[command].benefit_bytes for command in needed),
        "bills": [
            {"command": command, **bill_row(bill(judgement.work, source.rates, source.prices))}
            for command, judgement in source.judged.items()
            if command in needed and judgement.work is not None
        ],
    }


def _check(step: Step, check: HealthCheck, judgement: Judgement, source: HealthSource) -> Row:
    """Return one check: a command only where there is something for it to do."""
    measures = [item for item in judgement.measures if item.limit in check.limits]
    error = judgement.error if measures or judgement.is_unknown else None
    limits = source.limits
    verdict = HealthVerdict.OK if source.is_whole else HealthVerdict.UNKNOWN
    if error is None:
        verdict = _worst(verdict, *(limits[item.limit].judge(item.value) for item in measures))
    elif judgement.is_unknown:
        verdict = HealthVerdict.UNKNOWN
    is_needed = verdict in (HealthVerdict.ATTENTION, HealthVerdict.CRITICAL)
    is_unplanned = error is not None and judgement.figures == step.nothing
    of_check = [limit for limit in step.limits if limit.name in check.limits]
    return {
        "verdict": verdict.value,
        "found": "not known" if is_unplanned else check.found(judgement.figures),
        "threshold": "; ".join(_threshold(limit, limits[limit.name]) for limit in of_check),
        "command": step.command if is_needed else None,
        "command_in_this_version": True if is_needed else None,
        "options": list(judgement.options) if is_needed else [],
        "withheld": None if error is None else error.message,
        "hint": None if error is None else error.hint,
        **check.members(judgement.figures),
    }


def _worst(*verdicts: HealthVerdict) -> HealthVerdict:
    return max(verdicts, key=[*HealthVerdict].index)


def _threshold(limit: Limit, limits: MeasureLimits) -> str:
    attention, critical = _from(limit, limits.attention), _from(limit, limits.critical)
    if not limits.attention:
        return f"attention if there is work, critical {critical} {limit.unit}"
    return f"attention {attention} {limit.unit}, critical {critical}"


def _from(limit: Limit, value: float) -> str:
    if limit.is_ratio:
        return f"from {value:.0%}"
    return "with 1 or more" if value == 1 else f"from {value:,.0f}"
