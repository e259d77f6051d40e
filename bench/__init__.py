"""The benchmark; it needs Linux and sends everything over loopback."""
