"""Names of metadata files, in file-system tables and in catalogs' tables."""

import re
from dataclasses import dataclass
from shlex import quote
from typing import Literal

_FILE_SYSTEM = re.compile(r"v([0-9]{1,18})(\.gz)?\.metadata\.json(\.gz)?")
_CATALOG = re.compile(r"([0-9]{1,18})-(.+?)(\.gz)?\.metadata\.json(\.gz)?")

VERSION_HINT = "version-hint.text"
"""Where file-system tables name their newest version, which may be late (R-163)."""


def lost_versions(hint: int, newest: int, table: str) -> tuple[str, str]:
    """Tell of a hint that knows of a newer version than is there, and of the way out (R-163).

    Metadata was lost then, or never finished: what is newest need not be what was committed last.
    """
    message = (
        f"{VERSION_HINT} says version {hint}, the newest metadata file has version {newest}: "
        "newer ones are missing"
    )
    advice = (
        f"bring them back; if version {newest} is meant, `icectl repair {quote(table)}` corrects "
        f"{VERSION_HINT}"
    )
    return message, advice


@dataclass(frozen=True, slots=True)
class MetadataFileName:
    """The parts of a metadata file's name; `gzip` by its name, the content decides (R-006)."""

    kind: Literal["file-system", "catalog"]
    version: int
    uuid: str | None
    gzip: bool


def parse_metadata_file_name(name: str) -> MetadataFileName | None:
    """Return the parts of a metadata file's name; None for any other name (R-160, R-162)."""
    if match := _FILE_SYSTEM.fullmatch(name):
        return MetadataFileName("file-system", int(match[1]), None, bool(match[2] or match[3]))
    if match := _CATALOG.fullmatch(name):
        return MetadataFileName("catalog", int(match[1]), match[2], bool(match[3] or match[4]))
    return None


def metadata_file_name(version: int, *, gzip: bool) -> str:
    """Return the name of a file-system table's metadata file: `v7.metadata.json` (R-162)."""
    return f"v{version}{'.gz' if gzip else ''}.metadata.json"


def catalog_metadata_file_name(version: int, uuid: str, *, gzip: bool) -> str:
    """Return the name of a catalog table's metadata file: `00007-<uuid>.metadata.json` (R-160)."""
    return f"{version:05}-{uuid}{'.gz' if gzip else ''}.metadata.json"
