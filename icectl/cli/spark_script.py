"""The program for spark-submit: icectl on the session that the submitter has asked for.

`spark-submit [OPTIONS OF SPARK] $(icectl --spark-script) COMMAND TABLE [OPTIONS]`
"""

import sys

from icectl.cli.app import main
from icectl.errors import IcectlError
from icectl.rows.spark_classic import is_submitted, start_submitted
from icectl.units import inert


def run() -> None:
    """Run the command line; where it fails, end with its exit code.

    Some schedulers take any exit of Python for a failure, so that a good end has none.
    """
    code = _start() or main()
    if code:
        sys.exit(code)


def _start() -> int:
    """Start the session that a cluster waits for; the exit code, 0 where that works."""
    if not is_submitted():
        return 0
    try:
        start_submitted()
    except IcectlError as error:
        sys.stderr.write(f"error: {inert(error.message)}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    run()
