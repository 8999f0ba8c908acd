"""Purging a quarantine: which of the files that earlier runs moved there may be deleted for good.

A run's folder has a list of the copies that it made, with the table's UUID and each copy's size and
time. Only such copies are purged, only of this table, and only if they are still as listed. Their
lines in the lists go with them, since a path may hold a value.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from icectl.catalog.protocol import LoadedTable
from icectl.cli.document import first_breach
from icectl.commands.remove_orphans.quarantine import COPIED, LIST_NAME, is_same_second, plain
from icectl.commit.deletion import remove_batch
from icectl.commit.journals import ABANDONED_AFTER_MS, UNREADABLE
from icectl.entries.files import ListedFile, ListedFiles, listed_files
from icectl.errors import StorageError, UsageError
from icectl.format.json_members import parse_json
from icectl.storage import location as locations
from icectl.storage.listing import LISTING_SCHEMA
from icectl.storage.many_files import ManyFiles, each_file
from icectl.storage.open import add_root
from icectl.storage.store import Store
from icectl.table.context import TableContext
from icectl.table.orphan_verdicts import is_reviewed
from icectl.table.reachable import References
from icectl.table.reviewed import Reviewed
from icectl.units import parse_instant

_INSTANT = r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z"
_LIST_BYTES = 16 << 20
"""No list of icectl is longer: it has a thousand files at most."""

_COPY: Mapping[str, Any] = {
    "type": "object",
    "required": ["path", "size_bytes", "modified", "table_uuid"],
    "properties": {
        "path": {"type": "string"},
        "size_bytes": {"type": "integer"},
        "modified": {"type": ["string", "null"]},
        "table_uuid": {"type": ["string", "null"]},
    },
}
"""JSON Schema of a line of a list of copies."""

_ANY_TIME_MS = 1 << 53

Unpurged = Literal["young", "unlisted", "changed", "referenced"]
"""Why a file stays in the folder of one of the table's runs."""


@dataclass(slots=True)
class RunFolder:
    """The folder of a run, when it began, and what is in it.

    `gone` are the paths of listed copies that are no longer there.
    """

    folder: str
    began_ms: int
    lists: list[ListedFile]
    files: list[ListedFile]
    gone: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """Copies to delete, of runs until `older_than_ms`, and how many others stay, by reason.

    `runs` are those whose lists name such copies, or others that are gone already.
    """

    older_than_ms: int
    files: ManyFiles
    runs: tuple[RunFolder, ...]
    left_alone: Mapping[Unpurged, int]

    def restricted(self, only: Reviewed) -> "PurgePlan":
        """Restrict a plan to the files that a reviewed plan names."""
        files = [file for file in each_file(self.files) if is_reviewed(file, only)]
        return replace(self, files=_together(files))


def plan_purge(
    context: TableContext,
    loaded: LoadedTable,
    quarantine: str,
    older_than_ms: int,
    references: References,
) -> PurgePlan:
    """Plan to delete the copies in a quarantine that this table's runs listed until an instant.

    Raises: StorageError, where the quarantine or a list cannot be read.
    Cost: a listing of the quarantine, and the lists of old runs.
    """
    files: list[ListedFile] = []
    runs: list[RunFolder] = []
    left_alone: Counter[Unpurged] = Counter()
    for run in _runs_of(context.store, quarantine.rstrip("/"), loaded):
        listed = _listed_copies(context.store, run, loaded.metadata.table_uuid)
        if listed is None:  # of another table, or of an icectl that kept no such list
            left_alone["unlisted"] += len(run.files)
            continue
        times = [run.began_ms, *(one.modified_ms or _ANY_TIME_MS for one in run.lists)]
        if max(times) > older_than_ms:
            left_alone["young"] += len(run.files)
            continue
        reached = references.reach(pa.array([file.location for file in run.files], pa.string()))
        purged = []
        for file, is_reached in zip(run.files, reached.to_pylist(), strict=True):
            facts = listed.get(plain(file.location))
            if facts is None:
                left_alone["unlisted"] += 1
            elif facts[0] != file.size_bytes or not is_same_second(facts[1], file.modified_ms):
                left_alone["changed"] += 1
            elif is_reached:
                left_alone["referenced"] += 1
            else:
                purged.append(file)
        files += purged
        if purged or run.gone:
            runs.append(run)
    return PurgePlan(older_than_ms, _together(files), tuple(runs), left_alone)


def quarantined_runs(store: Store, quarantine: str, loaded: LoadedTable) -> Iterator[RunFolder]:
    """Yield the folders in a quarantine that lists say this table's runs have moved files to.

    Raises: StorageError. Cost: a listing of the quarantine, and the lists.
    """
    add_root(store, quarantine)
    for run in _runs_of(store, quarantine.rstrip("/"), loaded):
        if _listed_copies(store, run, loaded.metadata.table_uuid) is not None:
            yield run


def tidy_lists(context: TableContext, plan: PurgePlan, purged: Collection[str]) -> list[str]:
    """Drop the lines of purged copies, and of others that are gone, from the lists of their runs.

    A list without lines is removed. One of copies keeps a line without a path while other files are
    in the folder, since it names the table. A `moved-…` list goes before the `copied-…` list by
    which a later run continues; one whose files may still be moved stays.
    Returns the lists that have changed. Never raises: a list that stays names its files again.
    """
    away, changed = set(map(plain, purged)), list[str]()
    now_ms = context.env.now_ms()
    for run in plan.runs:
        there = {plain(file.location) for file in run.files} - away
        copied = {_number(one) for one in run.lists if _is_of_copies(one)}
        for one in sorted(run.lists, key=lambda one: (_is_of_copies(one), one.location)):
            age_ms = now_ms - (one.modified_ms or now_ms)
            if _number(one) not in copied and age_ms <= ABANDONED_AFTER_MS:
                continue
            try:
                if _is_shortened(context, one, there):
                    changed.append(one.location)
            except (StorageError, FileNotFoundError, *UNREADABLE) as error:
                place = locations.redacted(one.location)
                context.progress.warn(f"{place} still names files that are gone: {error}")
    return changed


def _is_shortened(context: TableContext, one: ListedFile, there: Collection[str]) -> bool:
    """Leave only the lines of files that are there in a list; return whether it had others.

    Raises: what reading and parsing it raises; StorageError.
    """
    is_of_copies = _is_of_copies(one)
    member, wanted = ("path" if is_of_copies else "to"), {*there, ""} if there else set()
    lines = context.store.read(one.location).splitlines(keepends=True)
    files = [parse_json(line) for line in lines]
    kept = [line for line, file in zip(lines, files, strict=True) if file[member] in wanted]
    if len(kept) == len(lines):
        return False
    if is_of_copies and there and not kept:
        no_copy = {**files[0], "path": "", "size_bytes": 0, "modified": None}
        kept = [json.dumps(no_copy).encode() + b"\n"]
    if not kept:
        return not remove_batch(context, [one.location])
    with context.shield():
        context.store.replace(one.location, b"".join(kept))
    return True


def _number(one: ListedFile) -> str:
    return locations.name(one.location).partition("-")[2]


def _is_of_copies(one: ListedFile) -> bool:
    return locations.name(one.location).startswith(COPIED)


def may_be_of_run(location: str, quarantine: str, loaded: LoadedTable) -> bool:
    """Return whether a location is in the folder of a run that may be a table's, by its name."""
    folder = location.removeprefix(f"{quarantine.rstrip('/')}/").partition("/")[0]
    return _run_names(loaded).fullmatch(folder) is not None


def _run_names(loaded: LoadedTable) -> re.Pattern[str]:
    table = locations.name(loaded.metadata.location.rstrip("/"))
    return re.compile(rf"{re.escape(table)}-{_INSTANT}-[0-9a-f]{{8}}")


def _runs_of(store: Store, quarantine: str, loaded: LoadedTable) -> Iterator[RunFolder]:
    """Yield the folders of runs that may be a table's, by its name. Order: by name."""
    names = _run_names(loaded)
    runs: dict[str, RunFolder] = {}
    for batch in store.list(quarantine):
        for file in listed_files(ListedFiles(pa.Table.from_batches([batch]))):
            folder, _, rest = file.location.removeprefix(f"{quarantine}/").partition("/")
            began = names.fullmatch(folder)
            if began is None or not rest:
                continue
            year, month, day, hour, minute, second = began.groups()
            try:
                began_ms = _instant_ms(f"{year}-{month}-{day}T{hour}:{minute}:{second}Z")
            except UsageError:  # there is no such time
                continue
            place = locations.join(quarantine, folder)
            run = runs.setdefault(folder, RunFolder(place, began_ms, [], []))
            (run.lists if LIST_NAME.fullmatch(rest) else run.files).append(file)
    yield from (runs[folder] for folder in sorted(runs))


def _listed_copies(
    store: Store, run: RunFolder, table_uuid: str | None
) -> Mapping[str, tuple[int, int]] | None:
    """Return size and time of the copies that a run's lists name; None if one is not the table's.

    Those that are not there become `gone` in the run. A list that is no such list counts as another
    table's, and so do all where there is none.
    """
    copies: dict[str, tuple[int, int]] = {}
    lists = [one for one in run.lists if _is_of_copies(one)]
    if table_uuid is None or not lists:
        return None
    for one in lists:
        if one.size_bytes > _LIST_BYTES:
            return None
        try:
            for line in store.read(one.location).splitlines():
                copy = parse_json(line)
                if first_breach(copy, _COPY) is not None or copy["table_uuid"] != table_uuid:
                    return None
                if copy["modified"] is not None:
                    copies[copy["path"]] = (copy["size_bytes"], _instant_ms(copy["modified"]))
        except (ValueError, FileNotFoundError, UsageError):
            return None
    files = plain(locations.join(run.folder, "files"))
    listed = {path: facts for path, facts in copies.items() if path.startswith(files)}
    run.gone = listed.keys() - {plain(file.location) for file in run.files}
    return listed


def _instant_ms(text: str) -> int:
    return parse_instant(text, _ANY_TIME_MS)


def _together(files: Sequence[ListedFile]) -> ManyFiles:
    columns = [
        pa.array([file.location for file in files], pa.string()),
        pa.array([file.size_bytes for file in files], pa.int64()),
        pa.array([file.modified_ms for file in files], pa.int64()),
    ]
    return ManyFiles([ListedFiles(pa.Table.from_arrays(columns, schema=LISTING_SCHEMA))])
