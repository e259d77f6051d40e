"""A real Prometheus for the tests, and the files that are made for it."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import yaml

from tests.needs import program
from tests.ports import answers, free_port
from tests.waiting import until

FOLDER = Path(__file__).parents[2] / "deploy/grafana"
ALERTS = FOLDER / "alerts.yml"
DASHBOARD = FOLDER / "dashboard.json"


def rules_of_alerts() -> list[dict[str, Any]]:
    """Return all alert rules; one name may have a rule for each severity."""
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def run_rules(folder: Path, cases: Sequence[dict[str, Any]]) -> str:
    """Test the alert rules with `promtool`; return what it complains of."""
    file = folder / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": [*cases]}))
    tool = program("promtool")
    done = subprocess.run([tool, "test", "rules", file], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def expressions_of_dashboard() -> list[str]:
    """Return all queries of the dashboard."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


class Prometheus:
    """One that runs."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def ask(self, query: str) -> list[Any]:
        """Return the samples of a query, now."""
        reply = await self._client.get("/api/v1/query", params={"query": query})
        assert 200 == reply.status_code, f"{query}: {reply.text}"
        samples: list[Any] = reply.json()["data"]["result"]
        return samples

    async def scraped(self) -> None:
        """Wait until a scrape that began after this is there.

        Of two that come yet the first may have begun before, and lack what was just counted.
        """
        last = "timestamp(up)"
        for _ in range(2):
            before = float((await self.until(last))[0]["value"][1])
            await self.until(f"{last} > {before}")

    async def until(self, query: str) -> list[Any]:
        """Return the samples of a query, once there are any that are numbers."""
        found: list[Any] = []

        async def comes() -> bool:
            found[:] = [s for s in await self.ask(query) if s["value"][1] != "NaN"]
            return bool(found)

        await until(comes, limit_s=60)
        return found


async def is_ready(client: httpx2.AsyncClient) -> bool:
    return (await client.get("/-/ready")).status_code == 200


@asynccontextmanager
async def serve_prometheus(
    folder: Path, targets: Sequence[str], *, key: str = ""
) -> AsyncIterator[Prometheus]:
    """Run one that scrapes these four times a second, with a key."""
    port = free_port()
    job: dict[str, Any] = {"job_name": "seseragi", "static_configs": [{"targets": [*targets]}]}
    if key:
        (folder / "key").write_text(key)
        job["authorization"] = {"credentials_file": str(folder / "key")}
    config = {
        "global": {"scrape_interval": "250ms", "evaluation_interval": "250ms"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [job],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    process = await asyncio.create_subprocess_exec(
        program("prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
        cwd=folder,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
            await until(lambda: answers(port), limit_s=60)
            await until(lambda: is_ready(client), limit_s=60)
            yield Prometheus(client)
    finally:
        process.terminate()
        await process.wait()
