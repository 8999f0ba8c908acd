"""Has the loops of icectl/codec/loops.c built for wheels and editable installations."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

sys.path.insert(0, str(Path(__file__).parent))

from icectl.codec import build_loops


class LoopsHook(BuildHookInterface):
    """Builds the loops where there is a compiler; icectl works without them, by longer ways."""

    def dependencies(self) -> list[str]:
        """Name a compiler to fetch, where the machine has none that works."""
        return [*build_loops.packaged_compilers()] if self.target_name == "wheel" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the loops and put them beside their source."""
        if self.target_name != "wheel":
            return
        build_data["shared_data"].update(_papers())
        if version == "editable":
            build_loops.main()
            return
        folder = Path(self.directory) / "loops"
        folder.mkdir(parents=True, exist_ok=True)
        library = build_loops.build(folder)
        if library is None:
            self.app.display_warning("no compiler was found: icectl will be slower")
            return
        build_data["force_include"][str(library)] = f"icectl/codec/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"


def _papers() -> dict[str, str]:
    """Where the manual and the completion scripts go, below the prefix of the installation."""
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
