"""Kubernetes as far as Spark knows it: pods that are created run as processes of this machine."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from tests.spark.clusters import pyspark_home

ENDS_WITHIN_SECONDS = 240
SETTINGS_IN_IMAGE = "/opt/spark/conf/spark.properties"
EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
Json = dict[str, Any]


@dataclass
class Kubernetes:
    """An API server; `moved` is where files of the image are on this machine."""

    folder: Path
    python: Path
    moved: Mapping[str, str]
    url: str = ""
    pods: dict[str, Json] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    settings: str | None = None
    lock: Lock = field(default_factory=Lock)

    def ended(self) -> int:
        """The exit code of the driver."""
        ends_at = time.monotonic() + ENDS_WITHIN_SECONDS
        while self.driver not in self.running:
            assert time.monotonic() < ends_at, "the driver has not been started"
            time.sleep(0.2)
        return self.running[self.driver].wait(ENDS_WITHIN_SECONDS)

    @property
    def driver(self) -> str:
        """The name of the driver's pod."""
        (name,) = (name for name in self.pods if name.endswith("-driver"))
        return name

    def printed(self, pod: str) -> str:
        """What a pod has printed."""
        return (self.folder / pod / "log").read_text()

    def created(self, asked: Json) -> None:
        """Take what is to be; a driver is run once there are its settings."""
        name = asked["metadata"]["name"]
        self.settings = asked.get("data", {}).get("spark.properties", self.settings)
        if asked.get("kind") == "Pod":
            self.pods[name] = asked
        for pod in self.pods.keys() - self.running.keys():
            if self.settings is not None or not pod.endswith("-driver"):
                self.run(pod, self.pods[pod]["spec"]["containers"][0])

    def listed(self) -> list[Json]:
        """All pods, and how they are."""
        for name, process in self.running.items():
            phase = {None: "Running", 0: "Succeeded"}.get(process.poll(), "Failed")
            self.pods[name]["status"] = {"phase": phase, "podIP": "127.0.0.1"}
        return list(self.pods.values())

    def run(self, name: str, container: Json) -> None:
        """Run what the entry point of Apache's images runs for a driver and for an executor."""
        folder = self.folder / name
        folder.mkdir()
        given = {one["name"]: one.get("value") or "127.0.0.1" for one in container["env"]}
        home = str(pyspark_home())
        environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environ |= given | {"SPARK_HOME": home, "SPARK_LOCAL_DIRS": str(folder)}
        for which in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            environ[which] = str(self.python)  # Spark hands on what the submitter has
        if container["args"][0] == "driver":
            settings = folder / "spark.properties"
            settings.write_text(f"{self.settings}\nspark.driver.host=127.0.0.1\n")
            words = [f"{home}/bin/spark-submit", "--deploy-mode", "client"]
            for word in container["args"][1:]:
                there = {**self.moved, SETTINGS_IN_IMAGE: str(settings)}
                words.append(there.get(word.removeprefix("local://"), word))
        else:
            options = [given[key] for key in sorted(given) if key.startswith("SPARK_JAVA_OPT_")]
            words = [
                "java", *options, "-Xmx512m", "-cp", f"{home}/jars/*", EXECUTOR,
                "--driver-url", given["SPARK_DRIVER_URL"],
                "--executor-id", given["SPARK_EXECUTOR_ID"],
                "--cores", given["SPARK_EXECUTOR_CORES"],
                "--app-id", given["SPARK_APPLICATION_ID"],
                "--hostname", "127.0.0.1", "--podName", name,
                "--resourceProfileId", given["SPARK_RESOURCE_PROFILE_ID"],
            ]  # fmt: skip
        with (folder / "log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                words, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT
            )


class _Handler(BaseHTTPRequestHandler):
    """The part of the API that Spark makes use of."""

    def __init__(self, kubernetes: Kubernetes, *args: Any) -> None:
        self.kubernetes = kubernetes
        super().__init__(*args)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked["metadata"] |= {
            "uid": str(time.monotonic()),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        with self.kubernetes.lock:
            self.kubernetes.created(asked)
        self.answer(201, asked)

    do_PATCH = do_POST  # noqa: N815 - the name is http.server's

    def do_DELETE(self) -> None:
        self.answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        if name == "pods":
            self.answer(200, {"kind": "PodList", "metadata": {}, "items": self.kubernetes.listed()})
        elif name in self.kubernetes.pods:
            self.answer(200, self.kubernetes.pods[name])
        else:
            self.answer(404, {"kind": "Status", "apiVersion": "v1", "code": 404})

    def answer(self, status: int, document: Json) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def kubernetes(folder: Path, python: Path, moved: Mapping[str, str]) -> Iterator[Kubernetes]:
    """Run the API server, and in the end none of its pods any more."""
    found = Kubernetes(folder, python, moved)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, found))
    found.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        for process in found.running.values():
            process.terminate()
            process.wait()
