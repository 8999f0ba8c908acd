"""Deleting orphans, or moving them: each file is looked at once more before it goes."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from icectl.catalog.protocol import LoadedTable
from icectl.commands.remove_orphans.search import PreparedRemoval, check_same_place, open_deletable
from icectl.commit.deletion import BATCH, remove_batch
from icectl.entries.files import (
    ListedFile,
    ListedFiles,
    excluding,
    listed_files,
    listed_none,
    listed_together,
    slices,
    where,
)
from icectl.errors import IcectlError, StorageError
from icectl.storage import location as locations
from icectl.storage.store import FailedRemoval, Store
from icectl.table.context import TableContext, whole_unless_expired
from icectl.table.orphan_verdicts import check_sums_last, described_files
from icectl.table.reading import in_threads
from icectl.units import print_instant

_GONE = "it is gone"
_S3 = re.compile(r"^s3[an]:", re.IGNORECASE)


@dataclass(slots=True)
class Quarantine:
    """One run's folder in a quarantine, from which files can be put back.

    Below `files/` is what it moved, under the paths that the files had in the table. Before any
    file of a list is moved, `moved-<n>.jsonl` is written, with a line `{"from": …, "to": …,
    "size_bytes": …, "modified": …}` for each. A line whose `to` is missing is of a file that stayed
    where it was. `lists` are the locations of these lists.
    """

    store: Store
    folder: str
    table_location: str
    concurrency: int
    lists: list[str]

    def copy(self, batch: ListedFiles) -> tuple[list[str], list[FailedRemoval]]:
        """Write down and copy files, and verify the copies.

        Returns the locations that were missing by then, and the failures.
        Raises: StorageError, where the list cannot be written.
        """
        moves = [(file, self._target(file.location)) for file in listed_files(batch)]
        lines = []
        for file, target in moves:
            instant = None if file.modified_ms is None else print_instant(file.modified_ms)
            places = {"from": plain(file.location), "to": plain(target)}
            line = {**places, "size_bytes": file.size_bytes, "modified": instant}
            lines.append(json.dumps(line) + "\n")
        list_location = locations.join(self.folder, f"moved-{len(self.lists) + 1:05}.jsonl")
        self.store.create(list_location, "".join(lines).encode())
        self.lists.append(list_location)
        problems = in_threads(
            lambda move: self._copy(*move), moves, [1] * len(moves), threads=self.concurrency
        )
        missing: list[str] = []
        failed = []
        for (file, _), problem in zip(moves, problems, strict=True):
            if problem is _GONE:
                missing.append(file.location)
            elif problem is not None:
                failed.append(FailedRemoval(file.location, problem))
        return missing, failed

    def _copy(self, file: ListedFile, target: str) -> str | None:
        """Copy one file; return the problem, if any."""
        try:
            self.store.copy(file.location, target)
            status = self.store.stat(target)
        except FileNotFoundError:
            return _GONE
        except FileExistsError:
            return "its new name is taken"
        except StorageError as error:
            return error.message
        if status is None or status.size_bytes != file.size_bytes:
            return "its copy has another size"
        return None

    def _target(self, location: str) -> str:
        base = f"{self.table_location}/"
        if location.startswith(base):
            return locations.join(self.folder, "files", location.removeprefix(base))
        path = location.removeprefix(locations.root(location))
        return locations.join(self.folder, "files-outside", path.lstrip("/"))


def plain(location: str) -> str:
    """The location as other programs take it: a local one as a path, S3 under its own name."""
    if locations.is_local(location):
        return locations.local_path(location)
    return _S3.sub("s3:", location)


Spared = Literal["gone", "changed", "referenced", "with_its_file"]
"""Why an orphan of the plan stayed after all, or was gone already."""


@dataclass(slots=True)
class OrphansGone:
    """The result of a run; files of `removed` were moved if there is a `quarantine`."""

    removed: ListedFiles
    failed: list[FailedRemoval] = field(default_factory=list)
    spared: Counter[Spared] = field(default_factory=Counter)
    stopped: bool = False
    quarantine: Quarantine | None = None


def execute(context: TableContext, prepared: PreparedRemoval) -> OrphansGone:
    """Delete or move what the plan says, and is still so, a batch at a time.

    Raises: what looking at files and at the newest metadata raises, as long as nothing is gone;
    later that ends the run early.
    """
    context.deadline.check()
    deletion = _Deletion(context, prepared, prepared.loaded)
    files, check_sums = check_sums_last(prepared.doomed)
    context.progress.phase("deleting files", total=len(files) + len(check_sums))
    for batch in chain(slices(files, BATCH), slices(check_sums, BATCH)):
        if context.deadline.passed:
            deletion.done.stopped = True
            break
        try:
            deletion.remove(batch)
        except IcectlError as error:
            if not len(deletion.done.removed):
                raise
            context.progress.warn(f"nothing more is deleted: {error.message}")
            deletion.done.stopped = True
            break
        context.progress.advance(len(batch))
    return deletion.done


class _Deletion:
    """A run; `newest` is the last state of the table whose references are known."""

    def __init__(
        self, context: TableContext, prepared: PreparedRemoval, newest: LoadedTable
    ) -> None:
        self.context = context
        self.prepared = prepared
        self.newest = newest
        self.done = OrphansGone(listed_none(prepared.plan.orphans))
        quarantine, table, env = prepared.options.quarantine, prepared.places.table, context.env
        if quarantine is not None:  # in a folder of the run, which nobody else uses
            instant = print_instant(env.now_ms() // 1000 * 1000).replace("-", "").replace(":", "")
            name = f"{locations.name(table)}-{instant}-{env.new_uuid()[:8]}"
            folder = locations.join(quarantine, name)
            self.done.quarantine = Quarantine(context.store, folder, table, context.concurrency, [])

    def remove(self, batch: ListedFiles) -> None:
        """Delete what may go of a batch; where there is a quarantine, copy it there before."""
        to_remove = self._unreferenced(self._unchanged(batch))
        if not len(to_remove):
            return
        if self.done.quarantine is not None:
            missing, failed = self.done.quarantine.copy(to_remove)
            self.done.failed += failed
            self.done.spared["gone"] += len(missing)
            to_remove = excluding(to_remove, [*missing, *(item.location for item in failed)])
        failed = remove_batch(self.context, [file.location for file in listed_files(to_remove)])
        self.done.failed += failed
        removed = excluding(to_remove, [item.location for item in failed])
        self.done.removed = listed_together([self.done.removed, removed])

    def _unchanged(self, batch: ListedFiles) -> ListedFiles:
        """Return the unchanged files; a check sum only if its own file is missing."""
        locations = batch.table["location"].combine_chunks()
        owners = described_files(locations)
        pairs = list(zip(listed_files(batch), owners.to_pylist(), strict=True))
        statuses = in_threads(
            lambda pair: self._look(*pair),
            pairs,
            [1] * len(pairs),
            threads=self.context.concurrency,
        )
        reasons = list(statuses)
        for (file, _), reason in zip(pairs, reasons, strict=True):
            if isinstance(reason, StorageError):
                self.done.failed.append(FailedRemoval(file.location, reason.message))
            elif reason is not None:
                self.done.spared[reason] += 1
        return where(batch, [reason is None for reason in reasons])

    def _look(self, file: ListedFile, owner: str) -> Spared | StorageError | None:
        """Return why a file should be kept; None if it should not."""
        try:
            status = self.context.store.stat(file.location)
            if status is None:
                return "gone"
            if status.size_bytes != file.size_bytes or not _same_second(
                status.modified_ms, file.modified_ms
            ):
                return "changed"
            if owner != file.location and self.context.store.stat(owner) is not None:
                return "with_its_file"
        except StorageError as error:
            return error
        return None

    def _unreferenced(self, batch: ListedFiles) -> ListedFiles:
        """Return the files that the newest metadata does not refer to either (R-157)."""
        self.context.catalog.settle()
        newest = open_deletable(self.context)
        check_same_place(self.newest, newest)
        references = self.prepared.references
        if newest != self.newest:
            with whole_unless_expired(self.context, newest):
                references.add(newest)
            self.newest = newest
        reached = references.reach(batch.table["location"].combine_chunks()).to_pylist()
        self.done.spared["referenced"] += sum(reached)
        return where(batch, [not flag for flag in reached])


def _same_second(first_ms: int | None, second_ms: int | None) -> bool:
    """Return whether two times can be one: listings and single look-ups round differently."""
    return first_ms is not None and second_ms is not None and first_ms // 1000 == second_ms // 1000
