"""What `pip install` of this tree takes on disk, in a fresh environment, without any extra.

python tests/benchmarks/bench_install.py

Needs a package index. Prints the largest packages; 1 where all of them take more than wanted.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.measure import verdict

TREE = Path(__file__).parents[2]
_MEGABYTE = 1_000_000
_NOT_OURS = frozenset({"pip", "setuptools"})


def size_bytes(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; links count nothing."""
    if path.is_symlink():
        return 0
    if path.is_file():
        return path.stat().st_size
    return sum(size_bytes(one) for one in path.iterdir())


def installed(environment: Path) -> Path:
    """Install this tree into a new environment; returns where its packages lie."""
    venv.create(environment, with_pip=True, symlinks=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", TREE], check=True)
    subprocess.run([environment / "bin" / "icectl", "--version"], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    return packages


def main() -> int:
    """Print the sizes; 1 when the target is missed."""
    with tempfile.TemporaryDirectory() as folder:
        packages = installed(Path(folder) / "environment")
        sizes = {path.name: size_bytes(path) for path in packages.iterdir()}
    for name in _NOT_OURS:
        sizes.pop(name, None)
    for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:8]:
        print(f"{size / _MEGABYTE:6.0f} MB {name}")
    return 0 if verdict("installed, in MB", sum(sizes.values()) / _MEGABYTE, 380) else 1


if __name__ == "__main__":
    sys.exit(main())
