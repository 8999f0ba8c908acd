"""Table metadata that has a history and nothing else: snapshots, refs, properties."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from icectl.format.metadata import TableMetadata
from icectl.format.snapshot import Snapshot, SnapshotRef
from tests.builders.plain_metadata import plain_metadata


def ms(instant: str) -> int:
    """Milliseconds of an instant as ISO 8601."""
    return round(datetime.fromisoformat(instant).timestamp() * 1000)


def history(
    snapshots: Sequence[tuple[int, int | None, str]],
    refs: Mapping[str, Mapping[str, Any]],
    properties: Mapping[str, str] | None = None,
) -> TableMetadata:
    """Metadata of (id, parent, instant) and of refs with `head`, `type` and retention settings."""
    return plain_metadata(
        table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
        location="/wh/t",
        last_sequence_number=len(snapshots),
        last_updated_ms=max((ms(instant) for _, _, instant in snapshots), default=0),
        properties=dict(properties or {}),
        current_snapshot_id=refs["main"]["head"] if "main" in refs else None,
        snapshots=tuple(
            Snapshot(id_, ms(instant), parent, manifest_list=f"/wh/t/metadata/snap-{id_}.avro")
            for id_, parent, instant in snapshots
        ),
        refs={name: _ref(dict(settings)) for name, settings in refs.items()},
    )


def _ref(settings: dict[str, Any]) -> SnapshotRef:
    return SnapshotRef(settings.pop("head"), settings.pop("type", "branch"), **settings)
