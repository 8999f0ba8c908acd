"""What can be wrong with roots and leaves of layout sfc-1. Start at rows.py."""
