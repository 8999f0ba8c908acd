"""The parts of plans: the table state that a plan is based on, and what a reviewed plan permits."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from icectl.table.retention import Decision, RemovedRef, Retention


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """One change of an upgrade, and what it comes to."""

    step: str
    detail: str


DELETE_FILE = "delete-file"
DELETE_ROWS = "delete-rows"
REMOVE_DELETE_FILE = "remove-delete-file"
REWRITE_FILE = "rewrite-file"
REWRITE_MANIFEST = "rewrite-manifest"
EXPIRE_SNAPSHOT = "expire-snapshot"
REMOVE_REF = "remove-ref"
REMOVE_SCHEMA = "remove-schema"
REMOVE_SPEC = "remove-spec"
SET_REF = "set-ref"
SET_PROPERTY = "set-property"
REMOVE_PROPERTY = "remove-property"
SET_STATISTICS = "set-statistics"
SET_PARTITION_STATISTICS = "set-partition-statistics"


@dataclass(frozen=True, slots=True)
class ReviewedAct:
    """One change that a plan names: what is done, and to what; in `to` what else must be so."""

    kind: str
    subject: str
    to: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The changes that were reviewed: a run does no others."""

    acts: frozenset[ReviewedAct]

    def subjects(self, kind: str) -> frozenset[str]:
        return frozenset(act.subject for act in self.acts if act.kind == kind)

    @property
    def retention(self) -> Retention:
        """The snapshots and refs that may go, as a decision that a newer one is held to."""
        expired = (
            Decision(int(text), 0, kept=False, reason="") for text in self.subjects(EXPIRE_SNAPSHOT)
        )
        refs = (
            RemovedRef(act.subject, int(act.to), "") for act in self.acts if act.kind == REMOVE_REF
        )
        return Retention(tuple(expired), tuple(refs))


def acts_of(command: str, result: Mapping[str, Any]) -> frozenset[ReviewedAct]:
    """Return every change that the result of a plan of a command names."""
    return frozenset(_ACTS[command](result))


def listed_file(size_bytes: int, modified: str | None) -> str:
    """What must be so of a file of a listing: another one in its place is not what was reviewed."""
    return f"{size_bytes} bytes of {modified}"


def _of_expiry(result: Mapping[str, Any]) -> Iterable[ReviewedAct]:
    yield from (ReviewedAct(EXPIRE_SNAPSHOT, item["snapshot_id"]) for item in result["expired"])
    for ref in result["refs_removed"]:
        yield ReviewedAct(REMOVE_REF, ref["name"], ref["snapshot_id"])
    yield from (ReviewedAct(REMOVE_SCHEMA, str(id_)) for id_ in result["schemas_removed"])
    yield from (ReviewedAct(REMOVE_SPEC, str(id_)) for id_ in result["specs_removed"])
    yield from (ReviewedAct(DELETE_FILE, file["path"]) for file in result["files"])


def _of_compaction(result: Mapping[str, Any]) -> Iterable[ReviewedAct]:
    for group in result["groups"]:
        for file in group["files"]:
            yield ReviewedAct(REWRITE_FILE, file["path"], result["branch"])
    for path in result["dangling_delete_files"]:
        yield ReviewedAct(REMOVE_DELETE_FILE, path, result["branch"])


def _of_orphans(result: Mapping[str, Any]) -> Iterable[ReviewedAct]:
    purge = result.get("purge") or {"files": ()}
    for file in (*result["orphans"], *result["outside"], *purge["files"]):
        yield ReviewedAct(
            DELETE_FILE, file["path"], listed_file(file["size_bytes"], file["modified"])
        )


def _of_refs(result: Mapping[str, Any]) -> Iterable[ReviewedAct]:
    for change in result["changes"]:
        kind = REMOVE_REF if change["after"] is None else SET_REF
        states = json.dumps([change["before"], change["after"]], sort_keys=True)
        yield ReviewedAct(kind, change["name"], states)


def _of_properties(result: Mapping[str, Any]) -> Iterable[ReviewedAct]:
    for change in result["changes"]:
        kind = REMOVE_PROPERTY if change["after"] is None else SET_PROPERTY
        yield ReviewedAct(kind, change["key"], json.dumps([change["before"], change["after"]]))


def _of_analysis(result: Mapping[str, Any]) -> Iterable[ReviewedAct]:
    for column in result["columns"]:
        yield ReviewedAct(SET_STATISTICS, column["name"], result["snapshot_id"])
    if result["partitions"]["planned"]:
        yield ReviewedAct(SET_PARTITION_STATISTICS, "partitions", result["snapshot_id"])


def _of_expired_rows(result: Mapping[str, Any]) -> Iterable[ReviewedAct]:
    which = f"{result['filter']}, of columns {result['field_ids']}"  # which may change names
    for file in result["files"]:
        rows = f"{file['expired_row_count']} rows of {result['branch']} with {which}"
        yield ReviewedAct(DELETE_ROWS, file["path"], rows)


_ACTS: Mapping[str, Callable[[Mapping[str, Any]], Iterable[ReviewedAct]]] = {
    "expire-snapshots": _of_expiry,
    "rewrite-manifests": lambda result: (
        ReviewedAct(REWRITE_MANIFEST, path, result["branch"])
        for path in result["manifests_rewritten"]
    ),
    "compact": _of_compaction,
    "analyze": _of_analysis,
    "expire-rows": _of_expired_rows,
    "remove-orphans": _of_orphans,
    **dict.fromkeys(
        ("migrate-v1-v2", "upgrade-to-v3", "upgrade-to-v4"),
        lambda result: (ReviewedAct(item["step"], item["detail"]) for item in result["steps"]),
    ),
    "repair": lambda result: (
        ReviewedAct(item["kind"], f"{item['subject']}: {item['what']}", str(result["to_snapshot"]))
        for item in result["repairs"]
    ),
    "refs": _of_refs,
    "properties": _of_properties,
}
PLANNED = frozenset(_ACTS)
"""The commands whose plans can be kept and applied."""
