"""Keeps pandas, where that is installed, out of processes that have no use for it."""

import sys
from collections.abc import Sequence
from types import ModuleType

import pyarrow as pa


class _NoPandas:
    """A finder that says there is no pandas, and leaves all else to the finders behind it."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> None:
        """Raises: ModuleNotFoundError, for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)


def leave_pandas_out() -> None:
    """Have pyarrow look for pandas now and not find it; other imports of pandas find it later.

    pyarrow imports pandas at two moments: with its first array of Python values, to tell pandas'
    arrays from others, and with the first array that it hands to numpy, for pandas' missing values.
    That takes longer than the rest of a short run, and pyarrow has no setting against it. It looks
    once only; its own conversions to pandas look again, but take no `pandas.NA` for a null: this is
    for processes that are icectl's own. The finder is there for that moment: None in `sys.modules`
    is no help, since compiled code takes it for the module.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0], pa.int8()).to_numpy()  # of a type: to find one it would import dateutil
    finally:
        sys.meta_path.remove(_NoPandas)
