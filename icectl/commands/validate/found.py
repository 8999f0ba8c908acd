"""What a check has found while it is under way, and the checks of snapshots by their layout."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from icectl.checks.finding import RuleChoice
from icectl.checks.rule import Finding
from icectl.entries.rows import Entries
from icectl.format.layout import Layout
from icectl.format.manifest import ManifestFile
from icectl.format.snapshot import Snapshot
from icectl.table.reader import Reader

_CHECKS: Mapping[Layout, str] = {
    Layout.MANIFEST_LISTS: "icectl.commands.validate.lists",
    Layout.SFC_1: "icectl.commands.validate.sfc1",
}
"""Modules with a function `check`: loaded where there is such a snapshot."""


@dataclass(slots=True)
class CheckTally:
    """Findings and counts while a check is under way; a finding that comes again counts once."""

    rules: RuleChoice
    findings: dict[Finding, None] = field(default_factory=dict)
    snapshots: int = 0
    files: int = 0
    bytes_read: int = 0
    contents_read: int = 0

    def add(self, findings: Iterable[Finding]) -> None:
        """Keep what is to be reported."""
        self.findings.update(dict.fromkeys(filter(self.rules.keeps, findings)))

    def count_file(self, size_bytes: int | None) -> None:
        """One more file was looked at."""
        self.files += 1
        self.bytes_read += size_bytes or 0


def _nothing() -> Iterable[Finding]:
    return ()


@dataclass(frozen=True, slots=True)
class SnapshotsChecked:
    """What deeper levels look at, once snapshots of one layout are checked at level `metadata`.

    `live` are the planning columns of entries that live; `manifests` tells those of the snapshots.
    `of_files` and `of_contents` find what the layout has to check further where files are looked
    for, and where they are read.
    """

    live: Entries
    manifests: Callable[[], Sequence[ManifestFile]]
    of_files: Callable[[], Iterable[Finding]] = _nothing
    of_contents: Callable[[], Iterable[Finding]] = _nothing


CheckSnapshots = Callable[[Reader, Sequence[Snapshot], CheckTally], SnapshotsChecked]


def check_snapshots_of(layout: Layout) -> CheckSnapshots:
    """Return the check of snapshots of one layout at level `metadata`."""
    check: CheckSnapshots = import_module(_CHECKS[layout]).check
    return check
