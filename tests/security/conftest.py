"""What tests of whole runs share, here too."""

from tests.cli.conftest import inspect, prepared, run, server

__all__ = ["inspect", "prepared", "run", "server"]
