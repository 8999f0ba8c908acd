"""Rows read, appended, replaced and deleted by programs through `icectl.spark`."""
