"""Checks of what a store holds against what a table names: files, logs, other tables."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from icectl.checks.finding import READ_AGAIN, finding
from icectl.checks.rule import Finding
from icectl.checks.rules import ALL_RULES
from icectl.entries.files import FileKind
from icectl.format.file_names import VERSION_HINT, lost_versions
from icectl.format.rule import Severity

_RULE_OF_SIZE: Mapping[FileKind, str] = {
    FileKind.DATA_FILES: "R-063",
    FileKind.POSITION_DELETE_FILES: "R-063",
    FileKind.EQUALITY_DELETE_FILES: "R-063",
    FileKind.DELETION_VECTOR_FILES: "R-063",
    FileKind.STATISTICS_FILES: "R-140",
    FileKind.PARTITION_STATISTICS_FILES: "R-142",
}
_INFORMATIONAL = frozenset({FileKind.STATISTICS_FILES, FileKind.PARTITION_STATISTICS_FILES})
"""Kinds that no row depends on."""

_NAMES: Mapping[FileKind, str] = {
    FileKind.DATA_FILES: "data file",
    FileKind.POSITION_DELETE_FILES: "position delete file",
    FileKind.EQUALITY_DELETE_FILES: "equality delete file",
    FileKind.DELETION_VECTOR_FILES: "file of deletion vectors",
    FileKind.STATISTICS_FILES: "statistics file",
    FileKind.PARTITION_STATISTICS_FILES: "partition statistics file",
}


def check_stored_file(
    location: str, kind: FileKind, expected: int | None, size_bytes: int | None, problem: str | None
) -> Finding:
    """Return a file that is missing (`size_bytes` None) or of another size than the table says.

    `problem` says why the store would not tell.
    Spec: R-034, R-063, R-140, R-142.
    """
    name = _NAMES.get(kind, "file")
    severity: Severity = "warning" if kind in _INFORMATIONAL else "error"
    if problem is not None:
        message = f"the {name} cannot be looked up: {problem}"
        return finding("R-034", location, message, hint=READ_AGAIN)
    if size_bytes is None:
        hint = ALL_RULES[_RULE_OF_SIZE[kind]].fix if kind in _INFORMATIONAL else None
        return finding("R-034", location, f"the {name} is missing", severity=severity, hint=hint)
    message = f"the {name} has {size_bytes:,} bytes, the table says {expected:,}"
    return finding(_RULE_OF_SIZE[kind], location, message, severity=severity)


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """A metadata file that lies in or below a table; what could not be told is None."""

    location: str
    version: int | None
    table_uuid: str | None


def check_metadata_files(
    table_uuid: str | None, files: Sequence[MetadataFile], lost: Sequence[str], *, numbered: bool
) -> Iterator[Finding]:
    """Find the metadata files in and below a table, and those of its log that are gone (`lost`).

    `numbered` says that versions of files in one folder are unique, as in file-system tables.
    Spec: R-002, R-024, R-162.
    """
    for file in files:
        if table_uuid is not None and file.table_uuid not in (None, table_uuid):
            message = f"a metadata file of another table, {file.table_uuid}, lies in this one"
            yield finding("R-002", file.location, message)
    versions = Counter(file.version for file in files if numbered and file.version is not None)
    for version, times in versions.items():
        if times > 1:
            message = f"{times} files are version {version}"
            yield finding("R-162", "metadata folder", message)
    if lost:
        message = f"{len(lost):,} of its files are gone; one is `{lost[-1]}`"
        yield finding("R-024", "metadata log", message)


def check_version_hint(
    hint: int | str | None, version: int | None, table: str
) -> Iterator[Finding]:
    """Find the version hint of a file-system table, `hint` None where it names nothing (R-163)."""
    if version is None:
        return
    if hint is None:
        yield finding("R-163", VERSION_HINT, "it names no version", severity="info")
    elif isinstance(hint, int) and hint > version:
        message, advice = lost_versions(hint, version, table)
        yield finding("R-163", VERSION_HINT, message, severity="warning", hint=advice)
    elif isinstance(hint, int) and hint != version:
        message = f"it says {hint}, the newest is {version}"
        yield finding("R-163", VERSION_HINT, message, severity="info")
