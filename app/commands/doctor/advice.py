"""Which line of whose configuration mends what. Data, and one look-up.

The lines are those of docs/proxies.md where that has them.
"""

from collections.abc import Mapping, Sequence

from .findings import Code
from .path import Hop

ANY = ""

HOLDS_BACK: Mapping[str, str] = {
    "nginx": "proxy_buffering off; in the location of the relay, and no "
    "proxy_ignore_headers X-Accel-Buffering (the relay sends x-accel-buffering: no). Of two nginx "
    "the inner one needs proxy_pass_header X-Accel-Buffering;",
    "haproxy": "option http-no-delay (tokens in bursts), and no filter that collects answers",
    "caddy": "flush_interval -1 in reverse_proxy; and encode only with a match that leaves out "
    "text/event-stream",
    "apache": "ProxyPass ... flushpackets=on (or SetEnv proxy-sendchunked 1), and no mod_deflate, "
    "mod_substitute, mod_ext_filter or mod_ratelimit (bursts each 200 ms) for text/event-stream",
    "varnish": "set beresp.do_stream = true; and return (pass); for /v1/ in vcl_recv",
    "express": "compression({ filter }) that leaves out text/event-stream, and no handler that "
    "reads the answer whole",
    "nextjs": "compress: false in next.config.js, or rewrites that lead to the relay without it",
    "aiohttp": "write what response.content.iter_any() gives as it comes, and no response.read()",
    "uvicorn": "a StreamingResponse of what comes, and no GZipMiddleware or BaseHTTPMiddleware",
    "werkzeug": "a Response of a generator with stream=True upstream, and no response.content",
    "gunicorn": "a response of a generator, and a worker that streams (gthread, or an ASGI one)",
    "squid": "cache deny for the relay, and no ICAP or eCAP service for text/event-stream",
    "lighttpd": "server.stream-response-body = 2",
    "traefik": "no middleware buffering or compress for the relay (or excludedContentTypes: "
    '["text/event-stream"]), and responseForwarding.flushInterval: 1ms',
    "envoy": "no buffer filter (envoy.filters.http.buffer) and no ext_proc in BUFFERED mode on "
    "this route",
    "cloudflare": "Response Buffering off (Enterprise), no Worker that reads the body whole, and "
    "no quick tunnel",
    "cloudfront": "a cache policy CachingDisabled with compression off; a Lambda@Edge on the "
    "response collects it",
    "api_gateway": "responseTransferMode: STREAM (REST APIs); HTTP APIs collect every answer",
    "alb": "an ALB does not collect by itself: a Lambda target does; use the relay as the target",
    "vercel": "a rewrite to the relay instead of a function, or a function that returns the body "
    "as a ReadableStream",
    "iis": 'ARR: responseBufferLimit="0" in <proxy>, and no dynamic compression',
    "azure": "response buffer off (Application Gateway: EnableResponseBuffering false)",
    "kong": "response_buffering: false on the route",
    "ats": "CONFIG proxy.config.http.chunking.size 0 and no transform plugin",
    ANY: "switch off response buffering for text/event-stream; what inspects answers (antivirus, "
    "a firewall, a plugin) has to let them pass",
}
COMPRESSES: Mapping[str, str] = {
    "nginx": "gzip_types without * and without text/event-stream, or gzip off; for the relay",
    "haproxy": "compression type without text/event-stream, or no filter compression",
    "caddy": "encode with a match on content types, as docs/proxies.md has it",
    "apache": "SetEnvIf Request_URI ^/v1/ no-gzip, or AddOutputFilterByType DEFLATE without "
    "text/event-stream",
    "varnish": "set beresp.do_gzip = false; for text/event-stream",
    "lighttpd": "deflate.mimetypes without text/ and text/event-stream",
    "traefik": 'compress.excludedContentTypes: ["text/event-stream"]',
    "envoy": "compressor filter: content_type without text/event-stream",
    "cloudflare": "a Compression Rule that disables it for /v1/",
    "cloudfront": "Compress objects automatically: No",
    "iis": '<urlCompression doDynamicCompression="false" /> for the relay',
    "express": "compression({ filter }) that leaves out text/event-stream",
    "nextjs": "compress: false in next.config.js",
    ANY: "leave text/event-stream out of what is compressed",
}
SILENCE: Mapping[str, str] = {
    "nginx": "proxy_read_timeout 60s; or more (and send_timeout as long) for the relay",
    "haproxy": "timeout server 1830s and timeout client 60s: both longer than heartbeat_s",
    "caddy": "no read_timeout or write_timeout in transport http below 15s, and none in servers",
    "apache": "ProxyTimeout 1830 (or timeout= of ProxyPass), and Timeout as long",
    "varnish": ".between_bytes_timeout = 1830s and .first_byte_timeout = 1830s of the backend, and "
    "send_timeout",
    "squid": "read_timeout 30 minutes",
    "lighttpd": 'proxy.server with "read-timeout" and server.max-write-idle above heartbeat_s',
    "traefik": "respondingTimeouts.writeTimeout: 0 and idleTimeout above heartbeat_s",
    "envoy": "stream_idle_timeout and the route's idle_timeout above heartbeat_s; timeout: 0s",
    "cloudflare": "100 s are fixed (Proxy Read Timeout on Enterprise)",
    "alb": "idle_timeout.timeout_seconds above heartbeat_s (60 by default)",
    "cloudfront": "Response timeout of the origin: up to 60 s",
    "api_gateway": "5 minutes, 30 s if edge-optimised: fixed",
    "heroku": "30 s to the first byte, 55 s between bytes: fixed, and longer than heartbeat_s",
    "iis": 'ARR: <proxy timeout="00:30:00" />',
    "azure": "the request timeout of the backend settings",
    ANY: "a limit on silence that is longer than the relay's heartbeat_s; or a shorter "
    "SESERAGI_HEARTBEAT_S",
}
ON_THE_WHOLE: Mapping[str, str] = {
    "haproxy": "no http-request set-timeout below total_timeout_s; timeout tunnel is not for this",
    "caddy": "no write_timeout in servers",
    "traefik": "respondingTimeouts.writeTimeout: 0",
    "envoy": "timeout: 0s of the route, and no max_stream_duration",
    "heroku": "no limit on the whole; look for one in front",
    "api_gateway": "15 minutes: fixed",
    "vercel": "maxDuration of the function: a rewrite to the relay has none",
    "google": "the backend service's timeout (30 s by default) is on the whole: set 1830 s",
    "nginx": "no limit of its own: look for lingering_time, a reload with worker_shutdown_timeout, "
    "or proxy_max_temp_file_size 0 with a full disk",
    ANY: "no limit on the whole answer, or one longer than total_timeout_s (1800 s)",
}
PASSES_COMMENTS: Mapping[str, str] = {
    ANY: "something reads the stream and writes it anew: let it pass the bytes as they are, "
    "comments (lines that begin with a colon) too",
    "nginx": "proxy_buffering off;, and no njs or Lua body filter that takes lines out",
}
BYTES: Mapping[str, str] = {
    ANY: "let the body pass as it is: no filter that rewrites text/event-stream",
    "nginx": "no sub_filter, js_body_filter or body_filter_by_lua for text/event-stream",
    "apache": "no mod_substitute, mod_proxy_html or mod_ext_filter for text/event-stream",
    "cloudflare": "no Rocket Loader, Email Obfuscation or Worker that rewrites /v1/",
    "varnish": "no body filter (beresp.filters) for text/event-stream",
}

ADVICE: Mapping[Code, Mapping[str, str]] = {
    "address": {ANY: "take the address out of DNS (its A or AAAA record), or have it served"},
    "tls": {
        ANY: "a certificate for this very name, with the chain of its issuer (fullchain.pem)",
        "nginx": "ssl_certificate with fullchain.pem, and server_name as in the URL",
        "haproxy": "bind ... ssl crt with the whole chain and the key in one file",
        "caddy": "the name of the site as in the URL, or tls fullchain.pem privkey.pem",
    },
    "certificate": {ANY: "renew it, and let a timer do so (certbot renew, Caddy by itself)"},
    "not_seseragi": {ANY: "give the URL at which the relay's page is, with its prefix if any"},
    "redirect": {
        ANY: "give clients the URL that it leads to; redirect pages, and not /v1/",
        "nginx": "return 308 instead of 301, or better: clients with the right URL; no rewrite of "
        "/v1/ that adds a slash",
    },
    "host": {
        ANY: "the public name in the relay's SESERAGI_ALLOWED_HOSTS, and the proxy hands on Host",
        "nginx": "proxy_set_header Host $http_host; and the name in SESERAGI_ALLOWED_HOSTS",
        "apache": "ProxyPreserveHost On, and the name in SESERAGI_ALLOWED_HOSTS",
    },
    "origin": {
        ANY: "hand on the client's Host with its port, or put the page's origin into "
        "SESERAGI_CORS_ORIGINS",
        "nginx": "proxy_set_header Host $http_host; ($host has no port)",
        "apache": "ProxyPreserveHost On",
        "haproxy": "no http-request set-header Host",
        "caddy": "no header_up Host",
        "cloudfront": "an origin request policy that forwards Host (AllViewer)",
    },
    "prefix": {ANY: "SESERAGI_ROOT_PATH with the prefix, such as /llm"},
    "credential": {
        ANY: "let Authorization pass: a proxy with its own login takes it for itself",
        "nginx": 'no proxy_set_header Authorization "";, and no auth_basic or auth_request for '
        "/v1/",
        "haproxy": "no http-request auth for /v1/, no http-request del-header authorization",
        "caddy": "no basic_auth or forward_auth for /v1/, no header_up -Authorization",
        "traefik": "no basicAuth or forwardAuth middleware for /v1/",
        "cloudflare": "Access: a service token, or a bypass for /v1/",
        "apache": "no RequestHeader unset Authorization, no AuthType Basic for /v1/",
        "cloudfront": "an origin request policy that forwards Authorization",
    },
    "page": {ANY: "lead every path of the relay to it: /v1/, /healthz, /readyz, /static/ and /"},
    "errors": {
        ANY: "hand on the relay's error answers as they are",
        "nginx": "proxy_intercept_errors off;",
        "apache": "ProxyErrorOverride Off",
        "haproxy": "no http-response return or errorfile for the relay's own statuses",
        "traefik": "no errors middleware on the relay",
        "caddy": "no handle_response or handle_errors that replaces the relay's",
        "cloudfront": "no Custom error responses",
        "iis": '<httpErrors existingResponse="PassThrough" />',
    },
    "methods": {
        ANY: "allow GET, HEAD, POST, DELETE and OPTIONS",
        "nginx": "limit_except with DELETE and OPTIONS, or none",
        "haproxy": "no http-request deny by method",
        "apache": "<LimitExcept GET HEAD POST DELETE OPTIONS>",
        "cloudfront": "Allowed HTTP methods: GET, HEAD, OPTIONS, PUT, POST, PATCH, DELETE",
    },
    "filter": {
        ANY: "an exception of the firewall for the bodies of POST /v1/: prompts have code in them",
        "nginx": "modsecurity off; (or ModSecurity rules off) for /v1/",
        "apache": "SecRuleEngine Off for <Location /v1/>",
        "cloudflare": "a WAF exception (Skip) for /v1/",
        "alb": "an AWS WAF rule exception for /v1/ (CrossSiteScripting_BODY, SQLi_BODY)",
        "cloudfront": "an AWS WAF rule exception for /v1/ (CrossSiteScripting_BODY, SQLi_BODY)",
    },
    "request_header": {
        ANY: "hand on all headers of requests, of 8 KiB at least",
        "nginx": "no proxy_pass_request_headers off;, no proxy_set_header that empties them; "
        "large_client_header_buffers 4 8k;",
        "cloudfront": "an origin request policy that forwards all headers (AllViewer)",
        "haproxy": "no http-request del-header",
        "apache": "no RequestHeader unset",
        "caddy": "no header_up with a minus",
    },
    "query": {
        ANY: "hand on the query of the URL",
        "nginx": "proxy_pass without a variable that leaves out $is_args$args",
        "cloudfront": "an origin request policy that forwards all query strings",
    },
    "body_size": {
        ANY: "allow bodies of max_request_bytes (4 MiB) and a little more",
        "nginx": "client_max_body_size 5m; (1m by default)",
        "apache": "LimitRequestBody 5242880",
        "caddy": "request_body { max_size 5MB }, or no request_body",
        "traefik": "buffering.maxRequestBodyBytes: 5242880, or no middleware buffering",
        "haproxy": "no http-request deny by req.body_size or content-length; tune.bufsize bounds "
        "only what http-buffer-request waits for",
        "lighttpd": "server.max-request-size = 5120 (KiB)",
        "envoy": "buffer filter: max_request_bytes 5242880",
        "squid": "request_body_max_size 5 MB",
        "iis": '<requestLimits maxAllowedContentLength="5242880" />',
        "varnish": "no limit of its own; look at what it passes to",
        "api_gateway": "10 MB: fixed",
        "alb": "AWS WAF: the rule SizeRestrictions_BODY, and the size that is looked at",
    },
    "http10": {
        ANY: "a proxy that speaks HTTP/1.1 to its clients",
        "nginx": "no chunked_transfer_encoding off;",
        "apache": "no SetEnv force-response-1.0 or downgrade-1.0",
    },
    "http10_upstream": {
        ANY: "HTTP/1.1 from the proxy to the relay",
        "nginx": 'proxy_http_version 1.1; and proxy_set_header Connection ""; (before 1.29.7 it '
        "is 1.0)",
        "apache": "no SetEnv proxy-initial-not-pooled with force-proxy-request-1.0",
        "haproxy": "no option http-server-close with a 1.0 backend",
        "lighttpd": 'proxy.header = ("force-http10" => "disable")',
    },
    "client_address": {
        ANY: "X-Forwarded-For from the proxy, and its address in SESERAGI_TRUSTED_PROXIES",
        "nginx": "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        "haproxy": "option forwardfor",
        "apache": "mod_proxy_http adds it: no ProxyAddHeaders Off",
    },
    "first_byte": {
        ANY: "what delays the answer's beginning: a cold start, a check of each request, a queue",
        "haproxy": "maxconn of the server (requests queue), or a delay in http-request",
        "nginx": "limit_req without nodelay holds requests back",
    },
    "buffered": HOLDS_BACK,
    "compressed": COMPRESSES,
    "throttled": {
        ANY: "no limit on the rate of answers for the relay",
        "nginx": "limit_rate 0; (and no X-Accel-Limit-Rate)",
        "haproxy": "no filter bwlim-out",
        "apache": "no mod_ratelimit (SetOutputFilter RATE_LIMIT)",
    },
    "altered": BYTES,
    "fields": BYTES,
    "truncated": {
        ANY: "let answers without a length pass whole; no limit on their size or time",
        "nginx": "proxy_http_version 1.1; and no proxy_max_temp_file_size or limits by filters",
    },
    "headers": {
        ANY: "hand on the headers of answers as they are",
        "nginx": "no proxy_hide_header, proxy_ignore_headers, expires or add_header Cache-Control, "
        "and no charset, for the relay",
        "haproxy": "no http-response del-header or set-header for these",
        "apache": "no Header unset or set, no ExpiresActive, no ForceType",
        "caddy": "no header_down or header for these",
        "varnish": "no unset beresp.http.* or set resp.http.* for these",
    },
    "cached": {
        ANY: "no cache for /v1/, /healthz and /readyz: the relay says cache-control: no-store",
        "nginx": "proxy_cache off; and no proxy_ignore_headers Cache-Control",
        "varnish": "return (pass); for /v1/ in vcl_recv",
        "apache": "CacheDisable /v1/, and no CacheIgnoreCacheControl or CacheStoreNoStore",
        "squid": "cache deny all for the relay, no refresh_pattern with ignore-no-store",
        "cloudflare": "no Cache Rule for /v1/ (Bypass cache)",
        "cloudfront": "cache policy CachingDisabled",
        "fastly": "return(pass) for /v1/",
        "haproxy": "no http-request cache-use and http-response cache-store for the relay",
    },
    "replicas": {
        ANY: "one log for all relays: SESERAGI_LOG=redis://... (docs/replicas.md), or one relay",
    },
    "last_event_id": {
        ANY: "hand on the request's header Last-Event-ID",
        "nginx": 'no proxy_set_header Last-Event-ID "";, no proxy_pass_request_headers off;',
        "cloudfront": "an origin request policy that forwards Last-Event-ID (AllViewer)",
        "haproxy": "no http-request del-header last-event-id",
        "apache": "no RequestHeader unset Last-Event-ID",
        "caddy": "no header_up -Last-Event-ID",
        "varnish": "no unset req.http.Last-Event-ID in vcl_recv",
    },
    "comments": {**PASSES_COMMENTS},
    "idle_cut": SILENCE,
    "total_cut": ON_THE_WHOLE,
    "json_cut": {
        **SILENCE,
        "nginx": "proxy_read_timeout 1830s; for what is not a stream (docs/proxies.md has both)",
        "haproxy": "timeout server 1830s (streams alone may have less)",
        ANY: "wait for JSON answers as long as total_timeout_s; or ask for streams",
    },
    "disconnect": {
        ANY: "close the connection to the relay when the client's is closed",
        "nginx": "proxy_ignore_client_abort off;",
        "haproxy": "option abortonclose",
        "varnish": "return (pipe); for /v1/ in vcl_recv: a pass sees it at the next but one write",
        "apache": "ProxyPass ... flushpackets=on: it sees a client's end when it writes",
        "cloudfront": "it finishes what it fetches: no setting",
    },
    "stop": {ANY: "let POST /v1/streams/{id}/cancel reach the relay that runs the stream"},
    "concurrency": {
        ANY: "a higher limit on connections or requests of one client",
        "nginx": "limit_conn and limit_req: more than the streams of one client",
        "haproxy": "maxconn of frontend and server above the streams there may be; they queue",
        "apache": "MaxRequestWorkers (mpm_event), or no limit by mod_qos",
        "envoy": "circuit_breakers: max_connections, max_requests",
        "traefik": "no inFlightReq or rateLimit middleware below that",
        "varnish": ".max_connections of the backend",
    },
    "cors": {
        ANY: "the page's origin in SESERAGI_CORS_ORIGINS; the proxy hands on OPTIONS and adds no "
        "access-control-* of its own",
        "nginx": "no add_header Access-Control-Allow-Origin, no answer to OPTIONS of its own; the "
        "origin in SESERAGI_CORS_ORIGINS",
    },
    "clock": {ANY: "set the clock (systemctl enable --now systemd-timesyncd, or chrony)"},
    "http2": {
        ANY: "HTTP/2 to clients",
        "nginx": "http2 on; (before 1.25.1: listen 443 ssl http2;)",
        "haproxy": "bind ... alpn h2,http/1.1",
        "apache": "Protocols h2 http/1.1",
    },
    "flaky": {
        ANY: "take relays that do not answer out of rotation (a health check of /readyz), and try "
        "another one when a connection fails",
        "nginx": "proxy_next_upstream error timeout http_503;, and SESERAGI_KEEPALIVE_S longer "
        "than its keepalive_timeout",
        "haproxy": "option httpchk GET /readyz, default-server check, option redispatch 1",
        "caddy": "health_uri /readyz and lb_try_duration 2s",
    },
    "rate_limit": {
        ANY: "a higher limit on the requests of one client, or none: the relay has its own, of "
        "600 POSTs a minute and client, and says when there is room again",
        "nginx": "limit_req with a higher rate and burst, or none for /v1/",
        "haproxy": "a higher http_req_rate or conn_rate in http-request deny and tcp-request",
        "caddy": "rate_limit with more events",
        "apache": "no mod_evasive or mod_qos below that",
        "traefik": "rateLimit: a higher average and burst",
        "envoy": "local_ratelimit with more tokens",
        "cloudflare": "a rate limiting rule with more requests, or an exception for /v1/",
        "kong": "rate-limiting with more requests a second",
        "alb": "an AWS WAF rate-based rule with more requests",
        "cloudfront": "an AWS WAF rate-based rule with more requests",
    },
    "repeated": {
        ANY: "no second try of a POST, but where no connection came about",
        "nginx": "proxy_next_upstream without non_idempotent",
        "haproxy": "http-request disable-l7-retry if METH_POST, or retry-on conn-failure alone",
        "caddy": "lb_retry_match without POST",
        "traefik": "no retry middleware for /v1/",
        "envoy": "retry_on: connect-failure alone, for POST",
        "varnish": "no return (retry) for POST",
    },
    "busy": {ANY: "again, when it is quiet, or from another machine"},
}


def advise(code: Code, hops: Sequence[Hop], *, unseen: int = 0) -> list[tuple[Hop | None, str]]:
    """Return what to change, for each program that is known to be there and can be told.

    For what nobody who is known can be told, and for programs that were not seen, there is
    what holds for any.
    """
    table = ADVICE[code]
    special = [
        (hop, table[name])
        for hop in hops
        if (name := "nginx" if hop.program == "openresty" else hop.program) in table
    ]
    if special and not unseen:
        return [*special]
    return [*special, (None, table[ANY])]
