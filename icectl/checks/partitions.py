"""Checks of partitions: what a manifest stores, what its list says, what the spec makes of them."""

from collections.abc import Iterator, Mapping, Sequence

from icectl.checks.finding import Finding, finding
from icectl.checks.searches.entries import Columns
from icectl.checks.searches.partitions import FieldRange, field_ranges
from icectl.entries.partition.key import sort_key
from icectl.errors import CorruptTable
from icectl.spec import single_value
from icectl.spec.manifest import FieldSummary, ManifestFile, ManifestHeader
from icectl.spec.metadata import TableMetadata
from icectl.spec.partition import PartitionField, PartitionSpec, result_types
from icectl.spec.rule import Fault
from icectl.spec.types import DecimalType, FixedType, PrimitiveType, Type, type_text
from icectl.units import print_text

_INTEGERS = frozenset({"int", "long"})
_STORED: Mapping[str, frozenset[str]] = {
    "boolean": frozenset({"boolean"}),
    "int": _INTEGERS,
    "date": _INTEGERS,
    "float": frozenset({"float", "double"}),
    "double": frozenset({"float", "double"}),
    "string": frozenset({"string"}),
    "uuid": frozenset({"fixed"}),
    "binary": frozenset({"bytes", "fixed"}),
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz"), _INTEGERS),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), _INTEGERS),
}
"""Avro types that values of a type are stored as, before and after a promotion (R-097)."""


def check_partitions(
    metadata: TableMetadata,
    spec: PartitionSpec,
    described: Sequence[ManifestFile],
    header: ManifestHeader,
    columns: Columns,
) -> Iterator[Finding]:
    """Check the partitions of a manifest against its spec, and every summary of them in a list.

    Spec: R-053, R-068, R-071, R-073.
    """
    subject = described[0].manifest_path
    types = result_types(spec, metadata.schemas)
    yield from _record(spec, types, header, subject)
    try:
        ranges = field_ranges(columns, types)
    except CorruptTable as error:
        yield finding(error.rule, subject, error.message.removesuffix(f" ({error.rule})"))
        return
    for field, type_, found in zip(spec.fields, types, ranges, strict=True):
        yield from _values(field, type_, found, subject)
    for row in described:
        if row.partitions is None or len(row.partitions) != len(spec.fields):
            continue  # unknown, or a finding on the manifest list
        for at, (field, type_) in enumerate(zip(spec.fields, types, strict=True)):
            problem = _excluded(row.partitions[at], type_, ranges[at])
            if problem is not None:
                message = f"the summary of `{field.name}` {problem}"
                yield finding("R-053", subject, message)


def _record(
    spec: PartitionSpec, types: Sequence[Type | None], header: ManifestHeader, subject: str
) -> Iterator[Finding]:
    """The record that partitions are stored as has the fields of the spec (R-068, R-071)."""
    stored = [field_id for field_id, _ in header.partition_record]
    wanted = [field.field_id for field in spec.fields]
    is_positional = header.format_version == 1 and len(stored) == len(wanted)
    if not is_positional and not set(wanted) <= set(stored):
        message = f"its partitions have fields {stored}, those of its spec are {wanted}"
        yield finding("R-068", subject, message)
    elif len(stored) > len(wanted):
        message = f"its partitions have fields {stored}, its spec only {wanted}"
        yield finding("R-068", subject, message, severity="warning")
    by_id = dict(header.partition_record)
    for at, (field, type_) in enumerate(zip(spec.fields, types, strict=True)):
        kind = header.partition_record[at][1] if is_positional else by_id.get(field.field_id)
        allowed = None if field.transform.name == "void" else _kinds(type_)  # nothing but nulls
        if kind is not None and allowed is not None and kind not in allowed:
            message = f"the values of `{field.name}` are stored as `{kind}`, not {_told(type_)}"
            yield finding("R-071", subject, message)


def _kinds(type_: Type | None) -> frozenset[str] | None:
    if isinstance(type_, DecimalType | FixedType):
        return frozenset({"fixed", "bytes"})
    return _STORED.get(type_.name) if isinstance(type_, PrimitiveType) else None


def _values(
    field: PartitionField, type_: Type | None, found: FieldRange, subject: str
) -> Iterator[Finding]:
    """Values of a field are of its type, and in the range of its transform (R-071, R-073)."""
    if found.undecodable is not None:
        message = f"a value of `{field.name}` is not of type {_told(type_)}"
        yield finding("R-071", subject, message + _where(found.undecodable))
    if field.transform.name == "bucket" and field.transform.width is not None:
        rule, low, high = "R-073", 0, field.transform.width - 1
    elif isinstance(type_, PrimitiveType) and type_.name in ("int", "date"):
        rule, low, high = "R-071", -(2**31), 2**31 - 1
    else:
        return
    for value, entries in ((found.least, found.least_of), (found.greatest, found.greatest_of)):
        if isinstance(value, int) and not low <= value <= high:
            message = f"the value {value} of `{field.name}` is not between {low} and {high}"
            yield finding(rule, subject, message + _where(entries))


def _excluded(summary: FieldSummary, type_: Type | None, found: FieldRange) -> str | None:
    """Tell what the entries belie of a summary, None for nothing; wider than needed is no fault."""
    if not summary.contains_null and found.has_null:
        return "says that there is no null, but there is"
    if summary.contains_nan is False and found.has_nan:
        return "says that there is no NaN, but there is"
    if type_ is None or found.least is None:
        return None
    for name, bound, extreme, entries in (
        ("lower", summary.lower_bound, found.least, found.least_of),
        ("upper", summary.upper_bound, found.greatest, found.greatest_of),
    ):
        if bound is None:
            # Readers take it to mean that there are nulls and NaN only, and pass the rest over.
            return f"has no {name} bound, but there are values"
        try:
            told = single_value.decode(type_, bound)
        except ValueError:
            return f"has a {name} bound that does not decode"
        if isinstance(type_, PrimitiveType) and type_.name == "uuid":
            continue  # the reference implementation long ordered them by signed halves
        below, above = sort_key(told), sort_key(extreme)
        if below > above if name == "lower" else below < above:
            shown = [print_text(single_value.text(type_, one)) for one in (told, extreme)]
            return f"has the {name} bound `{shown[0]}`, but there is `{shown[1]}`{_where(entries)}"
    return None


def _told(type_: Type | None) -> str:
    return "any" if type_ is None else f"`{type_text(type_)}`"


def _where(entries: Fault | None) -> str:
    return "" if entries is None else f", first in `{entries.location}`"
