"""The format of a recorded stream, which is replayed in place of a provider."""
