"""Functions that numba compiles when their module is imported, and keeps on disk."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(signature: object) -> Callable[[_Function], _Function]:
    """Compile a function for arguments of these types; other threads run while it does."""

    def compile_(function: _Function) -> _Function:
        try:
            result = numba.njit(signature, nogil=True, cache=True)(function)
        except RuntimeError:  # neither the package nor the user has a writable place for a cache
            result = numba.njit(signature, nogil=True)(function)
        return cast("_Function", result)  # numba's own types say a dispatcher

    return compile_
