"""Writing the form of the upstream draft: an export beside a table. Start with export.py."""
