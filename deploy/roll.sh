#!/bin/sh
# Replaces relays whose image or settings changed, one after the other.
# A stopping relay refuses connections, so nginx sends new requests to the others.
set -eu
cd "$(dirname "$0")/.."
for relay in $(docker compose config --services | grep '^relay-' | sort); do
  docker compose up --detach --wait --no-deps --no-build "$relay"
done
