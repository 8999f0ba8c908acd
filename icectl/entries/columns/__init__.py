"""Arrow columns as numpy sees them: values, buffers of bytes, hashes."""
