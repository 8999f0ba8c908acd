"""Which engine rewrites rows where the caller leaves that open."""

from dataclasses import dataclass
from typing import Literal

from icectl.errors import EngineError
from icectl.rows.spark_classic import check_installed, missing_prerequisite, runs_already
from icectl.units import print_size

EngineName = Literal["spark", "local"]
AUTO = "auto"

SPARK_PAYS_BYTES = 1 << 30
"""Work from which AUTO takes Spark: below, its start and its passing on of tasks cost more than it
can win (tests/benchmarks/bench_compact_spark.py)."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine, and why it is that one: empty where nothing is to be said.

    `is_tentative` tells that AUTO chose it by a look, before the amount of work was known.
    """

    name: EngineName
    why: str = ""
    is_tentative: bool = False

    def __str__(self) -> str:
        return f"engine: {self.name} ({self.why})" if self.why else f"engine: {self.name}"


def choose_engine(asked: str, *, for_spark: bool = False) -> EngineChoice:
    """Return the engine asked for; for AUTO, Spark if PySpark and Java are installed, else local.

    What AUTO chooses by that look is weighed once it is known how much work there is.

    It takes no more than a look, so that plans and checks need not wait for it.
    `for_spark` tells that there are settings which only Spark can make use of.
    """
    if asked == "spark" or (asked == AUTO and for_spark):
        return EngineChoice("spark")
    if asked == "local":
        return EngineChoice("local")
    if runs_already():
        return EngineChoice("spark", "it has a session")
    prerequisite = missing_prerequisite()
    if prerequisite is None:
        return EngineChoice("spark", is_tentative=True)
    return EngineChoice("local", prerequisite)


def weigh_engine(choice: EngineChoice, work_bytes: int) -> EngineChoice:
    """Return the choice for a known amount of work: small work is done here unless Spark runs."""
    if not choice.is_tentative or work_bytes >= SPARK_PAYS_BYTES:
        return choice
    why = f"{print_size(work_bytes)} to rewrite; Spark from {print_size(SPARK_PAYS_BYTES)}"
    return EngineChoice("local", why)


def confirm_engine(choice: EngineChoice) -> EngineChoice:
    """Return the choice once there is work: what was chosen by a look must be good for it too.

    It takes an import of PySpark and a start of Java.
    """
    if not choice.is_tentative:
        return choice
    try:
        check_installed()
    except EngineError as error:
        return EngineChoice("local", error.message)
    return choice
