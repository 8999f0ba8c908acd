"""Runs beside a writer that goes on committing as engines do on file systems: it writes
`<uuid>.metadata.json`, and then renames that to the next version."""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

import pytest

from tests.builders.expiry import NOW_MS, Clock
from tests.builders.rows import current_metadata, read_metadata
from tests.fault.changing import run, subject_of

FULL = pytest.mark.full
COMMANDS = ("expire-v2", "remove-orphans", "rewrite-manifests", "compact-v2")
FORMS = (["--yes"], ["--yes", "--skip-if-busy"], ["--dry-run"], ["--check"])
READING = (["inspect"], ["inspect", "files"], ["validate", "--level", "files"])
LONGEST_PAUSE_SECONDS = 0.02


class Waiting(Clock):
    """The clock of the tests, which waits as long as it is asked to."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        time.sleep(seconds)


class Writer:
    """Commits a property, again and again; `commits` counts what has landed, `lost` the rest."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.folder = directory / "metadata"
        self.random = random.Random(seed)
        self.commits = self.lost = 0
        self.ends = Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = Thread(target=self._work)
        self.ends.clear()
        thread.start()
        try:
            yield
        finally:
            self.ends.set()
            thread.join()

    def _work(self) -> None:
        while not self.ends.wait(self.random.uniform(0, LONGEST_PAUSE_SECONDS)):
            if self._commit():
                self.commits += 1
            else:
                self.lost += 1

    def _commit(self) -> bool:
        base = current_metadata(self.folder.parent)
        number = int(base.name[1:].partition(".")[0]) + 1
        members = read_metadata(base)
        entry = {"metadata-file": str(base), "timestamp-ms": members["last-updated-ms"]}
        members["metadata-log"] = [*members.get("metadata-log", []), entry][-100:]
        members["properties"] = members["properties"] | {"commits": str(self.commits)}
        waiting = self.folder / f"{uuid4()}.metadata.json"
        self._write(waiting, json.dumps(members).encode())
        try:
            # A rename that overwrites nothing: what HDFS does, and local disks do not.
            os.link(waiting, self.folder / f"v{number}.metadata.json")
        except FileExistsError:
            return False
        finally:
            waiting.unlink()
        self._point_at(number)
        return True

    def _write(self, path: Path, content: bytes) -> None:
        """Slowly enough for others to find half of it."""
        half = self.random.randrange(len(content))
        with path.open("wb", buffering=0) as file:
            file.write(content[:half])
            time.sleep(self.random.uniform(0, LONGEST_PAUSE_SECONDS / 4))
            file.write(content[half:])
        time.sleep(self.random.uniform(0, LONGEST_PAUSE_SECONDS / 4))

    def _point_at(self, number: int) -> None:
        hint = self.folder / "version-hint.text"
        named = self.folder / f"{uuid4()}-version-hint.temp"
        named.write_text(str(number))
        with suppress(FileNotFoundError):
            hint.unlink()
        named.rename(hint)


@pytest.mark.parametrize("rounds", [2, pytest.param(25, marks=FULL)])
@pytest.mark.parametrize("name", COMMANDS)
def test_beside_a_writer_that_renames_runs_end_well_or_with_a_conflict(tmp_path, name, rounds):
    """Every run ends with 0, 4 or 11, and every row stays. It was 1 or 5 for a quarter of them."""
    subject = subject_of(name, tmp_path)
    codes: Counter[int] = Counter()
    env = Waiting(NOW_MS)
    for number in range(rounds):
        subject.restore()
        writer = Writer(subject.directory, seed=number)
        with writer.at_work():
            for form in FORMS:
                words = [word for word in subject.words if word != "--yes"]
                code, document = run(words + form, env=env)
                assert code in ({0} if "--skip-if-busy" in form else {0, 4, 11}), document
                codes[code] += 1
            for words in READING:
                code, document = run([words[0], str(subject.directory), *words[1:], "--json"])
                assert code == 0, document
        assert writer.commits > 0
        subject.check_whole()
    subject.finish()
    assert list(subject.directory.rglob(".icectl-*")) == []
    assert list(subject.directory.rglob("icectl-*.json")) == []
    assert codes[0] > rounds
