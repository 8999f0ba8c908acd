"""The metadata files in one directory: which there are, and which of them is the newest."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from icectl.catalog.protocol import Conflict
from icectl.env import Env
from icectl.errors import CommitConflict
from icectl.format.file_names import parse_metadata_file_name
from icectl.storage import location as locations
from icectl.storage.store import Store, dating_clock_ms
from icectl.units import print_duration

Kind = Literal["file-system", "catalog", "uncommitted", "other"]

_SUFFIXES = (".metadata.json", ".metadata.json.gz")
_LEADING_NUMBER = re.compile(r"v?([0-9]{1,18})(?![0-9a-f])")
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
    versions_left = tuple(version for version in versions if version.kind != "uncommitted")
    return versions_left or tuple(versions)


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


COMMIT_TAKES_MS = 10 * 60_000
"""The age from which on a file that waits to be renamed is taken for left over."""

_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Between looks at a commit that is under way."""


def uncommitted_files(
    versions: Sequence[MetadataVersion], store: Store, env: Env
) -> tuple[Sequence[MetadataVersion], Sequence[MetadataVersion]]:
    """Return files of commits that are under way, and files that such commits have left over.

    By the clock that dates the files; one without a time is never old.
    """
    waiting = [version for version in versions if version.kind == "uncommitted"]
    if not waiting:
        return (), ()
    limit_ms = dating_clock_ms(store, env, waiting[0].location) - COMMIT_TAKES_MS
    old = [v for v in waiting if v.modified_ms is not None and v.modified_ms < limit_ms]
    return [version for version in waiting if version not in old], old


def wait_for_end(store: Store, env: Env, directory: str) -> None:
    """Wait until the commits that are under way in a directory have ended.

    Those that begin meanwhile are not waited for. Raises: CommitConflict; StorageError.
    """

    def under_way() -> Sequence[MetadataVersion]:
        return uncommitted_files(list_versions(store, directory), store, env)[0]

    waiting = under_way()
    for seconds in _PAUSES_SECONDS:
        if not waiting:
            return
        env.sleep(seconds)
        now = {version.location for version in under_way()}
        waiting = [version for version in waiting if version.location in now]
    if waiting:
        found = busy(waiting[0])
        raise CommitConflict(found.reason, hint=found.hint)


def busy(version: MetadataVersion) -> Conflict:
    """Return the conflict with the commit that a file belongs to."""
    return Conflict(
        f"another writer is in the middle of a commit, as {version.name} shows",
        "nothing was changed; run the command again. If no writer is active, that file is left "
        f"over: it is ignored once it is {print_duration(COMMIT_TAKES_MS)} old",
    )


def left_over(version: MetadataVersion) -> str:
    """Return the message on a file that a commit has left over."""
    return (
        f"{version.name} in the metadata directory is left over from a commit that did not end, "
        "and ignored; `icectl remove-orphans` deletes it"
    )
