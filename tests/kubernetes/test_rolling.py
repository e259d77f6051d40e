"""The manifests under load: relays are rolled, nodes emptied, and pods killed.

By default the waiting times of the manifests go by eight times as fast, and answers are short;
ROLL_IN_REAL_TIME=1 takes all as it is, with more clients, and prints the figures that
docs/kubernetes.md has.
"""

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from app.commands import keys
from app.eventlog.redis.link import REPLY_S
from app.testing.upstream import Upstream, serve_upstream
from tests.kubernetes import clients
from tests.kubernetes.clients import Count, Load
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.manifests import (
    container_of,
    environment_of,
    expand,
    find,
    settings_file,
)
from tests.redis_server import RedisServer, redis_server
from tests.waiting import until

pytestmark = pytest.mark.proving

REAL_TIME = os.environ.get("ROLL_IN_REAL_TIME") == "1"
PASSWORD = "of-the-secret"  # noqa: S105
LEASE_S = 15 if REAL_TIME else 5
"""Of the log: how soon streams of a lost relay are ended. The default in real time."""


class Service(NamedTuple):
    cluster: Cluster
    load: Load
    upstream: Upstream
    redis: RedisServer


def make_keys(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Make a key as docs/kubernetes.md does; return it, and the file."""
    parser = argparse.ArgumentParser()
    keys.add_arguments(parser)
    file = folder / "keys.json"
    keys.run(parser.parse_args(["new", "my-app", "--keys-file", str(file)]), {})
    return capsys.readouterr().out.strip(), file.read_text()


def redis_options() -> list[str]:
    """Return what the StatefulSet starts Redis with, but for its folder."""
    container = container_of(find("StatefulSet", "seseragi-redis"))
    values = environment_of(container, {"seseragi-redis": {"password": PASSWORD}})
    options = [expand(word, values) for word in container["args"]]
    place = options.index("--dir")
    return options[:place] + options[place + 2 :]


class Watch:
    """How long Redis has taken to answer, at most: relays rightly refuse what it is too slow for."""

    def __init__(self, redis: RedisServer) -> None:
        self.longest_s = 0.0
        self._redis = redis

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.to_thread(self._redis.ask, "PING")
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def service(folder: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Service]:
    """Run what the manifests say, with a provider of the test's own, under load."""
    key, keys = make_keys(folder, capsys)
    (folder / "redis").mkdir()
    async with serve_upstream() as upstream:
        upstream.choose = clients.answer
        settings = settings_file(with_examples=True).replace(
            "[upstream.openai]\n", f'[upstream.openai]\nbase_url = "{upstream.base_url}"\n'
        )
        with redis_server(folder / "redis", *redis_options()) as redis:
            cluster = Cluster(
                folder / "pods",
                find("Deployment"),
                find("PodDisruptionBudget"),
                secrets={
                    "seseragi-redis": {"password": PASSWORD},
                    "seseragi-keys": {"keys.json": keys},
                    "seseragi-providers": {"openai": "sk-test"},
                },
                files={"seseragi": {"seseragi.toml": settings}},
                names={"seseragi-redis:6379/0": f"127.0.0.1:{redis.port}/0?lease_s={LEASE_S}"},
                faster=1 if REAL_TIME else 8,
            )
            async with asyncio.timeout(900 if REAL_TIME else 400), cluster.running():
                await cluster.wait_until_rolled()
                load = Load(
                    cluster.balancer.url,
                    key,
                    rate=2 if REAL_TIME else 3,
                    tokens=(100, 300, 600) if REAL_TIME else (20, 40, 60),
                )
                loading = asyncio.create_task(load.run())
                try:
                    await until(lambda: load.count.completed)
                    yield Service(cluster, load, upstream, redis)
                    await loading
                finally:
                    loading.cancel()
                    await asyncio.wait([loading])


@pytest.mark.alone
async def test_relays_are_rolled_nodes_emptied_and_pods_killed_under_load(tmp_path, capsys):
    """No request fails, nothing is lost or said twice, and no answer is bought twice.

    Only the streams of a relay that is killed are cut short, and say so. Without Redis relays
    leave the service, and none is started again for it.
    """
    async with service(tmp_path, capsys) as (cluster, load, upstream, redis):
        count = load.count
        assert {"node-a", "node-b"} == {pod.node for pod in cluster.pods}
        watch = Watch(redis)
        watching = asyncio.create_task(watch.run())

        rolled_s = await cluster.roll()
        rolled = replace(count)

        node = max(("node-a", "node-b"), key=[pod.node for pod in cluster.pods].count)
        emptied_s = await cluster.drain(node)
        assert node not in {pod.node for pod in cluster.pods}
        # Of two relays on the node the second had to wait until another one was ready.
        assert cluster.refused_evictions > 0
        emptied, gone, lines = replace(count), list(cluster.past), cluster.lines()
        watching.cancel()

        killed = max(cluster.pods, key=cluster.connections_of)
        await cluster.kill(killed)
        await load.stop()

        redis.kill()
        away_s = await cluster.wait_until_ready(0)
        await asyncio.to_thread(redis.start)
        back_s = await cluster.wait_until_ready(3)
    with capsys.disabled():
        show(
            {"roll": rolled, "and node": emptied, "and kill": count},
            rolled_s=rolled_s,
            emptied_s=emptied_s,
            longest_drain_s=max(pod.drained_s for pod in gone),
            away_s=away_s,
            back_s=back_s,
        )

    assert (0, 0) == (emptied.failed, emptied.interrupted)
    assert 0 == emptied.refused or watch.longest_s > REPLY_S, count.errors
    assert not [line for line in lines if line["level"] == "error"]
    for pod in gone:
        assert (False, [0]) == (pod.killed, pod.codes)
    assert 5 <= len(gone)

    assert [[], [], [-9]] == sorted(pod.codes for pod in cluster.pods)
    assert killed in cluster.pods
    assert (count.cut > 0, count.dropped > 0) == (True, True)
    assert (0, 0) == (count.lost, count.duplicated)
    assert count.started == count.completed + count.interrupted
    assert count.resumed > 0
    # A POST that a killed relay had taken is sent again with its key, and finds its stream. What
    # the relay had not asked for yet is not asked for.
    assert count.completed <= len(upstream.calls) <= count.started


def show(counts: dict[str, Count], **seconds: float) -> None:
    """Print the figures."""
    if REAL_TIME:
        print({name: round(value, 1) for name, value in seconds.items()})
        for name, count in counts.items():
            print(name, count)
