"""icectl: one command to inspect, validate and maintain Apache Iceberg tables."""

__version__ = "0.2.0"
