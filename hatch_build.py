"""Has the loops of icectl/files/loops.c built for wheels and editable installations."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

sys.path.insert(0, str(Path(__file__).parent))

from icectl.files import build_loops


class LoopsHook(BuildHookInterface):
    """Builds the loops where there is a compiler; icectl works without them, by longer ways."""

    def dependencies(self) -> list[str]:
        """Name a compiler to fetch, where the machine has none that works."""
        return [*build_loops.packaged_compilers()] if self.target_name == "wheel" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the loops and put them beside their source."""
        if self.target_name != "wheel":
            return
        build_data["shared_data"].update(_shared_files())
        if version == "editable":
            build_loops.main()
            return
        root = Path(__file__).parent
        for documentation in ("man", "completions"):
            build_data["force_include"][str(root / documentation)] = f"icectl/{documentation}"
        folder = Path(self.directory) / "loops"
        folder.mkdir(parents=True, exist_ok=True)
        library = build_loops.build(folder)
        if library is None:
            self.app.display_warning("no compiler was found: icectl will be slower")
            return
        build_data["force_include"][str(library)] = f"icectl/files/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"


def _shared_files() -> dict[str, str]:
    """Where `man` and shells look for the manual and the completion scripts, below the prefix.

    They are in the package too, where `icectl man` and `icectl completion` read them.
    """
    root = Path(__file__).parent
    places = {
        "icectl.bash": "share/bash-completion/completions/icectl",
        "_icectl": "share/zsh/site-functions/_icectl",
        "icectl.fish": "share/fish/vendor_completions.d/icectl.fish",
    }
    pages = sorted((root / "man").iterdir())
    found = {str(page): f"share/man/man{page.suffix[1:]}/{page.name}" for page in pages}
    return found | {str(root / "completions" / name): place for name, place in places.items()}


def _platform() -> str:
    """The tag of wheels that are for machines like this one."""
    return next(tag for tag in platform_tags() if "linux" not in tag or tag.startswith("linux"))
