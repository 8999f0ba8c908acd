"""Which snapshot a caller means: by id, by ref, by instant, or the current one."""

from dataclasses import dataclass

from icectl.errors import UsageError
from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot
from icectl.units import print_instant


@dataclass(frozen=True, slots=True)
class SnapshotChoice:
    """The snapshot a caller asks for; at most one member is set, none means the current one."""

    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None

    @property
    def count(self) -> int:
        """The number of ways of choosing that were used."""
        chosen = (self.snapshot_id, self.ref, self.as_of_ms)
        return sum(member is not None for member in chosen)


def chosen_snapshot(metadata: TableMetadata, choice: SnapshotChoice) -> Snapshot | None:
    """Find the chosen snapshot; None where the table has no current one.

    Raises: UsageError for more than one choice, and for a snapshot or ref that is not there.
    Spec: time travel goes by the snapshot log (R-029).
    """
    if choice.count > 1:
        raise UsageError("`--snapshot`, `--ref` and `--as-of` cannot be used together")
    if choice.snapshot_id is not None:
        return snapshot_by_id(metadata, choice.snapshot_id)
    if choice.ref is not None:
        return _snapshot_of_ref(metadata, choice.ref)
    if choice.as_of_ms is not None:
        return _snapshot_as_of(metadata, choice.as_of_ms)
    return metadata.current_snapshot


def snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Find a snapshot by its id.

    Raises: UsageError.
    """
    snapshot = metadata.snapshot(snapshot_id)
    if snapshot is None:
        message = f"the table has no snapshot {snapshot_id}"
        raise UsageError(message, hint="`icectl inspect TABLE snapshots` lists them")
    return snapshot


def _snapshot_of_ref(metadata: TableMetadata, name: str) -> Snapshot | None:
    ref = metadata.refs.get(name)
    if ref is not None:
        return snapshot_by_id(metadata, ref.snapshot_id)
    if name == "main":
        return metadata.current_snapshot
    message = f"the table has no branch or tag `{name}`"
    raise UsageError(message, hint="`icectl inspect TABLE refs` lists them")


def _snapshot_as_of(metadata: TableMetadata, as_of_ms: int) -> Snapshot:
    snapshot_id = logged_snapshot_id(metadata, as_of_ms)
    if snapshot_id is None:
        message = f"the snapshot log does not reach back to {print_instant(as_of_ms)}"
        raise UsageError(message, hint="`icectl inspect TABLE history` shows the log")
    snapshot = metadata.snapshot(snapshot_id)
    if snapshot is None:
        message = f"snapshot {snapshot_id}, current at {print_instant(as_of_ms)}, has expired"
        raise UsageError(message, hint="`icectl inspect TABLE snapshots` lists those that are left")
    return snapshot


def logged_snapshot_id(metadata: TableMetadata, at_ms: int) -> int | None:
    """Id of the snapshot that was current at an instant; None before the log begins.

    Spec: the snapshot log decides, not parent links (R-029).
    """
    logged = [entry.snapshot_id for entry in metadata.snapshot_log if entry.timestamp_ms <= at_ms]
    return logged[-1] if logged else None


def parse_snapshot_id(option: str, text: str | None) -> int | None:
    """Return the snapshot id that an option was given. Raises: UsageError."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        message = f"`{option}` takes the id of a snapshot, not `{text}`"
        hint = "`--ref NAME` takes a branch or tag" if option == "--snapshot" else None
        raise UsageError(message, hint=hint) from error
