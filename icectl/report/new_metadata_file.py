"""What is said where a run has made metadata that only a catalog can make current."""

from icectl.report.console import Console


def print_new_metadata_file(
    console: Console, location: str | None, also: str | None = None
) -> None:
    """Print where the file is, and what to do with it; nothing where there is none."""
    if location is None:
        return
    console.say(f"new metadata file: {location}")
    console.say("point the catalog at it" + (f"; {also}" if also else ""))
