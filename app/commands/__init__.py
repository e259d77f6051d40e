"""The commands beside the relay itself."""
