"""What a run on a table of a REST catalog leaves where it is killed at its commit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from icectl.env import SystemEnv
from tests.builders.compactions import build
from tests.builders.folders import files_of
from tests.builders.rows import current_metadata, read_rows
from tests.catalogs.rest_servers import (
    NAMESPACE,
    Reply,
    Seen,
    commit,
    load,
    pass_on,
    python_server,
    register,
)
from tests.fault.changing import run

pytestmark = pytest.mark.xdist_group("rest")
DAY_SECONDS = 86_400


@pytest.mark.parametrize("landed", [False, True], ids=["before the commit", "after it"])
@pytest.mark.parametrize("command", [["compact", "--engine", "local", "--rewrite-all"],
                                     ["rewrite-manifests", "--min-manifests", "1"]],
                         ids=lambda words: words[0])  # fmt: skip
def test_what_is_left_goes_as_an_orphan_and_what_is_reached_never(
    iceberg_rest, tmp_path, command, landed
):
    directory = tmp_path / "t"
    build(directory, 2, "identity")
    name = f"killed_{tmp_path.name}"
    register(iceberg_rest, name, str(current_metadata(directory)))
    before, rows = files_of(directory), rows_of(iceberg_rest, name)
    assert killed(iceberg_rest, [command[0], named(name), *command[1:]], landed=landed)
    left = files_of(directory) - before
    journals = {file for file in left if Path(file).name.startswith("icectl-")}
    assert len(left) > 2
    assert len(journals) == 1

    assert orphans(iceberg_rest, name, directory, days=0) == set()
    assert rows_of(iceberg_rest, name) == rows
    gone = orphans(iceberg_rest, name, directory, days=5)
    needed = left if landed else journals
    assert gone & left == left - needed
    assert rows_of(iceberg_rest, name) == rows
    code, document = on(iceberg_rest, [command[0], named(name), *command[1:], "--json"])
    assert code == 0, document
    assert not journals & files_of(directory)
    code, document = on(iceberg_rest, ["validate", named(name), "--level", "data", "--json"])
    assert (code, document["result"]["counts"]["error"]) == (0, 0), document
    assert rows_of(iceberg_rest, name) == rows


def test_a_commit_that_comes_when_its_files_are_gone_is_refused(iceberg_rest, tmp_path):
    directory = tmp_path / "t"
    build(directory, 2, "identity")
    name = f"late_{tmp_path.name}"
    register(iceberg_rest, name, str(current_metadata(directory)))
    before, rows = files_of(directory), rows_of(iceberg_rest, name)
    head = load(iceberg_rest, name)["metadata"]["refs"]["main"]
    late: list[Seen] = []
    words = ["rewrite-manifests", named(name), "--min-manifests", "1"]
    assert killed(iceberg_rest, words, landed=False, late=late)
    left = files_of(directory) - before
    assert late
    assert len(left) > 2

    on(iceberg_rest, ["rewrite-manifests", named(name), "--dry-run", "--json"])
    assert left <= files_of(directory)
    code, document = on(iceberg_rest, [*words, "--json"])
    assert code == 0, document
    assert not left & files_of(directory)

    # What the late commit asks for of the branch holds again; the number of its snapshot is taken.
    commit(iceberg_rest, name, [{"action": "set-snapshot-ref", "ref-name": "main", **head}])
    metadata = load(iceberg_rest, name)["metadata-location"]
    answer = pass_on(iceberg_rest, late[0])
    assert answer.status in (400, 409), answer
    assert "sequence number" in str(answer.content)
    assert load(iceberg_rest, name)["metadata-location"] == metadata
    assert rows_of(iceberg_rest, name) == rows


def test_what_a_dead_run_of_version_1_has_left_stays_until_it_is_an_orphan(iceberg_rest, tmp_path):
    directory = tmp_path / "t"
    build(directory, 1, "identity")
    name = f"one_{tmp_path.name}"
    register(iceberg_rest, name, str(current_metadata(directory)))
    before = files_of(directory)
    words = ["rewrite-manifests", named(name), "--min-manifests", "1"]
    assert killed(iceberg_rest, words, landed=False)
    left = files_of(directory) - before
    assert on(iceberg_rest, [*words, "--json"])[0] == 0
    assert left <= files_of(directory)  # its snapshot would have no number that could be taken
    gone = orphans(iceberg_rest, name, directory, days=5)
    assert [Path(file).name[:7] for file in left - gone] == ["icectl-"]


def named(name: str) -> str:
    return ".".join(("r", *NAMESPACE, name))


def on(uri: str, words: list[str]) -> tuple[int, dict[str, object]]:
    return run([*words, "--catalog-option", f"uri={uri}"], env=SystemEnv())


def killed(uri: str, words: list[str], *, landed: bool, late: list[Seen] | None = None) -> bool:
    """Run icectl as a process that is killed when its commit is on the way, or has arrived.

    `late` takes the commit.
    """
    processes: list[subprocess.Popen[bytes]] = []

    def answering(seen: Seen) -> Reply:
        if seen.method == "POST":
            if landed:
                pass_on(uri, seen)
            if late is not None:
                late.append(seen)
            processes[0].kill()
            return Reply(breaks=True)
        return pass_on(uri, seen)

    with python_server(answering) as proxy:
        line = [sys.executable, "-m", "icectl", *words, "--catalog-option", f"uri={proxy.uri}"]
        processes.append(subprocess.Popen(line, stderr=subprocess.DEVNULL))
        return processes[0].wait(timeout=120) == -signal.SIGKILL


def orphans(uri: str, name: str, directory: Path, *, days: int) -> set[str]:
    """What `remove-orphans` deletes where all files are so old."""
    at = time.time() - days * DAY_SECONDS
    for file in directory.rglob("*"):
        if file.is_file():
            os.utime(file, (at, at))
    before = files_of(directory)
    words = ["remove-orphans", named(name), "--older-than", "2d", "--max-fraction", "1"]
    code, document = on(uri, [*words, "--yes", "--json"])
    assert code == 0, document
    return before - files_of(directory)


def rows_of(uri: str, name: str) -> list[object]:
    found = read_rows(load(uri, name)["metadata"])
    return sorted(tuple(item for item in row if not item[0].startswith("_")) for row in found)
