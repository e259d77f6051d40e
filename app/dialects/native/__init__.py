"""The relay's own wire format: PROTOCOL.md."""
