"""The benchmark; it needs Linux, two cores and a C compiler, and sends everything over loopback."""
