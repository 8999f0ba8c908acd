"""What spark-submit asks Kubernetes for, by the recipe of docs/spark.md; no cluster is needed."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.spark.clusters import submit
from tests.spark.engine import why_skipped

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.xdist_group("spark")]

PAGE = (ROOT / "docs" / "spark.md").read_text("utf-8")
RECIPE = re.search(
    r"^## Kubernetes\n(.*?)^#", PAGE.replace("### ", "## "), re.MULTILINE | re.DOTALL
)


@contextmanager
def api_server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An API server that takes everything; its address, and what it was asked to create."""
    created: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            created.append(asked)
            self.answer(201, asked | {"metadata": {**asked["metadata"], "uid": str(len(created))}})

        def do_PATCH(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            created.append(asked)
            self.answer(200, asked)

        def do_GET(self) -> None:
            self.answer(404, {"kind": "Status", "apiVersion": "v1", "code": 404})

        def answer(self, status: int, document: dict[str, Any]) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", created
    finally:
        server.shutdown()
        server.server_close()


def test_the_driver_runs_the_script_of_the_image() -> None:
    skipped = why_skipped()
    if skipped:
        pytest.skip(skipped)
    assert RECIPE is not None
    image = re.search(r"FROM python:(\d\.\d+)-", RECIPE[1])
    command = re.search(r"^    spark-submit ((?:.*\\\n)*.*)", RECIPE[1], re.MULTILINE)
    assert image is not None
    assert command is not None
    words = shlex.split(command[1].replace("\\\n", " "))
    script = next(at for at, word in enumerate(words) if word.startswith("local://"))
    with api_server() as (url, created):
        spark = [word.replace("https://host:6443", url) for word in words[:script]]
        settings = {"spark.kubernetes.submission.waitAppCompletion": "false"}
        done = submit(*words[script + 1 :], spark=spark, settings=settings, script=words[script])
    assert done.returncode == 0, done.stderr[-4000:]
    (pod,) = (one["spec"] for one in created if one.get("kind") == "Pod")
    (container,) = pod["containers"]
    packages = f"/usr/local/lib/python{image[1]}/site-packages"
    assert container["image"] == "registry/icectl-spark:0.1.0"
    assert container["args"] == [
        "driver", "--properties-file", "/opt/spark/conf/spark.properties",
        "--class", "org.apache.spark.deploy.PythonRunner",
        f"local://{packages}/icectl/cli/spark_script.py", "compact", "s3://bucket/db/events",
    ]  # fmt: skip
    assert pod["serviceAccountName"] == "spark"
    (of_driver,) = (one["data"] for one in created if one.get("kind") == "ConfigMap")
    told = of_driver["spark.properties"].splitlines()
    assert "spark.submit.deployMode=cluster" in told
    assert "spark.kubernetes.container.image=registry/icectl-spark\\:0.1.0" in told
