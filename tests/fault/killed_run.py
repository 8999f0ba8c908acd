"""An expiry that ends with kill -9: python -m tests.fault.killed_run LOCATION NTH before|after.

The nth write or removal is the last thing it attempts, or does.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from icectl.run.expire_snapshots import execute, prepare
from icectl.storage.local import LocalStore
from tests.builders.expiry import expiry_of, options_of
from tests.stores.wrapped import WRITES, WrappedStore


class KillingStore(WrappedStore):
    """Ends the process at the nth write."""

    def __init__(self, nth: int, moment: str) -> None:
        super().__init__(LocalStore())
        self.left, self.moment = nth, moment

    def call(self, method: str, location: str, action: Callable[[], Any]) -> Any:
        if method not in WRITES:
            return action()
        self.left -= 1
        if self.left == 0 and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = action()
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


if __name__ == "__main__":
    location, nth, moment = sys.argv[1:]
    expiry = expiry_of(location, KillingStore(int(nth), moment))
    execute(expiry, prepare(expiry, options_of()))
