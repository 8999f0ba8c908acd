"""What pyarrow imports for itself: pandas not at all, its functions when the first is called.

The first array that pyarrow makes of Python values imports pandas, where that is installed, to tell
pandas' arrays from others. That takes as long as all the rest of a short run. pyarrow looks once
only: where it looks in vain it goes on without. Whoever wants pandas still imports it, as Spark
does, and pyarrow's own conversions to pandas then look for it again.

pyarrow.compute makes its hundreds of functions, with their documentation, when it is imported,
which takes a tenth of a short run; some commands call none of them.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

import pyarrow as pa

_COMPUTE = "pyarrow.compute"


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


class _ComputeLater(ModuleType):
    """Stands for pyarrow.compute until one of its functions is asked for, in whichever thread."""

    def __init__(self) -> None:
        super().__init__(_COMPUTE)
        self.__dict__["_turn"] = RLock()

    def __getattr__(self, name: str) -> Any:
        with self.__dict__["_turn"]:
            if sys.modules.get(_COMPUTE) is self:
                del sys.modules[_COMPUTE]
            functions = import_module(_COMPUTE)
            for each, function in vars(functions).items():
                self.__dict__.setdefault(each, function)
        return getattr(functions, name)


def import_compute_later() -> None:
    """Have `import pyarrow.compute` give a stand-in, which imports it when it is used."""
    sys.modules.setdefault(_COMPUTE, _ComputeLater())
