#!/bin/sh
# Installs a certificate for nginx.conf: yours from /tls, else a self-signed one for localhost.
set -eu
mkdir -p /tmp/tls
if [ -e /tls/fullchain.pem ]; then
  cp /tls/fullchain.pem /tls/privkey.pem /tmp/tls/
else
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
    -keyout /tmp/tls/privkey.pem -out /tmp/tls/fullchain.pem 2>/dev/null
fi
