"""The parameters of a table in the metastore that follow its metadata, as Iceberg's Java has them.

Engines read some of them for statistics. What was not there is not added, but for the pointer and
what keeps Hive from counting on its own; columns stay, as no command changes a schema.
"""

import json
from collections.abc import Mapping

from icectl.spec.metadata import TableMetadata
from icectl.spec.snapshot import Snapshot

METADATA_LOCATION = "metadata_location"
PREVIOUS = "previous_metadata_location"
METADATA_HASH = "metadata_hash"

_SNAPSHOT_ID = "current-snapshot-id"
_SNAPSHOT_TIME = "current-snapshot-timestamp-ms"
_SNAPSHOT_SUMMARY = "current-snapshot-summary"
_SNAPSHOT_COUNT = "snapshot-count"
_OF_SNAPSHOT = (_SNAPSHOT_ID, _SNAPSHOT_TIME, _SNAPSHOT_SUMMARY)
_COUNTS = {
    "numFiles": "total-data-files",
    "numRows": "total-records",
    "totalSize": "total-files-size",
}
_MOST_CHARACTERS = "iceberg.hive.table-property-max-size"
_DEFAULT_MOST = 32672
_KEEP_STATS = "iceberg.hive.keep.stats"


def next_parameters(
    parameters: Mapping[str, str],
    target: str,
    metadata: TableMetadata,
    catalog: Mapping[str, str],
) -> dict[str, str]:
    """Return the parameters of a table once `target` is its metadata file, which holds `metadata`.

    `catalog` are the catalog's properties.
    """
    changed = {**parameters, METADATA_LOCATION: target, PREVIOUS: parameters[METADATA_LOCATION]}
    if catalog.get(_KEEP_STATS, "").lower() != "true":
        changed.pop("COLUMN_STATS_ACCURATE", None)
        changed["DO_NOT_UPDATE_STATS"] = "true"
    snapshot = metadata.current_snapshot
    summary = snapshot.summary if snapshot is not None and snapshot.summary is not None else {}
    for key, counted in _COUNTS.items():
        if key in parameters and counted in summary:
            changed[key] = summary[counted]
    if parameters.keys() & {_SNAPSHOT_COUNT, *_OF_SNAPSHOT}:
        for key in _OF_SNAPSHOT:
            changed.pop(key, None)
        changed |= _of_snapshot(snapshot, _limit(catalog))
        changed[_SNAPSHOT_COUNT] = str(len(metadata.snapshots))
    return changed


def _of_snapshot(snapshot: Snapshot | None, limit: int) -> Mapping[str, str]:
    """Return what is said of the current snapshot.

    A summary too long for the metastore is left out.
    """
    if snapshot is None or limit <= 0:
        return {}
    found = {
        _SNAPSHOT_ID: str(snapshot.snapshot_id),
        _SNAPSHOT_TIME: str(snapshot.timestamp_ms),
    }
    summary = {key: item for key, item in (snapshot.summary or {}).items() if key != "operation"}
    told = json.dumps(summary, ensure_ascii=False, separators=(",", ":"))
    if len(told) <= limit:
        found[_SNAPSHOT_SUMMARY] = told
    return found


def _limit(catalog: Mapping[str, str]) -> int:
    given = catalog.get(_MOST_CHARACTERS, "")
    return int(given) if given.isascii() and given.isdigit() else _DEFAULT_MOST
