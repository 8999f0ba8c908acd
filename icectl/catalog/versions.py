"""The metadata files in one directory: which there are, and which of them is the newest."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from icectl.format.names import parse_metadata_file_name
from icectl.storage import location as locations
from icectl.storage.store import Store

Kind = Literal["file-system", "catalog", "uncommitted", "other"]

_SUFFIXES = (".metadata.json", ".metadata.json.gz")
_LEADING_NUMBER = re.compile(r"v?(\d+)(?![0-9a-f])")
_BARE_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.", re.IGNORECASE)
_UNCOMMITTED = re.compile(_BARE_UUID.pattern + r"(gz\.)?metadata\.json(\.gz)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """One metadata file as its name tells of it; `version` is None where the name has no number.

    An `uncommitted` one is named with a UUID alone: engines that commit by renaming write such
    files, and then give them the name of a version. `modified_ms` is None where nobody has told.
    """

    location: str
    version: int | None
    kind: Kind
    modified_ms: int | None = None

    @property
    def name(self) -> str:
        """The file name."""
        return locations.name(self.location)


def is_metadata_file_name(name: str) -> bool:
    """Return whether a file of this name is a metadata file: hidden ones and check sums are not."""
    return name.endswith(_SUFFIXES) and not name.startswith(".")


def metadata_version(location: str, modified_ms: int | None = None) -> MetadataVersion:
    """Read what the name of a metadata file says (R-160, R-162).

    The digits that a bare UUID begins with are no number.
    """
    name = locations.name(location)
    if _BARE_UUID.match(name):
        kind: Kind = "uncommitted" if _UNCOMMITTED.fullmatch(name) else "other"
        return MetadataVersion(location, None, kind, modified_ms)
    parsed = parse_metadata_file_name(name)
    if parsed is not None:
        return MetadataVersion(location, parsed.version, parsed.kind, modified_ms)
    number = _LEADING_NUMBER.match(name)
    return MetadataVersion(location, int(number[1]) if number else None, "other", modified_ms)


def list_versions(store: Store, directory: str) -> tuple[MetadataVersion, ...]:
    """Return the metadata files directly in a directory.

    Order: by name.
    """
    return tuple(
        metadata_version(file.location, file.modified_ms)
        for file in store.list_directory(directory)
        if is_metadata_file_name(locations.name(file.location))
    )


def without_uncommitted(versions: Sequence[MetadataVersion]) -> tuple[MetadataVersion, ...]:
    """Return the files that are versions of a table; all of them where none looks like one.

    Order: kept.
    """
    found = tuple(version for version in versions if version.kind != "uncommitted")
    return found or tuple(versions)


def is_file_system_table(versions: Sequence[MetadataVersion]) -> bool:
    """Return whether every version is named `v<N>.metadata.json`, so that no catalog has a say.

    What engines rename into such names is none of a catalog's files.
    """
    return all(v.kind == "file-system" for v in without_uncommitted(versions))


def doubled_versions(versions: Sequence[MetadataVersion]) -> tuple[int, ...]:
    """List the numbers that more than one file carries.

    Order: ascending.
    """
    counts = Counter(version.version for version in versions if version.version is not None)
    return tuple(sorted(number for number, count in counts.items() if count > 1))


def newest(
    versions: Sequence[MetadataVersion], last_updated_ms: Callable[[MetadataVersion], int]
) -> MetadataVersion:
    """Return the file of the highest number; among those of one number, the one updated last.

    A name that follows neither convention counts only where no other has its number.
    `last_updated_ms` reads a file and is called only where numbers do not decide.
    """
    number = max(_number(version) for version in versions)
    highest = [version for version in versions if _number(version) == number]
    rivals = [version for version in highest if version.kind != "other"] or highest
    return rivals[0] if len(rivals) == 1 else max(rivals, key=last_updated_ms)


def _number(version: MetadataVersion) -> int:
    return -1 if version.version is None else version.version
