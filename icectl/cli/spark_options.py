"""The options of Spark on the command line."""

from collections.abc import Sequence

from icectl.cli.session import Session
from icectl.cli.settings import is_secret, split_pair
from icectl.engine.spark import LOCAL_MASTER, SparkOptions
from icectl.errors import UsageError


def spark_options(session: Session, master: str | None, spark_conf: Sequence[str]) -> SparkOptions:
    """Read which Spark to run on, and its settings. Raises: UsageError."""
    given = [split_pair(text, "--spark-conf", text.partition("=")) for text in spark_conf]
    for key, value in given:
        if is_secret(key):
            session.console.hide(value)
    return SparkOptions(master or LOCAL_MASTER, tuple(given))


def check_no_spark_options(master: str | None, spark_conf: Sequence[str]) -> None:
    """Refuse what only Spark could make use of. Raises: UsageError."""
    for option, given in (("--master", master), ("--spark-conf", spark_conf)):
        if given:
            raise UsageError(f"`{option}` goes with `--engine spark`")
