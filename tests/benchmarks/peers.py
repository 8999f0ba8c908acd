"""What other libraries do with the files of a benchmark."""

from pathlib import Path
from typing import Any

from tests.benchmarks.big_table import SNAPSHOT_ID


def pyiceberg_entries(path: Path) -> list[Any]:
    """The entries of a data manifest as PyIceberg reads them."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestFile

    assert DataFileContent.DATA == ManifestContent.DATA == 0
    manifest = ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=0,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=SNAPSHOT_ID,
    )
    return manifest.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
