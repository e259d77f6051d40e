"""The format as a provider speaks it."""
