"""Partition tuples as records of named values over all specs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icectl.entries.deletes import DeleteMatches, compared_by_partition
from icectl.entries.partition_key import decode_key
from icectl.format.metadata import TableMetadata
from icectl.format.partition import PartitionField, PartitionSpec, partition_path, result_types
from icectl.format.single_value import to_json
from icectl.format.types import Type


@dataclass(slots=True)
class _UnionField:
    """A partition field that one or more specs share."""

    name: str
    field: PartitionField


@dataclass(frozen=True, slots=True)
class _SpecReader:
    """A spec, with what is needed to name the values of its tuples."""

    spec: PartitionSpec
    types: tuple[Type | None, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partition tuples by spec id and canonical key; each distinct tuple is decoded once."""

    names: tuple[str, ...]
    _readers: Mapping[int, _SpecReader]
    _records: dict[tuple[int, bytes], Mapping[str, object]] = field(default_factory=dict)
    _paths: dict[tuple[int, bytes], str] = field(default_factory=dict)

    def values(self, spec_id: int, key: bytes) -> tuple[object, ...]:
        """Return the values of a tuple in spec order; empty where the table has no such spec."""
        reader = self._readers.get(spec_id)
        return () if reader is None else decode_key(key, reader.types)

    def record(self, spec_id: int, key: bytes) -> Mapping[str, object]:
        """Return a tuple as JSON single values; null for fields that its spec does not have."""
        record = self._records.get((spec_id, key))
        if record is None:
            new: dict[str, object] = dict.fromkeys(self.names)
            reader = self._readers.get(spec_id)
            if reader is not None:
                values = self.values(spec_id, key)
                for name, type_, value in zip(reader.names, reader.types, values, strict=True):
                    new[name] = json_value(type_, value)
            record = self._records[spec_id, key] = new
        return record

    def path(self, spec_id: int, key: bytes) -> str:
        """Return a tuple for people: `day=2024-01-01/region=eu`."""
        path = self._paths.get((spec_id, key))
        if path is None:
            reader = self._readers.get(spec_id)
            path = ""
            if reader is not None:
                path = partition_path(reader.spec, reader.types, self.values(spec_id, key))
            self._paths[spec_id, key] = path
        return path


def json_value(type_: Type | None, value: object) -> object:
    """Return a single value for JSON; bytes as hexadecimal where its type is not known."""
    if value is None:
        return None
    if type_ is None:
        return value.hex() if isinstance(value, bytes) else str(value)
    return to_json(type_, value)


def partitions_of(metadata: TableMetadata) -> Partitions:
    """Prepare the specs of a table.

    Order: `names` by partition field id, under the name that the newest spec gives the field.
    """
    newest_first = sorted(metadata.partition_specs, key=lambda spec: -spec.spec_id)
    union: list[_UnionField] = []
    shared = {
        spec.spec_id: [_union_field(union, partition_field) for partition_field in spec.fields]
        for spec in newest_first
    }
    readers = {
        spec.spec_id: _SpecReader(
            spec,
            result_types(spec, metadata.schemas),
            tuple(member.name for member in shared[spec.spec_id]),
        )
        for spec in newest_first
    }
    in_order = sorted(union, key=lambda member: member.field.field_id)
    return Partitions(tuple(member.name for member in in_order), readers)


def _union_field(union: list[_UnionField], candidate: PartitionField) -> _UnionField:
    """Find or add the shared field that a spec's field belongs to.

    Version 1 counts ids again in every spec (R-078), so one id may stand for two columns: fields
    are the same only if their source agrees too. A dropped field is void in newer specs.
    """
    for member in union:
        field = member.field
        transforms = {field.transform.text, candidate.transform.text}
        same_source = field.source_ids == candidate.source_ids
        if (
            field.field_id == candidate.field_id
            and same_source
            and (len(transforms) == 1 or "void" in transforms)
        ):
            if field.transform.name == "void" and candidate.transform.name != "void":
                member.field = candidate
                member.name = _free_name(union, candidate, but=member)
            return member
    member = _UnionField(_free_name(union, candidate, but=None), candidate)
    union.append(member)
    return member


def _free_name(
    union: Sequence[_UnionField], candidate: PartitionField, *, but: _UnionField | None
) -> str:
    """Return the field's name, with its id if another field has the same name."""
    is_taken = any(member.name == candidate.name for member in union if member is not but)
    return f"{candidate.name}_{candidate.field_id}" if is_taken else candidate.name


def compared_rows(matches: DeleteMatches, metadata: TableMetadata) -> Iterator[Mapping[str, Any]]:
    """Yield what readers compare for equality deletes, by partition. Order: most keys first."""
    partitions = partitions_of(metadata)
    for group in compared_by_partition(matches).to_pylist():
        place = group["spec_id"], group["partition_key"]
        yield {
            "partition": partitions.record(*place),
            "partition_path": partitions.path(*place),
            "spec_id": group["spec_id"],
            "data_file_count": group["files"],
            "key_count": group["keys"],
            "row_count": group["rows"],
        }
