"""Tables that name each of their files in a spelling of its own."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from tests.builders.relocate import Record, Relocation
from tests.builders.rows import read_metadata
from tests.builders.table_builder import TableBuilder

Spelling = Callable[[str, str, str], str]
"""Of a path, below the table's directory and in the whole, and a link to that directory."""

READABLE: Sequence[Spelling] = (
    lambda inside, path, link: path,
    lambda inside, path, link: f"file:{path}",
    lambda inside, path, link: f"file://{path}",
    lambda inside, path, link: f"file://localhost{path}",
    lambda inside, path, link: path.replace("/t/", "//t/./"),
    lambda inside, path, link: path.replace("/t/", "/t/../t/"),
    lambda inside, path, link: f"{link}/{inside}",
    lambda inside, path, link: f"file:{link}/./{inside}",
)
"""Those that icectl opens: metadata has to be read."""

ANY: Sequence[Spelling] = (
    *READABLE,
    lambda inside, path, link: f"file:{quote(path)}",
    lambda inside, path, link: f"file://{quote(quote(path))}",
    lambda inside, path, link: f"dbfs:/mnt/lake/t/{inside}",
    lambda inside, path, link: f"https://gateway:9000/lake/t/{inside}",
)


def respell(table: Path, metadata_file: Path, link: Path, seed: int) -> None:
    """Spell every location in a table's metadata anew; the table's directory is named `t`."""
    choice = random.Random(seed).choice
    files = Relocation(table, [])

    def spelled(location: str, spellings: Sequence[Spelling]) -> str:
        path = location.removeprefix("file://").removeprefix("file:")
        inside = path.removeprefix(f"{table}/")
        return location if inside == path else choice(spellings)(inside, path, str(link))

    def entry(record: Record) -> None:
        file = record["data_file"]
        file["file_path"] = spelled(file["file_path"], ANY)

    def listed(record: Record) -> None:
        path = record["manifest_path"]
        record["manifest_length"] = files.sizes.get(path, record["manifest_length"])
        record["manifest_path"] = spelled(path, READABLE)

    metadata = read_metadata(metadata_file)
    snapshots = metadata["snapshots"]
    lists = {item["manifest-list"] for item in snapshots if "manifest-list" in item}
    manifests = {place for item in snapshots for place in item.get("manifests", ())}
    for place in lists:
        manifests |= {record["manifest_path"] for record in files.records(place)}
    for place in manifests:
        files.rewrite_avro(place, entry)
    for place in lists:
        files.rewrite_avro(place, listed)
    for item in snapshots:
        if "manifest-list" in item:
            item["manifest-list"] = spelled(item["manifest-list"], READABLE)
        if "manifests" in item:
            item["manifests"] = [spelled(place, READABLE) for place in item["manifests"]]
    for member, key in (
        ("statistics", "statistics-path"),
        ("partition-statistics", "statistics-path"),
        ("metadata-log", "metadata-file"),
    ):
        for item in metadata.get(member) or ():
            item[key] = spelled(item[key], ANY)
    metadata_file.write_text(json.dumps(metadata))


def respell_data_files(table: TableBuilder, location: str) -> None:
    """Have the next commit name all data files below another spelling of the table's location."""
    for entries in table._entries.values():
        for row in entries:
            if row["content"] == 0:
                row["location"] = row["location"].replace(table.location, location)
    table.merge_manifests_above = 0
    table.append([99])
