"""Bytes at locations: local files and object stores behind one small interface.

May import errors, env and progress; fsspec and s3fs live here. Start at store.py.
"""
