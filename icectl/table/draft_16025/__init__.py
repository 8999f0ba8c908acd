"""Roots of the upstream draft, and the leaves that they list. Start with root.py."""
