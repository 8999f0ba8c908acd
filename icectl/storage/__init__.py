"""Bytes at locations: local files and object stores behind one interface, that of store.py."""
