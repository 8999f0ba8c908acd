"""Which Parquet files can be merged without decoding them, or with few columns decoded."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from icectl.files.parquet.merge_columns import (
    ColumnForms,
    ColumnKey,
    FileShape,
    MergedColumns,
    NotMergeable,
    StoredColumns,
    joined,
)

MayLack = Callable[[int, ColumnKey], bool]
"""Tells of a file, by its place, whether readers see null in a column that its part may lack."""

_WORTH_DECODING = 0.1
"""The part of the bytes of files that may be decoded to have one file of them rather than two."""


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """The columns of a file that are decoded to put it together with others, and why."""

    names: tuple[str, ...]
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class AlikeParts:
    """Files by their places: parts that can be merged, and why each other one can't.

    `decoded` has files of parts that store columns otherwise than the new file will.
    Order: of parts by their first file; places ascend.
    """

    parts: tuple[tuple[int, ...], ...]
    odd: dict[int, str] = field(default_factory=dict)
    decoded: dict[int, DecodedColumns] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Files:
    """Files that store all columns alike, and their places."""

    stored: StoredColumns
    places: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return sum(self.stored.sizes)


@dataclass(frozen=True, slots=True)
class _Part:
    """Files that can be merged, and the columns of the new file."""

    files: tuple[_Files, ...]
    layout: MergedColumns

    @property
    def places(self) -> list[int]:
        return sorted(place for files in self.files for place in files.places)

    @property
    def size_bytes(self) -> int:
        return sum(files.size_bytes for files in self.files)

    @property
    def decoded_bytes(self) -> int:
        return sum(_decoded(files.stored, self.layout).size_bytes for files in self.files)


def alike_parts(
    stored: Sequence[StoredColumns | str], may_lack: MayLack, forms: ColumnForms | None = None
) -> AlikeParts:
    """Divide files into parts that can be merged; a text says why a file can't be at all.

    A part joins a larger one if few bytes have to be decoded for that: a tenth of all, or the bytes
    of a single file. A file that is alone in its part is odd: its reason compares it with the
    largest part.
    Cost: a look at each file, and one at the parts for each distinct shape.
    """
    odd = {place: of for place, of in enumerate(stored) if isinstance(of, str)}
    reasons: dict[int, str] = {}
    parts: list[_Part] = []
    for files in sorted(_by_shape(stored), key=lambda files: -len(files.places)):
        alone = _Part((files,), joined([files.stored]))
        for at, part in enumerate(parts):
            try:
                parts[at] = _joined(part, alone, may_lack, None)
            except NotMergeable as error:
                reasons.setdefault(files.places[0], str(error))
            else:
                break
        else:
            parts.append(alone)
    joined_parts: list[_Part] = []
    for part in sorted(parts, key=lambda part: -part.size_bytes) if forms is not None else parts:
        for at, larger in enumerate(joined_parts if forms is not None else ()):
            try:
                whole = _joined(larger, part, may_lack, forms)
            except NotMergeable:
                continue
            if _is_worth_it(larger, part, whole):
                joined_parts[at] = whole
                break
        else:
            joined_parts.append(part)
    for part in joined_parts:
        if len(part.places) == 1:
            odd[part.places[0]] = reasons.get(part.places[0], "it is a single file")
    several = [part for part in joined_parts if len(part.places) > 1]
    decoded = {place: of for part in several for place, of in _decoded_files(part, stored, reasons)}
    places = sorted(tuple(part.places) for part in several)
    return AlikeParts(tuple(places), dict(sorted(odd.items())), dict(sorted(decoded.items())))


def _by_shape(stored: Sequence[StoredColumns | str]) -> Iterator[_Files]:
    """Yield files by shape, in the order of the first of each."""
    places: dict[FileShape, list[int]] = {}
    sums: dict[FileShape, StoredColumns] = {}
    for place, of in enumerate(stored):
        if isinstance(of, str):
            continue
        places.setdefault(of.shape, []).append(place)
        known = sums.get(of.shape)
        sums[of.shape] = of if known is None else known.with_others(of)
    return (_Files(sums[shape], tuple(of_shape)) for shape, of_shape in places.items())


def _joined(part: _Part, other: _Part, may_lack: MayLack, forms: ColumnForms | None) -> _Part:
    """Return the files of both parts as one. Raises: NotMergeable."""
    files = (*part.files, *other.files)
    layout = joined([of.stored for of in files], forms)
    for of in files:
        for column in layout.missing_in([of.stored.shape]):
            if not may_lack(of.places[0], column.key):
                raise NotMergeable(f"not all files have `{column.shown}`, which has a default")
    return _Part(files, layout)


def _is_worth_it(larger: _Part, part: _Part, whole: _Part) -> bool:
    """Whether a part joins a larger one, by the bytes that have to be decoded for that."""
    cost = whole.decoded_bytes - larger.decoded_bytes - part.decoded_bytes
    of_single = part.size_bytes if len(part.places) == 1 else 0
    return cost <= max(of_single, _WORTH_DECODING * whole.size_bytes)


def _decoded(stored: StoredColumns, layout: MergedColumns, why: str = "") -> DecodedColumns:
    keys = set(layout.decoded_in(stored.shape))
    columns = [of for of in stored.columns if of.column.key in keys]
    names = tuple(of.column.shown for of in columns)
    return DecodedColumns(names, sum(of.size_bytes for of in columns), why)


def _decoded_files(
    part: _Part, stored: Sequence[StoredColumns | str], reasons: dict[int, str]
) -> Iterator[tuple[int, DecodedColumns]]:
    """Yield the files of a part of which columns are decoded, by place."""
    why = next((reasons[at] for of in part.files for at in of.places if at in reasons), "")
    for of in part.files:
        for place in of.places if part.layout.decoded_in(of.stored.shape) else ():
            columns = stored[place]
            assert isinstance(columns, StoredColumns)
            yield place, _decoded(columns, part.layout, reasons.get(of.places[0], why))
