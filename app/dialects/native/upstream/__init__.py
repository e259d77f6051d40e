"""The format of recorded streams, which are replayed instead of calling a provider."""
