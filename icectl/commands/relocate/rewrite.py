"""Files that name files, for another place: manifest lists, manifests, roots, leaves and deletes.

Each takes the bytes of a file and returns those of the new one. Records and columns are changed by
field id, and encoded as their writer has; nothing else of a file changes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icectl.commands.relocate.plan import Renames, Rewritten
from icectl.entries.columns import whole
from icectl.entries.stats import DELETE_FILE_PATH_ID
from icectl.errors import CorruptTable, Unsupported
from icectl.files.avro.container import Change, Record, rewrite_records
from icectl.files.avro.schema import AvroType, fields_by_id
from icectl.files.data_file import open_data_file
from icectl.files.deletion_vectors import REFERENCED_DATA_FILE
from icectl.files.manifest.manifest_list import LOCATION_IDS
from icectl.files.manifest.schema import (
    CONTENT,
    DATA_FILE,
    DATA_FILE_IDS,
    ENTRY_IDS,
    MAP_IDS,
    PARQUET_MAGIC,
    STATUS,
)
from icectl.files.parquet.schema import arrow_schema, field_id
from icectl.files.parquet.write import (
    ParquetOptions,
    ParquetWriter,
    Place,
    column,
    read_row_groups,
    rewrite_rows,
    with_column,
)
from icectl.files.puffin import with_properties
from icectl.format.manifest import Content, Status
from icectl.format.schema import PATH_FIELD, POSITION_DELETES, POSITION_FIELD

_PATH, _FORMAT = DATA_FILE_IDS["file_path"], DATA_FILE_IDS["file_format"]
_SIZE, _REFERENCED = DATA_FILE_IDS["file_size_in_bytes"], DATA_FILE_IDS["referenced_data_file"]

_BOUNDS = {"lower_bounds": 0, "upper_bounds": 1}
"""Bounds of an entry, and which of the least and the greatest path is theirs."""

_OF_WRITERS = ("ARROW:", "avro.", "parquet.", "org.apache.")
"""How key-value pairs begin that are about the encoding of the old file."""

_FORMATS = {b"PAR1": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}


def manifest_list(content: bytes, names: Renames) -> bytes:
    """Return a manifest list: the new names and lengths of its manifests.

    Raises: CorruptTable; Unsupported; Refused.
    """

    def changed(schema: AvroType) -> Change:
        places = fields_by_id(schema, LOCATION_IDS)
        path, length = (str(places[number]) for number in LOCATION_IDS.values())

        def change(row: Record) -> None:
            new = names.file(row[path])
            if new is None:
                raise CorruptTable(f"`{row[path]}` was not read with its list", rule="R-050")
            row[path], row[length] = names.of(row[path]), new.size_bytes

        return change

    return rewrite_records(content, changed)


def manifest(content: bytes, names: Renames) -> bytes:
    """Return a manifest in Avro or in Parquet, a root or a leaf: new names and sizes of files.

    Raises: CorruptTable; Unsupported; Refused.
    """
    if not is_parquet(content):
        return rewrite_records(content, lambda schema: _entry_change(schema, names))

    def change(table: pa.Table) -> pa.Table:
        if column(table, (DATA_FILE,)) is None:
            return _renamed(table, names, ())
        return _entries(table, names)

    return rewrite_rows(content, change)


def is_parquet(content: bytes) -> bool:
    """Return whether a manifest is in Parquet."""
    return content.startswith(PARQUET_MAGIC)


def listed_in_root(content: bytes, contents: Collection[Content]) -> list[tuple[str, int]]:
    """List (location, size in bytes) of a root's rows of some contents that have a location.

    Whatever their status: files of removed rows may be read still.
    Raises: CorruptTable.
    """
    listed: list[tuple[str, int]] = []
    for table in read_row_groups(content):
        columns = []
        for number in (CONTENT, _PATH, _SIZE):
            stored = column(table, (number,))
            if stored is None:
                raise CorruptTable(f"a root has no column {number}", rule="V4-041")
            columns.append(stored.to_pylist())
        for kind, location, size in zip(*columns, strict=True):
            if kind in contents and location is not None:
                listed.append((location, size or 0))
    return listed


def vectors(content: bytes, names: Renames) -> bytes:
    """Return a Puffin file of deletion vectors: the new names of their data files, or leaves.

    Raises: CorruptTable; Unsupported; Refused.
    """

    def change(properties: dict[str, str]) -> None:
        if REFERENCED_DATA_FILE in properties:
            properties[REFERENCED_DATA_FILE] = names.of(properties[REFERENCED_DATA_FILE])

    return with_properties(content, change)


def position_deletes(content: bytes, names: Renames) -> tuple[bytes, tuple[str, str] | None]:
    """Return a position delete file in Parquet, and the least and the greatest path in it.

    Files in Avro and ORC become Parquet: nothing here writes field ids into ORC. All columns and
    key-value pairs stay.
    Order: by path and position (R-122).
    Raises: CorruptTable R-099, R-121; Unsupported; Refused.
    Cost: the rows of the file in memory.
    """
    file_format = next((name for start, name in _FORMATS.items() if content.startswith(start)), "")
    file = open_data_file(content, file_format)
    ids = [field_id(field) for field in file.schema]
    if PATH_FIELD.id not in ids or POSITION_FIELD.id not in ids:
        message = "a position delete file lacks one of the columns `file_path` and `pos`"
        raise CorruptTable(message, rule="R-121")
    schema = file.schema.remove_metadata()
    for field_ in arrow_schema(POSITION_DELETES):
        schema = schema.set(ids.index(field_id(field_)), field_)
    paths_at, positions_at = ids.index(PATH_FIELD.id), ids.index(POSITION_FIELD.id)
    parts = []
    for rows in file.batches(None):
        columns = list(rows.batch.columns)
        columns[paths_at] = _each_once(columns[paths_at], names.of_deleted)
        columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        parts.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    table = pa.Table.from_batches(parts, schema)
    order = [(schema.names[at], "ascending") for at in (paths_at, positions_at)]
    table = table.take(pc.sort_indices(table, order))
    paths = table.column(paths_at)
    ends = (paths[0].as_py(), paths[-1].as_py()) if len(paths) else None
    sink = BytesIO()
    metadata = {
        key: value for key, value in file.properties.items() if not key.startswith(_OF_WRITERS)
    }
    writer = ParquetWriter(
        sink, table.schema, ParquetOptions(), {"delete-type": "position", **metadata}
    )
    writer.write_row_group(table.to_batches())
    writer.close()
    return sink.getvalue(), ends


def _each_once(values: pa.Array, of: Callable[[str], str]) -> pa.Array:
    """Return the changed values, null for null; each distinct value is changed once."""
    encoded = whole(values).dictionary_encode()
    changed = pa.array([of(value) for value in encoded.dictionary.to_pylist()], values.type)
    return changed.take(encoded.indices)


# -- entries in Avro ------------------------------------------------------------------------------


def _entry_change(schema: AvroType, names: Renames) -> Change:
    """Return the change of an entry, by the writer's schema. Raises: CorruptTable."""
    of_entry = fields_by_id(schema, ENTRY_IDS)
    file_at, status_at = of_entry.get(DATA_FILE), str(of_entry.get(STATUS))
    if file_at is None or STATUS not in of_entry:
        raise CorruptTable("the file is not a manifest: it has no data_file", rule="R-062")
    of_file = schema.fields[file_at].type.present
    places = fields_by_id(of_file, DATA_FILE_IDS)
    at = {number: str(place) for number, place in places.items()}
    pairs = {}
    for name, which in _BOUNDS.items():
        place_of_map = places.get(DATA_FILE_IDS[name])
        if place_of_map is not None:  # a map is stored as a list of pairs
            pair = of_file.fields[place_of_map].type.present.parts[0].present
            ends = fields_by_id(pair, dict(zip(("key", "value"), MAP_IDS[name], strict=True)))
            key, value = (str(ends[number]) for number in MAP_IDS[name])
            pairs[at[DATA_FILE_IDS[name]]] = (key, value), which

    def change(entry: Record) -> None:
        file = entry[str(file_at)]
        new = names.file(file[at[_PATH]])
        is_position_delete = CONTENT in at and file[at[CONTENT]] == Content.POSITION_DELETES
        if is_position_delete and new is None and entry[status_at] != Status.DELETED:
            raise _spelled_otherwise(file[at[_PATH]])
        file[at[_PATH]] = names.of(file[at[_PATH]])
        if new is not None:
            file[at[_SIZE]] = new.size_bytes
            file[at[_FORMAT]] = _like(file[at[_FORMAT]], new.file_format)
        if file.get(at.get(_REFERENCED, "")) is not None:
            file[at[_REFERENCED]] = names.of(file[at[_REFERENCED]])
        if is_position_delete:
            for place, ((key, value), which) in pairs.items():
                if file[place] is not None:
                    stored = {pair[key]: pair[value] for pair in file[place]}
                    file[place] = [
                        {key: number, value: bound}
                        for number, bound in _bounds(stored, new, which).items()
                    ]

    return change


def _spelled_otherwise(location: str) -> Unsupported:
    return Unsupported(
        f"the delete file `{location}` is written in another form elsewhere in the table",
        hint="rewrite such deletes before the move, by `compact --deletes-only`",
    )


def _like(stored: str, new: str | None) -> str:
    """Spell a file format as the old one is spelled."""
    if new is None:
        return stored
    return new.upper() if stored.isupper() else new


def _bounds(stored: Mapping[int, bytes], new: Rewritten | None, which: int) -> Mapping[int, bytes]:
    """Return exact bounds of a position delete file for its new paths, none if not known."""
    paths = None if new is None else new.paths
    return {
        number: bound if number != DELETE_FILE_PATH_ID or paths is None else paths[which].encode()
        for number, bound in stored.items()
        if number != DELETE_FILE_PATH_ID or paths is not None
    }


# -- entries in Parquet ---------------------------------------------------------------------------


def _entries(table: pa.Table, names: Renames) -> pa.Table:
    contents = column(table, (DATA_FILE, CONTENT))
    deletes = (
        [] if contents is None else pc.equal(contents, int(Content.POSITION_DELETES)).to_pylist()
    )
    stored, statuses = column(table, (DATA_FILE, _PATH)), column(table, (STATUS,))
    if any(deletes) and stored is not None and statuses is not None:
        files = [names.file(one) for one in stored.to_pylist()]
        members = zip(stored.to_pylist(), files, deletes, statuses.to_pylist(), strict=True)
        for location, new, is_delete, status in members:
            if is_delete and new is None and status != Status.DELETED:
                raise _spelled_otherwise(location)
        for name, which in _BOUNDS.items():
            place = (DATA_FILE, DATA_FILE_IDS[name])
            bounds = column(table, place)
            if bounds is not None:
                changed = [
                    list(_bounds(dict(pairs), new, which).items()) if pairs and is_delete else pairs
                    for pairs, new, is_delete in zip(
                        bounds.to_pylist(), files, deletes, strict=True
                    )
                ]
                table = with_column(table, place, pa.array(changed, bounds.type))
    return _renamed(table, names, (DATA_FILE,))


def _renamed(table: pa.Table, names: Renames, inside: Place) -> pa.Table:
    """Return rows with new locations, sizes and formats; columns lie in the structs `inside`."""
    stored = column(table, (*inside, _PATH))
    if stored is None:
        raise CorruptTable("the manifest has no locations", rule="R-063")
    files: Sequence[Rewritten | None] = [
        None if location is None else names.file(location) for location in stored.to_pylist()
    ]
    changes: list[tuple[Place, Callable[[Any, Rewritten], Any]]] = [
        ((*inside, _SIZE), lambda _, new: new.size_bytes),
        ((*inside, _FORMAT), lambda old, new: _like(old, new.file_format)),
    ]
    for place, of in changes:
        old = column(table, place)
        if old is not None and any(files):
            values = [
                value if new is None else of(value, new)
                for value, new in zip(old.to_pylist(), files, strict=True)
            ]
            table = with_column(table, place, pa.array(values, old.type))
    for number in (_PATH, _REFERENCED):
        place = (*inside, number)
        old = column(table, place)
        if old is not None:
            table = with_column(table, place, _each_once(old, names.of))
    return table
