"""Routes of the operator API, one module for each subject."""
