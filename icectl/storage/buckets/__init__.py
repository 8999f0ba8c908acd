"""Buckets of S3, GCS and Azure by obstore; `store` is where to start reading."""
