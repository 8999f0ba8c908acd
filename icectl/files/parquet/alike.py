"""Which Parquet files can be put together without decoding them: parts whose footers agree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from icectl.files.parquet.merge_footer import ColumnKey, FileShape, NotMergeable, joined

MayLack = Callable[[int, ColumnKey], bool]
"""Tells of a file, by its place, whether readers see null in a column that its part may lack."""


@dataclass(frozen=True, slots=True)
class AlikeParts:
    """Files by their places: parts that can be put together, and why each other one can't.

    Order: of parts by their first file; places ascend.
    """

    parts: tuple[tuple[int, ...], ...]
    odd: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Part:
    shapes: list[FileShape]
    places: list[int]


def alike_parts(shapes: Sequence[FileShape | str], may_lack: MayLack) -> AlikeParts:
    """Divide files into parts that can be put together; a text says why a file can't be at all.

    A file that is alone in its part is odd. Its reason compares it with the largest part.
    Cost: a look at each file, and one at the parts for each distinct shape.
    """
    by_shape: dict[FileShape, list[int]] = {}
    odd: dict[int, str] = {}
    for place, shape in enumerate(shapes):
        if isinstance(shape, str):
            odd[place] = shape
        else:
            by_shape.setdefault(shape, []).append(place)
    parts: list[_Part] = []
    reasons: dict[int, str] = {}
    for shape, places in sorted(by_shape.items(), key=lambda item: -len(item[1])):
        for part in parts:
            try:
                _check_joined(part, shape, places, may_lack)
            except NotMergeable as error:
                reasons.setdefault(places[0], str(error))
            else:
                part.shapes.append(shape)
                part.places += places
                break
        else:
            parts.append(_Part([shape], list(places)))
    for part in parts:
        if len(part.places) == 1:
            odd[part.places[0]] = reasons.get(part.places[0], "it is a single file")
    several = sorted(tuple(sorted(part.places)) for part in parts if len(part.places) > 1)
    return AlikeParts(tuple(several), dict(sorted(odd.items())))


def _check_joined(part: _Part, shape: FileShape, places: Sequence[int], may_lack: MayLack) -> None:
    """Check that files of a shape can join a part. Raises: NotMergeable."""
    layout = joined([*part.shapes, shape])
    for column in layout.missing_in([*part.shapes, shape]):
        if not may_lack(places[0], column.key):
            raise NotMergeable(f"one of its files lacks `{column.shown}`, which has a default")
