"""The search for orphans on Spark: workers list the files, keep the lists and compare them.

What they find is judged once more here, where the table was read: whatever went wrong on a worker,
no file that the table reaches counts as unreached.
"""

import json
import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icectl.env import Deadline, SystemEnv
from icectl.errors import Refused, Unsupported
from icectl.format.json_members import parse_json
from icectl.progress import Progress
from icectl.rows.orphan_search import Listing, LocalListing
from icectl.rows.spark import Answer, Answers, Spark, batch_payload, payload_batch, spark_failures
from icectl.rows.spark_start import SparkOptions, spark_session
from icectl.storage.listing import LISTING_SCHEMA, Spool
from icectl.storage.open import StorageOptions, open_store
from icectl.storage.store import ListingPart, Store
from icectl.table.known_locations import KnownLocations
from icectl.table.orphan_verdicts import OrphanRule
from icectl.table.unreached import metadata_files, symbolic_links, unreached

_LOGGER = logging.getLogger(__name__)
_FILES, _SUMMARY = "files", "summary"
_TASKS_PER_CORE = 4
_FEWEST_TASKS = 256
"""On a cluster, which may begin with few workers and take more as there is work."""
_ONE_ATTEMPT = ("spark.speculation", "false")
"""A second attempt at the same time would list later than the first."""


@dataclass(frozen=True, slots=True)
class _SparkListing:
    """A listing of which the beginning is here and the rest on Spark's workers."""

    spark: Spark
    here: LocalListing
    there: Answers | None
    file_count: int
    total_bytes: int
    metadata_files: Sequence[str]
    links: Sequence[str]

    def unreached(self, known: KnownLocations, rule: OrphanRule) -> Iterator[pa.RecordBatch]:
        """Yield the files that are not known, each with its verdict."""
        yield from self.here.unreached(known, rule)
        if self.there is None:
            return
        self.spark.progress.phase("comparing on Spark", total=self.there.task_count)
        there = _sent(self.spark, known)
        found = self.spark.run_on(self.there, _FILES, partial(_unreached, there, rule))
        for _, payload in found.of(_FILES):
            yield unreached(payload_batch(payload), known, rule)


@dataclass(frozen=True, slots=True)
class SparkOrphanSearch:
    """The search on Spark, whose session lasts as long as the listing."""

    spark: SparkOptions
    storage: StorageOptions
    store: Store
    progress: Progress
    deadline: Deadline

    @contextmanager
    def list(self, locations: Sequence[str]) -> Iterator[Listing]:
        """List the first levels here and what is below them on Spark.

        Raises: Unsupported, over Spark Connect; Refused; EngineError; Incomplete.
        """
        if self.spark.is_connect:
            raise Unsupported(
                "Spark Connect keeps no answers on the disks of workers, as `remove-orphans` "
                "needs it",
                hint="`--engine local` lists here, a classic session on its workers",
            )
        with ExitStack() as stack:
            options = replace(self.spark, settings=(*self.spark.settings, _ONE_ATTEMPT))
            spark = stack.enter_context(spark_session(options, self.progress, self.deadline))
            _check_attempts(spark)
            here = LocalListing(stack.enter_context(Spool()))
            tasks = self._tasks(spark, here, locations)
            self.progress.phase("listing files on Spark", total=len(tasks))
            _LOGGER.debug("listing the rest in %d tasks on Spark", len(tasks))
            there = None
            if tasks:
                there = spark.run(partial(_list, self.storage.crossing()), tasks)
            yield _listing(spark, here, there)

    def _tasks(
        self, spark: Spark, here: LocalListing, locations: Sequence[str]
    ) -> Sequence[Sequence[ListingPart]]:
        """Begin the listing here, and deal out evenly what is left to list."""
        count = _TASKS_PER_CORE * spark.core_count
        if not spark.is_local:
            count = max(count, _FEWEST_TASKS)
        tasks: list[Sequence[ListingPart]] = []
        for location in locations:
            begun = self.store.split(location, count)
            for batch in begun.batches:
                here.add(batch)
            tasks += [begun.parts[start::count] for start in range(min(count, len(begun.parts)))]
            self.deadline.check()
        return tasks


def _check_attempts(spark: Spark) -> None:
    """Refuse a session of others that lists twice. Raises: Refused."""
    if spark.speculates:
        raise Refused(
            "this session of Spark has `spark.speculation`: a second attempt at a listing would "
            "list later than the table is read",
            hint="a session with `spark.speculation=false`, or `--engine local`, is safe",
        )


def _listing(spark: Spark, here: LocalListing, there: Answers | None) -> Listing:
    """Put both ends together; each task counts once."""
    told = {} if there is None else dict(there.of(_SUMMARY))
    summaries = [parse_json(payload) for payload in told.values()]

    def every(key: str) -> list[str]:
        """List what all summaries hold under a key."""
        return [location for summary in summaries for location in summary[key]]

    return _SparkListing(
        spark,
        here,
        there,
        here.file_count + sum(summary["file_count"] for summary in summaries),
        here.total_bytes + sum(summary["total_bytes"] for summary in summaries),
        [*here.metadata_files, *every("metadata_files")],
        [*here.links, *every("links")],
    )


def _list(storage: StorageOptions, parts: Sequence[ListingPart]) -> Iterator[Answer]:
    """List the files of some parts, on a worker, and in the end what they amount to."""
    file_count, total_bytes = 0, 0
    named: list[str] = []
    links: list[str] = []
    for batch in open_store(storage, SystemEnv()).list_parts(parts):
        file_count += batch.num_rows
        total_bytes += pc.sum(batch["size_bytes"]).as_py()
        named += metadata_files(batch)
        links += symbolic_links(batch)
        yield _FILES, batch_payload(batch)
    summary = {
        "file_count": file_count,
        "total_bytes": total_bytes,
        "metadata_files": named,
        "links": links,
    }
    yield _SUMMARY, json.dumps(summary).encode()


@dataclass(frozen=True, slots=True)
class _Sent:
    """A file that was sent to every worker, or its content."""

    name: str
    content: Any = None

    @contextmanager
    def path(self) -> Iterator[str]:
        """Tell the path of the file, on a worker, for as long as it is opened."""
        if self.content is None:
            from pyspark import SparkFiles

            yield SparkFiles.get(self.name)
            return
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.content.value)
            file.flush()
            yield file.name


def _sent(spark: Spark, known: KnownLocations) -> _Sent:
    """Have what is known in a file on every worker.

    Workers that come later ask for it too, so it stays until the end. A session of others would
    have to keep the file for good: there it crosses as a value.
    """
    with tempfile.NamedTemporaryFile(dir=spark.folder, delete=False) as file:
        known.save(file)
    with spark_failures():
        if spark.is_own:
            spark.context.addFile(file.name)
            return _Sent(Path(file.name).name)
        value = spark.context.broadcast(Path(file.name).read_bytes())
        return _Sent(Path(file.name).name, value)


def _unreached(known: _Sent, rule: OrphanRule, payload: bytes) -> Iterator[Answer]:
    """Keep those of the listed files that are not known, as they were listed, on a worker."""
    with known.path() as path:
        files = KnownLocations.opened(path)
        found = unreached(payload_batch(payload), files, rule)
    if found.num_rows:
        yield _FILES, batch_payload(found.select(LISTING_SCHEMA.names))
