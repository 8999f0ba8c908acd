"""What lies in a folder."""

from pathlib import Path


def paths_of(directory: Path) -> set[Path]:
    """Every file in a directory."""
    return {path for path in directory.rglob("*") if path.is_file()}


def files_of(directory: Path) -> set[str]:
    """Every file by its path in a directory."""
    return {str(path.relative_to(directory)) for path in paths_of(directory)}


def contents_of(directory: Path) -> dict[Path, bytes]:
    """Every file, and what is in it."""
    return {path: path.read_bytes() for path in paths_of(directory)}


def contents_by_name(directory: Path) -> dict[str, bytes]:
    """Every file by its path in a directory, and what is in it."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths_of(directory)}
