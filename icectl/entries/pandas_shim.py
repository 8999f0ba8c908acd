"""Keeping pandas out of a process that has no use for it.

The first array that pyarrow makes of Python values imports pandas, where that is installed, to tell
pandas' arrays from others. That takes as long as all the rest of a short run. pyarrow looks once
only: where it looks in vain it goes on without. Whoever wants pandas still imports it, as Spark
does, and pyarrow's own conversions to pandas then look for it again.
"""

import sys
from collections.abc import Sequence
from types import ModuleType

import pyarrow as pa


class _NoPandas:
    """Finds that there is no pandas, and leaves all else to the finders behind it."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> None:
        """Raises: ModuleNotFoundError, for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


def leave_pandas_out() -> None:
    """Have pyarrow look for pandas now, and find none: before its first array of Python values.

    Where pandas is imported already nothing is lost with it, and nothing changes.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)
