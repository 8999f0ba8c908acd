"""Building the loops of loops.c: done by an installation, and by hand in a checkout without one.

    python -m icectl.files.build_loops

A compiler of the machine does it, the one that CC names, cc, gcc or clang, and where none of them
works that of the package `ziglang`, which an installation fetches for the time it takes.
"""

import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from icectl.files.compiled import SOURCE, library_name

_FLAGS = ("-O3", "-shared", "-fPIC", "-fvisibility=hidden")
_HAVE_ZIG = {
    "Linux": {"x86_64", "aarch64", "armv7l", "i686", "ppc64le", "riscv64", "s390x"},
    "Darwin": {"x86_64", "arm64"},
    "Windows": {"AMD64", "ARM64"},
}
"""Systems and processors that there is a `ziglang` for."""


def packaged_compilers() -> Sequence[str]:
    """Return the packages that an installation needs to build: none where a compiler works."""
    with tempfile.TemporaryDirectory() as folder:
        if build(Path(folder)) is not None:
            return []
    return ["ziglang"] if platform.machine() in _HAVE_ZIG.get(platform.system(), ()) else []


def build(folder: Path = SOURCE.parent) -> Path | None:
    """Build the library into a folder; None where no compiler does it."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        library = Path(scratch) / library_name()
        cache = {"ZIG_GLOBAL_CACHE_DIR": scratch, "ZIG_LOCAL_CACHE_DIR": scratch}
        named, zig = shlex.split(os.environ.get("CC", "")), [sys.executable, "-P", "-m", "ziglang"]
        for compiler in filter(None, (named, ["cc"], ["gcc"], ["clang"], [*zig, "cc"])):
            command = [*compiler, *_FLAGS, "-o", str(library), str(SOURCE)]
            try:
                ended = subprocess.run(  # noqa: S603 - a compiler, by its usual name
                    command, env={**os.environ, **cache}, capture_output=True, check=False
                )
            except OSError:  # there is none of this name
                continue
            if ended.returncode == 0 and library.exists():
                return library.replace(folder / library.name)
    return None


def main() -> int:
    """Build them where they are loaded from, and remove older ones."""
    library = build()
    for other in SOURCE.parent.glob("loops-*.so"):
        if library is not None and other != library:
            other.unlink()
    sys.stdout.write(f"{library or 'no compiler was found'}\n")
    return 0 if library else 1


if __name__ == "__main__":
    sys.exit(main())
