"""Manifests and manifest lists of format versions 1 to 3.

Start at manifest.py, then schema.py; scan.py and records.py are its two ways of reading.
"""
