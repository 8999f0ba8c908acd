"""`icectl expire-rows`: delete the rows that are past their time."""
