"""What manifest entries state of files: read for those that are opened, and for no others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icectl.checks.file_identity import STATED, StatedFile, stated_files
from icectl.entries.rows import Entries, live, numbers, where
from icectl.format.manifest import Content, ManifestFile
from icectl.format.metadata import TableMetadata
from icectl.format.schema import POSITION_FIELD
from icectl.table.context import TableContext
from icectl.table.manifests import scan_entries
from icectl.table.reader import every_column
from icectl.table.rewrite_task import Task


def load_stated(
    context: TableContext,
    metadata: TableMetadata,
    manifests: Sequence[ManifestFile],
    wanted: Sequence[Entries],
) -> Mapping[str, StatedFile]:
    """Read what the entries of some live files state of them, by location.

    `wanted` are entries with `location` and `manifest`, which indexes `manifests`. Of position
    deletes only bounds of positions count: tools that move tables may leave those of paths.
    Raises: as scan_manifests.
    Cost: the manifests that have them, a few MiB at a time.
    """
    names = pa.chunked_array(
        [chunk for one in wanted for chunk in one.table["location"].chunks], pa.string()
    )
    places = np.unique(np.concatenate([numbers(one, "manifest") for one in wanted]))
    found: dict[str, StatedFile] = {}
    read = scan_entries(context, metadata, [manifests[place] for place in places.tolist()], STATED)
    columns = every_column(metadata).fields
    for part in map(live, read):
        own = where(part, pc.is_in(part.table["location"], value_set=names))
        by_position = pc.equal(own.table["content"], Content.POSITION_DELETES)
        found.update(stated_files(where(own, pc.invert(by_position)), columns))
        found.update(stated_files(where(own, by_position), [POSITION_FIELD]))
    return found


def with_stated(tasks: Sequence[Task], stated: Mapping[str, StatedFile]) -> list[Task]:
    """Return tasks that know what entries state of their files."""
    return [
        replace(
            task,
            inputs=tuple(replace(one, stated=stated.get(one.location)) for one in task.inputs),
            delete_files=tuple(
                replace(one, stated=stated.get(one.location)) for one in task.delete_files
            ),
        )
        for task in tasks
    ]
