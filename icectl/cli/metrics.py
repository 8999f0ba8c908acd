"""The Prometheus text exposition of one run, for a node exporter's textfile folder."""

from collections.abc import Iterator, Mapping
from typing import Any

from icectl.cli.document import Listed
from icectl.units import printable

_HELP = {
    "icectl_last_run_timestamp_seconds": "when the last run ended",
    "icectl_last_run_duration_seconds": "how long the last run took",
    "icectl_last_run_exit_code": "exit code of the last run",
    "icectl_last_run_success": "1 if the last run exited with 0",
    "icectl_last_run_status": "1 for the status that the last run ended with",
    "icectl_last_run_count": "counts of the last run's result; for a list, its length",
    "icectl_last_run_bytes": "bytes of the last run's result",
    "icectl_health_verdict": "health by check: 0 ok, 1 attention, 2 critical, 3 unknown",
}


def metrics_text(
    built: Mapping[str, Any], *, table: str | None, now_ms: int, duration_seconds: float
) -> str:
    """Print the metrics of a run from its JSON document; `table` as the command line names it."""
    rows = (built["result"] or {}).get("tables", ())
    if table in [row["table"] for row in rows]:
        table = None  # its figures are those of its row, and the others are of all tables
    labels = {"command": built["command"] or "", "table": table or ""}
    samples: list[_Sample] = [
        ("icectl_last_run_timestamp_seconds", labels, now_ms / 1000),
        ("icectl_last_run_duration_seconds", labels, round(duration_seconds, 3)),
        ("icectl_last_run_exit_code", labels, built["exit"]),
        ("icectl_last_run_success", labels, int(built["exit"] == 0)),
        ("icectl_last_run_status", {**labels, "status": built["status"]}, 1),
    ]
    samples += _figures(built["result"] or {}, labels)
    for row in rows:
        of_table = {**labels, "table": row["table"]}
        samples += _table_samples(row, of_table)
        judged = row.get("result") or {}
        if "verdict" in row and not judged:
            judged = {"view": "health", "verdict": "unknown"}  # the table could not be read
        samples += _verdicts(judged, of_table)
    samples += _verdicts(built["result"] or {}, labels)
    lines: list[str] = []
    for name, help_text in _HELP.items():
        values = [(tags, value) for metric, tags, value in samples if metric == name]
        if values:
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"]
            for tags, value in values:
                labelled = ",".join(f'{key}="{_quote(text)}"' for key, text in tags.items())
                lines.append(f"{name}{{{labelled}}} {value}")
    return "\n".join(lines) + "\n"


_Sample = tuple[str, dict[str, str], float]


def _table_samples(row: Mapping[str, Any], labels: dict[str, str]) -> Iterator[_Sample]:
    yield "icectl_last_run_exit_code", labels, row["exit"]
    yield "icectl_last_run_success", labels, int(row["exit"] == 0)
    yield "icectl_last_run_status", {**labels, "status": row["status"]}, 1
    yield from _figures(row.get("result") or {}, labels)
    for step in row.get("steps", ()):
        yield from _figures(step["figures"], {**labels, "command": step["step"]})
    if "withheld" in row:
        yield from _figures({"withheld_steps": list(row["withheld"])}, labels)
    now = row.get("after") or row.get("before") or {}
    yield from _figures({f"now_{name}": value for name, value in now.items()}, labels)


def _figures(result: Mapping[str, Any], labels: dict[str, str]) -> Iterator[_Sample]:
    """Yield the counts and bytes of a result. Order: by name."""
    for name, value in sorted(numbers_of(result)):
        kind = "bytes" if name.endswith("_bytes") else "count"
        yield f"icectl_last_run_{kind}", {**labels, "name": name}, value


def _verdicts(result: Mapping[str, Any], labels: dict[str, str]) -> Iterator[_Sample]:
    """Yield the verdict of a table's health, and of each of its checks."""
    if result.get("view") != "health":
        return
    places = {"ok": 0, "attention": 1, "critical": 2, "unknown": 3}
    for name, check in {"all": result, **result}.items():
        if isinstance(check, Mapping) and "verdict" in check:
            yield "icectl_health_verdict", {**labels, "check": name}, places[check["verdict"]]


def numbers_of(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Find the counts and bytes of a result; ids and versions are neither."""
    for key, value in result.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not prefix:
            yield from numbers_of(value, f"{name}_")
        elif isinstance(value, list | Listed) and not prefix:
            yield name, len(value)
        elif isinstance(value, bool) or not isinstance(value, int):
            continue
        elif not name.endswith(("_id", "_version")):
            yield name, value


def _quote(value: str) -> str:
    shown = "\n".join(map(printable, value.split("\n")))
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
