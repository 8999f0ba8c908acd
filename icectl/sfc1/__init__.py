"""All that only the layout sfc-1 of version 4 knows. Start at reader.py."""
