"""The matches view: files that hold rows with a condition, in any snapshot, deleted ones too."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.cli.console import Console
from icectl.cli.document import id_text
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.inspect.views import Row, kind_of
from icectl.commands.rows.read import blank_task, condition_ids, condition_job
from icectl.entries.conditions import And, Constant, Not, Or, Predicate, leaves, parse_where
from icectl.entries.may_match import METRICS, manifests_may_match, may_match
from icectl.entries.rows import (
    EMPTY,
    Entries,
    by_row,
    concat,
    data_files,
    equality_delete_files,
    live,
    locations,
    total,
    where,
)
from icectl.errors import CorruptTable, MissingFile, StorageError, Unsupported, UsageError
from icectl.format.manifest import Content, ManifestFile, ManifestIdentity
from icectl.rows.find_job import FindJob, FoundRows, run_find
from icectl.rows.write_data import FileOutputs
from icectl.storage.location import name
from icectl.table.manifest_lists import distinct_manifests
from icectl.table.reader import Reader
from icectl.table.reading import in_threads
from icectl.table.rewrite_tasks import InputFile, data_inputs
from icectl.units import print_count, print_size

_SOURCES = METRICS | {
    "content", "status", "location", "file_format", "spec_id", "partition_key", "record_count",
    "file_size_in_bytes", "sequence_number", "first_row_id", "equality_ids",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Files that may hold a match, each once, of `file_count`; `places` are their manifests."""

    files: Entries
    places: Mapping[str, set[int]]
    file_count: int


def matches(reader: Reader, text: str | None) -> Row:
    """Look for rows with a condition in the files that manifests of any snapshot list.

    Deletes count for nothing: a row that is deleted still lies in its file. Position delete files
    hold no columns of rows.
    Raises: UsageError; what reading manifests raises. What cannot be read is a gap of the reader.
    Cost: the manifests of all snapshots that may list such files, and the condition's columns of
    the files that may hold a match.
    """
    if text is None:
        hint = '`--where "user_id = 4711"` says which rows are looked for'
        raise UsageError("the view `matches` needs `--where`", hint=hint)
    metadata = reader.metadata
    predicate = parse_where(text, metadata)
    condition_ids(predicate)
    lists = reader.manifests_by_snapshot(metadata.snapshots)
    manifests = distinct_manifests(lists.values())
    may = manifests_may_match(manifests, predicate, metadata.partition_specs, metadata.schemas)
    chosen = [manifests[at] for at in may.nonzero()[0]]
    found = _candidates(reader, chosen, predicate)
    counts = {row.location: row.count for row in _search(reader, found.files, predicate)}
    snapshots: dict[ManifestIdentity, set[int]] = {}
    for snapshot_id, listed in lists.items():
        for manifest in listed:
            snapshots.setdefault(manifest.identity, set()).add(snapshot_id)
    rows = []
    columns = ("location", "content", "file_format", "record_count", "file_size_in_bytes")
    for location, content, file_format, record_count, size in by_row(found.files, *columns):
        if location not in counts:
            continue
        identities = (chosen[place].identity for place in found.places[location])
        ids = set[int]().union(*(snapshots[identity] for identity in identities))
        refs = sorted(name for name, ref in metadata.refs.items() if ref.snapshot_id in ids)
        rows.append(
            {
                "location": location,
                "kind": kind_of(content, file_format),
                "matching_record_count": counts[location],
                "record_count": record_count,
                "file_size_in_bytes": size,
                "snapshot_ids": [id_text(id_) for id_ in lists if id_ in ids],
                "refs": refs,
            }
        )
    return {
        "where": text,
        "snapshot_count": len(metadata.snapshots),
        "manifest_count": len(manifests),
        "skipped_manifest_count": len(manifests) - len(chosen),
        "listed_file_count": found.file_count,
        "read_file_count": len(found.files),
        "read_file_bytes": total(found.files, "file_size_in_bytes"),
        "files": rows,
    }


def _candidates(
    reader: Reader, manifests: Sequence[ManifestFile], predicate: Predicate
) -> _Candidates:
    """Return the data files and equality delete files that may hold a match, by their bounds."""
    metadata = reader.metadata
    parts: list[Entries] = []
    every: list[pa.Array] = []
    places: dict[str, set[int]] = {}
    for entries in reader.scan(manifests, _SOURCES):
        alive = live(entries)
        for files in (data_files(alive), equality_delete_files(alive)):
            every.append(locations(files))
            may = may_match(files, predicate, metadata.partition_specs, metadata.schemas)
            kept = where(files, may)
            for location, place in by_row(kept, "location", "manifest"):
                places.setdefault(location, set()).add(place)
            parts.append(kept)
    files = concat(parts) if parts else EMPTY
    _, first = np.unique(locations(files).to_numpy(zero_copy_only=False), return_index=True)
    count = len(pc.unique(pa.chunked_array(every, pa.string()))) if every else 0
    is_first = np.zeros(len(files), np.bool_)
    is_first[first] = True
    return _Candidates(where(files, is_first), places, count)


def _search(reader: Reader, files: Entries, predicate: Predicate) -> list[FoundRows]:
    """Read files, several at a time; one that cannot be read is a gap."""
    context, metadata = reader.context, reader.metadata
    blank = blank_task(metadata)
    outputs = FileOutputs(lambda _: "", context.store.open_new, context.store.open)
    jobs: dict[frozenset[int] | None, FindJob | None] = {
        None: FindJob(condition_job(metadata, predicate), predicate)
    }

    def job_of(equality_ids: Sequence[int] | None) -> FindJob | None:
        """Return what is looked for in a file; None where it has no column of the condition."""
        ids = None if equality_ids is None else frozenset(equality_ids)
        if ids not in jobs:
            own = may_be_true(predicate, ids or frozenset())
            has_any = any(True for _ in leaves(own))
            jobs[ids] = FindJob(condition_job(metadata, own), own) if has_any else None
        return jobs[ids]

    def find(item: tuple[InputFile, FindJob | None]) -> list[FoundRows]:
        file, job = item
        context.deadline.check()
        if job is None:
            return []
        problem: CorruptTable | StorageError | Unsupported
        try:
            return run_find(replace(blank, inputs=(file,)), job, outputs)
        except FileNotFoundError:
            problem = MissingFile(file.location)
        except (CorruptTable, StorageError, Unsupported) as error:
            problem = error
        finally:
            context.progress.advance(1)
        if reader.gaps is None:
            raise problem
        reader.gaps.problems.setdefault(problem.message, problem)
        return []

    inputs = data_inputs(files)
    context.progress.phase("reading data files", total=len(inputs))
    sizes = [file.size_bytes for file in inputs]
    of_deletes = (ids or () if kind == Content.EQUALITY_DELETES else None
                  for kind, ids in by_row(files, "content", "equality_ids"))  # fmt: skip
    items = list(zip(inputs, map(job_of, of_deletes), strict=True))
    found = in_threads(find, items, sizes, threads=context.concurrency)
    return [rows for part in found for rows in part]


def may_be_true(predicate: Predicate, known: Collection[int], *, sign: bool = True) -> Predicate:
    """Return a condition on some columns alone that is true where another may be.

    Conditions on other columns hold; with `sign` false, where the result must not be true unless
    the other surely is, they do not.
    """
    match predicate:
        case Not(part):
            return Not(may_be_true(part, known, sign=not sign))
        case And(parts) | Or(parts):
            return type(predicate)(tuple(may_be_true(part, known, sign=sign) for part in parts))
        case Constant():
            return predicate
        case leaf:
            return leaf if leaf.column.field_id in known else Constant(value=sign)


def print_matches(console: Console, row: Row) -> None:
    """Print the files that hold matches, and what was looked at."""
    files = row["files"]
    if files:
        headings = [
            TableColumn("file", cut="middle"),
            TableColumn("kind"),
            *(TableColumn(text, align="right") for text in ("matches", "rows", "snapshots")),
            TableColumn("branches and tags", cut="wrap"),
        ]
        lines = [
            (
                name(file["location"]),
                file["kind"],
                f"{file['matching_record_count']:,}",
                f"{file['record_count']:,}",
                f"{len(file['snapshot_ids']):,}",
                ", ".join(file["refs"]),
            )
            for file in files
        ]
        print_table(console, headings, lines)
        console.print()
    found = sum(file["matching_record_count"] for file in files)
    ids = {id_ for file in files for id_ in file["snapshot_ids"]}
    text = "no file has a matching row"
    if files:
        parts = (found, "row"), (len(files), "file"), (len(ids), "snapshot")
        rows, of_files, snapshots = (print_count(*part) for part in parts)
        text = f"{rows} in {of_files} of {snapshots}"
    console.print(f"{text}; deleted rows count too")
    read = f"{row['read_file_count']:,} of {print_count(row['listed_file_count'], 'file')}"
    manifests = print_count(row["manifest_count"], "manifest")
    skipped = f"{row['skipped_manifest_count']:,} of {manifests}"
    size = print_size(row["read_file_bytes"])
    console.print(
        f"{print_count(row['snapshot_count'], 'snapshot')}: {read} read ({size}), the others ruled "
        f"out by bounds; {skipped} ruled out by partitions"
    )
