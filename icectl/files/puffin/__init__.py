"""Puffin files, and the positions of deleted rows that their blobs hold."""
