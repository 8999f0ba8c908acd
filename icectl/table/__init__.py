"""Reading a table: metadata, manifest lists, entries, facts for an operation.

May import catalog, storage, codec, plan, entries and spec. Start at open.py.
"""
