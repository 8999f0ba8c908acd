"""New snapshots of layout sfc-1. Start at writer.py."""
