#!/bin/sh
# Replaces the relays whose image or settings changed, one after the other.
# The one that stops refuses connections, so nginx sends what is new to the others.
set -eu
cd "$(dirname "$0")/.."
for relay in $(docker compose config --services | grep '^relay-' | sort); do
  docker compose up --detach --wait --no-deps --no-build "$relay"
done
