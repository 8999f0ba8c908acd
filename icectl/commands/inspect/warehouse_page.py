"""The health of many tables as one HTML page that needs nothing else: the whole, then the parts.

Bars are as wide as their part of the longest, and figures over time are one SVG element each, so
that no script has to draw anything. Colours follow the reader's light or dark mode.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icectl.commands.inspect.clustering import depth_bars, depth_text, remarks
from icectl.commands.inspect.health import band
from icectl.commands.inspect.health_plan import every_check
from icectl.commands.inspect.views import Row
from icectl.commands.inspect.warehouse_plan import totals
from icectl.commands.many import TableEnd
from icectl.units import as_html, print_count, print_instant, print_size

_DAY_MS = 86_400_000
_MOST = 60
"""Periods that a figure has at most."""


@dataclass(frozen=True, slots=True)
class Period:
    """Some days: bytes of all tables at their end, and the snapshots committed in them."""

    from_ms: int
    day_count: int
    total_bytes: int
    snapshot_count: int


def periods(histories: Sequence[Mapping[str, Any]]) -> list[Period]:
    """Put the histories of tables together, in periods of as many days each as make at most 60.

    A table counts with what its last day up to then says. Before its first it counts with that
    too, where older snapshots have expired, and else with nothing.
    """
    days = [day["day_ms"] for history in histories for day in history["days"]]
    if not days:
        return []
    first, last = min(days), max(days)
    day_count = -(-((last - first) // _DAY_MS + 1) // _MOST)
    length = day_count * _DAY_MS
    count = (last - first) // length + 1
    totals, snapshots = [0] * count, [0] * count
    for history in histories:
        totals_by_day = [day["total_bytes"] for day in history["days"]]
        sizes = [total for total in totals_by_day if total is not None]
        # Snapshots before the first day are gone: the table had its size before.
        known = sizes[0] if sizes and not history["is_whole"] else 0
        at = 0
        for day in history["days"]:
            number = (day["day_ms"] - first) // length
            snapshots[number] += day["snapshot_count"]
            for between in range(at, number):
                totals[between] += known
            at = number
            known = known if day["total_bytes"] is None else day["total_bytes"]
        for after in range(at, count):
            totals[after] += known
    return [
        Period(first + number * length, day_count, totals[number], snapshots[number])
        for number in range(count)
    ]


_MOST_BARS, _NAMED = 10, 3
_MOST_SHOWN, _MOST_OPEN = 50, 10
"""Tables that are listed, and whose needs are unfolded, before a reader asks for more."""
_WIDTH, _HEIGHT = 600, 150
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2530; --paper: #fff; --quiet: #5c6b7a;
  --line: #d8dee5; --soft: #f2f5f8; --data: #2f7d4f; --gone: #b3402e; --warn: #9a6700;
  --link: #0b57d0; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe6ee; --paper: #12171d; --quiet: #94a3b3;
  --line: #303a45; --soft: #1a2129; --data: #58b37e; --gone: #e07a66; --warn: #d9a53f;
  --link: #8ab4f8; } }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 75rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.3rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
p { margin: .3rem 0; } a { color: var(--link); }
code { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
.quiet, figcaption { color: var(--quiet); }
.ok { color: var(--data); } .attention { color: var(--warn); }
.critical, .unread { color: var(--gone); } .verdict { font-weight: 600; }
.tiles, .figures { display: grid; gap: 1rem; margin: 1rem 0; }
.tiles { grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); }
.figures { grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.tile, figure { background: var(--soft); border: 1px solid var(--line); border-radius: 6px;
  padding: .7rem .9rem; margin: 0; min-width: 0; }
.tile b { display: block; font-size: 1.25rem; line-height: 1.3; }
.bars { display: grid; grid-template-columns: minmax(5rem, auto) 1fr auto; gap: .15rem .7rem;
  align-items: center; }
.bars > :nth-child(3n + 1) { overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
  max-width: 15rem; direction: rtl; text-align: left; }
.bars > :nth-child(3n) { text-align: right; font-variant-numeric: tabular-nums; }
.bars i { display: block; height: .75rem; min-width: 1px; background: var(--data);
  border-radius: 2px; }
.bars.freed i { background: var(--warn); } .bars.deleted i { background: var(--gone); }
figcaption { margin-top: .4rem; } svg { display: block; width: 100%; height: auto; }
svg .area { fill: var(--data); opacity: .35; } svg .top { fill: none; stroke: var(--data);
  stroke-width: 2; } svg .bar { fill: var(--data); } svg .axis { stroke: var(--line); }
.plot { display: grid; grid-template-columns: auto 1fr; gap: 0 .5rem; }
.scale { display: flex; flex-direction: column; justify-content: space-between;
  text-align: right; color: var(--quiet); font-size: .85em; white-space: nowrap; }
.ends { display: flex; justify-content: space-between; color: var(--quiet); }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .25rem .4rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums; }
th { color: var(--quiet); font-weight: 600; white-space: normal; vertical-align: bottom; }
th:nth-child(-n + 2), td:nth-child(-n + 2), th:last-child, td:last-child { text-align: left; }
td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
td:last-child { white-space: normal; } td:last-child span { white-space: nowrap; }
td svg { width: 4.2rem; height: 1.1rem; margin-left: auto; }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; }
details p { margin-left: 1.2rem; } summary { cursor: pointer; overflow-wrap: anywhere; }
summary code { word-break: break-all; }
:target { background: var(--soft); outline: 2px solid var(--warn); }
"""


def warehouse_page(
    targets: Sequence[str],
    rows: Sequence[Row],
    ends: Sequence[TableEnd],
    now_ms: int,
    options: str,
) -> str:
    """Draw tables, those with most need first; `ends` are how looks at them ended, in this order.

    A table's result is its health view, with its `history`. `options` are those that commands need
    to reach the tables.
    """
    results = [end.result for end in ends if end.result is not None]
    sums = totals(rows)
    more = f" and {len(targets) - _NAMED:,} more" if len(targets) > _NAMED else ""
    title = as_html(f"Health of {', '.join(targets[:_NAMED])}{more}")
    seen_at = print_instant(now_ms // 1000 * 1000)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{title}</h1>",
            f'<p class="quiet">{as_html(seen_at)}: {_verdicts(sums)}</p>',
            *_tiles(sums),
            '<div class="figures">',
            *_sizes(results),
            *_over_time(results),
            *_most(rows),
            *_clustering(rows, ends),
            "</div>",
            *_table(rows, ends),
            *_details(rows, ends, options),
            "</body></html>\n",
        ]
    )


def _verdicts(totals: Row) -> str:
    names = {"unread": "could not be read"}
    parts = [
        f'<span class="verdict {name}">{count:,} {names.get(name, name)}</span>'
        for name, count in reversed(totals["verdicts"].items())
        if count
    ]
    return f"{print_count(totals['table_count'], 'table')}; {', '.join(parts)}"


def _tiles(totals: Row) -> Iterator[str]:
    tiles = [
        (print_size(totals["data_file_bytes"]),
         f"in {print_count(totals['data_file_count'], 'data file')}"),
        (f"{totals['delete_file_count']:,}",
         f"delete files, {print_size(totals['delete_file_bytes'])}"),
        (f"{totals['snapshot_count']:,}", "snapshots"),
        (f"{totals['manifest_count']:,}", "manifests read per scan"),
        (print_size(totals["reclaimable_bytes"]),
         f"freed by expiring {print_count(totals['expirable_snapshot_count'], 'snapshot')}"),
        (f"{totals['surplus_file_count']:,}", "fewer files possible by compaction"),
    ]  # fmt: skip
    yield '<div class="tiles">'
    for number, text in tiles:
        yield f'<div class="tile"><b>{as_html(number)}</b>{as_html(text)}</div>'
    yield "</div>"


def _sizes(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not results:
        return
    bars = []
    for sizes in zip(*(result["file_sizes"] for result in results), strict=True):
        name = band(sizes[0]["from_bytes"], sizes[0]["below_bytes"])
        count, total = (sum(size[key] for size in sizes) for key in ("file_count", "bytes"))
        bars.append((name, count, f"{count:,}, {print_size(total)}" if count else ""))
    yield _figure("File sizes", "data files by their size", _bars(bars))


def _over_time(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    history = periods([result["history"] for result in results])
    if len(history) < 2:
        return
    ends = (
        f'<div class="ends"><span>{_day(history[0].from_ms)}</span>'
        f"<span>{_day(history[-1].from_ms + history[-1].day_count * _DAY_MS - 1)}</span></div>"
    )
    most_bytes = max(period.total_bytes for period in history)
    yield _figure(
        "Growth",
        "size of the live files in all tables, from snapshot summaries; before a table's oldest "
        "snapshot, its size at that snapshot is shown",
        _with_axis(print_size(most_bytes), _area([period.total_bytes for period in history]), ends),
    )
    most = max(period.snapshot_count for period in history)
    yield _figure(
        "Snapshots over time",
        "snapshots that still exist, by time of commit; each column is "
        f"{print_count(history[0].day_count, 'day')}",
        _with_axis(f"{most:,}", _columns(history), ends),
    )


def _most(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the tables that gain most from maintenance."""
    for title, caption, key, show, look, full in (
        ("What expiry would free", "bytes that only snapshots eligible for expiration need",
         "reclaimable_bytes", print_size, "freed", None),
        ("What compaction would reduce", "fewer data files possible by compaction",
         "surplus_file_count", "{:,}".format, "", None),
        ("Deletes", "deleted rows still read by every scan; a full bar is 100% of the rows",
         "deleted_ratio", "{:.1%}".format, "deleted", 1.0),
    ):  # fmt: skip
        most = sorted((row for row in rows if row[key]), key=lambda row: -row[key])[:_MOST_BARS]
        if most:
            bars = [(row["table"], row[key], show(row[key])) for row in most]
            yield _figure(title, caption, _bars(bars, look, full))


def _clustering(rows: Sequence[Row], ends: Sequence[TableEnd]) -> Iterator[str]:
    """Yield how deep sorted tables are, and of the deepest the files by depth and partitions."""
    sorted_tables = []
    for row, end in zip(rows, ends, strict=True):
        found = (end.result or {}).get("clustering") or {}
        columns = found.get("columns", ())
        if columns and columns[0]["average_depth"] is not None:
            notes = remarks(columns[0])
            if found["deleted_record_count"] or found["equality_delete_file_count"]:
                notes.append("deleted rows count")
            sorted_tables.append((row["table"], columns[0] | {"remarks": notes}))
    sorted_tables.sort(key=lambda item: -item[1]["average_depth_in_partitions"])
    bars = [
        (table, column["average_depth_in_partitions"],
         f"{depth_text(column['average_depth_in_partitions'])} by {column['column']}")
        for table, column in sorted_tables[:_MOST_BARS]
    ]  # fmt: skip
    if bars:
        caption = "files in a partition that hold a value of the first sort key; 1 is best"
        yield _figure("Clustering of sorted tables", caption, _bars(bars))
    for table, column in sorted_tables[:_NAMED]:
        files = [(name, count, f"{count:,}") for name, count, _ in depth_bars(column["depths"])]
        partitions = [
            (partition["partition_path"], partition["average_depth"],
             depth_text(partition["average_depth"]))
            for partition in column["partitions"]
            if partition["partition_path"] and partition["average_depth"] is not None
        ]  # fmt: skip
        drawn = f"<p>files by depth</p>{_bars(files)}"
        if partitions:
            drawn += f"<p>depth of the worst partitions</p>{_bars(partitions, 'freed')}"
        title = f"Depth of {table} by {column['column']}"
        look_up, ranged = column["point_lookup_file_ratio"], column["range_file_ratio"]
        caption = f"a look-up opens {look_up:.1%} of the files, a 1% range {ranged:.1%}"
        yield _figure(title, "; ".join([caption, *column["remarks"]]), drawn)


def _figure(title: str, caption: str, drawn: str) -> str:
    caption = f"<figcaption>{as_html(caption)}</figcaption>"
    return f"<figure><h2>{as_html(title)}</h2>{drawn}{caption}</figure>"


def _bars(bars: Iterable[tuple[str, float, str]], look: str = "", full: float | None = None) -> str:
    """Draw bars; `full` is the largest possible value, by default the largest of the bars."""
    drawn = list(bars)
    most = full or max((value for _, value, _ in drawn), default=0) or 1
    cells = [
        f'<span title="{as_html(name)}"><bdi>{as_html(name)}</bdi></span>'
        f'<i style="width:{max(value, 0) / most:.1%}{"" if value > 0 else ";visibility:hidden"}">'
        f"</i><span>{as_html(text)}</span>"
        for name, value, text in drawn
    ]
    return f'<div class="bars {look}">{"".join(cells)}</div>'


def _area(values: Sequence[int]) -> str:
    most = max(values) or 1
    step = _WIDTH / (len(values) - 1)
    points = [
        f"{number * step:.1f} {_HEIGHT - value / most * (_HEIGHT - 4):.1f}"
        for number, value in enumerate(values)
    ]
    line = " L".join(points)
    return _svg(
        f'<path class="area" d="M0 {_HEIGHT} L{line} L{_WIDTH} {_HEIGHT}z"/>'
        f'<path class="top" d="M{line}"/>'
    )


def _with_axis(most: str, drawn: str, ends: str) -> str:
    """Put the scale on the left of a drawing, and its first and last day below."""
    scale = f'<div class="scale"><span>{as_html(most)}</span><span>0</span></div>'
    return f'<div class="plot">{scale}<div>{drawn}</div><i></i>{ends}</div>'


def _columns(history: Sequence[Period]) -> str:
    most = max(period.snapshot_count for period in history) or 1
    step = _WIDTH / len(history)
    return _svg(
        "".join(
            f'<rect class="bar" x="{number * step:.1f}" y="{_HEIGHT - high:.1f}" '
            f'width="{step * 0.8:.1f}" height="{high:.1f}"><title>{_day(period.from_ms)}: '
            f"{period.snapshot_count:,}</title></rect>"
            for number, period in enumerate(history)
            if (high := period.snapshot_count / most * (_HEIGHT - 4))
        )
    )


def _svg(inside: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-hidden="true">{inside}'
        f'<path class="axis" d="M0 {_HEIGHT}H{_WIDTH}M0 {_HEIGHT / 2}H{_WIDTH}M0 4H{_WIDTH}"/>'
        "</svg>"
    )


def _table(rows: Sequence[Row], ends: Sequence[TableEnd]) -> Iterator[str]:
    headings = "table,health,files,size,sizes,deleted rows,to merge,manifests,to expire,to free,run"
    head = "".join(f"<th>{name}</th>" for name in headings.split(","))
    begin = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>'
    yield begin
    for number, (row, end) in enumerate(zip(rows, ends, strict=True), start=1):
        if number == _MOST_SHOWN + 1:
            rest = print_count(len(rows) - _MOST_SHOWN, "more table")
            yield f"</tbody></table></div><details><summary>{rest}</summary>{begin}"
        cells = "".join(f"<td>{cell}</td>" for cell in _cells(number, row, end.result))
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div>" + ("</details>" if len(rows) > _MOST_SHOWN else "")


def _cells(number: int, row: Row, result: Mapping[str, Any] | None) -> Iterator[str]:
    name = re.sub("([/._])", r"\1<wbr>", as_html(row["table"]))
    yield name if row["verdict"] == "ok" else f'<a href="#t{number}">{name}</a>'
    verdict = row["verdict"] or "unread"
    yield f'<span class="verdict {verdict}">{"not read" if result is None else verdict}</span>'
    if result is None:
        yield from [""] * 9
        return
    yield f"{row['data_file_count']:,}"
    yield as_html(print_size(row["data_file_bytes"]))
    yield _sparkline([bar["file_count"] for bar in result["file_sizes"]])
    yield f"{row['deleted_ratio']:.1%}" if row["deleted_ratio"] else ""
    yield f"{row['surplus_file_count']:,}" if row["surplus_file_count"] > 0 else ""
    yield f"{row['manifest_count']:,}"
    past, count = row["expirable_snapshot_count"], row["snapshot_count"]
    yield f"{past:,} of {count:,}" if past else ""
    yield as_html(print_size(row["reclaimable_bytes"])) if row["reclaimable_bytes"] else ""
    yield ", ".join(f"<span>{as_html(command)}</span>" for command in row["commands"])


def _sparkline(counts: Sequence[int]) -> str:
    """Return files by size, as columns; the smallest on the left."""
    most = max(counts) or 1
    drawn = "".join(
        f'<rect class="bar" x="{at * 9}" y="{16 - high:.1f}" width="8" height="{high:.1f}"/>'
        for at, count in enumerate(counts)
        if (high := max(count / most * 16, 1.5 if count else 0))
    )
    return f'<svg viewBox="0 0 {9 * len(counts)} 16" aria-hidden="true">{drawn}</svg>'


def _details(rows: Sequence[Row], ends: Sequence[TableEnd], options: str) -> Iterator[str]:
    """Yield the needs of each table that is not well, with reasons."""
    for number, (row, end) in enumerate(zip(rows, ends, strict=True), start=1):
        if row["verdict"] == "ok":
            continue
        verdict = row["verdict"] or "unread"
        is_open = " open" if number <= _MOST_OPEN else ""
        yield (
            f"<details{is_open}><summary><code>{as_html(row['table'])}</code> "
            f'<span class="verdict {verdict}">{"not read" if end.result is None else verdict}'
            f'</span></summary><div id="t{number}">'
        )
        if end.result is None:
            yield f"<p>{_prose(end.reason)}</p>"
            if end.hint:
                yield f'<p class="quiet">hint: {_prose(end.hint)}</p>'
        else:
            shown = [(check.title, end.result[check.name]) for _, check in every_check()]
            needs = (need for need in shown if need[1]["command"] is not None)
            yield from (_need(title, check, row["table"], options) for title, check in needs)
        yield "</div></details>"


def _prose(text: str) -> str:
    """Return a sentence as HTML; text in backticks becomes code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", as_html(text))


def _need(title: str, check: Mapping[str, Any], table: str, options: str) -> str:
    words = " ".join(["icectl", check["command"], shlex.quote(table), *check["options"]])
    command = f"{words}{options}"
    return (
        f'<p><span class="verdict {check["verdict"]}">{as_html(title)}</span>: '
        f"{as_html(check['found'])} "
        f'<span class="quiet">({as_html(check["threshold"])})</span><br>'
        f"<code>{as_html(command)}</code></p>"
    )


def _day(instant_ms: int) -> str:
    return as_html(print_instant(instant_ms)[:10])
