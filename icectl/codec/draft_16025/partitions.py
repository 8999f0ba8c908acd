"""Partitions of the draft's entries: one struct with the fields of all specs of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from icectl.codec.parquet.schema import FIELD_ID, arrow_type, arrow_values
from icectl.entries.partition.key import PartitionValue, decode_key
from icectl.errors import Unsupported
from icectl.spec.metadata import TableMetadata
from icectl.spec.partition import PartitionField, result_types
from icectl.spec.types import Type


@dataclass(frozen=True, slots=True)
class UnionField:
    """A partition field of a table, which several specs may have."""

    id: int
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Union:
    """The partition fields of all specs of a table, and the types of each spec's fields.

    Order: fields by their ids.
    """

    fields: tuple[UnionField, ...]
    types: dict[int, tuple[Type | None, ...]]
    places: dict[int, tuple[int, ...]]

    @property
    def type(self) -> pa.StructType:
        """The type of `partition`, with field ids."""
        return pa.struct(
            [
                pa.field(one.name, arrow_type(one.type), metadata={FIELD_ID: str(one.id)})
                for one in self.fields
            ]
        )

    def tuples(self, spec_ids: Sequence[int], keys: pa.Array) -> pa.StructArray:
        """The partitions of entries, of their specs and keys; fields of other specs are null.

        Order: kept.
        Raises: CorruptTable R-068 where a key is not of its spec's types.
        """
        if not self.fields:
            return pa.array([{}] * len(keys), self.type)
        encoded = keys.dictionary_encode()
        pairs = list(zip(spec_ids, encoded.indices.to_pylist(), strict=True))
        distinct = {pair: at for at, pair in enumerate(dict.fromkeys(pairs))}
        texts = encoded.dictionary.to_pylist()
        rows = [self._tuple(spec_id, texts[at]) for spec_id, at in distinct]
        codes = pa.array([distinct[pair] for pair in pairs], pa.int32())
        columns = [
            arrow_values(one.type, [row[place] for row in rows]).take(codes)
            for place, one in enumerate(self.fields)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _tuple(self, spec_id: int, key: bytes) -> list[PartitionValue]:
        row: list[PartitionValue] = [None] * len(self.fields)
        values = decode_key(key, self.types[spec_id])
        for place, value in zip(self.places[spec_id], values, strict=True):
            if value is not None:
                row[place] = value
        return row


def union_of(metadata: TableMetadata) -> Union:
    """Return the partition fields of all specs of a table, named as the newest spec has them.

    Fields of one name have their ids behind it: columns of a file are told apart by it too.

    Raises: Unsupported, where a field's type is not known, or two specs differ in a field.
    """
    found: dict[int, tuple[PartitionField, Type]] = {}
    types = {}
    for spec in sorted(metadata.partition_specs, key=lambda spec: -spec.spec_id):
        types[spec.spec_id] = result_types(spec, metadata.schemas)
        for item, type_ in zip(spec.fields, types[spec.spec_id], strict=True):
            if type_ is None:
                raise Unsupported(
                    f"partition field `{item.name}` has no type that can be told",
                    hint="the draft stores partition values by their types",
                )
            known = found.get(item.field_id)
            if known is None or known[0].transform.name == "void":
                found[item.field_id] = (item, type_)
            elif item.transform.name != "void" and _differ(known[0], item):
                raise Unsupported(
                    f"partition field {item.field_id} is `{known[0].name}` in one spec and "
                    f"`{item.name}` in another, with another meaning",
                    hint="the draft has one column for all fields with one id",
                )
    names = [item.name for item, _ in found.values()]
    fields = tuple(
        UnionField(
            number,
            item.name if names.count(item.name) == 1 else f"{item.name}_{number}",
            type_,
        )
        for number, (item, type_) in sorted(found.items())
    )
    place = {one.id: at for at, one in enumerate(fields)}
    places = {
        spec.spec_id: tuple(place[item.field_id] for item in spec.fields)
        for spec in metadata.partition_specs
    }
    return Union(fields, types, places)


def _differ(one: PartitionField, other: PartitionField) -> bool:
    return (one.source_ids, one.transform.text) != (other.source_ids, other.transform.text)
