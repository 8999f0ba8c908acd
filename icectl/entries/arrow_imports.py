"""What pyarrow imports for itself: pandas not at all, functions and masked arrays when used.

The first array that pyarrow makes of Python values imports pandas, where that is installed, to tell
pandas' arrays from others. That takes as long as all the rest of a short run. pyarrow looks once
only: where it looks in vain it goes on without. Whoever wants pandas still imports it, as Spark
does, and pyarrow's own conversions to pandas then look for it again.

pyarrow.compute makes its hundreds of functions, with their documentation, when it is imported,
which takes a tenth of a short run; some commands call none of them, others a few, and nobody here
reads the documentation, whose making is half of it. So each is made when it is asked for. pyarrow
asks numpy.ma of each array whether it is masked, and imports that for the question.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

_COMPUTE = "pyarrow.compute"
_MASKED = "numpy.ma"
_DOCUMENTATION = "pyarrow.vendored.docscrape"


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
        pa.array([0], pa.int8())  # of a type: to find one it would import dateutil
    finally:
        sys.meta_path.remove(_NoPandas)


class _Later(ModuleType):
    """Stands for a module until one of its members is asked for, in whichever thread."""

    def __init__(self, name: str, **members: object) -> None:
        super().__init__(name)
        self.__dict__.update(_name=name, _turn=RLock())
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        with self.__dict__["_turn"]:
            own = self.__dict__["_name"]
            if sys.modules.get(own) is self:
                del sys.modules[own]
            module = _functions() if own == _COMPUTE else import_module(own)
            self.__dict__.update(vars(module))
        return getattr(module, name)


class _NoSections:
    """Stands for the documentation of a function's options, taken apart: none of it."""

    def __init__(self, _text: str) -> None:
        pass

    def __getitem__(self, _section: str) -> Sequence[object]:
        return ()


@contextmanager
def _undocumented() -> Iterator[None]:
    """Keep pyarrow.compute from taking the documentation of all options apart."""
    if _DOCUMENTATION in sys.modules:
        yield
        return
    stand_in = ModuleType(_DOCUMENTATION)
    stand_in.__dict__["NumpyDocString"] = _NoSections
    sys.modules[_DOCUMENTATION] = stand_in
    try:
        yield
    finally:
        del sys.modules[_DOCUMENTATION]


def _functions() -> ModuleType:
    """Import pyarrow.compute, which makes those functions alone that its own code names.

    The others are made when they are asked for.
    """
    engine: Any = import_module("pyarrow._compute")
    registry = engine.function_registry
    every = frozenset(registry().list_functions())
    code = _names_in(_COMPUTE)
    is_known = "_wrap_function" in code  # else another pyarrow makes all of its functions
    named = sorted(every & code if is_known else every)
    engine.function_registry = lambda: _FewFunctions(registry(), named)
    try:
        with _undocumented():
            module = import_module(_COMPUTE)
    finally:
        engine.function_registry = registry

    def make(name: str) -> object:
        """Raises: AttributeError, where there is no such function."""
        own = name.removesuffix("_")  # where it is a word of Python's
        if own not in every:
            raise AttributeError(f"module {_COMPUTE!r} has no attribute {name!r}")
        made = module._wrap_function(name, registry().get_function(own))  # noqa: SLF001
        setattr(module, name, made)
        return made

    vars(module).update(function_registry=registry, __getattr__=make)
    return module


class _FewFunctions:
    """Arrow's functions, of which it lists only some."""

    def __init__(self, registry: Any, names: Sequence[str]) -> None:
        self._registry, self._names = registry, names

    def list_functions(self) -> Sequence[str]:
        """Name them."""
        return self._names

    def get_function(self, name: str) -> Any:
        """Find any of them."""
        return self._registry.get_function(name)


def _names_in(module: str) -> frozenset[str]:
    """The names and texts in the code of a module, which is not run."""
    spec = find_spec(module)
    loader: Any = None if spec is None else spec.loader
    codes, found = [loader.get_code(module)], set[str]()
    while codes:
        code = codes.pop()
        found.update(code.co_names)
        found.update(one for one in code.co_consts if isinstance(one, str))
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    return frozenset(found)


def import_compute_later() -> None:
    """Have `import pyarrow.compute` give a stand-in, which imports it when it is used."""
    sys.modules.setdefault(_COMPUTE, _Later(_COMPUTE))


def import_masked_arrays_later() -> None:
    """Have `numpy.ma` be a stand-in, which imports it when more is asked of it than pyarrow asks.

    That is whether an array is a masked one: none is before numpy.ma is there.
    """
    if _MASKED not in sys.modules:
        stand_in = _Later(_MASKED, MaskedArray=_MaskedArray)
        sys.modules[_MASKED] = stand_in
        np.ma = stand_in


class _MaskedArrays(type):
    """Tells what is a masked array, also after numpy.ma was imported."""

    def __instancecheck__(cls, array: object) -> bool:
        # While another thread imports numpy.ma the module has no such class yet, nor has anybody
        # an array of it.
        loaded = getattr(sys.modules.get(_MASKED), "MaskedArray", cls)
        return loaded is not cls and isinstance(array, loaded)


class _MaskedArray(metaclass=_MaskedArrays):
    """Stands for the class of masked arrays until numpy.ma is imported."""
