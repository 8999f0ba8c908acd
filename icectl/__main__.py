"""Run icectl: `python -m icectl`, and the entry point of the installed command."""

import os
import sys

_IS_FIRST = __file__.startswith(f"{sys.path[0]}{os.sep}icectl{os.sep}")
if __name__ == "__main__" and not (sys.flags.safe_path or _IS_FIRST):
    # `python -m icectl` has the working directory first on its path, which may be a table's folder
    del sys.path[0]

import gc  # noqa: E402
import io  # noqa: E402
import signal  # noqa: E402
from contextlib import suppress  # noqa: E402
from pathlib import Path  # noqa: E402

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # a run handles Ctrl-C; before and after one it ends the process, without a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

_OBJECTS_BETWEEN_COLLECTIONS = 200_000
"""Imports alone make up to 130,000 objects that stay: looking at them again and again costs a tenth
of a short run."""
gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)

# numpy starts a thread a core for algebra that icectl does not use: a seventh of a short run
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# to clear a huge page as a whole takes a rewrite, in a worker forked from here, a fifth of its time
os.environ.setdefault("MIMALLOC_ALLOW_THP", "0")

from icectl.cli.app import main as run  # noqa: E402 - takes its time

_INTERRUPTED = 130

_COMPLETE = "__complete"
"""What completion scripts call, and no help names."""


def main() -> None:
    """Exit with the code of the command line's run.

    The process ends without Python's own end: threads that still wait for a store do not hold it
    up, none of a library that wakes up then takes its code away, and what imports made is not
    taken apart piece by piece, a tenth of a short run.
    """
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names no locale may be able to print
    if sys.argv[1:2] == [_COMPLETE]:
        from icectl.commands.candidates import main as print_candidates

        print_candidates(sys.argv[2:])
    try:
        code = run()
    except KeyboardInterrupt:  # a second one, while the first was being reported
        code = _INTERRUPTED
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the run has told what it could not write
            stream.flush()
    os._exit(code)


def _open_streams() -> None:
    """Open what the caller closed, lest a file of a table gets the number of a standard stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


if __name__ == "__main__":
    main()
