"""Which data files a position delete file names, and how many rows of each."""

from collections import Counter
from typing import IO

import pyarrow.compute as pc

from icectl.codec.data_file import open_data_file
from icectl.codec.parquet.schema import field_id
from icectl.engine.kernels.check_delete_file import FILE_PATH, PATH_FIELD
from icectl.engine.kernels.deleted_positions import as_stated
from icectl.errors import CorruptTable


def named_data_files(file: IO[bytes], file_format: str) -> dict[str, int]:
    """Count the rows by the data file that they name, as spelt.

    Raises: CorruptTable R-099, R-121; Unsupported. Errors of the file pass.
    Cost: one column, a row group at a time.
    """
    opened = open_data_file(file, file_format)
    places = [place for place, item in enumerate(opened.schema) if field_id(item) == FILE_PATH]
    if not places:
        message = "a position delete file lacks the column `file_path`"
        raise CorruptTable(message, rule="R-121")
    counts: Counter[str] = Counter()
    for rows in opened.batches({FILE_PATH}):
        for found in pc.value_counts(as_stated(rows.batch.column(0), PATH_FIELD)).to_pylist():
            if found["values"] is None:
                raise CorruptTable("a position delete file has a null path", rule="R-121")
            counts[found["values"]] += found["counts"]
    return dict(counts)
