"""A small cluster on this machine: what Kubernetes does with the manifests, to processes.

A pod is a process with the container's command, variables, ConfigMaps and Secrets. Its kubelet
asks the probes, and stops it as real ones do: preStop, SIGTERM, and SIGKILL when the grace
period is over. A Deployment's controller rolls by maxSurge and maxUnavailable and puts new pods in
the place of lost ones; evictions obey the PodDisruptionBudget. The Service is a TCP load balancer,
which learns late what has changed, as proxies of real clusters do.

What cannot be had is left out: containers, their network and its policies, nodes that are full.
"""

import asyncio
import contextlib
import json
import math
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.commands.test_command import environment
from tests.kubernetes.manifests import (
    Object,
    Secrets,
    container_of,
    environment_of,
    read_image,
)
from tests.ports import free_port
from tests.waiting import until

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Probe:
    path: str
    period_s: float
    timeout_s: float
    failures: int

    @classmethod
    def of(cls, spec: Object, faster: float) -> Self:
        get = spec["httpGet"]
        assert "http" == get["port"]
        return cls(
            get["path"],
            spec.get("periodSeconds", 10) / faster,
            spec.get("timeoutSeconds", 1),
            spec.get("failureThreshold", 3),
        )

    async def passes(self, port: int) -> bool:
        """Ask once, on a connection of its own and under the pod's address, as the kubelet does."""
        try:
            async with asyncio.timeout(self.timeout_s):
                reader, writer = await asyncio.open_connection(HOST, port)
                try:
                    writer.write(
                        f"GET {self.path} HTTP/1.1\r\nHost: 10.244.1.7:8000\r\n"
                        "User-Agent: kube-probe/1.37\r\nAccept: */*\r\n"
                        "Connection: close\r\n\r\n".encode()
                    )
                    status = (await reader.readline()).split()
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False
        return len(status) > 1 and 200 <= int(status[1]) < 400


@dataclass(eq=False)
class Pod:
    """One relay, from when it is scheduled until it is gone."""

    name: str
    revision: int
    node: str
    port: int = field(default_factory=free_port)
    ready: bool = False
    ready_since: float = 0.0
    terminating: bool = False
    deleted: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    process: asyncio.subprocess.Process | None = None
    codes: list[int] = field(default_factory=list)
    """Of its processes that have ended."""
    killed: bool = False
    """Whether the grace period was too short."""
    drained_s: float = 0.0
    """From SIGTERM to its end."""


class Cluster:
    """One Deployment with its Service and PodDisruptionBudget on a few nodes.

    Seconds of the manifests in which nothing but time passes go by `faster`; the grace period and
    the drain, which end when streams do, are what they say. The load balancer knows of a change
    when a fifth of preStop is over.
    """

    def __init__(
        self,
        folder: Path,
        deployment: Object,
        budget: Object,
        *,
        secrets: Secrets,
        files: Mapping[str, Mapping[str, str]],
        names: Mapping[str, str],
        nodes: Iterable[str] = ("node-a", "node-b"),
        faster: float = 1,
    ) -> None:
        self.pods: list[Pod] = []
        self.past: list[Pod] = []
        self.refused_evictions = 0
        self._folder = folder
        self._spec = deployment["spec"]
        self._pod_spec = self._spec["template"]["spec"]
        self._container = container_of(deployment)
        self._secrets = secrets
        self._files = files
        """ConfigMaps, as the Secrets are."""
        self._names = names
        """Where that leads which the cluster's DNS knows."""
        self._nodes = list(nodes)
        self._cordoned: set[str] = set()
        self._faster = faster
        self._revision = 1
        self._made = 0
        self._budget = budget["spec"]["maxUnavailable"]
        hook = self._container["lifecycle"]["preStop"]["sleep"]["seconds"]
        self.pre_stop_s = hook / faster
        self.balancer = Balancer(self.pre_stop_s / 5)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def replicas(self) -> int:
        replicas: int = self._spec["replicas"]
        return replicas

    @property
    def standing(self) -> list[Pod]:
        """Those that are to stay."""
        return [pod for pod in self.pods if not pod.terminating]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # What a person says

    async def wait_until_rolled(self) -> None:
        """Do what `kubectl rollout status` does, and wait for the old pods' ends too."""
        await self._until(
            lambda: (
                len(self.pods) == self.replicas
                and all(
                    pod.revision == self._revision and self._available(pod) for pod in self.pods
                )
            )
        )

    async def roll(self) -> float:
        """Do what a new image does; return how long it took."""
        began = self._now()
        self._revision += 1
        await self.wait_until_rolled()
        return self._now() - began

    async def drain(self, node: str) -> float:
        """Do what `kubectl drain` does; return how long it took."""
        began = self._now()
        self._cordoned.add(node)
        there = [pod for pod in self.standing if pod.node == node]
        assert there
        for pod in there:
            while not self._evict(pod):
                self.refused_evictions += 1
                await asyncio.sleep(1 / self._faster)  # kubectl waits for five
        for pod in there:
            await pod.gone.wait()
        await self.wait_until_rolled()
        return self._now() - began

    def _evict(self, pod: Pod) -> bool:
        healthy = sum(one.ready for one in self.standing)
        if pod.ready and healthy - 1 < self.replicas - self._budget:
            return False
        self._delete(pod)
        return True

    # The Deployment

    async def _control(self) -> None:
        while True:
            self._reconcile()
            await asyncio.sleep(0.02)

    def _reconcile(self) -> None:
        rolling = self._spec["strategy"]["rollingUpdate"]
        standing = self.standing
        new = [pod for pod in standing if pod.revision == self._revision]
        old = [pod for pod in standing if pod.revision != self._revision]
        room = self.replicas + rolling["maxSurge"] - len(standing)
        for _ in range(min(self.replicas - len(new), room)):
            self._create()
        spare = sum(map(self._available, standing))
        spare -= self.replicas - rolling["maxUnavailable"]
        for pod in sorted(old, key=self._available)[: max(0, spare)]:
            self._delete(pod)

    def _available(self, pod: Pod) -> bool:
        stood_s = self._now() - pod.ready_since
        return pod.ready and stood_s >= self._spec.get("minReadySeconds", 0) / self._faster

    def _create(self) -> None:
        self._made += 1
        nodes = [node for node in self._nodes if node not in self._cordoned]
        taken = [pod.node for pod in self.standing if pod.revision == self._revision]
        pod = Pod(f"seseragi-{self._made}", self._revision, min(nodes, key=taken.count))
        self.pods.append(pod)
        self._spawn(self._live(pod))

    def _delete(self, pod: Pod) -> None:
        pod.terminating = True
        pod.deleted.set()
        self._publish()

    def _publish(self) -> None:
        """Have the load balancer told of the pods that are ready."""
        self.balancer.hear([pod.port for pod in self.standing if pod.ready])

    # The kubelet

    async def _live(self, pod: Pod) -> None:
        folder = self._mount(pod)
        stop = asyncio.create_task(self._stop(pod))
        try:
            while not pod.terminating:
                await self._run(pod, folder)
                if not pod.terminating:
                    await asyncio.sleep(1 / self._faster)  # before it is started again
            await stop
        finally:
            stop.cancel()
            if pod.process is not None and pod.process.returncode is None:
                pod.process.kill()
                await pod.process.wait()
        self.pods.remove(pod)
        self.past.append(pod)
        pod.gone.set()

    async def _run(self, pod: Pod, folder: Path) -> None:
        """Run a container to its end, with its probes."""
        with (folder / "stderr").open("ab") as log:
            process = pod.process = await asyncio.create_subprocess_exec(
                *self._command(), cwd=folder, env=self._environment(pod, folder), stderr=log
            )
        probing = asyncio.create_task(self._probe(pod, process))
        try:
            pod.codes.append(await process.wait())
        finally:
            probing.cancel()
            self._note(pod, ready=False)

    async def _probe(self, pod: Pod, process: asyncio.subprocess.Process) -> None:
        probes = {
            name: Probe.of(self._container[f"{name}Probe"], self._faster)
            for name in ("startup", "readiness", "liveness")
        }
        if not await self._starts(pod, probes["startup"]):
            process.kill()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_readiness(pod, probes["readiness"]))
            group.create_task(self._watch_liveness(pod, probes["liveness"], process))

    async def _starts(self, pod: Pod, probe: Probe) -> bool:
        for _ in range(int(probe.failures * self._faster)):
            await asyncio.sleep(probe.period_s)
            if await probe.passes(pod.port):
                return True
        return False

    async def _watch_readiness(self, pod: Pod, probe: Probe) -> None:
        failed = 0
        while True:
            failed = 0 if await probe.passes(pod.port) else failed + 1
            if not failed or failed >= probe.failures:
                self._note(pod, ready=not failed)
            await asyncio.sleep(probe.period_s)

    async def _watch_liveness(
        self, pod: Pod, probe: Probe, process: asyncio.subprocess.Process
    ) -> None:
        failed = 0
        while not pod.terminating:  # from then on it is not asked any more
            failed = 0 if await probe.passes(pod.port) else failed + 1
            if failed >= probe.failures:
                process.kill()
                return
            await asyncio.sleep(probe.period_s)

    def _note(self, pod: Pod, *, ready: bool) -> None:
        if ready != pod.ready:
            pod.ready, pod.ready_since = ready, self._now()
            self._publish()

    async def _stop(self, pod: Pod) -> None:
        """Wait until the pod is deleted, and stop its process within the grace period."""
        await pod.deleted.wait()
        grace_s = self._pod_spec["terminationGracePeriodSeconds"]
        over = self._now() + grace_s
        await asyncio.sleep(self.pre_stop_s)
        process = pod.process
        if process is None or process.returncode is not None:
            return
        told = self._now()
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), over - self._now())
        except TimeoutError:
            pod.killed = True
            process.kill()
            await process.wait()
        pod.drained_s = self._now() - told

    def _command(self) -> list[str]:
        command = (
            *self._container.get("command", read_image().command),
            *self._container.get("args", ()),
        )
        assert "seseragi" == command[0]
        return [sys.executable, "-m", "app", *command[1:]]

    def _environment(self, pod: Pod, folder: Path) -> dict[str, str]:
        said = {**read_image().environment, **environment_of(self._container, self._secrets)}
        for mount in self._container["volumeMounts"]:
            path = mount["mountPath"]
            said = {
                name: f"{folder}{value}" if value.startswith(f"{path}/") else value
                for name, value in said.items()
            }
        for name, there in self._names.items():
            said = {variable: value.replace(name, there) for variable, value in said.items()}
        said |= {"SESERAGI_HOST": HOST, "SESERAGI_PORT": str(pod.port)}
        # All pods have one address here, and no Prometheus.
        said |= {"SESERAGI_OPERATOR_PORT": "0", "SESERAGI_LAST_SCRAPE_S": "0"}
        return environment(**said)

    def _mount(self, pod: Pod) -> Path:
        """Lay out the volumes as the kubelet does: behind a link, so that they change at once."""
        folder = self._folder / pod.name
        volumes = {volume["name"]: volume for volume in self._pod_spec["volumes"]}
        for mount in self._container["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "secret" in volume:
                content = self._secrets[volume["secret"]["secretName"]]
                assert 0o440 == volume["secret"]["defaultMode"]
                mode = 0o400  # there it is root's and the pod's group's; here all is one user's
            else:
                content, mode = self._files[volume["configMap"]["name"]], 0o644
            there = folder / mount["mountPath"].lstrip("/")
            (there / "..1").mkdir(parents=True)
            (there / "..data").symlink_to("..1")
            for name, text in content.items():
                file = there / "..1" / name
                file.write_text(text.replace('"/providers/', f'"{folder}/providers/'))
                file.chmod(mode)
                (there / name).symlink_to(f"..data/{name}")
        return folder

    # The whole

    def _spawn(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _check(self) -> None:
        """Fail if something of the cluster itself has."""
        for task in self._tasks:
            if task.done():
                task.result()
        for pod in self.pods:
            # 2: it cannot start. A cluster would try it again for ever.
            assert 2 not in pod.codes, (self._folder / pod.name / "stderr").read_text()

    async def _until(self, condition: Callable[[], object]) -> None:
        """Wait for something of the cluster; how long is limited by who waits for the whole."""

        def holds() -> bool:
            self._check()
            return bool(condition())

        await until(holds, limit_s=math.inf)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run it; what has failed in it fails here."""
        async with self.balancer.listening():
            try:
                self._spawn(self._control())
                yield self
            finally:
                for task in self._tasks:
                    task.cancel()
                results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            assert isinstance(result, asyncio.CancelledError) or result is None, result

    async def wait_until_ready(self, count: int) -> float:
        """Wait until so many relays are in the service; return how long it took."""
        began = self._now()
        await self._until(lambda: sum(pod.ready for pod in self.standing) == count)
        return self._now() - began

    async def kill(self, pod: Pod) -> None:
        """Do what the kernel does to a process that takes too much memory; wait until it is back."""
        assert pod.process is not None
        pod.process.kill()
        await self._until(lambda: pod.codes)
        await self.wait_until_rolled()

    def connections_of(self, pod: Pod) -> int:
        """Return how many connections to a pod the load balancer has open."""
        return self.balancer.open[pod.port]

    def lines(self) -> list[dict[str, Any]]:
        """Return what all relays have logged."""
        files = sorted(self._folder.glob("*/stderr"))
        texts = [path.read_text().rpartition("\n")[0] for path in files]  # without half a line
        return [json.loads(line) for text in texts for line in text.splitlines()]


class Balancer:
    """Gives each connection to one of the pods, of which it hears late."""

    def __init__(self, reacts_s: float) -> None:
        self.port = 0
        self._reacts_s = reacts_s
        self._endpoints: list[int] = []
        self._dice = random.Random(1)
        self.open: Counter[int] = Counter()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def hear(self, endpoints: list[int]) -> None:
        asyncio.get_running_loop().call_later(self._reacts_s, self._learn, endpoints)

    def _learn(self, endpoints: list[int]) -> None:
        self._endpoints = endpoints

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        with contextlib.suppress(OSError):
            if self._endpoints:
                port = self._dice.choice(self._endpoints)
                there = await asyncio.open_connection(HOST, port)
                ends.append(there[1])
                self.open[port] += 1
                try:
                    await asyncio.gather(_pass(reader, there[1]), _pass(there[0], writer))
                finally:
                    self.open[port] -= 1
        for end in ends:
            end.transport.abort()  # what is refused there is refused here

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, to the end, which is handed on too."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
