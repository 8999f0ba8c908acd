"""What a search for orphans imports: nothing that reads rows, which takes a tenth of a second."""

import subprocess
import sys

SCRIPT = """
import sys
import icectl.commands.remove_orphans.run
print(sorted({"icectl.rows.compact_job", "pyarrow.orc", "pyroaring"} & sys.modules.keys()))
"""


def test_a_search_for_orphans_imports_nothing_that_reads_rows():
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"
