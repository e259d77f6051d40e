"""`seseragi doctor`: measures what stands between a client and the relay, and says what to mend.

It knows the relay by its public URL alone, as any client does.

    wire       one request over a socket of its own: every read with its time
    frames     the bytes of an event stream: lines, frames, and what is wrong with them
    pace       arrival times: held back or not, and in which way
    calm       whether this machine and the relay have time to be measured
    findings   what is wrong, and what was measured
    hops       which proxies there are, by what they say and by how they fail
    advice     which line of which proxy's configuration mends what
    exam       what the probes share
    reaching, requests, streaming, reading, stopping, waiting     the probes, by subject
    report     findings as text and as JSON
    command    the command
"""
