"""The format as frozen values: metadata, schemas, specs, snapshots, rules; JSON in and out.

May import errors and units; no I/O, no Arrow, no clock. Start at metadata.py.
"""
