"""The engine of a run that reads rows: Spark, or processes of this machine."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from icectl.cli.session import Session
from icectl.cli.settings import COMPACT_MASTER, Layer
from icectl.cli.spark_options import check_no_spark_options, spark_options
from icectl.rows.choice import EngineChoice
from icectl.rows.local import LocalEngine
from icectl.rows.spark_rewrite import SparkEngine


def engine_of(
    session: Session, choice: EngineChoice, spark_conf: Sequence[str], remote: str | None
) -> AbstractContextManager[LocalEngine | SparkEngine]:
    """Return the chosen engine; it starts nothing before it has work.

    Raises: UsageError, for options that the engine has no use for.
    """
    settings, context = session.settings, session.context
    master = settings.read(COMPACT_MASTER)
    is_asked_for = settings.origin(COMPACT_MASTER).layer is Layer.OPTION
    if choice.name == "spark":
        options = spark_options(
            session, master, spark_conf, is_asked_for=is_asked_for, remote=remote
        )
        return SparkEngine(options, session.storage(), context.progress, context.deadline)
    check_no_spark_options(master if is_asked_for else None, spark_conf, remote)
    progress, deadline = context.progress, context.deadline
    return nullcontext(
        LocalEngine(context.store, progress, deadline, context.concurrency, session.storage())
    )
