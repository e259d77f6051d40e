"""Our HTTP server: connection, flow control, peers, refusals, workers."""
