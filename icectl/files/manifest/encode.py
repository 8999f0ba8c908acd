"""Manifest entries to Avro through the compiled encoder."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from icectl.files.avro import scan as avro_scan
from icectl.files.manifest.records import Encoded

_ROWS = 8192
_LONGEST_NUMBER = 10


def encode_table(
    table: pa.Table, schema: Mapping[str, Any], partitions: pa.Array
) -> Iterator[Encoded]:
    """Encode rows some thousand at a time; `partitions` holds each row's encoded partition.

    Shape: the columns of `table` are those of the Avro schema, by its names.
    """
    fields = _fields(schema)
    for start in range(0, table.num_rows, _ROWS):
        part = table.slice(start, _ROWS)
        arrays = {name: part[name].combine_chunks() for name in part.column_names}
        arrays["partition"] = partitions.slice(start, _ROWS)
        yield _encode(fields, arrays, part.num_rows)


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Return names of the stored columns in order, and whether each is a union with null."""
    fields: list[tuple[str, bool]] = []
    for field in schema["fields"]:
        if field["name"] == "data_file":
            fields += _fields(field["type"])
        else:
            fields.append((field["name"], isinstance(field["type"], list)))
    return fields


def _encode(
    fields: Sequence[tuple[str, bool]], arrays: Mapping[str, pa.Array], row_count: int
) -> Encoded:
    columns = _Columns(row_count)
    for name, is_optional in fields:
        columns.add(arrays[name], is_optional=is_optional, is_raw=name == "partition")
    row_ends = np.zeros(row_count, np.int64)
    output = np.empty(columns.largest_size(), np.uint8)
    given = (*columns.arguments(), output, row_ends)
    used = avro_scan.encode(*given)
    return output[:used].tobytes(), row_ends


class _Columns:
    """Columns laid out as the encoder reads them."""

    def __init__(self, row_count: int) -> None:
        self._rows = row_count
        self._steps: list[list[int]] = []
        self._valid: list[Any] = []
        self._numbers: list[Any] = []
        self._text_offsets: list[Any] = []
        self._list_offsets: list[Any] = []
        self._keys = _Joined(np.int32)
        self._items = _Joined(np.int64)
        self._item_offsets = _Joined(np.int64)
        self._texts = _Joined(np.uint8)

    def add(self, array: pa.Array, *, is_optional: bool, is_raw: bool) -> None:
        """Append one column in the order of the schema."""
        valid = -1
        if is_optional:
            valid = len(self._valid)
            self._valid.append(array.is_valid().to_numpy(zero_copy_only=False))
        elif array.null_count:
            raise ValueError("a required field is null")
        if pa.types.is_integer(array.type):
            self._steps.append([avro_scan.NUMBER, len(self._numbers), 0, 0, valid])
            self._numbers.append(array.fill_null(0).to_numpy(zero_copy_only=False))
        elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            op = avro_scan.RAW if is_raw else avro_scan.BYTES
            self._steps.append([op, len(self._text_offsets), 0, 0, valid])
            self._text_offsets.append(self._add_texts(array))
        else:
            self._add_items(array, valid)

    def _add_texts(self, array: pa.Array) -> Any:
        """Append the bytes of texts; returns their offsets there."""
        _, offsets, content = array.buffers()
        count = len(array)
        if not count or offsets is None:
            return np.zeros(count + 1, np.int64)
        ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + count + 1]
        ends = ends.astype(np.int64)
        stored = np.frombuffer(content, np.uint8) if content else np.zeros(0, np.uint8)
        start = self._texts.add(stored[ends[0] : ends[-1]])
        return ends - ends[0] + start

    def _add_items(self, array: pa.Array, valid: int) -> None:
        is_map = pa.types.is_map(array.type)
        offsets = array.offsets.to_numpy().astype(np.int64)
        start, stop = int(offsets[0]), int(offsets[-1])
        values = (array.items if is_map else array.values).slice(start, stop - start)
        if values.null_count:
            raise ValueError("an item of a map or list is null")
        key = 0
        if is_map:
            keys = array.keys.slice(start, stop - start)
            key = self._keys.add(keys.to_numpy(zero_copy_only=False))
        if pa.types.is_integer(values.type):
            op = avro_scan.NUMBER_PAIRS if is_map else avro_scan.NUMBERS
            item = self._items.add(values.to_numpy(zero_copy_only=False))
        else:
            op = avro_scan.BYTES_PAIRS
            item = self._item_offsets.add(self._add_texts(values))
        self._steps.append([op, len(self._list_offsets), key, item, valid])
        self._list_offsets.append(offsets - start)

    def arguments(self) -> tuple[Any, ...]:
        """Everything that the encoder reads, in its order."""
        return (
            np.array(self._steps, np.int64),
            self._table(self._valid, np.uint8, self._rows),
            self._table(self._numbers, np.int64, self._rows),
            self._table(self._text_offsets, np.int64, self._rows + 1),
            self._table(self._list_offsets, np.int64, self._rows + 1),
            *(joined.array() for joined in (self._keys, self._items, self._item_offsets)),
            self._texts.array(),
        )

    def largest_size(self) -> int:
        """Return bytes that the encoded rows take at most."""
        per_row = (_LONGEST_NUMBER + 2) * len(self._steps)
        item_count = self._keys.size + self._items.size + self._item_offsets.size
        return self._rows * per_row + item_count * _LONGEST_NUMBER + self._texts.size

    @staticmethod
    def _table(rows: Sequence[Any], type_: Any, width: int) -> Any:
        return np.array(rows, type_).reshape(len(rows), width)


class _Joined:
    """Arrays one behind the other."""

    def __init__(self, type_: Any) -> None:
        self._type = type_
        self._parts: list[Any] = []
        self.size = 0

    def add(self, part: Any) -> int:
        """Append an array; returns where it starts."""
        start = self.size
        self._parts.append(part)
        self.size += len(part)
        return start

    def array(self) -> Any:
        """Return all of them as one."""
        return np.concatenate([np.zeros(0, self._type), *self._parts]).astype(self._type)
