"""The recipe of docs/spark.md for Kubernetes, on an API server that runs pods as processes."""

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders.compactions import build
from tests.conftest import ROOT
from tests.spark.clusters import submit
from tests.spark.engine import command, environment, skip_without_spark
from tests.spark.kubernetes import Kubernetes, kubernetes
from tests.spark.programs import rows
from tests.spark.shipped import ship

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.xdist_group("spark-runs")]

PAGE = (ROOT / "docs" / "spark.md").read_text("utf-8")
SMALL = ("--min-input-files", "2", "--target-file-size", "4KiB")


def recipe() -> tuple[str, list[str]]:
    """The Python of the image, and the command."""
    found = re.search(r"^### Kubernetes\n(.*?)^#", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    image = re.search(r"FROM python:(\d\.\d+)-", found[1])
    words = re.search(r"^    spark-submit ((?:.*\\\n)*.*)", found[1], re.MULTILINE)
    assert image is not None
    assert words is not None
    return image[1], shlex.split(words[1].replace("\\\n", " "))


def submitted(
    cluster: Kubernetes, words: Sequence[str], script: str
) -> subprocess.CompletedProcess[str]:
    """Submit with the words of the recipe before the script, and what this machine needs."""
    settings = {
        "spark.kubernetes.driver.master": cluster.url,
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.executor.enableApiWatcher": "false",
        "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
    }
    at = words.index(script)
    spark = [word.replace("https://host:6443", cluster.url) for word in words[:at]]
    return submit(*words[at + 1 :], settings=settings, spark=spark, script=script)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the image."""
    skip_without_spark()
    return ship(tmp_path_factory.mktemp("image")).installed


def test_the_driver_and_its_executor_run_in_pods(installed, tmp_path):
    table = build(tmp_path / "t", 2, "two").directory
    before = rows(table)
    version, words = recipe()
    in_image = f"/usr/local/lib/python{version}/site-packages/icectl/cli/spark_script.py"
    (packages,) = (installed / "lib").glob("python3*/site-packages/icectl")
    words = [word.replace("s3://bucket/db/events", str(table)) for word in words]
    moved = {in_image: str(packages / "cli" / "spark_script.py")}
    with kubernetes(tmp_path, installed / "bin" / "python", moved) as cluster:
        done = submitted(cluster, [*words, *SMALL], f"local://{in_image}")
        assert done.returncode == 0, done.stderr[-4000:]
        code = cluster.ended()
        told = cluster.printed(cluster.driver)
    assert code == 0, told[-4000:]
    assert "50 files of 98" in told
    assert rows(table) == before
    of_driver = cluster.pods.pop(cluster.driver)["spec"]
    assert of_driver["serviceAccountName"] == "spark"
    (of_executor,) = (pod["spec"] for pod in cluster.pods.values())
    images = [pod["containers"][0]["image"] for pod in (of_driver, of_executor)]
    assert images == ["registry/icectl-spark:0.2.0"] * 2


def test_the_exit_code_is_that_of_the_container(installed, tmp_path):
    words = ["--master", "k8s://https://host:6443", "--deploy-mode", "cluster", "--conf"]
    script = "local:///icectl/spark_script.py"
    moved = {"/icectl/spark_script.py": str(ROOT / "icectl" / "cli" / "spark_script.py")}
    asked = [*words, "spark.kubernetes.container.image=image", script, "inspect", "/none"]
    with kubernetes(tmp_path, installed / "bin" / "python", moved) as cluster:
        done = submitted(cluster, asked, script)
        assert done.returncode == 0, done.stderr[-4000:]
        assert cluster.ended() == 10


def test_a_session_of_icectl_s_own(installed, tmp_path):
    table = build(tmp_path / "t", 2, "two").directory
    before = rows(table)
    settings = {
        "spark.kubernetes.container.image": "image",
        "spark.kubernetes.executor.enableApiWatcher": "false",
        "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.instances": "1",
    }
    with kubernetes(tmp_path, installed / "bin" / "python", {}) as cluster:
        words = ["compact", str(table), *SMALL, "--master", f"k8s://{cluster.url}"]
        conf = [f"--spark-conf={key}={value}" for key, value in settings.items()]
        environ = {**environment(), "PYSPARK_PYTHON": str(installed / "bin" / "python")}
        line = command("-m", "icectl", *words, *conf)
        done = subprocess.run(line, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert rows(table) == before
