"""The options of Spark on the command line."""

from collections.abc import Sequence

from icectl.cli.session import Session
from icectl.cli.settings import is_secret, split_pair
from icectl.errors import UsageError
from icectl.rows.spark_classic import SparkOptions, is_submitted, runs_already


def spark_options(
    session: Session,
    master: str | None,
    spark_conf: Sequence[str],
    *,
    is_asked_for: bool = True,
    remote: str | None = None,
) -> SparkOptions:
    """Read which Spark to run on, and its settings. Raises: UsageError.

    Where Spark runs already there is nothing to choose, and a master that is not asked for is that
    of other runs.
    """
    pairs = [split_pair(text, "--spark-conf", text.partition("=")) for text in spark_conf]
    secret = frozenset(key for key, _ in pairs if is_secret(key))
    for key, value in pairs:
        if key in secret:
            session.console.hide(value)
    session.console.hide((remote or "").partition("token=")[2].partition(";")[0])
    if session.spark is not None or runs_already():
        why = "starts a session, and this process already has one"
        if is_submitted():
            why = "is an option of spark-submit here, before the script: this run uses its session"
        _check_not_given(master if is_asked_for else None, spark_conf, why, remote)
        return SparkOptions(session=session.spark)
    if remote is not None:
        if master is not None and is_asked_for:
            raise UsageError("`--master` and `--remote` cannot be used together")
        return SparkOptions(settings=tuple(pairs), remote=remote)
    return SparkOptions(master, tuple(pairs), secret=secret)


def check_no_spark_options(
    master: str | None, spark_conf: Sequence[str], remote: str | None = None
) -> None:
    """Refuse what only Spark could make use of. Raises: UsageError."""
    _check_not_given(master, spark_conf, "needs `--engine spark`", remote)


def _check_not_given(
    master: str | None, spark_conf: Sequence[str], why: str, remote: str | None = None
) -> None:
    options = {"--master": master, "--remote": remote, "--spark-conf": spark_conf}
    for option, value in options.items():
        if value:
            raise UsageError(f"`{option}` {why}")
