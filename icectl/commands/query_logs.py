"""Reads of a table, as the logs of engines report them: which filters, how many files.

Three formats, each one JSON document a line:

- scan reports of Iceberg, as REST catalogs receive them
- event logs of Spark
- `QueryCompletedEvent`s of Trino.

Only columns and kinds of conditions are kept, never the values that are compared. All text is data
of unknown origin: lines have a limit, and what does not parse is counted.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from icectl.errors import UsageError
from icectl.format.json_members import parse_json

EQUALITY, RANGE = "equality", "range"

R = TypeVar("R", bound="Reads")

Filter = frozenset[tuple[str, str]]
"""The columns that a read compares, each with EQUALITY or RANGE; all conditions must hold."""

_LONGEST_LINE = 16 << 20
_CHUNK = 1 << 20
_DAY_MS = 86_400_000
_MOST_NAMES, _MOST_TABLES = 1000, 10_000
_MOST_FILTERS = 10_000
"""Beyond it, other filters count as none."""

_LONGEST_NAME = 1000
_END_OF_COUNTS = 1 << 53
_DEEPEST = 20
"""Parentheses in parentheses of a filter that are read."""

_COMPRESSIONS = {".zstd": "zstd", ".zst": "zstd", ".gz": "gzip", ".bz2": "bz2"}


@dataclass(slots=True)
class Reads:
    """What logs say of a table.

    `filters` counts the reads with each filter. `files` and `files_known` are sums over the reads
    whose engine says how many data files were read. Times are those of the first and last read.
    """

    filters: Counter[Filter] = field(default_factory=Counter)
    files: int = 0
    files_known: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    other_tables: Counter[str] = field(default_factory=Counter)
    other_reads: int = 0
    unreadable_lines: int = 0
    other_lines: int = 0
    unreadable_files: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many reads of the table there are."""
        return self.filters.total()

    def add(self, table: str, names: Collection[str], conditions: Filter, time_ms: Any) -> bool:
        """Count a read if it is of the table called one of `names`; return whether it is.

        Raises: ValueError, for a name that is too long.
        """
        if any(len(name) > _LONGEST_NAME for name in (table, *(name for name, _ in conditions))):
            raise ValueError("a name is too long")
        if not is_named(table, names):
            self.other_reads += 1
            if len(self.other_tables) < _MOST_NAMES or table in self.other_tables:
                self.other_tables[table] += 1
            return False
        is_known = conditions in self.filters or len(self.filters) < _MOST_FILTERS
        self.filters[conditions if is_known else frozenset()] += 1
        if _is_count(time_ms):
            self.first_ms = time_ms if self.first_ms is None else min(self.first_ms, time_ms)
            self.last_ms = time_ms if self.last_ms is None else max(self.last_ms, time_ms)
        return True

    def add_files(self, _table: str, count: Any) -> None:
        """Add the number of data files that a read of the table has opened, if it is one."""
        if _is_count(count):
            self.files += count
            self.files_known += 1

    @property
    def days(self) -> float | None:
        """The days from the first read to the last; None for less than one, which tells no rate."""
        if self.first_ms is None or self.last_ms is None:
            return None
        days = (self.last_ms - self.first_ms) / _DAY_MS
        return days if days >= 1 else None


@dataclass(frozen=True, slots=True)
class LoggedScans:
    """How often a table is read a day: files that engines opened, and reads that do not say."""

    files: float
    reads: float

    def per_day(self, data_file_count: int) -> float:
        """Return as how many scans of the whole table the reads of a day count."""
        return self.reads + self.files / max(data_file_count, 1)


@dataclass(slots=True)
class ReadsByTable(Reads):
    """What logs say of all tables, by the names that they have there, or of so many."""

    tables: dict[str, Reads] = field(default_factory=dict)
    has_more: bool = False

    def add(self, table: str, names: Collection[str], conditions: Filter, time_ms: Any) -> bool:
        table = table.rstrip("/")
        is_read = Reads.add(self, table, (*names, table), conditions, time_ms)
        if table in self.tables or len(self.tables) < _MOST_TABLES:
            self.tables.setdefault(table, Reads()).filters[frozenset()] += 1
        else:
            self.has_more = True
        return is_read

    def add_files(self, table: str, count: Any) -> None:
        if table.rstrip("/") in self.tables:
            self.tables[table.rstrip("/")].add_files(table, count)

    def scans_of(self, names: Collection[str]) -> LoggedScans | None:
        """Return how often the table called one of `names` is read.

        None for less than a day, or where logs name more tables than are counted.
        """
        days = self.days
        found = [reads for table, reads in self.tables.items() if is_named(table, names)]
        if days is None or (self.has_more and not found):
            return None
        files = sum(reads.files for reads in found)
        others = sum(max(reads.count - reads.files_known, 0) for reads in found)
        return LoggedScans(files / days, others / days)


def _is_count(value: Any) -> bool:
    """Return whether a value of a log is a whole number that floats and JSON have too."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _END_OF_COUNTS


def is_named(logged: str, names: Collection[str]) -> bool:
    """Return whether the name in a log is one of `names`, with or without its catalog.

    Trino logs names in lower case.
    """
    logged, known = logged.rstrip("/").lower(), [name.lower() for name in names]
    return any(logged == name or logged.endswith(f".{name}") for name in known)


def read_query_logs(paths: Sequence[str], names: Collection[str]) -> Reads:
    """Read logs; a folder stands for all files in it.

    Raises: UsageError for a path that is not there or can't be read.
    """
    return _read_into(Reads(), paths, names)


def read_all_logs(paths: Sequence[str]) -> ReadsByTable:
    """Read logs for all tables. Raises: as read_query_logs."""
    return _read_into(ReadsByTable(), paths, ())


def _read_into(reads: R, paths: Sequence[str], names: Collection[str]) -> R:
    for path in paths:
        for file in _files(path):
            _read_file(file, names, reads)
    return reads


def _files(path: str) -> Iterator[Path]:
    start = Path(path)
    if not start.exists():
        raise UsageError(f"`--queries`: there is no file `{path}`")
    if not start.is_dir():
        yield start
        return
    # A Spark log that is rolled over is a folder of `events_N_…`, beside its status.
    found = [one for one in start.rglob("[!.]*") if one.is_file()]
    for one in sorted(found, key=_by_number):
        if not one.name.startswith("appstatus_"):
            yield one


def _by_number(path: Path) -> tuple[str, int, str]:
    number = re.match(r"events_(\d{1,9})_", path.name)
    return str(path.parent), int(number[1]) if number else 0, path.name


def _read_file(path: Path, names: Collection[str], reads: Reads) -> None:
    import pyarrow as pa

    spark = _SparkLog(names, reads)
    try:
        with pa.input_stream(str(path), compression=_COMPRESSIONS.get(path.suffix)) as stream:
            for line in _lines(cast("IO[bytes]", stream)):
                _read_line(line, names, reads, spark)
    except OSError as error:
        if isinstance(error, PermissionError | IsADirectoryError):
            raise UsageError(f"`--queries`: cannot read `{path}`: {error.strerror}") from error
        reads.unreadable_files.append(str(path))  # such as a compressed log that is cut off


def _lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Yield lines without their ends; None for one that is too long."""
    line, is_long = b"", False
    while chunk := stream.read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for at, part in enumerate(ended):
            whole = line + part if at == 0 else part
            yield None if is_long and at == 0 else whole
            is_long = False if at == 0 else is_long
        line = line + rest if not ended else rest
        if len(line) > _LONGEST_LINE:
            line, is_long = b"", True
    if line or is_long:
        yield None if is_long else line


def _read_line(
    line: bytes | None, names: Collection[str], reads: Reads, spark: "_SparkLog"
) -> None:
    if line is None:
        reads.unreadable_lines += 1
        return
    if not line.strip():
        return
    if line.startswith(b'{"Event":') and not any(word in line for word in _SPARK_EVENTS):
        return
    try:
        document = parse_json(line)
        known = isinstance(document, dict) and (
            spark.read(document) or _read_report(document, names, reads)
            or _read_trino(document, names, reads)
        )  # fmt: skip
        reads.other_lines += not known
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        reads.unreadable_lines += 1


# -- scan reports of Iceberg ------------------------------------------------------------------


def _read_report(document: Mapping[str, Any], names: Collection[str], reads: Reads) -> bool:
    """Read a scan report, alone or as a member of what a catalog logs about it."""
    if "report-type" not in document and "table-name" not in document:
        inner = [one for one in document.values() if isinstance(one, dict) and "report-type" in one]
        return bool(inner) and _read_report(inner[0], names, reads)
    if document.get("report-type", "scan-report") != "scan-report" or "filter" not in document:
        return document.get("report-type") == "commit-report"
    conditions = _filter(_report_conditions(document["filter"]))
    if reads.add(document["table-name"], names, conditions, None):
        counter = document.get("metrics", {}).get("result-data-files")
        count = counter.get("value") if isinstance(counter, dict) else None
        reads.add_files(document["table-name"], count)
    return True


_Conditions = Mapping[str, str]
_OPERATIONS = {
    "eq": EQUALITY, "in": EQUALITY, "lt": RANGE, "lt-eq": RANGE, "gt": RANGE, "gt-eq": RANGE,
    "starts-with": RANGE,
}  # fmt: skip


def _report_conditions(expression: Any) -> _Conditions:
    if not isinstance(expression, dict):
        return {}
    kind = expression.get("type")
    if kind in ("and", "or"):
        sides = [_report_conditions(expression[side]) for side in ("left", "right")]
        return _both(*sides) if kind == "and" else _either(*sides)
    if kind not in _OPERATIONS:
        return {}
    term = expression["term"]
    if isinstance(term, dict):
        if term.get("type") == "transform":  # days(at) = x opens what a range of `at` opens
            return {term["term"]: RANGE}
        term = term["term"]
    return {term: _OPERATIONS[kind]}


def _both(left: _Conditions, right: _Conditions) -> _Conditions:
    return {
        name: EQUALITY if EQUALITY in (left.get(name), right.get(name)) else RANGE
        for name in {**left, **right}
    }


def _either(left: _Conditions, right: _Conditions) -> _Conditions:
    """Return what holds on both sides: other columns leave no file out."""
    return {
        name: EQUALITY if left[name] == right[name] == EQUALITY else RANGE
        for name in left
        if name in right
    }


def _filter(conditions: _Conditions) -> Filter:
    return frozenset((str(name), kind) for name, kind in conditions.items())


# -- event logs of Spark ----------------------------------------------------------------------

_SPARK_EVENTS = (b"SparkListenerSQLExecutionStart", b"SparkListenerDriverAccumUpdates")
# Repeats have limits, lest a text of beginnings alone take time by the square of its length.
_SCAN = re.compile(r"\bIceberg\w{0,40}Scan\(table=(?P<table>[^,]{1,1000}), ")
_OLD_SCAN = re.compile(r"\] (?P<table>\S{1,1000}) \(branch=[^)]{0,1000}\) \[filters=")
_FILTERS = "filters="
_END_OF_FILTERS = re.compile(r", runtimeFilters=|, groupedBy=|\)? RuntimeFilters:")
_FILES_OF_SCAN = "number of result data files"


class _SparkLog:
    """One event log: metrics of a scan come in later lines than the scan."""

    def __init__(self, names: Collection[str], reads: Reads) -> None:
        self._names, self._reads = names, reads
        self._counters: dict[int, str] = {}

    def read(self, document: Mapping[str, Any]) -> bool:
        event = document.get("Event")
        if not isinstance(event, str):
            return False
        if event.endswith(".SparkListenerSQLExecutionStart"):
            self._read_plan(document["sparkPlanInfo"], document.get("time"))
        elif event.endswith(".SparkListenerDriverAccumUpdates"):
            for number, value in document["accumUpdates"]:
                if number in self._counters:
                    self._reads.add_files(self._counters.pop(number), value)
        return True

    def _read_plan(self, plan: Mapping[str, Any], time_ms: Any) -> None:
        nodes = [plan]
        while nodes:
            node = nodes.pop()
            nodes += node["children"]
            text = node["simpleString"]
            scan = _SCAN.search(text) or _OLD_SCAN.search(text)
            if scan is None or "Write(" in text:
                continue
            start = text.find(_FILTERS, scan.start())
            end = _END_OF_FILTERS.search(text, start) if start >= 0 else None
            if end is None:
                continue
            filters = text[start + len(_FILTERS) : end.start()]
            conditions = _filter(spark_conditions(filters))
            if self._reads.add(scan["table"], self._names, conditions, time_ms):
                self._counters |= {
                    metric["accumulatorId"]: scan["table"]
                    for metric in node["metrics"]
                    if metric["name"] == _FILES_OF_SCAN
                }


_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_MISQUOTED = re.compile(r"'|\?[^ ,)]")
_COMPARED = re.compile(r"(?P<column>\S(?:.*?\S)?) (?P<operation>=|<=>|<=|<|>=|>|IN|LIKE)(?: |$)")
_TRANSFORMED = re.compile(r"\w+\((?:\d+, )?(?P<column>[^()]+)\)$")
_LONGEST_FILTER = 1 << 14


def spark_conditions(text: str) -> _Conditions:
    """Return the conditions of `filters=` in a plan of Spark's: a list that must hold together.

    Iceberg escapes no quote in a text. Where one ends amid a word, what follows may be a part of a
    value, and none is kept.
    """
    text = _QUOTED.sub("?", text) if len(text) <= _LONGEST_FILTER else "'"
    return {} if _MISQUOTED.search(text) else _all_of(_split(text, ", "), 0)


def _all_of(parts: Sequence[str], depth: int) -> _Conditions:
    found: _Conditions = {}
    for part in parts:
        found = _both(found, _spark_condition(part, depth))
    return found


def _spark_condition(text: str, depth: int) -> _Conditions:
    text = text.strip()
    if depth > _DEEPEST:
        return {}
    if text.startswith("(") and text.endswith(")"):
        inner, depth = text[1:-1], depth + 1
        either = _split(inner, " OR ")
        if len(either) > 1:
            first, *others = (_spark_condition(one, depth) for one in either)
            for other in others:
                first = _either(first, other)
            return first
        both = _split(inner, " AND ")
        return _all_of(both, depth)
    if text.startswith("NOT "):
        return {}
    compared = _COMPARED.match(text)
    if compared is None:
        return {}
    column, operation = compared["column"], compared["operation"]
    transformed = _TRANSFORMED.match(column)
    if transformed:
        return {transformed["column"]: RANGE}
    return {column: EQUALITY if operation in ("=", "<=>", "IN") else RANGE}


def _split(text: str, separator: str) -> list[str]:
    """Split a text where no parenthesis is open."""
    parts, depth, start = [], 0, 0
    for found in re.finditer(rf"[()]|{separator}", text):
        if found.group() == separator:
            if depth == 0:
                parts.append(text[start : found.start()])
                start = found.end()
        else:
            depth += 1 if found.group() == "(" else -1
    return [*parts, text[start:]]


# -- events of Trino --------------------------------------------------------------------------

_TRINO_TABLE = re.compile(r"^(?:[^:]*:)?(?P<table>[^$@ ]+)\$data(?:@\d+)?(?: |$)")
_ASSIGNED = re.compile(r"^\s*\S+ := (?:\d+:)?(?P<column>[^:]+)(?::.*)?$")
_DOMAIN = re.compile(r"^\s*:: (?P<text>.*)$")
_VALUES = re.compile(r"^\[\[[^,\[\]()]*\](?:, \[[^,\[\]()]*\])*\]$")


def _read_trino(document: Mapping[str, Any], names: Collection[str], reads: Reads) -> bool:
    """Read an event of a query that Trino has completed.

    The plan has the columns that prune files; without a plan each input is a read without filter.
    """
    inputs = document.get("ioMetadata", {}).get("inputs")
    if inputs is None:
        return False
    time_ms = _instant_ms(document.get("createTime"))
    scans = _trino_scans(document.get("metadata", {}).get("jsonPlan"))
    for table, conditions in scans:
        reads.add(table, names, conditions, time_ms)
    planned = {table for table, _ in scans}
    for one in inputs:
        table = f"{one['schema']}.{one['table'].partition('$')[0]}"
        if table not in planned:
            reads.add(table, names, frozenset(), time_ms)
    return True


def _trino_scans(text: Any) -> list[tuple[str, Filter]]:
    plan = parse_json(text) if isinstance(text, str) else text
    if not isinstance(plan, dict):
        return []
    scans: list[tuple[str, Filter]] = []
    nodes = [plan] if "children" in plan else list(plan.values())
    while nodes:
        node = nodes.pop()
        nodes += node.get("children", [])
        table = _TRINO_TABLE.match(node.get("descriptor", {}).get("table", ""))
        if table is not None:
            scans.append((table["table"], _trino_filter(node.get("details", []))))
    return scans


def _trino_filter(details: Sequence[str]) -> Filter:
    found, column = {}, None
    for line in details:
        domain = _DOMAIN.match(line)
        if domain is None:
            assigned = _ASSIGNED.match(line)
            column = assigned["column"] if assigned else None
        elif column is not None:
            found[column] = EQUALITY if _VALUES.match(domain["text"]) else RANGE
    return _filter(found)


def _instant_ms(value: Any) -> int | None:
    """Return an instant as milliseconds: ISO 8601, or seconds as Trino's JSON has it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11:
        return int(value * 1000)
    if isinstance(value, str):
        try:
            return int(datetime.fromisoformat(value).timestamp() * 1000)
        except ValueError:
            return None
    return None
