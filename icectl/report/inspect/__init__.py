"""The views of `inspect` as text, CSV, JSON lines, Mermaid and HTML: one module a kind of view.

May import plan, entries, spec, units and errors. Start at rows.py.
"""
