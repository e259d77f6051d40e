"""`seseragi doctor`: finds what proxies do to streams, through the relay's public URL alone.

wire          HTTP/1.1 client with the time of every piece and frame of a body
path          proxies on the path
session       one examination: measurements and findings
reachability, requests, streaming, reading     the probes
report        the report as text and as JSON; `advice.toml` by finding and proxy
command       the command
"""
