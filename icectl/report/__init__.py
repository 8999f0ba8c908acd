"""Results as text, JSON and other encodings; consoles and progress.

May import plan, entries, spec, units and errors. Start at document.py.
"""
