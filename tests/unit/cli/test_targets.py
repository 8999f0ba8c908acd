"""Tables below folders: what cannot be read is left out, and said."""

from collections.abc import Iterator
from pathlib import Path

from icectl.cli import targets


def test_a_folder_that_cannot_be_read_hides_no_other(tmp_path, monkeypatch):
    for name in ("a", "lost+found", "z"):
        (tmp_path / name / "metadata").mkdir(parents=True)
        (tmp_path / name / "metadata" / "v1.metadata.json").touch()
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "lost+found":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    warnings: list[str] = []
    found = list(targets.tables_on_disk(tmp_path, warnings.append))
    assert found == [str(tmp_path / "a"), str(tmp_path / "z")]
    assert warnings == [f"{tmp_path / 'lost+found'} is skipped: permission denied"]
