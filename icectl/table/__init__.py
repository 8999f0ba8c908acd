"""Reading a table: metadata, manifest lists, entries, facts for an operation.

May import catalog, storage, files, entries and format. Start at context.py.
"""
