"""`icectl expire-rows`: delete expired rows."""
