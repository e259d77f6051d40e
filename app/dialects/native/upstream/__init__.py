"""The format as a recorded stream has it, which is replayed in the place of a provider."""
