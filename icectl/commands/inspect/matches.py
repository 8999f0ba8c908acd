"""The matches view: files that hold rows with a condition, in any snapshot, deleted ones too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.cli.console import Console
from icectl.cli.document import id_text
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.inspect.views import Row, kind_of
from icectl.commands.rows.read import blank_task, condition_ids, condition_job
from icectl.entries.conditions import Predicate, parse_where
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
from icectl.format.manifest import Content, ManifestFile
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
    "file_size_in_bytes", "sequence_number", "first_row_id",
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
    # A leaf of version 4 is looked at whole: vectors over it remove no row from any file.
    manifests = [
        replace(item, dead=b"", dead_count=0) if item.dead else item
        for item in distinct_manifests(lists.values())
    ]
    may = manifests_may_match(manifests, predicate, metadata.partition_specs, metadata.schemas)
    chosen = [manifests[at] for at in may.nonzero()[0]]
    found = _candidates(reader, chosen, predicate)
    holding = {row.location: row for row in _search(reader, found.files, predicate)}
    snapshots = {
        snapshot_id: {item.identity for item in listed} for snapshot_id, listed in lists.items()
    }
    rows = []
    columns = ("location", "content", "file_format", "record_count", "file_size_in_bytes")
    for location, content, file_format, record_count, size in by_row(found.files, *columns):
        if location not in holding:
            continue
        of_file = {chosen[place].identity for place in found.places[location]}
        ids = [id_ for id_, listed in snapshots.items() if of_file & listed]
        rows.append(
            {
                "location": location,
                "kind": kind_of(content, file_format),
                "matching_record_count": holding[location].count,
                "record_count": record_count,
                "file_size_in_bytes": size,
                "snapshot_ids": [id_text(id_) for id_ in ids],
                "refs": sorted(
                    name for name, ref in metadata.refs.items() if ref.snapshot_id in ids
                ),
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
    reading = condition_job(metadata, predicate)
    written = reading.columns.written
    optional = tuple(replace(field, required=False) for field in written.fields)
    # An equality delete file has the columns of its keys alone.
    of_keys = replace(reading.columns, written=replace(written, fields=optional))
    jobs = [FindJob(reading, predicate), FindJob(replace(reading, columns=of_keys), predicate)]
    blank = blank_task(metadata)
    outputs = FileOutputs(lambda _: "", context.store.open_new, context.store.open)

    def find(item: tuple[InputFile, int]) -> list[FoundRows]:
        file, content = item
        context.deadline.check()
        job = jobs[content != Content.DATA]
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
    contents = files.table["content"].to_pylist()
    items = list(zip(inputs, contents, strict=True))
    found = in_threads(find, items, sizes, threads=context.concurrency)
    return [rows for part in found for rows in part]


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
