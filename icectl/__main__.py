"""Run icectl: `python -m icectl`, and the entry point of the installed command."""

import gc
import io
import os
import signal
import sys
from pathlib import Path

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # a run handles Ctrl-C; before and after one it ends the process, without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Imports alone make tens of thousands of objects that stay: looking at them again and again costs
a tenth of a short run."""
gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)

# numpy starts a thread a core for algebra that nobody asks for here: a seventh of a short run
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from icectl.cli.class_methods import compile_methods_later  # noqa: E402

compile_methods_later()

from icectl.cli.app import main as run  # noqa: E402 - takes its time

_INTERRUPTED = 130


def main() -> None:
    """Exit with the code of the command line's run."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names no locale may be able to print
    try:
        code = run()
    except KeyboardInterrupt:  # a second one, while the first was being reported
        code = _INTERRUPTED
    gc.freeze()  # the collections at the end look at all that imports made, a tenth of a short run
    if code >= _INTERRUPTED:
        os._exit(code)  # threads still waiting for a store must not hold an interrupted run up
    sys.exit(code)


def _open_streams() -> None:
    """Open what the caller closed, lest a file of a table gets the number of a standard stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


if __name__ == "__main__":
    main()
