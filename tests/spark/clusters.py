"""Spark as others run it: a standalone master with workers, YARN, and PySpark's spark-submit."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import ROOT
from tests.spark.engine import environment, on_spark

STARTS_WITHIN_SECONDS = 120
HOST = "127.0.0.{}"
SCRIPT = ROOT / "icectl" / "cli" / "spark_script.py"
YARN = ROOT / "tests" / "peers" / "YarnServer.java"


def pyspark_home() -> Path:
    """The folder that PySpark comes with."""
    return Path(on_spark("-c", "import pyspark; print(pyspark.__path__[0])").stdout.strip())


@dataclass
class Cluster:
    """A master and its workers, by their processes."""

    master: str
    workers: list[subprocess.Popen[bytes]]
    folder: Path
    settings: Sequence[str] = field(default=())


@contextmanager
def standalone(folder: Path, count: int = 2, **environ: str) -> Iterator[Cluster]:
    """A master and workers of one core each, whose executors inherit an environment.

    Each worker is a host of its own: Spark runs no second copy of a task on the host of the first.
    """
    with ExitStack() as stack:
        master = _daemon(stack, folder, environ, "master.Master", HOST.format(1), "--port", "0")
        url = _said(folder / "master.Master", r"Starting Spark master at (spark://\S+)", master)
        workers = []
        for number in range(count):
            work = folder / f"work-{number}"
            worker = _daemon(
                stack, folder, environ, "worker.Worker", HOST.format(1 + number), "--cores", "1",
                "--memory", "1g", "--work-dir", str(work), url, log=f"worker-{number}",
            )  # fmt: skip
            workers.append(worker)
        for number, worker in enumerate(workers):
            _said(folder / f"worker-{number}", "(Successfully registered)", worker)
        yield Cluster(url, workers, folder)


@contextmanager
def yarn(folder: Path, jars: str) -> Iterator[Path]:
    """Hadoop's YARN with two nodes; the folder of its settings for clients."""
    java = shutil.which("java")
    assert java is not None
    logging = sorted(path for path in (pyspark_home() / "jars").glob("log4j-*[0-9].jar"))
    path = os.pathsep.join([jars, *(str(one) for one in logging if "slf4j" not in one.name)])
    opened = "--add-opens=java.base/java.lang=ALL-UNNAMED"  # what Hadoop injects asks for it
    with (folder / "log").open("wb") as errors:
        process = subprocess.Popen(
            [java, "-XX:TieredStopAtLevel=1", "-Xmx512m", opened, "-cp", path, YARN, folder],
            env={"JAVA_HOME": str(Path(java).resolve().parents[1]), **os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert any(line == b"ready\n" for line in process.stdout), (folder / "log").read_text()
        yield folder / "conf"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=60)


@contextmanager
def connect_server(folder: Path, **environ: str) -> Iterator[str]:
    """A server of Spark Connect with two cores and two attempts a task; where it is reached."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
    }
    conf = (f"--conf={key}={value}" for key, value in settings.items())
    home = pyspark_home()
    with (folder / "server").open("wb") as out:
        process = subprocess.Popen(
            [
                str(home / "bin" / "spark-class"), "org.apache.spark.deploy.SparkSubmit",
                "--class", server, "--master", "local[2,2]", *conf, "spark-internal",
            ],
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", **environ},
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        _said(folder / "server", "(Spark Connect server started)", process)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def python_without_icectl(folder: Path) -> Path:
    """An environment that finds all packages of Spark's, but for those installed in place."""
    assert on_spark("-m", "venv", "--without-pip", str(folder)).returncode == 0
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    (packages / "of_spark.pth").write_text(f"{pyspark_home().parent}\n")
    return folder / "bin" / "python"


def submit(
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    spark: Sequence[str] = (),
    script: Path | str = SCRIPT,
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run a script with PySpark's spark-submit; its driver has this checkout of icectl."""
    conf = [f"--conf={key}={value}" for key, value in (settings or {}).items()]
    python = os.environ["ICECTL_TEST_SPARK_PYTHON"]
    home = pyspark_home()
    return subprocess.run(
        [str(home / "bin" / "spark-submit"), *spark, *conf, str(script), *arguments],
        env={
            **environment(),
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": python,
            "SPARK_LOCAL_IP": "127.0.0.1",
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def _daemon(
    stack: ExitStack,
    folder: Path,
    environ: Mapping[str, str],
    name: str,
    host: str,
    *arguments: str,
    log: str | None = None,
) -> subprocess.Popen[bytes]:
    home = pyspark_home()
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    with (folder / (log or name)).open("wb") as out:
        process = subprocess.Popen(
            [*command, "--host", host, "--webui-port", "0", *arguments],
            env={
                **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m", **environ,
            },
            stdout=out,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _said(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    """What a daemon has written that fits a pattern, once it has."""
    ends_at = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < ends_at and process.poll() is None:
        found = re.search(pattern, log.read_text())
        if found is not None:
            return found[1]
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-4000:])
