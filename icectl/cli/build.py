"""How this icectl was built and installed: what `icectl --version --verbose` prints."""

import platform
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path

from icectl import __version__
from icectl.files.compiled import library_name, loops

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def build_report() -> str:
    """Return lines about the package, its compiled loops, Python and the packages that it uses."""
    try:
        installed = distribution("icectl")
    except PackageNotFoundError:
        installed = None
    lines = [
        ("icectl", __version__),
        ("installed", _kind(installed)),
        ("loops", f"compiled, {library_name()}" if loops() is not None else "not compiled: slower"),
        ("python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"),
        *(_packages(installed) if installed is not None else ()),
    ]
    return "\n".join(f"{name} {value}" for name, value in lines)


def _kind(installed: Distribution | None) -> str:
    """Return whether a wheel or a checkout is used: its tags, or its folder."""
    folder = Path(__file__).parents[2]
    wheel = installed.read_text("WHEEL") if installed is not None else None
    if installed is None or not Path(str(installed.locate_file("icectl"))).is_dir():
        return f"checkout in {folder}"
    return "wheel for " + ", ".join(re.findall(r"^Tag: (.+)$", wheel or "", re.MULTILINE))


def _packages(installed: Distribution) -> Iterator[tuple[str, str]]:
    """Yield the packages that icectl names, those of tests apart, as far as they are installed."""
    named = (one for one in installed.requires or () if "extra == 'test'" not in one)
    for name in sorted({_NAME.match(one)[0] for one in named}):  # type: ignore[index]
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
