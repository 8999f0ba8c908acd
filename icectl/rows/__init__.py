"""Rows of data files: read, deleted, sorted and written, here or on Spark.

Start at compact_job.py.
"""
