"""Tables whose manifest lists are lost, whose summaries tell what the lists named, and what spoils
that."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.builders.broken import Broken, in_first, rewrite_avro
from tests.builders.rows import (
    current_metadata,
    head,
    listed_manifests,
    live_entries,
    read_avro,
    read_metadata,
)
from tests.builders.table_builder import TableBuilder


def tell(directory: Path) -> None:
    """Let every summary tell what its snapshot added and removed, as the reference does."""

    def of(snapshot: dict[str, Any]) -> None:
        entries = [
            (entry["status"], entry["data_file"])
            for manifest in listed_manifests(snapshot)
            for entry in read_avro(manifest["manifest_path"])
            if entry["snapshot_id"] == snapshot["snapshot-id"]
        ]
        for status, data, deletes in ((1, "added", "added"), (2, "deleted", "removed")):
            files = [file for one, file in entries if one == status]
            rows = [file["record_count"] for file in files if not file.get("content")]
            snapshot["summary"] |= {
                f"{data}-data-files": str(len(rows)),
                f"{data}-records": str(sum(rows)),
                f"{deletes}-delete-files": str(len(files) - len(rows)),
            }

    Broken(directory).edit(lambda members: [of(one) for one in members["snapshots"]] and None)


def facts(directory: Path) -> list[tuple[Any, ...]]:
    """Every live file with all that a scan and the next commit need of its entry."""
    found = []
    for manifest in listed_manifests(head(directory)):
        next_id = manifest.get("first_row_id")
        for entry in read_avro(manifest["manifest_path"]):
            if entry["status"] == 2:
                continue
            file = entry["data_file"]
            first = file.get("first_row_id")
            if first is None and next_id is not None:
                first, next_id = next_id, next_id + file["record_count"]
            names = ("file_path", "content", "content_offset", "record_count", "partition")
            found.append((*(repr(file.get(name)) for name in names), first, entry["snapshot_id"]))
    numbers = [
        (one["data_file"]["file_path"], one["sequence"], one["spec"])
        for one in live_entries(head(directory))
    ]
    return [*sorted(found), *sorted(numbers)]


def lose_list(directory: Path) -> None:
    Path(head(directory)["manifest-list"]).unlink()


CHANGES: dict[str, Callable[[TableBuilder], Any]] = {
    "append": lambda table: table.append(range(20, 26)),
    "append of two files": lambda table: table.append(range(20, 26), files=2),
    "deleted rows": lambda table: table.delete_rows([2, 9]),
    "removed files": lambda table: table.remove_data_files(2),
    "replaced files": lambda table: table.replace_data_files(2),
}


def grown(directory: Path, version: int, **options: Any) -> TableBuilder:
    table = TableBuilder(directory, format_version=version, **options)
    for start in (0, 4, 8):
        table.append(range(start, start + 4))
    if version > 1:
        table.delete_rows([1, 5])
    return table


def new_manifest(directory: Path, content: int = 0) -> Path:
    """The first manifest that the current snapshot wrote."""
    wrote = head(directory)["snapshot-id"]
    return next(
        Path(one["manifest_path"])
        for one in Broken(directory).manifests(content)
        if one["added_snapshot_id"] == wrote
    )


def of_summary(change: Callable[[dict[str, str]], Any]) -> Callable[[Path], None]:
    return lambda directory: Broken(directory).edit_head(
        lambda snapshot: change(snapshot["summary"]) and None
    )


def lose_own(directory: Path) -> None:
    new_manifest(directory).unlink()


def another_attempt(directory: Path) -> None:
    """A manifest of an attempt that did not land, with the file that landed later."""
    own = new_manifest(directory)
    shutil.copyfile(own, own.with_name("other-m0.avro"))


def an_attempt_with_more(directory: Path) -> None:
    another_attempt(directory)
    other = new_manifest(directory).with_name("other-m0.avro")
    rewrite_avro(
        other, in_first(lambda entry: entry["data_file"].update(file_path="/elsewhere.parquet"))
    )


def lose_parent(directory: Path) -> None:
    members = read_metadata(current_metadata(directory))
    parent = head(directory)["parent-snapshot-id"]
    (found,) = [one for one in members["snapshots"] if one["snapshot-id"] == parent]
    Path(found["manifest-list"]).unlink()


def expire_parent(directory: Path) -> None:
    parent = head(directory)["parent-snapshot-id"]

    def expire(members: dict[str, Any]) -> None:
        members["snapshots"] = [one for one in members["snapshots"] if one["snapshot-id"] != parent]
        members["snapshot-log"] = [
            one for one in members["snapshot-log"] if one["snapshot-id"] != parent
        ]

    Broken(directory).edit(expire)


def lose_manifest_before(directory: Path) -> None:
    wrote = head(directory)["snapshot-id"]
    manifests = Broken(directory).manifests()
    Path(next(m["manifest_path"] for m in manifests if m["added_snapshot_id"] != wrote)).unlink()


SPOILT: list[tuple[int, str, Callable[[Path], None]]] = [
    (2, "append", lose_own),
    (2, "append", another_attempt),
    (2, "append", an_attempt_with_more),
    (2, "append", lose_parent),
    (2, "append", expire_parent),
    (2, "append", lose_manifest_before),
    (2, "append", of_summary(lambda told: told.pop("added-data-files"))),
    (2, "append", of_summary(lambda told: told.update({"added-records": "7"}))),
    (2, "append", of_summary(lambda told: told.update({"added-files-size": "7"}))),
    (2, "append", of_summary(lambda told: told.update({"deleted-records": "1"}))),
    (2, "append", of_summary(lambda told: told.pop("total-delete-files"))),
    (2, "append", of_summary(lambda told: told.update({"total-records": "19"}))),
    (2, "deleted rows", of_summary(lambda told: told.pop("added-delete-files"))),
    (2, "deleted rows", of_summary(lambda told: told.update({"total-delete-files": "1"}))),
    (2, "removed files", lose_own),
    (3, "removed files", of_summary(lambda told: told.pop("removed-delete-files"))),
]
"""Version, change of it, and what makes the proof of its list incomplete."""


EVERY = [
    (1, "append", {}), (1, "replaced files", {}), (2, "append", {}),
    (2, "append", {"merge_manifests_above": 1}),
    (2, "append of two files", {"partitioning": "identity"}), (2, "deleted rows", {}),
    (2, "removed files", {}), (2, "replaced files", {"partitioning": "identity"}),
    (3, "append", {}), (3, "append of two files", {}), (3, "deleted rows", {}),
    (3, "removed files", {}), (3, "replaced files", {}),
]  # fmt: skip
"""Format versions with a change each, and how its table is built."""
