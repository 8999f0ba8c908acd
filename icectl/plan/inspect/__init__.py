"""The views of `inspect`, as JSON-ready values: one module a kind of view.

May import plan, entries, spec and units. Start at views.py.
"""
