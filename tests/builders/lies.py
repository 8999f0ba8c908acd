"""Lies about a table: one field of its metadata, or of a header or footer, says something else.

A lie changes a field of the metadata file, a manifest list, a manifest's entry, a root, a leaf, a
Puffin footer, the name mapping, the header of an Avro file or the footer of a Parquet file: a
value, or a list or map as a whole. Or it adds a member that was absent, leaves one out, or drops or
doubles a row. The lengths that other files state are made to fit.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders.avro import number, text
from tests.builders.broken import read_records, rewrite_avro
from tests.builders.broken_tree import nothing, rewrite_parquet
from tests.builders.rows import current_metadata, local, read_metadata

MAPPING = "schema.name-mapping.default"
_STATISTICS = {
    "value_counts", "null_value_counts", "nan_value_counts", "column_sizes", "content_stats",
}  # fmt: skip
_PRESENT = {
    "key_metadata": b"key", "equality_ids": [1], "first_row_id": 0, "sort_order_id": 7,
    "key-id": "k1", "key-metadata": "azE=", "referenced_data_file": "x", "content_offset": 4,
    "content_size_in_bytes": 10, "manifests": [], "max-ref-age-ms": 1, "min-snapshots-to-keep": 1,
    "max-snapshot-age-ms": 1, "parent-snapshot-id": 5, "encryption-keys": [
        {"key-id": "k1", "encrypted-key-metadata": "azE="}
    ],
}  # fmt: skip
"""What fields may be that are null or absent in a true table."""

_HEADERS = {
    "format-version": ["1", "2", "3", "x"], "content": ["data", "deletes"], "schema-id": ["0", "7"],
    "partition-spec-id": ["0", "1", "7", "x"], "avro.codec": ["null", "deflate", "zstandard"],
    "sequence-number": ["1", "9"], "snapshot-id": ["7000000000000000013", "5"],
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """One field: a file, the keys down to it, and for records their number."""

    file: Path
    keys: tuple[Any, ...]
    kind: str


@dataclass
class Lies:
    """The places of a true table where a lie can be told, and the values that are known of them."""

    table: Path
    records: dict[Path, list[Any]] = field(init=False)
    places: dict[str, dict[tuple[str, ...], list[Place]]] = field(init=False)
    locations: list[str] = field(init=False)

    def __post_init__(self) -> None:
        folder = self.table / "metadata"
        stored = {path: read_records(path) for path in sorted(folder.glob("*.avro"))}
        self.records = {path: records for path, records in stored.items() if records}
        self.locations = [str(path) for path in sorted(self.table.rglob("*")) if path.is_file()]
        self.places = {}
        for place in self._all():
            fields = self.places.setdefault(place.kind, {})
            names = tuple(key for key in place.keys if isinstance(key, str))
            fields.setdefault(names or (place.file.name,), []).append(place)

    def any_place(self, rng: random.Random) -> Place:
        """Choose a kind, a field of it, and a place: whether a table has it once or often."""
        kinds = [kind for kind in sorted(self.places) for _ in range(_OFTEN.get(kind, 1))]
        fields = self.places[rng.choice(kinds)]
        return rng.choice(fields[rng.choice(sorted(fields))])

    def _all(self) -> Iterator[Place]:
        current = current_metadata(self.table)
        members = read_metadata(current)
        for keys in (*_leaves(members), *_wholes(members)):
            yield Place(current, keys, "metadata")
        for keys in _absent(members):
            yield Place(current, keys, "absent")
        if MAPPING in members["properties"]:
            mapping = json.loads(members["properties"][MAPPING])
            for keys in (*_leaves(mapping), *_wholes(mapping)):
                yield Place(current, keys, "mapping")
        for path, records in self.records.items():
            is_list = "manifest_path" in records[0]
            for keys in (*_leaves(records), *_wholes(records)):
                is_statistic = not _STATISTICS.isdisjoint(map(str, keys))
                kind = "statistic" if is_statistic else "list" if is_list else "entry"
                yield Place(path, keys, kind)
            for name in ("sync", *_header(path)[0]):
                yield Place(path, (name,), "header")
            for at, row in enumerate(records):
                # What no file lives in is not missed (docs/safety.md).
                if not is_list or row["added_files_count"] or row["existing_files_count"]:
                    yield Place(path, (at,), "row")
        for path in sorted((self.table / "metadata").glob("*.parquet")):
            if not path.name.startswith("partition-stats"):
                yield from self._of_tree(path)
        for path in map(Path, self.locations):
            if path.suffix in (".puffin", ".stats"):
                kind = "puffin" if path.parent.name != "metadata" else "sketches"
                footer = _footer(path.read_bytes())[1]
                for keys in (*_leaves(footer), *_wholes(footer)):
                    yield Place(path, keys, kind)

    @staticmethod
    def _of_tree(path: Path) -> Iterator[Place]:
        rows = pq.read_table(path).to_pylist()
        for keys in (*_leaves(rows), *_wholes(rows)):
            yield Place(path, keys, "statistic" if "content_stats" in keys else "tree")
        for at in range(len(rows)):
            yield Place(path, (at,), "row")
        parquet = pq.ParquetFile(path)
        for name in parquet.metadata.metadata or {}:
            yield Place(path, (name.decode(),), "footer")
        for at in range(len(parquet.schema_arrow)):
            yield Place(path, (at,), "footer")

    def tell(self, place: Place, rng: random.Random) -> tuple[Any, Any] | None:
        """Write a lie in place, and return what is true there, and the lie.

        None where the file can't have it, or anybody may lie.

        A name of a column is as good as another: rows are told by field ids.
        """
        if place.kind == "metadata" and "fields" in place.keys and place.keys[-1] == "name":
            return None
        try:
            told: tuple[Any, Any] = getattr(self, f"_tell_{_WRITTEN.get(place.kind, place.kind)}")(
                place, rng
            )
        except (TypeError, ValueError, KeyError, OverflowError, AttributeError, IndexError):
            return None
        true, lie = told
        return None if lie == true else told

    def names_a_twin(self, place: Place, lie: Any) -> bool:
        """Return whether an entry names a file of its commit with as many rows and bytes.

        No command sees that, if no snapshot has both files live (docs/safety.md).
        """
        if place.kind != "entry" or place.keys[-1] != "file_path":
            return False
        records = [row for rows in self.records.values() for row in rows if "data_file" in row]
        twins = [row for row in records if row["data_file"]["file_path"] == lie]
        own = self.records[place.file][place.keys[0]]
        return any(_twin(own) == _twin(row) for row in twins)

    def _another(self, rng: random.Random, true: Any, others: list[Any], name: Any = None) -> Any:
        """Another value for a field: of another of that name, near, none, or an extreme."""
        if isinstance(true, dict | list) and true:
            return _another_whole(rng, true)
        different = [one for one in others if one != true]
        ways: list[Callable[[], Any]] = [lambda: None]
        if true is None and name in _PRESENT:
            ways += [lambda: _PRESENT[name]] * 4
        if different:
            ways += [lambda: rng.choice(different)] * 4
        if isinstance(true, bool):
            ways += [lambda: not true] * 3
        elif isinstance(true, int):
            ways += [lambda: true + rng.choice([-1, 1])] * 2
            ways += [
                lambda: true ^ (1 << rng.randrange(20)),
                lambda: rng.choice([0, -1, 10**15, 2**62]),
            ]
        elif isinstance(true, str) and true:
            at = int(rng.random() * len(true))  # as many draws wherever the table lies
            ways += [lambda: true[:at] + chr(ord(true[at]) ^ 1) + true[at + 1 :]] * 2
            if true.startswith(("/", "file:")):
                scheme = true[: len(true) - len(str(local(true)))]
                ways += [lambda: scheme + rng.choice(self.locations)] * 2
        elif isinstance(true, bytes) and true:
            ways += [lambda: bytes([true[0] ^ 1]) + true[1:]] * 2
            ways += [lambda: true[:-1], lambda: b"", lambda: b"\xff" * len(true)]
        return rng.choice(ways)()

    def _set(
        self,
        rng: random.Random,
        value: Any,
        keys: tuple[Any, ...],
        others: Any = (),
        *,
        is_json: bool = False,
    ) -> Any:
        """Put another value at the keys, or in JSON none; returns the true one and the lie."""
        holder = _at(value, keys[:-1])
        true = holder.get(keys[-1]) if isinstance(holder, dict) else holder[keys[-1]]
        if is_json and isinstance(holder, dict) and keys[-1] in holder and rng.random() < 0.2:
            del holder[keys[-1]]
            return true, "absent"
        lie = self._another(rng, true, [*_siblings(value, keys), *others], keys[-1])
        holder[keys[-1]] = lie
        return true, lie

    def _tell_metadata(self, place: Place, rng: random.Random) -> tuple[Any, Any]:
        members = read_metadata(place.file)
        if place.kind == "mapping":
            mapping = json.loads(members["properties"][MAPPING])
            told = self._set(rng, mapping, place.keys, is_json=True)
            members["properties"][MAPPING] = json.dumps(mapping)
        else:
            told = self._set(rng, members, place.keys, is_json=True)
        place.file.write_text(json.dumps(members))
        return told

    def _tell_puffin(self, place: Place, rng: random.Random) -> tuple[Any, Any]:
        content = place.file.read_bytes()
        start, footer = _footer(content)
        is_target = place.keys[-1] == "referenced-data-file"
        others = [one for one in self.locations if is_target and one.endswith(".parquet")]
        told = self._set(rng, footer, place.keys, others, is_json=True)
        stored = json.dumps(footer, separators=(",", ":")).encode()
        stored = stored.ljust(len(content) - 12 - start)  # as long as entries say, if it can be
        size = len(stored).to_bytes(4, "little")
        place.file.write_bytes(content[:start] + stored + size + content[-8:])
        return told

    def _tell_row(self, place: Place, rng: random.Random) -> tuple[Any, Any]:
        times = rng.choice([0, 0, 2])
        (at,) = place.keys

        def edit(rows: list[Any]) -> None:
            rows[at : at + 1] = [rows[at]] * times

        if place.file.suffix == ".parquet":
            rows = pq.read_table(place.file).to_pylist()
            edit(rows)
            self._rewrite_tree(place.file, rows)
        else:
            rewrite_avro(place.file, edit)
            self._refit(place.file)
        return "once", "twice" if times else "lost"

    def _tell_tree(self, place: Place, rng: random.Random) -> tuple[Any, Any]:
        records = pq.read_table(place.file).to_pylist()
        told = self._set(rng, records, place.keys)
        self._rewrite_tree(place.file, records)
        return told

    def _tell_entry(self, place: Place, rng: random.Random) -> tuple[Any, Any]:
        if place.file.suffix == ".parquet":
            return self._tell_tree(place, rng)
        told: list[tuple[Any, Any]] = []
        others = self._other_values(place)

        def edit(found: list[Any]) -> None:
            told.append(self._set(rng, found, place.keys, others))

        rewrite_avro(place.file, edit)
        if place.kind != "list":
            self._refit(place.file)
        return told[0]

    def _tell_header(self, place: Place, rng: random.Random) -> tuple[Any, Any]:
        header, sync, rest = _header(place.file)
        (name,) = place.keys
        true: Any
        lie: Any
        if name == "sync":
            true, lie = sync, bytes([sync[0] ^ 1]) + sync[1:]
            sync = lie
        else:
            true = header[name]
            if name in ("avro.schema", "schema", "partition-spec", "iceberg.schema"):
                parsed = json.loads(true)
                keys = rng.choice(list(_leaves(parsed)))
                _, lie = self._set(rng, parsed, keys)
                if name == "avro.schema" and keys[-1] == "name" and isinstance(lie, str):
                    return true, true  # fields are told by their ids
                lie = json.dumps(parsed)
            else:
                lie = rng.choice([None, "", *_HEADERS.get(name, [])])
            header[name] = lie
        made = {key: value for key, value in header.items() if value is not None}
        stored = b"".join(text(part.encode()) for pair in made.items() for part in pair)
        place.file.write_bytes(b"Obj\x01" + number(len(made)) + stored + b"\0" + sync + rest)
        self._refit(place.file)
        return true, lie

    def _tell_footer(self, place: Place, rng: random.Random) -> tuple[Any, Any]:
        (name,) = place.keys
        if isinstance(name, int):  # a column's field id
            ids = [
                int(one.metadata[b"PARQUET:field_id"])
                for one in pq.ParquetFile(place.file).schema_arrow
            ]
            lie = self._another(rng, ids[name], ids) or 0

            def renumber(schema: pa.Schema) -> pa.Schema:
                stored = schema.field(name).with_metadata({b"PARQUET:field_id": str(lie).encode()})
                return schema.set(name, stored)

            rewrite_parquet(place.file, nothing, schema=renumber)
            true: Any = ids[name]
        else:
            true = pq.ParquetFile(place.file).metadata.metadata[name.encode()].decode()
            try:
                parsed = json.loads(true)
                self._set(rng, parsed, rng.choice(list(_leaves(parsed))))
                lie = json.dumps(parsed)
            except (ValueError, IndexError, TypeError):
                lie = rng.choice(["", "0", "7", true + "x", *_HEADERS.get(name, [])])
            rewrite_parquet(place.file, nothing, footer={name: lie})
        self._refit_tree(place.file)
        return true, lie

    def _other_values(self, place: Place) -> list[Any]:
        """The values that this field has in other files of the kind."""
        is_list = "manifest_path" in self.records[place.file][0]
        return [
            value
            for path, others in self.records.items()
            if path != place.file and ("manifest_path" in others[0]) == is_list
            for value in _siblings(others, place.keys)
        ]

    def _refit(self, manifest: Path) -> None:
        """Let manifest lists say the new length of a manifest."""
        size = manifest.stat().st_size
        for path, records in self.records.items():
            named = [row for row in records if local(row.get("manifest_path", "")) == manifest]
            if any(row["manifest_length"] != size for row in named):

                def refit(rows: list[Any]) -> None:
                    for row in rows:
                        if local(row["manifest_path"]) == manifest:
                            row["manifest_length"] = size

                rewrite_avro(path, refit)

    def _rewrite_tree(self, path: Path, records: list[Any]) -> None:
        """Write a root or leaf with other rows, and let roots say the new length of a leaf."""
        rewrite_parquet(path, lambda _: records)
        self._refit_tree(path)

    def _refit_tree(self, path: Path) -> None:
        size = path.stat().st_size

        def refit(rows: list[Any]) -> None:
            for row in rows:
                if row["location"] and local(row["location"]) == path:
                    row["file_size_in_bytes"] = size

        for root in (self.table / "metadata").glob("root-*.parquet"):
            if root != path and str(path) in str(pq.read_table(root)["location"].to_pylist()):
                rewrite_parquet(root, refit)


_OFTEN = {"metadata": 4, "entry": 4, "list": 3, "row": 3, "tree": 4, "statistic": 2, "header": 2}
"""How much more often than others these kinds are chosen: they have more fields."""

_WRITTEN = {
    "absent": "metadata", "mapping": "metadata", "sketches": "puffin", "list": "entry",
    "statistic": "entry",
}  # fmt: skip
"""Kinds of places that are written as those of another."""


def _twin(entry: dict[str, Any]) -> tuple[Any, ...]:
    file = entry["data_file"]
    return entry["snapshot_id"], file["record_count"], file["file_size_in_bytes"]


def _leaves(value: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*keys, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _leaves(item, (*keys, at))
    else:
        yield keys


def _wholes(value: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The lists and maps below a value, but for those of the records of a file."""
    if isinstance(value, dict | list):
        if value and keys and isinstance(keys[-1], str):
            yield keys
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _wholes(item, (*keys, key))


def _another_whole(rng: random.Random, true: Any) -> Any:
    """Another list or map: none, empty, without one of its items, or a list with one twice."""
    at = rng.choice(list(true)) if isinstance(true, dict) else rng.randrange(len(true))
    if isinstance(true, dict):
        short: Any = {key: item for key, item in true.items() if key != at}
        return rng.choice([None, {}, short, short])
    short = [*true[:at], *true[at + 1 :]]
    return rng.choice([None, [], short, short, [*true, true[at]], true[::-1]])


def _absent(members: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Members that a metadata file might have and has not."""
    yield ("encryption-keys",)
    for at, snapshot in enumerate(members["snapshots"]):
        for name in ("key-id", "manifests", "parent-snapshot-id"):
            if name not in snapshot:
                yield "snapshots", at, name
    for name in members["refs"]:
        for option in ("max-ref-age-ms", "min-snapshots-to-keep", "max-snapshot-age-ms"):
            yield "refs", name, option
    for at in range(len(members.get("statistics", ()))):
        yield "statistics", at, "key-metadata"


def _footer(content: bytes) -> tuple[int, Any]:
    """Where the footer of a Puffin file begins, and what it says."""
    start = len(content) - 12 - int.from_bytes(content[-12:-8], "little")
    return start, json.loads(content[start:-12])


def _header(path: Path) -> tuple[dict[str, Any], bytes, bytes]:
    """The header of an Avro file, its sync marker, and its blocks."""
    content = path.read_bytes()
    with path.open("rb") as file:
        header = dict(fastavro.reader(file).metadata)
    sync = content[-16:]
    return header, sync, content[content.index(sync) + 16 :]


def _at(value: Any, keys: tuple[Any, ...]) -> Any:
    for key in keys:
        value = value[key]
    return value


def _siblings(value: Any, keys: tuple[Any, ...]) -> list[Any]:
    """The values of fields with the same names in other records."""
    found: list[Any] = []

    def walk(part: Any, rest: tuple[Any, ...]) -> None:
        if not rest:
            found.append(part)
        elif isinstance(rest[0], int) and isinstance(part, list):
            for item in part:
                walk(item, rest[1:])
        elif isinstance(part, dict) and rest[0] in part:
            walk(part[rest[0]], rest[1:])

    walk(value, keys)
    return [one for one in found if not isinstance(one, dict | list)]
