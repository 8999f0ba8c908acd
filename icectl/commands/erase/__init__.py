"""The erasure of rows from all snapshots of a table: what is found, and what becomes of it."""
