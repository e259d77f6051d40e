"""What a route adds to an answer's way: one stage a file, each a sink over the next one."""
