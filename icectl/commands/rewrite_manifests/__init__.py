"""`icectl rewrite-manifests`: regroup manifests by partition."""
