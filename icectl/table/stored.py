"""Whether the files that a table names are where it says, with the size that it says.

A listing tells of a thousand files a request, a look-up of one: so the table's location is listed
first, until it turns out to hold far more than is asked for. What the listing did not show is
looked up by itself.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icectl.catalog.metadata_files import is_metadata_file_name
from icectl.entries.files import FileKind, Files
from icectl.entries.rows import location_keys
from icectl.errors import StorageError
from icectl.storage import location as locations
from icectl.table.context import TableContext
from icectl.table.reading import of_one_file

FEW = 64
"""Files that are looked up one by one without listing first."""

_WORTH_LISTING = 500
"""Listed files for each one asked for at which a listing is given up: it cost a request for every
thousand of them, a look-up one each, and look-ups run in parallel."""

_WORTH_LISTING_LOCALLY = 4
"""The same on a local disk, where a listing asks for every file too."""

_MISSING, _UNREADABLE = -1, -2


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A file that is not as the table says; `found` is None where there is none.

    `problem` says why the store would not tell.
    """

    location: str
    kind: FileKind
    expected: int | None
    found: int | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison; `metadata_files` were met on the way, wherever they belong."""

    discrepancies: tuple[Discrepancy, ...]
    metadata_files: tuple[str, ...]


def compare_with_store(
    context: TableContext,
    expected: Files,
    table_location: str,
    listed: Iterable[pa.Table] | None = None,
) -> Comparison:
    """Look for files, each once; a null size is not compared.

    `listed` is what a listing of the table has shown, if there was one.
    Raises: StorageError where the store itself fails; Incomplete at the deadline.
    Cost: one listing, or a look-up for each file, whatever is cheaper; memory for the files.
    """
    context.progress.phase("looking for files", total=len(expected))
    sizes = np.full(len(expected), _MISSING, np.int64)
    is_listed = np.zeros(len(expected), np.bool_)
    metadata_files: list[str] = []
    if listed is None:
        listed = _listed(context, table_location, len(expected)) if len(expected) > FEW else ()
    keys = location_keys(expected.table["location"])
    for batch in listed:
        named = pc.match_substring(batch["location"], ".metadata.json")
        metadata_files += [
            location
            for location in batch["location"].filter(named).to_pylist()
            if is_metadata_file_name(locations.name(location))
        ]
        _fill(keys, batch, sizes, is_listed)
        context.progress.advance(0)
    unlisted = np.flatnonzero(~is_listed)
    context.progress.advance(int(is_listed.sum()))
    problems = _look_up(context, expected, unlisted, sizes)
    stated = pc.fill_null(expected.table["size_bytes"], -1).to_numpy()
    wrong = np.flatnonzero((sizes < 0) | ((stated >= 0) & (stated != sizes)))
    kinds = list(FileKind)
    discrepancies = tuple(
        Discrepancy(
            expected.table["location"][place].as_py(),
            kinds[expected.table["kind"][place].as_py()],
            expected.table["size_bytes"][place].as_py(),
            int(sizes[place]) if sizes[place] >= 0 else None,
            problems.get(place),
        )
        for place in wrong.tolist()
    )
    return Comparison(discrepancies, tuple(metadata_files))


def _listed(context: TableContext, table_location: str, expected_count: int) -> Iterator[pa.Table]:
    """List what lies below the table's location, until that is far more than is wanted."""
    local = locations.is_local(table_location)
    most = expected_count * (_WORTH_LISTING_LOCALLY if local else _WORTH_LISTING) + 10_000
    waiting: list[pa.RecordBatch] = []
    listed_rows = waiting_rows = 0
    with closing(batch for batch in context.store.list(table_location)) as batches:
        for batch in batches:
            context.deadline.check()
            listed_rows += len(batch)
            waiting.append(batch)
            waiting_rows += len(batch)
            if waiting_rows > 1_000_000:
                yield pa.Table.from_batches(waiting)
                waiting, waiting_rows = [], 0
            if listed_rows > most:
                break
    if waiting:
        yield pa.Table.from_batches(waiting)


def _fill(
    keys: pa.ChunkedArray,
    listed: pa.Table,
    sizes: npt.NDArray[np.int64],
    is_listed: npt.NDArray[np.bool_],
) -> None:
    """Take the sizes of files that a part of the listing shows; its keys are forgotten then."""
    shown = location_keys(listed["location"]).combine_chunks()
    indexes = pc.fill_null(pc.index_in(keys, value_set=shown, skip_nulls=True), -1)
    places = np.asarray(indexes.to_numpy(), np.int64)
    is_shown = places >= 0
    sizes[is_shown] = listed["size_bytes"].to_numpy()[places[is_shown]]
    is_listed |= is_shown


def _look_up(
    context: TableContext,
    expected: Files,
    unlisted: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> dict[int, str]:
    """Ask for files one by one; returns what the store would not tell."""
    problems: dict[int, str] = {}
    unlisted_locations = expected.table["location"].take(pa.array(unlisted)).to_pylist()

    def look(location: str) -> int | str:
        context.deadline.check()
        try:
            status = context.store.stat(location)
        except StorageError as error:
            return of_one_file(error).message
        context.progress.advance(1)
        return _MISSING if status is None else status.size_bytes

    with ThreadPoolExecutor(context.concurrency, thread_name_prefix="icectl-look") as pool:
        for place, answer in zip(
            unlisted.tolist(), pool.map(look, unlisted_locations, chunksize=1), strict=True
        ):
            if isinstance(answer, str):
                problems[place] = answer
                sizes[place] = _UNREADABLE
            else:
                sizes[place] = answer
    return problems
