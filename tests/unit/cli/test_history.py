"""The history of runs: lines of parallel runs, full files and disks, damaged and hostile lines."""

import json
import os
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import history as module
from icectl.cli.history import History, history_of
from icectl.cli.settings import resolve
from icectl.env import SystemEnv
from tests.stores.fixed_env import FixedEnv

RECORD: dict[str, Any] = {
    "run": "0a1b2c3d", "icectl": "0.2.0", "command": "maintain",
    "started": "2026-01-02T03:04:05Z", "ended": "2026-01-02T03:04:06.789Z", "table": "prod.db.t",
    "status": "done", "exit": 0, "seconds": 1.5, "rewritten_bytes": 10, "freed_bytes": 0,
    "file_count_before": None, "file_count_after": 1,
    "steps": [{"step": "compact", "status": "done", "exit": 0, "error_id": None, "seconds": 1.5,
               "summary": "2 files into 1"}],
}  # fmt: skip


def append(history: History, *tables: str) -> None:
    for table in tables:
        history.append({**RECORD, "table": table}, FixedEnv())


def tables(history: History) -> list[str]:
    return [record["table"] for record in history.records()]


def test_records_come_back_the_newest_first(tmp_path):
    history = History(tmp_path / "deep" / "icectl")
    assert tables(history) == []
    append(history, "a", "b")
    (first, second) = history.records()
    assert first == {**RECORD, "table": "b"}
    assert second["table"] == "a"
    assert history.skipped == 0


def _append_many(folder: str, name: str, full_bytes: int) -> None:
    module._FULL_BYTES = full_bytes
    for number in range(50):
        History(Path(folder)).append({**RECORD, "table": f"{name}-{number}"}, SystemEnv())


@pytest.mark.parametrize("full_bytes", [1 << 20, 20_000])
def test_runs_beside_each_other_lose_no_line(tmp_path, monkeypatch, full_bytes):
    monkeypatch.setattr(module, "_FULL_FILES", 1000)
    fork = get_context("fork")
    runs = [
        fork.Process(target=_append_many, args=(str(tmp_path), name, full_bytes)) for name in "abcd"
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
        assert run.exitcode == 0
    history = History(tmp_path)
    assert sorted(tables(history)) == sorted(f"{a}-{n}" for a in "abcd" for n in range(50))
    assert history.skipped == 0
    assert (len(list(tmp_path.iterdir())) > 1) == (full_bytes < 1 << 20)


def test_full_files_get_other_names_and_the_oldest_go(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FULL_BYTES", 1)
    monkeypatch.setattr(module, "_FULL_FILES", 3)
    (tmp_path / "runs-of-mine.jsonl").write_text("mine\n")
    env = FixedEnv()
    history = History(tmp_path)
    for number in range(6):
        env.sleep(1)
        history.append({**RECORD, "table": str(number)}, env)
    assert tables(history) == ["5", "4", "3"]
    assert len(list(tmp_path.iterdir())) == 4  # with a file that is none of icectl's
    assert (tmp_path / "runs-of-mine.jsonl").exists()


HOSTILE = [
    b"{", b"null", b"[]", b"{}", b"\xff\xfe", b'{"a":' * 5000, b"x" * 70_000,
    b"[" * 100_000,
    json.dumps({**RECORD, "status": "fine"}).encode(),
    json.dumps({**RECORD, "seconds": float("nan")}).encode(),
    json.dumps(RECORD).replace("1.5", "1e999").encode(),
    json.dumps(RECORD).replace('"rewritten_bytes": 10', '"rewritten_bytes": ' + "9" * 30).encode(),
    json.dumps({**RECORD, "started": "yesterday"}).encode(),
    json.dumps({**RECORD, "steps": [7]}).encode(),
    json.dumps({**RECORD, "exit": True}).encode(),
    json.dumps({**RECORD, "table": None}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_a_line_that_is_none_of_icectls_is_skipped_and_counted(tmp_path, line):
    history = History(tmp_path)
    append(history, "a")
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(line + b"\n\n")
    append(history, "b")
    assert tables(history) == ["b", "a"]
    assert history.skipped == 1


def test_unknown_members_are_left_out(tmp_path):
    history = History(tmp_path)
    history.append({**RECORD, "reason": "from a later version"}, FixedEnv())
    assert list(history.records()) == [RECORD]


def test_half_a_line_of_a_full_disk_costs_no_other(tmp_path):
    history = History(tmp_path)
    append(history, "a")
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(b'{"run": "0a1b')
    append(history, "b")
    assert tables(history) == ["b", "a"]
    assert history.skipped == 1


def test_a_full_disk_is_an_error_that_leaves_whole_lines(tmp_path, monkeypatch):
    history = History(tmp_path)
    append(history, "a")
    write = os.write
    monkeypatch.setattr(os, "write", lambda place, line: write(place, line[:20]))
    with pytest.raises(OSError, match="only a part of a line"):
        append(history, "b")
    monkeypatch.undo()
    append(history, "c")
    assert tables(history) == ["c", "a"]
    assert history.skipped == 1


def test_what_is_no_file_is_neither_waited_for_nor_written_to(tmp_path):
    os.mkfifo(tmp_path / "runs.jsonl")
    history = History(tmp_path)
    with pytest.raises(OSError, match="is not a file"):
        append(history, "a")
    with pytest.raises(OSError, match="is not a file"):
        tables(history)
    (tmp_path / "runs.jsonl").unlink()
    (tmp_path / "runs.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match="is not a file"):
        append(history, "a")


def test_the_folder_is_the_users_or_that_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = history_of(resolve({}, {}, None))
    assert found is not None
    assert found.folder == tmp_path / "icectl"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    found = history_of(resolve({}, {}, None))
    assert found is not None
    assert found.folder == Path("/home/somebody/.local/state/icectl")
    found = history_of(resolve({}, {"ICECTL_STATE_DIR": "/var/lib/icectl"}, None))
    assert found is not None
    assert found.folder == Path("/var/lib/icectl")
