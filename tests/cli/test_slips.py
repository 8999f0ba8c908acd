"""What people mistype or leave out, and the message that leads out of it."""

import errno
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from icectl.cli import document, engines
from icectl.cli.other_tools import FOREIGN_COMMANDS
from icectl.cli.registry import COMMANDS, load_command
from tests.builders.inline_engine import InlineEngine
from tests.builders.table_builder import filled_table
from tests.cli.conftest import result
from tests.generate.docs import parameters_of

MANY = ("--target-file-size", "1MiB", "--min-input-files", "2")


@pytest.fixture
def table(tmp_path: Path) -> str:
    return filled_table(tmp_path / "t", *([number] for number in range(6))).metadata.location


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("expire", "`expire-snapshots` or `expire-rows`"),
        ("expire-snapshot", "`expire-snapshots`"),
        ("orphans", "`icectl remove-orphans TABLE --dry-run`"),
        ("remove_orphan_files", "`icectl remove-orphans TABLE`"),
        ("set-current-snapshot", "`icectl refs TABLE rollback`"),
        ("upgrade-to-v2", "`migrate-v1-v2`"),
        ("manifest", "`rewrite-manifests`"),
        ("comp", "`compact`"),
        ("inspekt", "`inspect`"),
        ("ls", "`icectl inspect`"),
        ("rewrite_data_files", "`icectl compact TABLE`"),
        ("migrate-v2-v3", "`upgrade-to-v3`"),
        ("gc", "`icectl maintain`"),
    ],
)
def test_a_command_by_half_its_name_is_told_in_full(run, word, meant):
    ended = run(word, "t")
    assert (ended.code, ended.err) == (
        2,
        f"error: there is no command `{word}`\nhint: did you mean {meant}?\n",
    )


@pytest.mark.parametrize(
    "word",
    ["snapshot", "create", "migrate", "rename", "list-snapshots", "restore", "export-snapshots"],
)
def test_no_command_that_deletes_is_a_guess_for_a_name_that_does_not(run, word):
    hint = run(word, "t").err.partition("hint: ")[2]
    assert hint
    assert not any(
        name in hint for name in ("expire-", "remove-", "relocate", "migrate-", "upgrade-")
    )


def test_an_upgrade_is_a_guess_for_its_own_version_alone(run):
    upgrades = [name for name in COMMANDS if name.startswith(("migrate-", "upgrade-"))]
    listed = " or ".join(f"`{name}`" for name in upgrades)
    assert run("upgrade", "t").err.endswith(f"hint: did you mean {listed}?\n")
    assert "did you mean" not in run("upgrade-to-v9", "t").err


@pytest.mark.parametrize(
    "foreign", FOREIGN_COMMANDS, ids=[f"{one.tool} {one.name}" for one in FOREIGN_COMMANDS]
)
def test_what_other_tools_have_is_called_by_names_that_icectl_has(foreign):
    """Each command line parses up to TABLE, and each option stands on its command."""
    assert (foreign.here is None) != (foreign.instead == "")
    if foreign.here is None or foreign.here == "icectl --version":
        assert foreign.options == {}
        return
    known = {word for entry in parameters_of(load_command(foreign.command)) for word in entry.opts}
    texts = [foreign.here, *foreign.options.values()]
    assert {word for text in texts for word in re.findall(r"--[a-z-]+", text)} <= known


def test_a_table_in_front_of_the_command_is_seen(run):
    assert run("my t", "inspect").err.endswith("hint: did you mean `icectl inspect 'my t'`?\n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("expire-snapshots", "t", "--dry"), "did you mean `--dry-run`?"),
        (("refs", "t", "tag", "a", "--snapshot", "1"), "use `--at` with a snapshot's id"),
        (
            ("remove-orphans", "t", "--move-to", "/q"),
            "use `--quarantine DIR`, which moves files there",
        ),
        (("compact", "--catalog", "prod"), "`icectl inspect --catalog prod` lists its tables"),
        (("properties", "t", "a=b"), "icectl properties TABLE set KEY=VALUE"),
        (
            ("expire-snapshots", "t", "--snapshot_ids", "1"),
            "use `--snapshot-id ID`, once for each snapshot",
        ),
        (
            ("expire-snapshots", "t", "--retention-threshold", "7d"),
            "use `--older-than TIMESTAMP`, which takes a duration",
        ),
        (
            ("expire-snapshots", "t", "--stream-results"),
            "icectl needs no option for this: it always works in bounded memory",
        ),
        (("inspect", "t", "runs"), "`icectl runs t` shows what `maintain` and `apply` did"),
        (("compact", "t", "--file-size-threshold", "1MB"), "use `--min-file-size SIZE`"),
        (("compact", "t", "--target-file-size-bytes", "1"), "use `--target-file-size SIZE`"),
        (("remove-orphans", "t", "--max-concurrent-deletes", "9"), "use `--concurrency N`"),
        (
            ("inspect", "t", "--credential", "a:b"),
            "use `--catalog-option credential=env:NAME`, with `--catalog NAME`",
        ),
    ],
)
def test_slips_lead_to_what_was_meant(run, words, hint):
    ended = run(*words)
    assert (ended.code, ended.err.splitlines()[-1]) == (2, f"hint: {hint}")


def test_sizes_are_said_as_they_were_given(run, table):
    ended = run("compact", table, "-n", "--target-file-size", "1GB", "--min-file-size", "2 GB")
    assert ended.err.startswith("error: `--min-file-size` (2 GB) is not below the target of 1GB: ")


def test_a_policy_names_the_key_of_a_wrong_time(run, table, tmp_path):
    policy = tmp_path / "p.toml"
    policy.write_text('[expire-snapshots]\nolder-than = "7 days"\n')
    ended = run("maintain", table, "-n", "--policy", str(policy))
    assert ended.code == 2
    assert ended.err.startswith(f"error: `expire-snapshots.older-than`, {policy}: `7 days` is not")


@pytest.mark.parametrize("form", ["csv", "jsonl", "text"])
def test_two_formats_at_once_are_wrong_usage(run, table, form):
    ended = run("inspect", table, "snapshots", "--json", "--format", form)
    assert ended.code == 2
    error = ended.document["error"]
    assert error["message"] == f"`--json` and `--format {form}` cannot be used together"
    assert run("inspect", table, "snapshots", "--json", "--format", "json").code == 0


def test_unknown_variables_of_icectl_are_told(run, table, monkeypatch):
    monkeypatch.setenv("ICECTL_CONCURENCY", "3")
    monkeypatch.setenv("ICECTL_MOOD", "good")
    ended = run("inspect", table, "--json")
    assert ended.code == 0
    assert ended.document["warnings"] == [
        (
            "icectl does not know the environment variable ICECTL_CONCURENCY; "
            "did you mean ICECTL_CONCURRENCY?"
        ),
        "icectl does not know the environment variable ICECTL_MOOD",
    ]


def test_hints_name_the_command_and_the_table(run, table):
    ended = run("expire-snapshots", table, "--retain-last", "x", "--json")
    assert ended.document["error"]["hint"] is None  # the message says what is wrong
    ended = run("expire-snapshots", table, "--snapshot-id", "x", "--json")
    assert ended.document["error"]["hint"] == f"`icectl inspect {table} snapshots` lists them"


def test_a_page_that_cannot_be_written_is_told(run, table, tmp_path):
    place = tmp_path / "no" / "page.html"
    ended = run("inspect", table, "tree", "--html", str(place))
    assert ended.code == 13
    assert ended.err == (
        f"error: `--html`: cannot write `{place}`: no such file or directory\n"
        "hint: name a file in an existing folder that can be written to\n"
    )


def test_a_page_that_ends_half_way_leaves_the_old_one(run, table, tmp_path, monkeypatch):
    place = tmp_path / "page.html"
    place.write_text("the old one")

    def fill(path: Path, _: Iterable[str]) -> None:
        """Fill the disk with the first bytes."""
        path.write_bytes(b"<")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(document, "_write", fill)
    assert run("inspect", table, "tree", "--html", str(place)).code == 13
    assert [one.name for one in tmp_path.glob("*page*")] == ["page.html"]
    assert place.read_text() == "the old one"


def test_a_folder_of_tables_is_listed(run, table):
    ended = run("inspect", str(Path(table).parent))
    assert ended.code == 0
    assert table in ended.out


def test_compact_works_after_a_plain_install_and_says_with_what(run, table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delenv("ICECTL_COMPACT_ENGINE", raising=False)
    monkeypatch.setattr(engines, "LocalEngine", InlineEngine)
    health = run("inspect", table, "health")
    assert (
        f"  run: icectl compact {table}\n  engine: local (PySpark is not installed)\n" in health.out
    )
    assert result(run("inspect", table, "health", "--json"))["engine"] == "local"
    planned = run("compact", table, *MANY, "-n")
    assert "\nengine: local (PySpark is not installed)\n" in planned.out
    assert planned.err == ""
    done = run("compact", table, *MANY, "--json")
    assert done.code == 0
    assert done.err.splitlines()[0] == "engine: local (PySpark is not installed)"
    assert json.loads(done.out)["result"]["engine"] == "local"
    assert run("compact", table, "--rewrite-all", "--engine", "spark").code == 16


def test_settings_of_spark_ask_for_spark(run, table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delenv("ICECTL_COMPACT_ENGINE", raising=False)
    ended = run("compact", table, *MANY, "--master", "local[1]", "--json")
    assert (ended.code, ended.document["error"]["id"]) == (16, "engine")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (("version",), "did you mean `icectl --version`?"),
        (("inspect", "/t", "-o", "json"), "use `--json`, which prints one JSON document"),
        (("inspect", "/t", "--output", "json"), "use `--json`"),
        (("compact", "/t", "--force"), "use `--yes`, which asks no question"),
        (("compact", "/t", "--debug"), "use `-v`, or `-vv` for each store call"),
        (("inspect", "-V"), "use `icectl --version`"),
    ],
)
def test_names_that_other_tools_have_lead_to_the_one_here(run, line, hint):
    ended = run(*line)
    assert (ended.code, ended.err.splitlines()[-1]) == (2, f"hint: {hint}")


@pytest.mark.parametrize("name", ["schema", "completion", "man"])
def test_help_of_a_document_says_what_it_prints(run, name):
    ended = run("help", name)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: icectl {name} ")
    assert run(name, "--help").out == ended.out
