#!/bin/sh
# Replaces the relays whose image or settings changed, one after the other.
# nginx sends nothing new to the one that ends its streams.
set -eu
cd "$(dirname "$0")/.."
conf=deploy/nginx/nginx.conf
reload() {
  docker compose exec -T nginx nginx -c /etc/nginx/relays/nginx.conf -s reload
  sleep 1 # old workers take no new connections from then on
}
restore() {
  mv "$conf.all" "$conf"
  reload
}
cp "$conf" "$conf.all"
trap restore EXIT
for relay in $(docker compose config --services | grep '^relay-' | sort); do
  sed "s/server $relay:8000 /&down /" "$conf.all" >"$conf"
  reload
  docker compose up --detach --wait --no-deps --no-build "$relay"
done
