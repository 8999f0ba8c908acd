"""What manifests say of themselves in their key-value metadata (R-060), in Avro and in Parquet."""

from collections.abc import Mapping, Sequence
from typing import Any

from icectl.errors import CorruptTable, Unsupported
from icectl.format.json_members import parse_json
from icectl.format.manifest import ManifestContent, ManifestHeader
from icectl.format.partition import PartitionSpec

PARQUET_MAGIC = b"PAR1"
"""The first bytes of a manifest in Parquet."""


def header_of(
    metadata: Mapping[str, str],
    *,
    codec: str,
    assumed_version: int,
    partition_record: tuple[tuple[int | None, str], ...],
    unknown_field_ids: tuple[int, ...],
) -> ManifestHeader:
    """Read what a manifest says of itself; `assumed_version` is its version where it says none.

    Raises: CorruptTable R-060.
    """
    version = _number(metadata, "format-version")
    content = metadata.get("content", "data")
    if content not in ("data", "deletes"):
        raise CorruptTable(f"the manifest has the content `{content}`", rule="R-060")
    fields, schema = _json(metadata, "partition-spec"), _json(metadata, "schema")
    if isinstance(fields, dict):
        fields = fields.get("fields")  # a whole spec, as some writers store
    return ManifestHeader(
        format_version=assumed_version if version is None else version,
        content=ManifestContent.DELETES if content == "deletes" else ManifestContent.DATA,
        spec_id=_number(metadata, "partition-spec-id"),
        schema_id=_number(metadata, "schema-id"),
        partition_fields=tuple(fields) if _are_objects(fields) else None,
        schema=schema if isinstance(schema, dict) else None,
        metadata=metadata,
        codec=codec,
        partition_record=partition_record,
        unknown_field_ids=unknown_field_ids,
        has_lengths_of_fixed=False,
    )


def spec_field_ids(header: ManifestHeader, spec: PartitionSpec | None) -> Sequence[int] | None:
    """List the field ids of a spec, or of the one that the manifest names; None of neither."""
    if spec is not None:
        return [field.field_id for field in spec.fields]
    if header.partition_fields is None:
        return None
    return [
        int(field.get("field-id", 1000 + at)) for at, field in enumerate(header.partition_fields)
    ]


def _are_objects(parsed: Any) -> bool:
    return isinstance(parsed, list) and all(isinstance(item, dict) for item in parsed)


def check_known(unknown_field_ids: Sequence[int]) -> None:
    """Check that writing a manifest again would lose no field. Raises: Unsupported."""
    if unknown_field_ids:
        ids = ", ".join(map(str, unknown_field_ids))
        message = (
            f"a manifest has fields that icectl does not know and would lose (field ids {ids})"
        )
        raise Unsupported(message, hint="maintain it with the engine that wrote it")


def _number(metadata: Mapping[str, str], key: str) -> int | None:
    try:
        return int(metadata[key]) if key in metadata else None
    except ValueError as error:
        raise CorruptTable(
            f"the manifest's {key} is not a number", rule="R-060"
        ) from error


def _json(metadata: Mapping[str, str], key: str) -> Any:
    try:
        return parse_json(metadata[key]) if key in metadata else None
    except ValueError as error:
        raise CorruptTable(f"the manifest's {key} is not JSON", rule="R-060") from error
