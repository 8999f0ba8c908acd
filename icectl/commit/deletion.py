"""Deleting files once a commit is known to have landed, and the record to finish it from.

The journal is one JSON file in the metadata folder, written before the deletion. It only names
candidates: the run that finishes it computes the reachable files again, and keeps them.
"""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from icectl.commit.journals import VERSION, check_version, read_each, text_or_none, texts
from icectl.entries.files import (
    FileKind,
    Files,
    excluding,
    files,
    in_batches,
    including,
    rows,
    slices,
)
from icectl.env import Env
from icectl.errors import StorageError
from icectl.format.json_members import parse_json
from icectl.format.metadata import TableMetadata
from icectl.progress import Progress
from icectl.storage.location import check_sum, loosest_key, loosest_keys
from icectl.storage.many_files import FilesByKind
from icectl.storage.new_files import create_own
from icectl.storage.store import FailedRemoval, FileStatus, Store
from icectl.table.context import TableContext

BATCH = 1_000
"""Files that one request of S3 deletes at most."""
STEP = 4 * BATCH
"""Files in one step: its requests run side by side, each takes some tenths of a second."""

_WRITTEN_AT_ONCE = 10 * STEP
"""Files of a journal that is written as a whole: of more it is written part by part."""
_READ_BYTES = 8 << 20
_FILES = re.compile(r',\s*"files"\s*:\s*\[')
_SPACE, _COMMA, _END = map(re.compile, (r"\s*", r"\s*,\s*", r"\s*]\s*}\s*\Z"))


@dataclass(frozen=True, slots=True)
class DeletionJournal:
    """The files that a run is about to delete, and the snapshots whose removal it commits first."""

    location: str
    table_uuid: str | None
    created_ms: int
    snapshot_ids: tuple[int, ...]
    files: FilesByKind

    def has_landed(self, metadata: TableMetadata) -> bool:
        """Return whether the commit that the run recorded is in the table."""
        return not any(metadata.snapshot(id_) is not None for id_ in self.snapshot_ids)


def write(store: Store, env: Env, journal: DeletionJournal) -> None:
    """Record a run before it commits. Raises: what creating a file raises."""
    content = _content(journal)
    if len(journal.files) <= _WRITTEN_AT_ONCE:
        create_own(store, env, journal.location, b"".join(content))
        return
    with store.open_new(journal.location) as file:
        for part in content:
            file.write(part)


def _content(journal: DeletionJournal) -> Iterator[bytes]:
    """Yield the JSON object of a journal by parts; the last member, `files`, may be long."""
    content = {
        "icectl-journal": VERSION,
        "table-uuid": journal.table_uuid,
        "created-ms": journal.created_ms,
        "snapshot-ids": journal.snapshot_ids,
    }
    yield _json(content)[:-1] + b',"files":['
    separator = b""
    for part in journal.files:
        for some in slices(part, STEP):
            listed = [[place, int(kind), size] for place, kind, size in rows(some)]
            yield separator + _json(listed)[1:-1]
            separator = b","
    yield b"]}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def unfinished_journals(
    store: Store, listed: Sequence[FileStatus], command: str, progress: Progress
) -> list[DeletionJournal]:
    """Return the journals of a command among the files of the metadata folder.

    One that cannot be read is named in a warning and left alone.
    """
    return read_each(store, listed, command, _read, progress)


def _read(store: Store, location: str) -> DeletionJournal:
    parts = _parts_of(store, location)
    beginning = next(parts)
    members = _FILES.search(beginning)
    content = parse_json(beginning if members is None else f"{beginning[: members.start()]}}}")
    check_version(content)
    if members is None:
        raise ValueError("its last member is not `files`")
    listed = FilesByKind()
    for some in _listed(beginning[members.end() :], parts):
        for kind in FileKind:
            named = [(place, size) for place, code, size in some if code == kind]
            places = texts([place for place, _ in named])
            keys = loosest_keys(pa.chunked_array([places], pa.string())).to_pylist()
            listed.add(files(places, keys, kind, [size for _, size in named]))
    return DeletionJournal(
        location,
        text_or_none(content["table-uuid"]),
        int(content["created-ms"]),
        tuple(map(int, content["snapshot-ids"])),
        listed,
    )


def _parts_of(store: Store, location: str) -> Iterator[str]:
    """Yield the text of a file by parts. Raises: StorageError; FileNotFoundError; ValueError."""
    decoder, start, is_last = getincrementaldecoder("utf-8")(), 0, False
    while not is_last:
        content = store.read_range(location, start, _READ_BYTES)
        start += len(content)
        is_last = len(content) < _READ_BYTES
        yield decoder.decode(content, final=is_last)


def _listed(text: str, further: Iterator[str]) -> Iterator[list[Any]]:
    """Yield the items of a JSON array by parts; `text` follows its `[`, an object ends after it.

    Raises: ValueError; RecursionError.
    """
    decode, before = json.JSONDecoder().raw_decode, _SPACE
    while True:
        items, place = [], 0
        with suppress(json.JSONDecodeError):  # of an item that the next part completes
            while found := before.match(text, place):
                item, place = decode(text, found.end())
                items.append(item)
                before = _COMMA
        yield items
        rest, part = text[place:], next(further, None)
        if part is None and _END.match(rest):
            return
        if part is None or len(rest) > _READ_BYTES:
            raise ValueError("its files do not end")
        text = rest + part


def discard(store: Store, journals: Sequence[DeletionJournal]) -> None:
    """Remove journals that are done or abandoned; never raises, since a leftover does no harm."""
    with suppress(StorageError):
        store.remove([journal.location for journal in journals])


@dataclass(frozen=True, slots=True)
class Removal:
    """The files that were deleted, those that remain, and the failures.

    `stopped` if time ran out before the end.
    """

    removed: FilesByKind
    remaining: FilesByKind
    failed: tuple[FailedRemoval, ...] = ()
    stopped: bool = False


def remove_files(
    context: TableContext, files: FilesByKind, kept_check_sums: Collection[str] | None = None
) -> Removal:
    """Delete files in their order; never raises for one that cannot be deleted.

    The checksum `.x.crc` of a file `x` is deleted with it, unless its loosest key is among
    `kept_check_sums`. None means that there are no checksums. Each batch has one kind of files: no
    manifest is deleted before a file that it describes.
    """
    context.progress.phase("deleting files", total=len(files))
    removed, remaining = FilesByKind(), FilesByKind()
    failed: list[FailedRemoval] = []
    stopped = False
    for batch in (part for kind in FileKind for part in in_batches(files.of_kind(kind), STEP)):
        stopped = stopped or context.deadline.passed
        if stopped:
            _take_in(remaining, batch)
            continue
        missed = remove_batch(context, [location for location, _, _ in rows(batch)])
        failed += missed
        places = [item.location for item in missed]
        gone = excluding(batch, places)
        _take_in(removed, gone)
        _take_in(remaining, including(batch, places))
        if kept_check_sums is not None and len(gone):
            check_sums = [check_sum(location) for location, _, _ in rows(gone)]
            remove_batch(  # one that stays is an orphan
                context, [file for file in check_sums if loosest_key(file) not in kept_check_sums]
            )
        context.progress.advance(len(batch))
    return Removal(removed, remaining, tuple(failed), stopped=stopped)


def _take_in(listed: FilesByKind, part: Files) -> None:
    with suppress(StorageError):  # without room on disk they wait in memory
        listed.add(part)


def remove_batch(context: TableContext, locations: Sequence[str]) -> list[FailedRemoval]:
    """Delete some files in one step; returns the remaining ones, with reasons."""
    try:
        with context.shield():
            return list(context.store.remove(locations))
    except StorageError as error:
        return [FailedRemoval(location, error.reason) for location in locations]
