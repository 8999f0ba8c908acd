"""Run icectl: `python -m icectl`, and the entry point of the installed command."""

import os
import sys

from icectl.cli.app import main as run


def main() -> None:
    """Exit with the code of the command line's run."""
    code = run()
    if code >= 128:
        os._exit(code)  # threads still waiting for a store must not hold an interrupted run up
    sys.exit(code)


if __name__ == "__main__":
    main()
