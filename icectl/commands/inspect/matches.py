"""The matches view: files that hold rows with a condition, in any snapshot, deleted ones too."""

from icectl.cli.console import Console
from icectl.cli.document import id_text
from icectl.cli.tables import TableColumn, print_table
from icectl.commands.inspect.views import Row
from icectl.commands.matching import MatchSearch
from icectl.commands.rows.deletion import WantedRows
from icectl.commands.rows.read import condition_ids
from icectl.entries.conditions import parse_where
from icectl.errors import UsageError
from icectl.format.manifest import kind_of
from icectl.storage.location import name
from icectl.table.reader import Reader
from icectl.units import print_count, print_size


def matches(reader: Reader, text: str | None) -> Row:
    """Look for rows with a condition in the files that manifests of any snapshot list.

    Deletes count for nothing: a row that is deleted still lies in its file. Position delete files
    hold no columns of rows.
    Raises: UsageError; what reading manifests raises. What cannot be read is a gap of the reader.
    """
    if text is None:
        hint = '`--where "user_id = 4711"` says which rows are looked for'
        raise UsageError("the view `matches` needs `--where`", hint=hint)
    metadata = reader.metadata
    predicate = parse_where(text, metadata)
    condition_ids(predicate)
    found = MatchSearch(WantedRows(predicate, predicate)).look(reader)
    rows = []
    for file in found.files:
        ids = found.snapshots_of([file])
        refs = sorted(name for name, ref in metadata.refs.items() if ref.snapshot_id in ids)
        rows.append(
            {
                "location": file.location,
                "kind": kind_of(file.content, file.file_format),
                "matching_record_count": file.count,
                "record_count": file.record_count,
                "file_size_in_bytes": file.size_bytes,
                "snapshot_ids": [id_text(id_) for id_ in ids],
                "refs": refs,
            }
        )
    return {
        "where": text,
        "snapshot_count": len(metadata.snapshots),
        "manifest_count": found.manifest_count,
        "skipped_manifest_count": found.skipped_manifest_count,
        "listed_file_count": found.listed_count,
        "read_file_count": len(found.read) + len(found.unread),
        "read_file_bytes": found.read_bytes,
        "files": rows,
    }


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
