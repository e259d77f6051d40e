"""Decoders and encoders of message framing. No I/O."""
