"""Every command that changes a table, on a table that gives it work: what the fault tests go over.

A new command joins CHANGING. Its runs are whole runs of the command line.
"""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from icectl.cli import app, engines, session
from icectl.commands.upgrade_to_v4 import follow_ups
from icectl.env import Env
from icectl.storage.local.store import LocalStore
from icectl.storage.store import Store
from tests.builders.broken import Broken, in_first_file
from tests.builders.commits import set_properties
from tests.builders.expiry import NOW_MS, Clock, aged_table, reachable
from tests.builders.first_writers import as_first_writers_did
from tests.builders.inline_engine import InlineEngine
from tests.builders.rows import Row, current_metadata, read_metadata, read_rows, rows_by_snapshot
from tests.builders.table_builder import TableBuilder, filled_table
from tests.builders.tree_table import data_files, remove_data_files, upgrade


@dataclass(frozen=True)
class Changing:
    """A command line that changes a table, but for the table's name, which is `{table}` in it.

    A table that `is_broken` has findings, in old snapshots afterwards too. What is `only_full`
    takes long, or goes the same steps as another: it is for the full tier. Its snapshots have the
    rows of their parents that it `keeps`.
    """

    name: str
    words: tuple[str, ...]
    build: Callable[[Path], object]
    deletes_old_files: bool = False
    commits: bool = True
    only_full: bool = False
    reads_manifests: bool = True
    is_broken: bool = False
    keeps: Callable[[Row], bool] = lambda _: True


def _of_version_2(directory: Path) -> None:
    """Small manifests of data and of deletes, a branch of its own."""
    table = TableBuilder(directory, partitioning="two")
    for start in range(0, 36, 12):
        table.append(range(start, start + 12))
    table.delete_rows([1, 2, 13])
    table.delete_rows([20, 21], kind="equality")
    table.ref("audit", "branch")
    table.append(range(100, 106), branch="audit")
    table.remove_data_files(2)


def _of_small_files(directory: Path, version: int) -> None:
    """Two partitions with two files each, and deletes of every kind."""
    table = TableBuilder(directory, format_version=version, partitioning="identity")
    for start in (0, 12):
        table.append([start + at for at in range(12) if at % 3])
    table.delete_rows([1, 2, 13])
    table.ref("eoy", "tag")
    table.delete_rows([4, 5], kind="equality")
    table.append([7])


def _of_appended_files(directory: Path) -> None:
    """Two partitions with two files each, some with vectors, and rows that have ids."""
    table = TableBuilder(directory, format_version=3, partitioning="identity")
    for start in (0, 12):
        table.append([start + at for at in range(12) if at % 3])
    table.delete_rows([1, 13])


def _of_many_deletes(directory: Path) -> None:
    """Rows of two data files, deleted by delete files that they share."""
    table = filled_table(directory, range(12), files=2)
    table.delete_rows([1, 8])
    table.delete_rows([2, 9])


def _of_upserts(directory: Path, version: int) -> None:
    """Rows deleted by value and inserted again, beside rows that are deleted by position."""
    table = filled_table(directory, range(12), files=2, format_version=version)
    table.delete_rows([1, 8])
    for keys in ([2, 9], [3]):
        table.delete_rows(keys, kind="equality")
        table.append(keys)


def _of_version_3(directory: Path) -> None:
    """Vectors that were replaced, an old snapshot under a tag."""
    table = TableBuilder(directory, format_version=3, partitioning="identity")
    for start in range(0, 36, 12):
        table.append(range(start, start + 12))
    table.delete_rows([1, 2, 13])
    table.ref("eoy", "tag")
    table.delete_rows([3, 14])
    table.remove_data_files(2)


def _of_first_writers(directory: Path) -> None:
    """Version 1 as it once was: manifests embedded in snapshots, no uuid."""
    table = TableBuilder(directory, format_version=1, partitioning="two")
    for start in range(0, 36, 12):
        table.append(range(start, start + 12))
    table.ref("eoy", "tag")
    table.remove_data_files(2)
    as_first_writers_did(directory)


def _of_version_4(directory: Path) -> None:
    """Leaves with dead rows, some in a Puffin file, and an old snapshot under a tag."""
    _of_version_3(directory)
    clock = Clock(NOW_MS - 5 * 86_400_000)
    upgrade(directory, clock, "--eager")
    first, second, *_ = data_files(directory)
    remove_data_files(directory, clock, [first])
    set_properties(directory, clock, {"icectl.v4.mdv.inline-max-bytes": "0"})
    remove_data_files(directory, clock, [second])


def _of_iceberg(directory: Path) -> None:
    """Manifests in Parquet, as Iceberg 1.12 writes them in version 4."""
    _of_version_3(directory)
    upgrade(directory, Clock(NOW_MS - 5 * 86_400_000), "--layout", "iceberg-1.12", "--eager")


def _of_wrong_counts(directory: Path) -> None:
    """A list with a wrong count and a wrong length, wrong offsets, statistics of another size."""
    _of_small_files(directory, 2)
    broken = Broken(directory)
    broken.edit_manifest(in_first_file(split_offsets=[9, 4]))
    broken.edit_head_list(lambda rows: rows[0].update({"added_rows_count": 99}))
    broken.edit_head_list(lambda rows: rows[-1].update({"manifest_length": 5}))
    path = directory / "metadata" / "some.stats"
    path.write_bytes(b"PFA1PFA1{}")
    entry = {
        "snapshot-id": broken.head()["snapshot-id"], "statistics-path": str(path),
        "file-size-in-bytes": 99, "file-footer-size-in-bytes": 5, "blob-metadata": [],
    }  # fmt: skip
    broken.edit(lambda members: members.update({"statistics": [entry]}))


STRAYS = (
    "data/lost-1.parquet", "data/.lost-1.parquet.crc", "data/k=1/lost-2.parquet",
    "metadata/lost-m0.avro", "metadata/snap-1-lost.avro",
)  # fmt: skip


def _littered(directory: Path) -> None:
    """Files of crashed writers and of expired snapshots beside those of the table, all old."""
    filled_table(directory, range(3), partitioning="identity").delete_rows([1])
    for name in STRAYS:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 50)
    week_ago = NOW_MS / 1000 - 7 * 86_400
    for path in directory.rglob("*"):
        if path.is_file():
            os.utime(path, (week_ago, week_ago))


EXPIRE = ("expire-snapshots", "--older-than", "0s", "--retain-last", "1")
MERGE = ("--method", "merge", "--min-delete-ratio", "90%")
COMPACT = ("compact", "--engine", "local", "--target-file-size", "1MiB", "--min-input-files", "2")
EXPIRE_ROWS = ("expire-rows", "--where", "at < '2023-11-15T12:00'", "--max-fraction", "1")


ERASE = (
    "erase", "--where", "id = 5", "--max-fraction", "1", "--expire-history", "--drop-tags", "*",
)  # fmt: skip


def _is_not_erased(row: Row) -> bool:
    return bool(dict(row)["id"] != 5)


def _stays(row: Row) -> bool:
    """Whether a row is of EXPIRE_ROWS's day or later: ids from 14 on."""
    return bool(dict(row)["id"] >= 14)


CHANGING = {
    changing.name: changing
    for changing in [
        Changing("expire-v2", EXPIRE, lambda path: aged_table(path.parent), deletes_old_files=True),
        Changing("expire-v3", EXPIRE, _of_version_3, deletes_old_files=True, only_full=True),
        Changing(
            "remove-orphans", ("remove-orphans",), _littered, deletes_old_files=True, commits=False
        ),
        Changing(
            "quarantine-orphans",
            ("remove-orphans", "--quarantine", "{table}-away"),
            _littered,
            deletes_old_files=True,
            commits=False,
        ),
        Changing("rewrite-manifests", ("rewrite-manifests",), _of_version_2),
        Changing("repair", ("repair",), _of_wrong_counts, only_full=True, is_broken=True),
        Changing("compact-v2", COMPACT, lambda path: _of_small_files(path, 2), only_full=True),
        Changing("compact-v3", COMPACT, lambda path: _of_small_files(path, 3)),
        Changing("merge-files", (*COMPACT, *MERGE), _of_appended_files),
        Changing("merge-deletes", ("compact", "--deletes-only"), _of_many_deletes, only_full=True),
        Changing(
            "convert-deletes-v2",
            ("compact", "--deletes-only"),
            lambda path: _of_upserts(path, 2),
            only_full=True,
        ),
        Changing(
            "convert-deletes-v3", ("compact", "--deletes-only"), lambda path: _of_upserts(path, 3)
        ),
        Changing("tag", ("refs", "tag", "kept"), _of_version_2, reads_manifests=False),
        Changing(
            "set-properties",
            ("properties", "set", "owner=ada"),
            _of_version_3,
            reads_manifests=False,
        ),
        Changing("analyze", ("analyze", "--engine", "local"), _of_version_2),
        Changing("expire-rows", EXPIRE_ROWS, _of_version_2, keeps=_stays),
        Changing(
            "expire-rows-rewriting",
            (*EXPIRE_ROWS, "--method", "rewrite"),
            _of_version_3,
            only_full=True,
            keeps=_stays,
        ),
        Changing("expire-rows-v4", EXPIRE_ROWS, _of_version_4, only_full=True, keeps=_stays),
        Changing(
            "erase",
            ERASE,
            lambda path: _of_small_files(path, 3),
            deletes_old_files=True,
            keeps=_is_not_erased,
        ),
        Changing("migrate", ("migrate-v1-v2",), _of_first_writers, only_full=True),
        Changing(
            "migrate-and-rewrite", ("migrate-v1-v2", "--rewrite-manifests"), _of_first_writers
        ),
        Changing(
            "upgrade-to-v3",
            ("upgrade-to-v3", "--convert-position-deletes"),
            lambda path: _of_small_files(path, 2),
        ),
        Changing("upgrade", ("upgrade-to-v4", "--layout=sfc-1"), _of_version_2),
        Changing("upgrade-eagerly", ("upgrade-to-v4", "--layout=sfc-1", "--eager"), _of_version_3),
        Changing(
            "leave-sfc-1",
            ("upgrade-to-v4", "--layout", "iceberg-1.12"),
            _of_version_4,
            only_full=True,
        ),
        Changing("enter-sfc-1", ("upgrade-to-v4", "--layout=sfc-1"), _of_iceberg, only_full=True),
        Changing("expire-v4", EXPIRE, _of_version_4, deletes_old_files=True),
        Changing("rewrite-v4", ("rewrite-manifests",), _of_version_4),
        Changing("compact-v4", COMPACT, _of_version_4),
    ]
}


NAMES = [
    pytest.param(name, marks=pytest.mark.full) if changing.only_full else name
    for name, changing in CHANGING.items()
]
"""Of the commands, for tests with a parameter."""


@dataclass
class Subject:
    """A table with work for a command, and a copy of its files to go back to."""

    changing: Changing
    directory: Path
    pristine: Path
    rows: dict[int, list[Row]]
    _left: dict[frozenset[tuple[str, bytes]], set[str]] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """The command line, confirmed, one store call after the other."""
        command, *options = self.changing.words
        given = [option.format(table=self.directory) for option in options]
        return [command, str(self.directory), *given, "--yes", "--concurrency", "1", "--json"]

    def restore(self) -> None:
        """Put every file back as it was built."""
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.copytree(self.pristine, self.directory)

    def files(self) -> set[str]:
        """Every file there is, by its path in the table."""
        return {
            f"{folder}/{name}"[len(str(self.directory)) + 1 :]
            for folder, _, names in os.walk(self.directory)
            for name in names
        }

    def contents(self) -> dict[str, bytes]:
        """Every file with its bytes."""
        return {name: (self.directory / name).read_bytes() for name in self.files()}

    def current(self) -> str:
        """The name of the current metadata file."""
        return current_metadata(self.directory).name

    def check_whole(self) -> None:
        """The table opens; every snapshot shows its rows, new ones those of their parents."""
        metadata = read_metadata(current_metadata(self.directory))
        shown = dict(self.rows)
        for snapshot in metadata["snapshots"]:
            id_ = snapshot["snapshot-id"]
            parent = shown.get(snapshot.get("parent-snapshot-id"), self.rows_of_head()[0])
            shown.setdefault(id_, [row for row in parent if self.changing.keeps(row)])
            assert read_rows(metadata, id_) == shown[id_]
        rows, kept = self.rows_of_head()
        is_changed = metadata["current-snapshot-id"] not in self.rows
        assert read_rows(metadata) == (kept if is_changed else rows)
        assert reachable(self.directory) - self.files() == set()

    def rows_of_head(self) -> tuple[list[Row], list[Row]]:
        """The rows of the head as it was built, and those of them that the command keeps."""
        head = read_metadata(current_metadata(self.pristine))["current-snapshot-id"]
        return self.rows[head], [row for row in self.rows[head] if self.changing.keeps(row)]

    def run(self, store: Store | None = None) -> tuple[int, dict[str, Any]]:
        """Run the command in this process: exit code and document, which is empty after an
        interrupt."""
        return run(self.words, store)

    def commit_meanwhile(self) -> None:
        """Another writer's commit, which touches no file."""
        set_properties(self.directory, Clock(NOW_MS), {"meanwhile": "yes"})

    def finish(self) -> None:
        """Run undisturbed until there is nothing left to do: at most three times."""
        for _ in range(3):
            code, document = self.run()
            if self.changing.name == "erase" and any(self.directory.rglob(".icectl-*")):
                assert code in (0, 3), document  # an unfinished file may hold rows for a day
                self.check_whole()
                if code == 3:
                    return
            assert code == 0, document
            if document["status"] == "nothing-to-do":
                self.check_whole()
                metadata = read_metadata(current_metadata(self.directory))
                assert read_rows(metadata) == self.rows_of_head()[1]
                return
        raise AssertionError(document)

    def left_when_finished(self) -> set[str]:
        """Finish; the files that nobody needs then.

        Runs repeat themselves: from files that a rerun has finished before, it is not done again.
        """
        begun = frozenset(self.contents().items())
        if begun not in self._left:
            self.finish()
            self._left[begun] = unneeded(self)
        return self._left[begun]


def run_inline(patch: pytest.MonkeyPatch) -> None:
    """Have commands rewrite data in their own process."""
    for module in (engines, follow_ups):
        patch.setattr(module, "LocalEngine", InlineEngine)


def run(
    words: list[str], store: Store | None = None, env: Env | None = None
) -> tuple[int, dict[str, Any]]:
    """Run a command line with a store, or a clock, of the test's own."""
    out = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        run_inline(patch)  # hundreds of runs: processes for the data would take minutes to start
        if store is not None:
            patch.setattr(session, "open_store", lambda *_: store)
        code = app.main(words, env=env or Clock(NOW_MS))
    document: dict[str, Any] = {}
    with suppress(json.JSONDecodeError):
        document = json.loads(out.getvalue())
    return code, document


def subject_of(name: str, directory: Path) -> Subject:
    """The table of a command, and what it shows."""
    table = directory / "t"
    CHANGING[name].build(table)
    pristine = directory / "as-built"
    shutil.rmtree(pristine, ignore_errors=True)
    shutil.copytree(table, pristine)
    return Subject(CHANGING[name], table, pristine, rows_by_snapshot(table))


def unneeded(subject: Subject) -> set[str]:
    """Files but metadata JSON that no snapshot needs."""
    return {
        name
        for name in subject.files() - reachable(subject.directory)
        if not name.endswith((".metadata.json", "version-hint.text"))
    }


def lasting(subject: Subject) -> tuple[set[str], set[str]]:
    """What an undisturbed run leaves: all files but metadata JSON, and those that nobody needs."""
    subject.restore()
    code, document = subject.run(LocalStore())
    assert (code, document["status"]) == (0, "done")
    subject.check_whole()
    return subject.files(), unneeded(subject)
