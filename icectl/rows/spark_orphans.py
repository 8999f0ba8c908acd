"""The search for orphans on Spark: workers list the files, keep the lists and compare them.

What they find is judged once more here, where the table was read: whatever went wrong on a worker,
no file that the table reaches counts as unreached.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.env import Deadline, SystemEnv
from icectl.errors import EngineError, IcectlError, Refused, Unsupported
from icectl.format.json_members import parse_json
from icectl.progress import Progress
from icectl.rows.orphan_search import Listing, LocalListing
from icectl.rows.spark import (
    Spark,
    batch_payload,
    payload_batch,
    require_same_version,
    spark_failures,
)
from icectl.rows.spark_classic import ClassicJobs, SparkOptions, classic_session
from icectl.rows.wire import decode_result, encode
from icectl.storage.listing import LISTING_SCHEMA, Spool
from icectl.storage.location import is_local, is_within, local_path, redacted
from icectl.storage.open import SHARE_STORAGE, StorageOptions, open_store
from icectl.storage.store import ListingPart, Store
from icectl.table.known_locations import KnownLocations, file_hashes
from icectl.table.orphan_verdicts import OrphanRule, listed_metadata, symbolic_links, unreached

_LOGGER = logging.getLogger(__name__)
_FILES, _SUMMARY, _HASHES = "files", "summary", "hashes"
_TASKS_PER_CORE = 4
_FEWEST_TASKS = 256
"""On a cluster, which may begin with few workers and take more as there is work."""
_ONE_ATTEMPT = ("spark.speculation", "false")
"""A second attempt at the same time would list later than the first."""
_ANSWERS = pa.schema([("task_id", pa.string()), ("kind", pa.string()), ("payload", pa.binary())])
_FAILED = "failed"

Answer = tuple[str, bytes]
"""What a kernel yields: a kind of its own choice, and a payload."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a kernel to every task, kept on the disks of the workers.

    They are never computed again: a worker that is lost with its answers fails the run.
    """

    spark: Spark
    frame: Any
    task_count: int

    def of(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Yield task ids and payloads of one kind, one partition after the other.

        Raises: EngineError.
        """
        with spark_failures():
            answers = self.frame.filter(self.frame["kind"] == kind)
            for row in answers.toLocalIterator(prefetchPartitions=True):
                yield row["task_id"], bytes(row["payload"])

    def run(self, kind: str, kernel: Callable[[bytes], Iterable[Answer]]) -> "Answers":
        """Run a kernel on each payload of one kind, and keep what it answers; raises as answer."""
        with spark_failures():
            answers = self.frame.filter(self.frame["kind"] == kind)
        return _keep_answers(
            self.spark,
            answers,
            partial(_answer_payloads, require_same_version(kernel)),
            self.task_count,
        )


def answer(
    spark: Spark, kernel: Callable[[Any], Iterable[Answer]], tasks: Sequence[Any]
) -> Answers:
    """Run a kernel on each task, of which there is at least one, and keep what it answers.

    Raises: errors of the kernel that are icectl's; EngineError; Incomplete.
    """
    with spark_failures():
        numbers = _classic(spark).sql().range(0, len(tasks), 1, len(tasks))
    work = partial(_answer_tasks, require_same_version(kernel), tuple(tasks))
    return _keep_answers(spark, numbers, work, len(tasks))


def _classic(spark: Spark) -> ClassicJobs:
    assert isinstance(spark.jobs, ClassicJobs)  # `list` refuses the other way
    return spark.jobs


def _keep_answers(
    spark: Spark, frame: Any, work: Callable[[Iterator[pa.RecordBatch]], Any], task_count: int
) -> Answers:
    """Return the answers, computed now."""

    def keep() -> Any:
        import pyspark

        # Spark 3 knows but memory first, and then disks.
        is_old = pyspark.__version__.startswith("3.")
        level = {} if is_old else {"storageLevel": pyspark.StorageLevel.DISK_ONLY}
        answered = frame.mapInArrow(work, "task_id string, kind string, payload binary")
        return answered.localCheckpoint(eager=True, **level)

    answers = Answers(spark, spark.wait_for(keep), task_count)
    for _, payload in answers.of(_FAILED):
        decode_result(payload)  # raises it
    return answers


def _answer_tasks(
    kernel: Callable[[Any], Iterable[Answer]],
    tasks: Sequence[Any],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Answer the tasks whose numbers come in, on a worker."""
    for batch in batches:
        for number in batch["id"].to_pylist():
            yield from _rows(str(number), partial(kernel, tasks[number]))


def _answer_payloads(
    kernel: Callable[[bytes], Iterable[Answer]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Answer the payloads that come in, on a worker."""
    for batch in batches:
        for task_id, payload in zip(batch["task_id"], batch["payload"], strict=True):
            yield from _rows(task_id.as_py(), partial(kernel, payload.as_py()))


def _rows(task_id: str, answers: Callable[[], Iterable[Answer]]) -> Iterator[pa.RecordBatch]:
    """Yield a row for each answer, and for an error of icectl's: Spark does not try again."""
    try:
        for kind, payload in answers():
            yield _row(task_id, kind, payload)
    except IcectlError as error:
        yield _row(task_id, _FAILED, encode(error))


def _row(task_id: str, kind: str, payload: bytes) -> pa.RecordBatch:
    columns = [pa.array([task_id]), pa.array([kind]), pa.array([payload], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=_ANSWERS)


@dataclass(frozen=True, slots=True)
class _SparkListing:
    """A listing of which the beginning is here and the rest on Spark's workers."""

    spark: Spark
    local: LocalListing
    remote: Answers | None
    file_count: int
    total_bytes: int
    metadata_files: Sequence[str]
    links: Sequence[str]

    def files(self) -> KnownLocations:
        listed = self.local.files()
        if self.remote is not None:
            for _, payload in self.remote.run(_FILES, _hashed).of(_HASHES):
                listed.add_hashes(np.frombuffer(payload, np.uint64))
        return listed

    def unreached(self, known: KnownLocations, rule: OrphanRule) -> Iterator[pa.RecordBatch]:
        yield from self.local.unreached(known, rule)
        if self.remote is None:
            return
        self.spark.progress.phase("comparing on Spark", total=self.remote.task_count)
        known_file = _send_known(self.spark, known)
        rows = self.remote.run(_FILES, partial(_unreached, known_file, rule))
        for _, payload in rows.of(_FILES):
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
                "Spark Connect cannot keep results on disks of workers, as `remove-orphans` "
                "needs it",
                hint="use `--engine local` or a classic Spark session",
            )
        with ExitStack() as stack:
            options = replace(self.spark, settings=(*self.spark.settings, _ONE_ATTEMPT))
            spark = stack.enter_context(classic_session(options, self.progress, self.deadline))
            if spark.speculates:
                raise Refused(
                    "`spark.speculation` is on: a second attempt could list files after the "
                    "table is read",
                    hint="set `spark.speculation=false`, or use `--engine local`",
                )
            local = LocalListing(stack.enter_context(Spool()))
            tasks = self._tasks(spark, local, locations)
            self.progress.phase("listing files on Spark", total=len(tasks))
            _LOGGER.debug("listing the rest in %d tasks on Spark", len(tasks))
            remote = None
            if tasks:
                remote = answer(spark, partial(_list, self.storage.crossing(), locations), tasks)
            summaries_by_task = {} if remote is None else dict(remote.of(_SUMMARY))
            summaries = [parse_json(payload) for payload in summaries_by_task.values()]

            def every(key: str) -> list[str]:
                return [location for summary in summaries for location in summary[key]]

            yield _SparkListing(
                spark,
                local,
                remote,
                local.file_count + sum(summary["file_count"] for summary in summaries),
                local.total_bytes + sum(summary["total_bytes"] for summary in summaries),
                [*local.metadata_files, *every("metadata_files")],
                [*local.links, *every("links")],
            )

    def _tasks(
        self, spark: Spark, local: LocalListing, locations: Sequence[str]
    ) -> Sequence[Sequence[ListingPart]]:
        """Begin the listing here, and deal out evenly what is left to list."""
        count = _TASKS_PER_CORE * spark.core_count
        if not _classic(spark).is_local:
            count = max(count, _FEWEST_TASKS)
        tasks: list[Sequence[ListingPart]] = []
        for location in locations:
            begun = self.store.split(location, count)
            for batch in begun.batches:
                local.add(batch)
            tasks += [begun.parts[start::count] for start in range(min(count, len(begun.parts)))]
            self.deadline.check()
        return tasks


def _list(
    storage: StorageOptions, within: Sequence[str], parts: Sequence[ListingPart]
) -> Iterator[Answer]:
    """List the files of some parts `within` locations, on a worker, then what they amount to.

    Raises: EngineError, for a folder that this worker does not have: no file of it would be found.
    """
    for location in within:
        is_asked_for = any(is_within(part.location, location) for part in parts)
        is_here = is_local(location) and not storage.path_map
        if is_asked_for and is_here and not Path(local_path(location)).is_dir():
            raise EngineError(f"a worker does not have {redacted(location)}", hint=SHARE_STORAGE)
    file_count, total_bytes = 0, 0
    locations: list[str] = []
    links: list[str] = []
    for batch in open_store(storage, SystemEnv()).list_parts(parts):
        file_count += batch.num_rows
        total_bytes += pc.sum(batch["size_bytes"]).as_py()
        locations += listed_metadata(batch)
        links += symbolic_links(batch)
        yield _FILES, batch_payload(batch)
    summary = {
        "file_count": file_count,
        "total_bytes": total_bytes,
        "metadata_files": locations,
        "links": links,
    }
    yield _SUMMARY, json.dumps(summary).encode()


@contextmanager
def _opened(sent: Any) -> Iterator[KnownLocations]:
    """Open what `_send_known` returned, on a worker."""
    if isinstance(sent, str):
        from pyspark import SparkFiles

        yield KnownLocations.opened(SparkFiles.get(sent))
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(sent.value)
        file.flush()
        yield KnownLocations.opened(file.name)


def _send_known(spark: Spark, known: KnownLocations) -> Any:
    """Have what is known in a file on every worker; returns its name, or the value.

    Workers that come later ask for it too, so it stays until the end. A session of others would
    have to keep the file for good: there it crosses as a value.
    """
    jobs = _classic(spark)
    with tempfile.NamedTemporaryFile(dir=jobs.folder, delete=False) as file:
        known.save(file)
    with spark_failures():
        if jobs.is_own:
            jobs.context.addFile(file.name)
            return Path(file.name).name
        return jobs.context.broadcast(Path(file.name).read_bytes())


def _hashed(payload: bytes) -> Iterator[Answer]:
    """Yield the hashes of listed files, on a worker."""
    batch = payload_batch(payload)
    yield _HASHES, file_hashes(batch["location"], batch["size_bytes"]).tobytes()


def _unreached(known: Any, rule: OrphanRule, payload: bytes) -> Iterator[Answer]:
    """Keep those of the listed files that are not known, as they were listed, on a worker."""
    with _opened(known) as files:
        rows = unreached(payload_batch(payload), files, rule)
    if rows.num_rows:
        yield _FILES, batch_payload(rows.select(LISTING_SCHEMA.names))
