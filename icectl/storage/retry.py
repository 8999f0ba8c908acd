"""Trying again what failed for a passing reason; never a create, which may have happened."""

import logging
from collections.abc import Callable
from typing import TypeVar

from icectl.env import Env

_LOGGER = logging.getLogger(__name__)
_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0

Result = TypeVar("Result")


def retry(
    action: Callable[[], Result],
    env: Env,
    *,
    is_transient: Callable[[Exception], bool],
    translated: Callable[[Exception], Exception],
) -> Result:
    """Return the result of `action`, tried up to six times with pauses that double in between.

    Raises: the translation of the last error, or of the first that is not transient.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except Exception as error:  # the seam: drivers raise what they like
            if attempt == _ATTEMPTS - 1 or not is_transient(error):
                final = translated(error)
                if final is error:
                    raise
                raise final from error
            pause = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
            _LOGGER.debug("attempt %d failed, again in %s s: %s", attempt + 1, pause, error)
            env.sleep(pause)
    raise AssertionError
