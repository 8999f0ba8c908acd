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
    if is_submitted():  # a cluster waits for its session
        try:
            start_submitted()
        except IcectlError as error:
            sys.stderr.write(f"error: {inert(error.message)}\n")
            sys.exit(error.exit_code)
    code = main()
    if code:
        sys.exit(code)


if __name__ == "__main__":
    run()
