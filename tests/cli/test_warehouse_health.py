"""The health of many tables: by need, as text and for scripts, and as one page."""

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import document
from icectl.commands.inspect.warehouse import WAREHOUSE_COLUMNS
from icectl.commands.inspect.warehouse_page import warehouse_page
from icectl.commands.many import TableEnd
from icectl.env import Env
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from tests.builders.broken import Broken
from tests.builders.rows import head, live_entries
from tests.builders.table_builder import START_MS, TableBuilder
from tests.builders.warehouse import at_rest, broken, rotten, warehouse
from tests.catalogs.sql_servers import SqlServer
from tests.cli.conftest import Run, checked_document
from tests.stores.fixed_env import FixedEnv

DAY_MS = 86_400_000
PREFIX = "main.db.inner."


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlServer]:
    """A catalog with a table at rest, two that want maintenance, and one that cannot be read."""
    monkeypatch.setenv("ICECTL_COMPACT_ENGINE", "local")
    with warehouse(tmp_path, monkeypatch) as started:
        at_rest(started, "calm")
        rotten(started, "small", appends=4)
        rotten(started, "large", appends=8)
        broken(started, "lost")
        yield started


@pytest.fixture
def inspect(prepared: Callable[[str, Env], Run], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("COLUMNS", raising=False)
    return prepared("inspect", FixedEnv(START_MS + 30 * DAY_MS))


def test_tables_are_listed_by_need(server, inspect):
    ended = inspect("main", "health", "--json")
    document = checked_document(ended)
    found = document["result"]
    assert [(one["table"].removeprefix(PREFIX), one["verdict"]) for one in found["tables"]] == [
        ("lost", None), ("large", "attention"), ("small", "attention"), ("calm", "ok"),
    ]  # fmt: skip
    assert (ended.code, document["status"], found["verdict"]) == (3, "incomplete", "attention")
    assert found["tables"][0]["exit"] == 15
    large = inspect(PREFIX + "large", "health", "--json").document["result"]
    told = found["tables"][1]["result"]
    assert {key: value for key, value in told.items() if key != "history"} == large
    # 15 files, a delete file and 7 manifests less to open; a snapshot counts as a 64th of a file
    reclaimable = large["reclaimable"]["reclaimable_bytes"]
    manifests = large["manifest_debt"]["surplus_manifest_count"]
    expired = large["snapshot_debt"]["expirable_snapshot_count"] * (4 << 20) // 64
    saved = (15 + 1 + manifests) * (4 << 20)
    assert found["tables"][1]["benefit_bytes"] == saved + reclaimable + expired
    assert found["totals"]["verdicts"] == {"ok": 1, "attention": 2, "critical": 0, "unread": 1}
    assert found["totals"]["data_file_count"] == 1 + 8 + 16
    assert [sum(day["snapshot_count"] for day in told["history"]["days"])] == [9]


def test_text_has_a_line_a_table_and_the_sums(server, inspect):
    lines = inspect("main.db.inner.*", "health").out.splitlines()
    assert lines[0].split() == [
        "table", "health", "files", "size", "deleted", "to", "merge", "to", "expire", "to", "free",
    ]  # fmt: skip
    assert lines[1].split() == [PREFIX + "lost", "not", "read"]
    assert lines[2].split()[:3] == [PREFIX + "large", "attention", "16"]
    assert lines[4].split()[:3] == [PREFIX + "calm", "ok", "1"]
    assert "4 tables: 1 not read, 2 attention, 1 ok" in lines
    assert lines[-1] == "engine: local"
    assert any(line.startswith("to merge   22 files, ") for line in lines)


def test_rows_go_to_scripts_too(server, inspect):
    ended = inspect("main", "health", "--format", "csv", "--columns", "table,verdict", "--limit", 2)
    assert ended.out.splitlines() == [
        "table,verdict", f"{PREFIX}lost,", f"{PREFIX}large,attention",
    ]  # fmt: skip
    ended = inspect(PREFIX + "large", "health", "--format", "jsonl")
    assert json.loads(ended.out)["commands"] == [
        "compact", "rewrite-manifests", "expire-snapshots",
    ]  # fmt: skip
    ended = inspect("main", "health", "--columns", "fils", "--json")
    assert (ended.code, ended.document["error"]["message"]) == (
        2, "the health of tables has no column `fils`",
    )  # fmt: skip
    assert ended.document["error"]["hint"].endswith("to merge, to expire, to free")
    words = ("--columns", "health,files,to merge", "--format", "csv", "--limit", 2)
    [header, *lines] = inspect("main", "health", *words).out.splitlines()
    assert (header, len(lines)) == ("verdict,data_file_count,surplus_file_count", 2)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("main.db.inner.calm", "main.db.inner.small"), 4),
        (("main.db.inner.calm", "main.db.inner.c*"), 0),
        (("main",), 4),  # before the 3 of the table that cannot be read
    ],
)
def test_a_check_goes_by_the_worst(server, inspect, words, code):
    assert inspect(*words, "health", "--check").code == code
    critical = 3 if words == ("main",) else 0
    assert inspect(*words, "health", "--fail-on", "critical").code == critical


def test_a_check_tells_ci_of_each_table_and_prometheus_its_verdict(server, inspect, tmp_path):
    metrics = tmp_path / "icectl.prom"
    ended = inspect(
        "main", "health", "--check", "--format", "github", "--metrics-file", str(metrics)
    )
    assert ended.code == 4
    assert f"`icectl compact {PREFIX}large`" in ended.out
    assert f"::error title=failed {PREFIX}lost::" in ended.out
    text = metrics.read_text()
    labels = f'{{command="inspect",table="{PREFIX}large",check="all"}}'
    assert f"icectl_health_verdict{labels} 1" in text
    assert 'icectl_health_verdict{command="inspect",table="main",check="all"} 1' in text
    lost = f'{{command="inspect",table="{PREFIX}lost",check="all"}}'
    assert f"icectl_health_verdict{lost} 3" in text


def test_tables_that_no_one_can_read_are_not_ok(server, inspect):
    document = checked_document(inspect(PREFIX + "lost", PREFIX + "lost", "health", "--json"))
    assert (document["exit"], document["result"]["verdict"]) == (3, "unknown")


def test_folders_stand_for_the_tables_in_them(inspect, tmp_path, monkeypatch):
    for name in ("db/a", "db/b"):
        TableBuilder(tmp_path / name).append([1])
    for words in ([tmp_path], [f"{tmp_path}/db/*"], [tmp_path / "db/a", tmp_path / "db/b"]):
        found = checked_document(inspect(*words, "health", "--json"))["result"]
        assert sorted(one["table"] for one in found["tables"]) == [
            str(tmp_path / "db/a"), str(tmp_path / "db/b"),
        ]  # fmt: skip
    assert "tables" not in inspect(tmp_path / "db/a", "health", "--json").document["result"]
    monkeypatch.chdir(tmp_path / "db")
    assert "tables" not in inspect("a", "health", "--json").document["result"]
    monkeypatch.chdir(tmp_path)
    assert len(inspect("db", "health", "--json").document["result"]["tables"]) == 2
    ended = inspect(tmp_path / "none", "health", "--json")
    assert (ended.code, ended.document["error"]["id"]) == (10, "table-not-found")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "b", "snapshots"), "the view `snapshots` shows one table, but 2 are named"),
        (("a", "b", "heath"), "there is no view `heath`"),
        (("a*", "health", "--snapshot", "1"), None),
    ],
)
def test_what_is_of_one_table_says_so(inspect, tmp_path, words, message):
    ended = inspect(*words, "--json")
    assert ended.code == (2 if message else 10)
    assert message is None or ended.document["error"]["message"] == message


class Page(HTMLParser):
    """What a page is made of, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag not in ("script", "link", "img", "iframe")
        self.ids |= {str(given["id"])} if "id" in given else set()
        self.links |= {str(given["href"])} if "href" in given else set()
        if tag not in ("meta", "br", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None: ...

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["h2"]:
            self.titles.append(data)


def test_one_page_has_the_whole_warehouse(server, inspect, tmp_path):
    odd = "a<b>&'c"
    rotten(server, odd, appends=3)
    TableBuilder(tmp_path / "old", commit_interval_ms=DAY_MS // 2).append([1])
    place = tmp_path / "health.html"
    ended = inspect("main", "health", "--html", str(place))
    assert (ended.code, ended.out) == (3, f"wrote {place}\n")
    assert ended.err.startswith("warning: main.db.inner.lost: ")
    text = place.read_text()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.titles == [
        "File sizes", "What expiry would free", "What compaction would reduce", "Deletes",
    ]  # fmt: skip
    assert {link.removeprefix("#") for link in page.links} == page.ids != set()
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"https?://", text)  # nothing is fetched
    assert "a&lt;b&gt;&amp;&#x27;c" in text
    assert odd not in text
    ended = inspect("main", "health", "--html", str(tmp_path / "no" / "health.html"))
    assert (ended.code, "cannot write" in ended.err) == (13, True)


def test_commands_of_a_page_carry_the_options_that_reach_the_tables(
    server, inspect, tmp_path, monkeypatch
):
    """As printed they run: here for a catalog that no file configures. A secret is only named."""
    monkeypatch.setenv("DATABASE", server.properties["uri"])
    options = ("--catalog-option", "uri=env:DATABASE", "--storage-option", "secret=s3cr3t-word")
    place = tmp_path / "health.html"
    ended = inspect("--catalog", "main", *options, "**", "health", "--html", str(place))
    text = place.read_text()
    assert ended.code == 3
    assert "<h1>Health of main</h1>" in text
    shown = "--catalog-option uri=env:DATABASE --storage-option secret=..."
    commands = re.findall(r"<code>icectl compact (.*?)</code>", text)
    assert set(commands) == {
        f"db.inner.{name} --catalog main {shown}" for name in ("large", "small")
    }
    assert "s3cr3t-word" not in text
    one = inspect("--catalog", "main", *options, "db.inner.large", "health")
    assert f"  run: icectl compact {PREFIX}large {shown}\n" in one.out


def test_a_page_on_a_full_disk_leaves_the_old_one(server, inspect, tmp_path, monkeypatch):
    def full(path: Path, parts: Iterable[str]) -> None:
        path.write_text("".join(parts)[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = tmp_path / "health.html"
    place.write_text("old")
    monkeypatch.setattr(document, "_write", full)
    ended = inspect("main", "health", "--html", str(place))
    assert ended.code == 13
    assert "no space left on device\nhint: free some space there" in ended.err
    assert (place.read_text(), [each.name for each in tmp_path.glob(".health*")]) == ("old", [])


def test_a_page_of_tables_written_over_days_shows_growth(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t", commit_interval_ms=DAY_MS // 2)
    for number in range(6):
        table.append([number])
    place = tmp_path / "health.html"
    assert inspect(tmp_path / "t", "health", "--html", str(place)).code == 0
    page = Page()
    page.feed(place.read_text())
    assert page.titles[1:3] == ["Growth", "Snapshots over time"]


def test_a_page_shows_how_deep_sorted_tables_are(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t", partitioning="identity")
    order = SortOrder(1, (SortField((1,), parse_transform("identity"), "asc", "nulls-first"),))
    table.metadata = replace(table.metadata, sort_orders=(order,), default_sort_order_id=1)
    for ids in ([0, 6], [3, 9]):
        table.append(ids)
    place = tmp_path / "health.html"
    inspect(tmp_path / "t", "health", "--html", str(place))
    page = Page()
    page.feed(place.read_text())
    assert page.titles[-2:] == ["Clustering of sorted tables", f"Depth of {tmp_path}/t by id"]
    assert "<span>1.50 by id</span>" in place.read_text()
    assert "a look-up opens 75.0% of the files" in place.read_text()
    assert "without bounds" not in place.read_text()


def test_a_page_and_the_view_say_what_bounds_do_not_show(inspect, tmp_path):
    table = TableBuilder(tmp_path / "t")
    order = SortOrder(1, (SortField((1,), parse_transform("identity"), "asc", "nulls-first"),))
    table.metadata = replace(table.metadata, sort_orders=(order,), default_sort_order_id=1)
    for ids in ([0, 6], [3, 9], [4, 5], [7, 8]):
        table.append(ids)
    table.delete_rows([3])
    files = [entry["data_file"] for entry in live_entries(head(table.directory))]
    unknown, nulls, *_ = (Path(file["file_path"]) for file in files if file["content"] == 0)

    def without_bounds(entry: dict[str, Any]) -> None:
        entry["data_file"] |= {"lower_bounds": [], "upper_bounds": []}

    def of_nulls(entry: dict[str, Any]) -> None:
        without_bounds(entry)
        entry["data_file"]["null_value_counts"] = [{"key": 1, "value": 2}]

    broken = Broken(tmp_path / "t")
    broken.edit_everywhere(unknown, without_bounds)
    broken.edit_everywhere(nulls, of_nulls)
    text = inspect(tmp_path / "t", "clustering").out
    said = (
        "each look-up opens 1 file without bounds",
        "no look-up opens 1 file of nulls or NaN alone",
    )
    assert [f"id: {one}" in text for one in said] == [True, True]
    place = tmp_path / "health.html"
    inspect(tmp_path / "t", "health", "--html", str(place))
    assert "; ".join([*said, "deleted rows count"]) in place.read_text()


def test_a_page_of_many_tables_folds_all_but_those_with_most_need():
    """Fifty in the table, ten of them with their needs unfolded; messages and hints apart."""
    row: dict[str, Any] = dict.fromkeys(WAREHOUSE_COLUMNS)
    rows = [{**row, "table": f"db.t{number}"} for number in range(53)]
    ends = [
        TableEnd(one["table"], "failed", 15, "`f<1>` is gone", "`icectl repair`") for one in rows
    ]
    text = warehouse_page(["db"], rows, ends, START_MS, "")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert text.count("<details open>") == 10
    assert text.count("<details>") == 43 + 1
    assert "<summary>3 more tables</summary>" in text
    assert "<p><code>f&lt;1&gt;</code> is gone</p>" in text
    assert '<p class="quiet">hint: <code>icectl repair</code></p>' in text


def test_csv_is_printed_beside_the_page(inspect, tmp_path):
    TableBuilder(tmp_path / "t").append(range(3))
    words = (tmp_path / "t", "health", "--html", str(tmp_path / "h.html"))
    rows = inspect(*words, "--format", "csv").out.splitlines()
    assert (rows[0].split(",")[0], len(rows)) == ("table", 2)
    assert (tmp_path / "h.html").exists()
