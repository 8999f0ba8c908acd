"""Manifests that were put together in Avro, in the file format that a table keeps them in."""

import pyarrow as pa

from icectl.entries.partition.key import decode_key
from icectl.entries.schema import ALL_COLUMNS
from icectl.entries.schemes import with_whole_locations
from icectl.errors import Unsupported
from icectl.files.manifest.manifest import read_manifest
from icectl.files.manifest.parquet import write_parquet
from icectl.files.manifest.write import ManifestForm, format_names
from icectl.files.parquet.schema import arrow_values
from icectl.format.manifest import FileFormat
from icectl.format.types import NestedField


def in_file_format(content: bytes, form: ManifestForm) -> bytes:
    """Return a manifest, written in Avro, in the file format of its form.

    Raises: Unsupported, for a partition field whose type is not known.
    """
    if form.file_format is FileFormat.AVRO:
        return content
    _, entries = read_manifest(content, columns=ALL_COLUMNS, manifest=0, spec=form.spec)
    table = with_whole_locations(form.table_location, "", entries.table)
    at = table.schema.get_field_index("file_format")
    table = table.set_column(at, "file_format", format_names(table["file_format"]))
    fields = _partition_fields(form)
    return write_parquet(
        table.rename_columns({"location": "file_path"}),
        _partitions(table["partition_key"], fields) if fields else None,
        partition=fields,
        properties=form.properties,
    )


def _partition_fields(form: ManifestForm) -> list[NestedField]:
    fields = []
    for field, type_ in zip(form.spec.fields, form.types, strict=True):
        if type_ is None:
            message = f"partition field `{field.name}` is of no type that Parquet manifests have"
            raise Unsupported(message)
        fields.append(NestedField(field.field_id, field.name, type_, required=False))
    return fields


def _partitions(keys: pa.ChunkedArray, fields: list[NestedField]) -> pa.Array:
    """Return the partition tuples as structs."""
    encoded = keys.combine_chunks().dictionary_encode()
    types = [field.type for field in fields]
    tuples = [decode_key(key, types) for key in encoded.dictionary.to_pylist()]
    columns = [
        arrow_values(type_, [values[at] for values in tuples]) for at, type_ in enumerate(types)
    ]
    stored = [
        pa.field(field.name, column.type) for field, column in zip(fields, columns, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=stored).take(encoded.indices)
