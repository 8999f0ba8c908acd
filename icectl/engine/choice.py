"""Which engine rewrites rows where the caller leaves that open."""

from dataclasses import dataclass
from typing import Literal

from icectl.engine.spark_start import check_installed, runs_already
from icectl.errors import EngineError

EngineName = Literal["spark", "local"]
AUTO = "auto"
ENGINES = (AUTO, "spark", "local")


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine, and why it is that one: empty where it was asked for."""

    name: EngineName
    why: str = ""

    def __str__(self) -> str:
        return f"engine: {self.name} ({self.why})" if self.why else f"engine: {self.name}"


def choose_engine(asked: str, *, for_spark: bool = False) -> EngineChoice:
    """The engine that was asked for; of AUTO Spark, where PySpark and Java are there, else local.

    `for_spark` tells that there are settings which only Spark can make use of.
    """
    if asked == "spark" or (asked == AUTO and for_spark):
        return EngineChoice("spark")
    if asked == "local":
        return EngineChoice("local")
    if runs_already():
        return EngineChoice("spark", "its session is there")
    missing = _missing()
    if missing is None:
        return EngineChoice("spark", "PySpark and Java are there")
    return EngineChoice("local", missing)


def _missing() -> str | None:
    """What Spark lacks on this machine."""
    try:
        check_installed()
    except EngineError as error:
        return error.message
    return None
