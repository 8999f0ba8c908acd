"""Entries of the upstream draft of version 4. Start with rows.py."""
