"""Our HTTP server: connection, flow control, limits of connections, refusals, workers."""
