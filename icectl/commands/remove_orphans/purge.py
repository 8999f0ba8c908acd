"""Purging a quarantine: which of the files that earlier runs moved there may be deleted for good.

A run's folder has a list of the copies that it made, with the table's UUID and each copy's size and
time. Only such copies are purged, only of this table, and only if they are still as listed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from icectl.catalog.protocol import LoadedTable
from icectl.cli.document import first_breach
from icectl.commands.remove_orphans.quarantine import COPIED, LIST_NAME, is_same_second, plain
from icectl.entries.files import ListedFile, ListedFiles, listed_files
from icectl.errors import UsageError
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


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """Copies to delete, of runs until `older_than_ms`, and how many others stay, by reason.

    `lists` are the lists of runs of which nothing else is left then.
    """

    older_than_ms: int
    files: ManyFiles
    lists: tuple[str, ...]
    left_alone: Mapping[Unpurged, int]

    def restricted(self, only: Reviewed) -> "PurgePlan":
        """Restrict a plan to the files that a reviewed plan names; lists stay then."""
        files = [file for file in each_file(self.files) if is_reviewed(file, only)]
        lists = self.lists if len(files) == len(self.files) else ()
        return replace(self, files=_together(files), lists=lists)


@dataclass(slots=True)
class _Run:
    """The folder of a run, when it began, and what is in it."""

    folder: str
    began_ms: int
    lists: list[ListedFile]
    files: list[ListedFile]


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
    lists: list[str] = []
    left_alone: Counter[Unpurged] = Counter()
    table = locations.name(loaded.metadata.location.rstrip("/"))
    for run in _runs_of(context.store, quarantine.rstrip("/"), table):
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
        if len(purged) == len(run.files):
            lists += [one.location for one in run.lists]
    return PurgePlan(older_than_ms, _together(files), tuple(lists), left_alone)


def quarantined_files(store: Store, quarantine: str, loaded: LoadedTable) -> Iterator[ListedFile]:
    """Yield the files in a quarantine that lists say this table's runs have moved there.

    Raises: StorageError. Cost: a listing of the quarantine, and the lists.
    """
    add_root(store, quarantine)
    table = locations.name(loaded.metadata.location.rstrip("/"))
    for run in _runs_of(store, quarantine.rstrip("/"), table):
        if _listed_copies(store, run, loaded.metadata.table_uuid) is not None:
            yield from run.files


def _runs_of(store: Store, quarantine: str, table: str) -> Iterator[_Run]:
    """Yield the folders of runs that may be a table's, by its name. Order: by name."""
    names = re.compile(rf"{re.escape(table)}-{_INSTANT}-[0-9a-f]{{8}}")
    runs: dict[str, _Run] = {}
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
            run = runs.setdefault(folder, _Run(place, began_ms, [], []))
            (run.lists if LIST_NAME.fullmatch(rest) else run.files).append(file)
    yield from (runs[folder] for folder in sorted(runs))


def _listed_copies(
    store: Store, run: _Run, table_uuid: str | None
) -> Mapping[str, tuple[int, int]] | None:
    """Return size and time of the copies that a run's lists name; None if one is not the table's.

    A list that is no such list counts as another table's, and so do all where there is none.
    """
    copies: dict[str, tuple[int, int]] = {}
    lists = [one for one in run.lists if locations.name(one.location).startswith(COPIED)]
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
    return {path: facts for path, facts in copies.items() if path.startswith(files)}


def _instant_ms(text: str) -> int:
    return parse_instant(text, _ANY_TIME_MS)


def _together(files: Sequence[ListedFile]) -> ManyFiles:
    columns = [
        pa.array([file.location for file in files], pa.string()),
        pa.array([file.size_bytes for file in files], pa.int64()),
        pa.array([file.modified_ms for file in files], pa.int64()),
    ]
    return ManyFiles([ListedFiles(pa.Table.from_arrays(columns, schema=LISTING_SCHEMA))])
