"""Every example of the README and docs: command lines are run, files are read by what reads them.

A block that cannot be run here has `<!-- not run: REASON -->` above it. Blocks below
`<!-- table: NAME -->` are run by `test_broken_tables_page.py`, the quickstart by `test_readme.py`.
"""

import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from icectl.cli import app, engines
from icectl.cli.settings import resolve
from icectl.commands.maintain.policy import read_policy
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import current_metadata
from tests.builders.table_builder import START_MS, TableBuilder, filled_table
from tests.catalogs.sql_servers import sqlite_server
from tests.generate.docs import parameters_of
from tests.stores.fixed_env import FixedEnv

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.name != "CHANGELOG.md"
]
HOUR_MS = 3_600_000
COMMITS = 6
NOW = FixedEnv(START_MS + COMMITS * HOUR_MS + HOUR_MS // 2)
SHELL = {"", "sh", "bash", "console"}
READ_BY_AUTOMATION = {"crontab", "ini"}
"""Languages of blocks that `test_automation.py` runs or reads."""
NAMES = ("sales.orders", "db.orders", "db.t")
"""Tables of the catalog `prod`."""


@dataclass(frozen=True)
class Block:
    """An example: where it stands, in which language, and the comment above it."""

    page: str
    line: int
    language: str
    text: str
    mark: str

    @property
    def not_run(self) -> str:
        """Why it is not run; empty for one that is."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run:") else ""

    @property
    def lines(self) -> list[str]:
        """Command lines, without prompts; one that goes on behind a backslash is one."""
        if self.language not in SHELL:
            return []
        text = self.text.replace("\\\n", " ")
        return [line.strip().removeprefix("$ ") for line in text.splitlines()]

    @property
    def commands(self) -> list[list[str]]:
        """Arguments of icectl, line by line."""
        return [words for line in self.lines if (words := arguments(line)) is not None]


def arguments(line: str) -> list[str] | None:
    """Arguments that a line gives to icectl, up to a pipe or a redirection."""
    if re.match(r"(\w+=\S+ )*icectl (-|[a-z])", line) is None:
        return None
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>;&")
    lexer.whitespace_split = True
    words = list(lexer)
    ends = [at for at, word in enumerate(words) if set(word) <= set("|>;&")]
    return words[words.index("icectl") + 1 : min(ends, default=len(words))]


def blocks(path: Path) -> Iterator[Block]:
    """Fenced blocks, and indented ones that are no part of a list."""
    lines = path.read_text("utf-8").splitlines()
    mark, at, in_list = "", 0, False
    while at < len(lines):
        line, start = lines[at], at
        if found := re.fullmatch(r"<!-- (.*) -->", line):
            mark = found[1]
        elif line.startswith("```"):
            at = next(n for n in range(at + 1, len(lines)) if lines[n] == "```")
            text = "\n".join(lines[start + 1 : at])
            yield Block(path.name, start + 1, line[3:], text, mark)
        elif line.startswith("    ") and not lines[at - 1] and not in_list:
            while at < len(lines) and (not lines[at] or lines[at].startswith("    ")):
                at += 1
            text = "\n".join(each[4:] for each in lines[start:at]).strip("\n")
            yield Block(path.name, start + 1, "", text, mark)
            mark = ""
            continue
        elif line:
            in_list = line.startswith(("- ", "* ")) or re.match(r"\d+\. ", line) is not None or (
                in_list and line.startswith(" ")
            )  # fmt: skip
            mark = ""
        at += 1


BLOCKS = [block for path in PAGES for block in blocks(path)]
RUN = [
    block
    for block in BLOCKS
    if block.commands and not block.not_run and not block.mark.startswith(("table: ", "quickstart"))
]


class Place:
    """A folder with what an example names: `/wh`, buckets and the catalog `prod`, on this disk."""

    uri = ""
    """Of the catalog, if the example names it."""

    def __init__(self, folder: Path, block: Block) -> None:
        self.folder = folder
        for name in ("orders", "trial", "wh/orders", "wh/db/t"):
            if re.search(rf"[ /]{name}\b", block.text) and f"cp -r orders {name}" not in block.text:
                self.table(folder / name)
        if "/copy/orders" in block.text and "cp -r" not in block.text:
            shutil.copytree(self.table(folder / "wh/orders").directory, folder / "copy/orders")
        if "s3://new/wh/orders" in block.text and "prod." not in block.text:
            shutil.copytree(
                self.table(folder / "old/wh/orders").directory, folder / "new/wh/orders"
            )
        if "prod" in block.text:
            named = [name for name in NAMES if f"prod.{name}" in block.text] or ["sales.orders"]
            self.catalog(named, with_audit="fast-forward" in block.text)
        (folder / "maintain.toml").write_text('[expire-snapshots]\nolder-than = "7d"\n')

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the folder the working directory and the home."""
        monkeypatch.chdir(self.folder)
        for name, value in {
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
            "ICECTL_COMPACT_ENGINE": "local",
            "ICECTL_PRICES_CPU_HOUR": "0.05",  # --max-price needs one
            "PYICEBERG_CATALOG__PROD__URI": self.uri,
        }.items():
            if value:
                monkeypatch.setenv(name, value)
        monkeypatch.setattr(engines, "LocalEngine", InlineEngine)

    def table(self, folder: Path) -> TableBuilder:
        """A table with a commit each hour, the last one half an hour ago."""
        return filled_table(
            folder, *([number] for number in range(COMMITS)), commit_interval_ms=HOUR_MS
        )

    def catalog(self, names: Sequence[str], *, with_audit: bool) -> None:
        """The catalog `prod` in a database, with tables of these names."""
        with sqlite_server(self.folder) as server:
            for name in names:
                namespace, _, own = name.rpartition(".")
                table = self.table(self.folder / "warehouse" / namespace / own)
                if with_audit:
                    table.ref("audit", "branch")
                    table.append([99], branch="audit")
                server.execute(
                    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
                    " metadata_location) VALUES ('prod', ?, ?, ?)",
                    namespace, own, str(current_metadata(table.directory)),
                )  # fmt: skip
            self.uri = server.properties["uri"]

    def word(self, word: str) -> str:
        """A word of a line, with places on this disk."""
        if "....metadata.json" in word:
            file = current_metadata(self.folder / "copy/orders")
            named = file.with_name("00042-7be2b2a6-0000-4000-8000-000000000000.metadata.json")
            for other in file.parent.glob("*.metadata.json"):
                other.rename(named if other == file else other.with_suffix(".old"))
            (file.parent / "version-hint.text").unlink(missing_ok=True)
            return str(named)
        word = re.sub(r"^(s3a?://(?=[a-z])|/etc/icectl/)", f"{self.folder}/", word)
        return re.sub(r"^/(?=(wh|copy)/)", f"{self.folder}/", word)

    def run_other(self, line: str) -> None:
        """Carry out what an example does beside icectl."""
        if line.startswith("cp -r "):
            source, target = (Path(self.word(word)) for word in line.split()[2:])
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target)
        elif line.startswith("(copy each file of "):
            rows = (self.folder / "files.csv").read_text().splitlines()
            for source, target in (row.split(",") for row in rows):
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)


class HelpPlace(Place):
    """A folder with what an example of `--help` names; its tables are partitioned by day."""

    version = 2
    with_audit = False

    def __init__(self, folder: Path, name: str, line: str) -> None:
        self.version = 1 if name == "migrate-v1-v2" else 2
        self.with_audit = "--ref audit" in line
        text = f"{line} prod.db.t" if "prod.db" in line else line
        super().__init__(folder, Block("--help", 0, "", text, ""))
        for found in ("b/t", "b/wh/t", "bucket/wh/t", "bucket/warehouse/t"):
            if f"s3://{found.removesuffix('/t')}" in line or "/wh/*" in line:
                self.table(folder / found)
        if name == "apply":
            self.table(folder / "wh/db/t")
        for source, target in (("copied/t", "copy/t"), ("old/t", "new/t")):
            if name == "relocate" and f"/{target}" in line and "prod." not in line:
                shutil.copytree(self.table(folder / source).directory, folder / target)

    def table(self, folder: Path) -> TableBuilder:
        table = TableBuilder(
            folder,
            commit_interval_ms=HOUR_MS,
            partitioning="day",
            format_version=self.version,
            properties={"write.data.path": str(folder / "data")},
        )
        for number in range(COMMITS):
            table.append([number])
        if self.with_audit:
            table.ref("audit", "branch")
        return table

    def word(self, word: str) -> str:
        own = {"day": "at_day", "day >= '2024-01-01'": "at >= '2024-01-01T00:00:00'"}
        return own.get(word) or super().word(word)


@pytest.mark.parametrize("block", RUN, ids=lambda block: f"{block.page}:{block.line}")
def test_command_lines_run(block, tmp_path, capsys, monkeypatch):
    place = Place(tmp_path, block)
    place.enter(monkeypatch)
    for line in block.lines:
        words = arguments(line)
        if words is None:
            place.run_other(line)
            continue
        code = app.main([place.word(word) for word in words], env=NOW)
        printed = capsys.readouterr()
        allowed = {0, 4} if {"--check", "--fail-on"} & set(words) else {0}
        assert code in allowed, f"{line}\n{printed.out}{printed.err}"


HELPED = [(name, line) for name in app.COMMANDS for line, _ in app.load_command(name).examples]
NOT_ALONE = {
    "icectl remove-orphans s3://b/t --inventory s3://inv/b/daily/manifest.json":
        "tests/cli/test_remove_orphans.py makes inventories",
    "icectl erase /wh/db/t --keys gone.csv --key-columns id --dry-run":
        "tests/cli/test_erase.py makes files of keys",
    "icectl validate /wh/db/t --level data --engine spark --master yarn":
        "tests/spark has a cluster",
}  # fmt: skip
"""Examples of `--help` that need more than a table, and where that is tested."""


@pytest.mark.parametrize(
    ("name", "line"), [one for one in HELPED if one[1] not in NOT_ALONE], ids=lambda part: part
)
def test_examples_of_help_run(name, line, tmp_path, capsys, monkeypatch):
    place = HelpPlace(tmp_path, name, line)
    place.enter(monkeypatch)
    words = arguments(line)
    assert words is not None
    takes = {option for one in parameters_of(app.load_command(name)) for option in one.opts}
    if "--yes" in takes and not {"--dry-run", "-n", "--check", "--yes"} & set(words):
        words.append("--yes")
    if line == "icectl upgrade-to-v4 /wh/db/t":
        words += ["--layout", "sfc-1"]  # it is asked for
    if name == "apply":
        saved = ["expire-snapshots", "wh/db/t", "--retain-last", "1", "--older-than", "1h"]
        assert app.main([*saved, "--dry-run", "--save-plan", "plan.json"], env=NOW) == 0
    code = app.main([place.word(word) for word in words], env=NOW)
    printed = capsys.readouterr()
    assert code in ({0, 4} if "--check" in words else {0}), printed.out + printed.err
    assert "error" not in printed.err


def test_files_are_accepted_by_what_reads_them(tmp_path):
    readers: dict[str, Callable[[str], object]] = {
        "toml": lambda text: read_settings_or_policy(tmp_path / "file.toml", text),
        "yaml": lambda text: list(yaml.safe_load_all(text)),
        "json": lambda text: json.loads(text if text[0] in "{[" else f"{{{text}}}"),
        "python": lambda text: compile(text, "example", "exec"),
    }
    for block in BLOCKS:
        if block.not_run:
            continue
        language = block.language or (
            "python" if block.text.startswith(("from ", "import ")) else ""
        )
        language = (
            "toml" if re.match(r"(\w+ = .*\n*)*\[", block.text) and not language else language
        )
        if language in readers:
            try:
                readers[language](block.text)
            except Exception as error:
                error.add_note(f"{block.page}:{block.line}")
                raise
        else:
            assert language in {*SHELL, *READ_BY_AUTOMATION}, f"{block.page}:{block.line}"


def read_settings_or_policy(file: Path, text: str) -> None:
    """A policy has keys that settings have not, and the other way round."""
    file.write_text(text)
    keys = set(tomllib.loads(text))
    if keys & {"rule", "budget", "steps", "window"}:
        read_policy(str(file))
    else:
        resolve({}, {}, str(file))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_command_lines_in_sentences_have_options_that_exist(path):
    prose = re.sub(r"```.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    spans = (" ".join(span.split()) for span in re.findall(r"(?<!`)`(icectl [^`]+)`(?!`)", prose))
    for span in spans:
        _, *words = shlex.split(span.replace("…", "").replace("...", ""))
        if words and words[0] in app.COMMANDS and not {"|", ">"} & set(words):
            option = next((word for word in words if word.startswith("--")), None)
            if words[1:2] and option != words[1]:  # else TABLE is left out
                assert app.parse(words) is not None, span


OTHERS = re.compile(
    r"\$\(icectl|^(spark-submit|aws|gcloud|docker|kubectl|systemctl|tasks:) ?", re.MULTILINE
)
"""What examples run beside icectl, and tests do not."""


def test_what_is_not_run_has_a_reason():
    marked = [block for block in BLOCKS if block.not_run]
    assert all(len(block.not_run.split()) >= 3 for block in marked)
    others = [block for block in BLOCKS if OTHERS.search(block.text) and block not in marked]
    assert [f"{block.page}:{block.line}" for block in others] == []


def test_blocks_are_seen():
    assert {"README.md", "refs.md", "relocate.md", "maintain.md", "plans.md"} <= {
        block.page for block in RUN
    }
    assert len(RUN) >= 15
