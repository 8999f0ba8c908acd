"""Data files that lie elsewhere than the table, and whose rows may not be for all its readers.

Whoever compacts may read more than whoever wrote the table, and new files are readable for all.
"""

from collections.abc import Mapping, Sequence

from icectl.errors import Refused
from icectl.format.data_paths import named_folders
from icectl.progress import Progress
from icectl.storage.identity import is_kept_from_owner
from icectl.storage.location import is_within, redacted
from icectl.table.rewrite_tasks import Task
from icectl.units import print_count


def check_foreign_files(
    location: str, properties: Mapping[str, str], tasks: Sequence[Task], progress: Progress
) -> None:
    """Warn of data files outside a table's folders.

    Raises: Refused, for one that the owner of the table's folder may not be allowed to read.
    """
    inputs = list(dict.fromkeys(file.location for task in tasks for file in task.inputs))
    for file in inputs:
        if is_kept_from_owner(file, location):
            raise Refused(
                f"the data file {redacted(file)} lies outside the table's location, and not "
                "everybody may read it: compacting would copy its rows to where the "
                "table's readers are",
                hint="let everybody read it, or give it to the owner of the table's folder",
                id="foreign-file",
            )
    own = [location, *named_folders(location, properties).values()]
    foreign = [file for file in inputs if not any(is_within(file, folder) for folder in own)]
    if foreign:
        progress.warn(
            f"rows of {print_count(len(foreign), 'data file')} outside the table's folders come "
            f"into its own files, as those of {redacted(foreign[0])}"
        )
