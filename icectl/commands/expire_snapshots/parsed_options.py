"""The retention that the options and settings of `icectl expire-snapshots` ask of a table."""

from collections.abc import Callable
from typing import Any

from icectl.cli.settings import (
    EXPIRE_CLEAN_METADATA,
    EXPIRE_KEEP_DAILY,
    EXPIRE_KEEP_MONTHLY,
    EXPIRE_KEEP_WEEKLY,
    EXPIRE_MIN_AGE,
    EXPIRE_OLDER_THAN,
    EXPIRE_RETAIN_LAST,
    Layer,
    Setting,
    Settings,
)
from icectl.commands.expire_snapshots.options import ExpireRequest
from icectl.commands.expire_snapshots.report import ExpireOptions
from icectl.format import properties
from icectl.format.metadata import TableMetadata
from icectl.format.properties import MAX_SNAPSHOT_AGE_MS, MIN_SNAPSHOTS_TO_KEEP, TableProperty
from icectl.table.retention import AskedRetention
from icectl.table.reviewed import Reviewed
from icectl.units import parse_instant


def policy_of(
    settings: Settings, now_ms: int, request: ExpireRequest, ids: tuple[int, ...] = ()
) -> Callable[[TableMetadata], AskedRetention]:
    """Return the policy: options replace the table's properties, the file may only keep more."""
    if ids:
        return lambda _: AskedRetention(expire_ids=ids)
    cutoff = settings.read_as(EXPIRE_OLDER_THAN, lambda text: parse_instant(text, now_ms))
    retain_last = settings.read(EXPIRE_RETAIN_LAST)

    def of(metadata: TableMetadata) -> AskedRetention:
        stored = metadata.properties

        def bounded(setting: Setting[Any], property_: TableProperty[int]) -> bool:
            """Return whether the table's property is a bound for the settings file."""
            return settings.origin(setting).layer is Layer.FILE and property_.name in stored

        older_than_ms, count = cutoff, retain_last
        if older_than_ms is not None and bounded(EXPIRE_OLDER_THAN, MAX_SNAPSHOT_AGE_MS):
            age_ms = properties.read(stored, MAX_SNAPSHOT_AGE_MS)
            older_than_ms = min(older_than_ms, now_ms - age_ms)
        if count is not None and bounded(EXPIRE_RETAIN_LAST, MIN_SNAPSHOTS_TO_KEEP):
            count = max(count, properties.read(stored, MIN_SNAPSHOTS_TO_KEEP))
        return AskedRetention(
            older_than_ms=older_than_ms,
            retain_last=count,
            keep_daily=settings.read(EXPIRE_KEEP_DAILY) or 0,
            keep_weekly=settings.read(EXPIRE_KEEP_WEEKLY) or 0,
            keep_monthly=settings.read(EXPIRE_KEEP_MONTHLY) or 0,
            expire_unreferenced=request.expire_unreferenced,
        )

    return of


def options_of(
    settings: Settings,
    now_ms: int,
    request: ExpireRequest,
    *,
    ids: tuple[int, ...] = (),
    only: Reviewed | None = None,
) -> ExpireOptions:
    """Return the options of an expiry; with `only`, nothing else goes than a plan names."""
    return ExpireOptions(
        policy=policy_of(settings, now_ms, request, ids),
        min_age_ms=settings.read(EXPIRE_MIN_AGE) or 0,
        clean_expired_metadata=settings.read(EXPIRE_CLEAN_METADATA),
        keep_files=request.keep_files,
        trusts_lists=request.distrust_summaries,
        only=only,
    )
