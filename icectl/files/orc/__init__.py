"""ORC files: rows, and what the tail says."""
