"""A table whose data files are not in its folder."""

from pathlib import Path

from tests.builders.table_builder import TableBuilder


class SpreadTable(TableBuilder):
    """A table whose data files are in a folder beside its own."""

    def _new_path(self, folder: str, suffix: str) -> tuple[str, Path]:
        location, path = super()._new_path(folder, suffix)
        if folder != "data":
            return location, path
        outside = self.directory.parent / "outside" / path.name
        outside.parent.mkdir(exist_ok=True)
        return f"{self.location.rpartition('/')[0]}/outside/{path.name}", outside
