"""What AWS maintains of a table by itself: Glue's table optimizers, and S3 Tables."""

import logging
from collections.abc import Mapping
from typing import Any

from icectl.catalog.glue.service import Glue, GlueAnswerLost, GlueRejection
from icectl.errors import StorageError

_LOGGER = logging.getLogger(__name__)
_S3_TABLES = "s3tables"
_WORK = {"retention": "retention", "orphan_file_deletion": "orphan file deletion"}
"""Optimizers that expire snapshots and delete files, which is what two must not do at once."""


def keeper_of(service: Glue, table: Mapping[str, Any]) -> str | None:
    """Who expires snapshots or deletes files of a table in the place of clients; None: nobody.

    Nobody too where Glue doesn't say, as to users that may not ask it.
    """
    catalog_id = str(service.catalog_id or table.get("CatalogId") or "")
    connection = str((table.get("FederatedTable") or {}).get("ConnectionName", ""))
    if _S3_TABLES in catalog_id or _S3_TABLES in connection:
        return "the maintenance of S3 Tables"
    if not catalog_id:
        return None
    named = {"catalogId": catalog_id, "databaseName": table["DatabaseName"]}
    request = {
        "Entries": [{**named, "tableName": table["Name"], "type": kind} for kind in _WORK],
    }
    try:
        answer = service.send("BatchGetTableOptimizer", request)
    except (GlueAnswerLost, GlueRejection, StorageError):
        _LOGGER.debug("Glue does not tell which optimizers are enabled", exc_info=True)
        return None
    enabled = sorted(_enabled(answer))
    if not enabled:
        return None
    return f"AWS Glue's table optimizers, of which {' and '.join(enabled)} is enabled"


def _enabled(answer: Mapping[str, Any]) -> set[str]:
    """Return the work of those optimizers that are switched on."""
    found = set()
    for entry in answer.get("TableOptimizers") or ():
        optimizer = entry.get("tableOptimizer") or {}
        is_enabled = (optimizer.get("configuration") or {}).get("enabled")
        if is_enabled and optimizer.get("type") in _WORK:
            found.add(_WORK[optimizer["type"]])
    return found
