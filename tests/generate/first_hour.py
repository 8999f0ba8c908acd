"""Renews what the README's first hour shows: `python -m tests.generate.first_hour [FOLDER]`.

It builds the table of the tour in FOLDER/orders, or uses an existing one, and runs the commands of
the section's console blocks in their order: some minutes. A block that tests do not run (Spark)
keeps its text if PySpark or Java is not installed. The table in FOLDER is changed.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## The first hour\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(<!-- not run: [^\n]*-->\n\n)?```console\n(.*?)```\n", re.DOTALL)


def main(folder: Path) -> None:
    """Write the README again, with the output of this run."""
    if not (folder / "orders").exists():
        build = ["-m", "tests.builders.tour", "build", str(folder / "orders")]
        subprocess.run([sys.executable, *build], check=True, cwd=ROOT)
    program = folder / "bin" / "icectl"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m icectl "$@"\n')
    program.chmod(0o755)
    readme = ROOT / "README.md"
    text = readme.read_text("utf-8")
    found = SECTION.search(text)
    assert found is not None, "the README has no first hour"
    renewed = BLOCK.sub(lambda block: _renewed(block, folder), found[0])
    readme.write_text(text.replace(found[0], renewed), "utf-8")


def _renewed(block: re.Match[str], folder: Path) -> str:
    """Return a block with what its commands print."""
    mark = block[1] or ""
    has_spark = importlib.util.find_spec("pyspark") is not None and shutil.which("java")
    if mark and not has_spark:
        sys.stdout.write(f"kept, without PySpark or Java: {block[2]}")
        return block[0]
    lines = []
    for line in re.findall(r"^\$ (.*)$", block[2], re.MULTILINE):
        sys.stdout.write(f"$ {line}\n")
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        ended = subprocess.run(
            ["sh", "-c", line],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "PATH": path, "PYTHONPATH": python_path, "COLUMNS": "120"},
        )
        lines += [f"$ {line}", *ended.stdout.replace(f"{folder}/", "").splitlines()]
    return f"{mark}```console\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
