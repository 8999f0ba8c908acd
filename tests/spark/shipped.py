"""icectl in the forms in which it is brought to workers that do not have it."""

import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from icectl import __version__
from tests.conftest import ROOT
from tests.spark.clusters import python_without_icectl
from tests.spark.engine import on_spark


@dataclass(frozen=True)
class Shipped:
    """Pythons that have what icectl needs, without and with it, and icectl in its forms."""

    bare: Path
    installed: Path
    wheel: Path
    archive: Path


def ship(folder: Path) -> Shipped:
    """Make a Python without icectl, one with the wheel, and an archive of that."""
    wheel = zipped(folder)
    bare, installed = folder / "bare", folder / "installed"
    for environ in (bare, installed):
        python_without_icectl(environ)
    pip = ("-m", "pip", "--python", str(installed / "bin/python"), "install", "--no-index")
    done = on_spark(*pip, "--no-deps", "--quiet", str(wheel), folder=folder)
    assert done.returncode == 0, done.stderr
    archive = folder / "icectl.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as file:
        file.add(installed, ".")
    return Shipped(bare, installed, wheel, archive)


def zipped(folder: Path) -> Path:
    """The wheel, as the build makes it of a checkout that has its compiled loops."""
    path = folder / f"icectl-{__version__}-py3-none-any.whl"
    info = f"icectl-{__version__}.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: icectl\nVersion: {__version__}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as file:
        names = []
        for source in sorted((ROOT / "icectl").rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                names.append(str(source.relative_to(ROOT)))
                file.write(source, names[-1])
        for name, text in texts.items():
            names.append(name)
            file.writestr(name, text)
        file.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))
    return path
