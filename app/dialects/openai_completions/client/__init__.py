"""The format as a client speaks it."""
