"""Choose the engine that rewrites rows."""

from dataclasses import dataclass
from typing import Literal

from icectl.errors import EngineError
from icectl.rows.spark_classic import check_installed, missing_prerequisite, runs_already
from icectl.units import print_size

EngineName = Literal["spark", "local"]
AUTO = "auto"

SPARK_PAYS_BYTES = 1 << 30
"""Work from which AUTO takes Spark: below, starting it and sending tasks cost more than it gains
(tests/benchmarks/bench_compact_spark.py)."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine, and the reason, if any; `is_tentative` if AUTO did not know the work yet."""

    name: EngineName
    why: str = ""
    is_tentative: bool = False

    def __str__(self) -> str:
        return f"engine: {self.name} ({self.why})" if self.why else f"engine: {self.name}"


def choose_engine(engine: str, *, for_spark: bool = False) -> EngineChoice:
    """Return the engine; for AUTO, Spark if PySpark and Java are installed, else local.

    The choice of AUTO is weighed once the work is known. It starts nothing, so plans need not wait.
    `for_spark` says that there are settings which only Spark uses.
    """
    if engine == "spark" or (engine == AUTO and for_spark):
        return EngineChoice("spark")
    if engine == "local":
        return EngineChoice("local")
    if runs_already():
        return EngineChoice("spark", "it has a session")
    prerequisite = missing_prerequisite()
    if prerequisite is None:
        return EngineChoice("spark", is_tentative=True)
    return EngineChoice("local", prerequisite)


def weigh_engine(choice: EngineChoice, work_bytes: int) -> EngineChoice:
    """Return the choice for a known amount of work: small work is local unless Spark runs."""
    if not choice.is_tentative or work_bytes >= SPARK_PAYS_BYTES:
        return choice
    why = f"{print_size(work_bytes)} to rewrite; Spark from {print_size(SPARK_PAYS_BYTES)}"
    return EngineChoice("local", why)


def confirm_engine(choice: EngineChoice) -> EngineChoice:
    """Return a tentative choice of Spark only if it works: imports PySpark and starts Java."""
    if not choice.is_tentative:
        return choice
    try:
        check_installed()
    except EngineError as error:
        return EngineChoice("local", error.message)
    return choice
