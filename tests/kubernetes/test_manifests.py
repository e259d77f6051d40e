"""What the manifests say agrees with the relay, the image and itself."""

import re
from typing import Any

import pytest
import yaml

from app.api.guard import HostNames, parse_host
from app.server.serving import STOP_WITHIN_S
from app.settings import Settings, load_settings
from app.settings.access import decide_access
from tests.kubernetes.manifests import (
    FOLDER,
    KUSTOMIZATION,
    ROOT,
    Object,
    container_of,
    environment_of,
    find,
    read_all_objects,
    read_image,
    read_objects,
    secrets_of,
    settings_file,
)
from tests.serving import routes_of

RELAY, REDIS = find("Deployment"), find("StatefulSet", "seseragi-redis")
WORKLOADS = pytest.mark.parametrize("workload", [RELAY, REDIS], ids=["relay", "redis"])
GUIDE = (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")
PASSWORDS = {"seseragi-redis": {"password": "of-the-secret"}}


def bytes_of(quantity: str) -> int:
    units = {"Mi": 2**20, "Gi": 2**30, "gb": 2**30}
    found = re.fullmatch(r"(\d+)(\w\w)", quantity)
    assert found is not None, quantity
    return int(found[1]) * units[found[2]]


@pytest.fixture(params=[False, True], ids=["as it is", "with its examples"])
def settings(request, tmp_path, monkeypatch) -> Settings:
    """What a relay reads in its pod."""
    own = environment_of(container_of(RELAY), PASSWORDS)
    variables = {**read_image().environment, **own}
    assert "/etc/seseragi/seseragi.toml" == variables["SESERAGI_CONFIG"]
    (tmp_path / "provider").write_text("sk-test")
    text = settings_file(with_examples=request.param)
    (tmp_path / "seseragi.toml").write_text(
        text.replace('"/providers/openai"', f'"{tmp_path}/provider"')
    )
    variables["SESERAGI_CONFIG"] = str(tmp_path / "seseragi.toml")
    return load_settings(variables)


def test_every_setting_is_one_of_the_relay(settings):
    """Reading them refuses what it does not know."""
    assert "credentials" == decide_access(settings)
    assert settings.identity.auth.keys_file == "/keys/keys.json"
    for route in settings.routes:
        assert ["openai"] == [target.upstream.name for target in route.targets]


def test_the_grace_period_has_room_for_the_hook_and_the_drain(settings):
    pod = RELAY["spec"]["template"]["spec"]
    hook = container_of(RELAY)["lifecycle"]["preStop"]["sleep"]["seconds"]

    stops_s = settings.drain_s + settings.last_scrape_s + STOP_WITHIN_S
    assert pod["terminationGracePeriodSeconds"] >= hook + stops_s


def test_prometheus_scrapes_the_port_that_stays_while_a_relay_drains(settings):
    (endpoint,) = find("PodMonitor")["spec"]["podMetricsEndpoints"]
    ports = {port["name"]: port["containerPort"] for port in container_of(RELAY)["ports"]}

    assert settings.operator_port == ports[endpoint["port"]] != ports["http"]
    assert int(endpoint["interval"].removesuffix("s")) < settings.last_scrape_s


def test_memory_has_room_for_what_the_settings_allow(settings):
    limits = container_of(RELAY)["resources"]["limits"]
    held = settings.max_log_bytes + settings.max_request_memory_bytes
    assert held <= bytes_of(limits["memory"]) / 2
    options = container_of(REDIS)["args"]
    most = options[options.index("--maxmemory") + 1]

    # It writes its file anew beside what it holds.
    assert bytes_of(most) <= bytes_of(container_of(REDIS)["resources"]["limits"]["memory"]) / 2
    assert "cpu" not in limits


def test_redis_is_set_up_as_compose_does_it():
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["redis"]
    container = container_of(REDIS)

    assert f"${{REDIS_IMAGE:-{container['image']}}}" == compose["image"]
    options = " ".join(container["args"])
    for option in ("--appendonly yes", "--appendfsync everysec", "--maxmemory-policy noeviction"):
        assert option in options
        assert option in compose["command"]


def test_the_image_is_that_of_the_dockerfile():
    image, container = read_image(), container_of(RELAY)
    (replaced,) = KUSTOMIZATION["images"]

    assert replaced["name"] == container["image"] == "seseragi"
    runs_as = RELAY["spec"]["template"]["spec"]["securityContext"]
    assert int(image.user) == runs_as["runAsUser"] == runs_as["runAsGroup"] == runs_as["fsGroup"]
    assert f"groupadd --gid {image.user} " in (ROOT / "Dockerfile").read_text()
    assert image.port == container["ports"][0]["containerPort"]
    assert "command" not in container


@pytest.mark.parametrize("name", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_ask_what_the_relay_answers(name):
    probe = container_of(RELAY)[name]["httpGet"]
    paths = {route.path for route in routes_of(load_settings({}))}  # type: ignore[attr-defined]

    assert probe["path"] in paths
    assert probe["port"] in [port["name"] for port in container_of(RELAY)["ports"]]


def test_redis_away_makes_no_relay_start_again():
    """That it cannot write is told by /readyz alone."""
    container = container_of(RELAY)

    assert "/healthz" == container["livenessProbe"]["httpGet"]["path"]
    assert "/healthz" == container["startupProbe"]["httpGet"]["path"]
    assert "/readyz" == container["readinessProbe"]["httpGet"]["path"]


@WORKLOADS
def test_pods_may_do_next_to_nothing(workload):
    pod, container = workload["spec"]["template"]["spec"], container_of(workload)

    assert (False, False) == (pod["automountServiceAccountToken"], pod["enableServiceLinks"])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert {"type": "RuntimeDefault"} == pod["securityContext"]["seccompProfile"]
    assert {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    } == container["securityContext"]
    assert container["resources"]["requests"].keys() >= {"cpu", "memory"}


@WORKLOADS
def test_what_is_mounted_is_there(workload):
    claims = workload["spec"].get("volumeClaimTemplates", ())
    there = {volume["name"] for volume in workload["spec"]["template"]["spec"].get("volumes", ())}
    there |= {claim["metadata"]["name"] for claim in claims}

    assert there == {mount["name"] for mount in container_of(workload)["volumeMounts"]}
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    maps = [v["configMap"]["name"] for v in workload["spec"]["template"]["spec"].get("volumes", ())
            if "configMap" in v]  # fmt: skip
    assert set(maps) <= {generator["name"]}


def labels_of(workload: Object) -> set[tuple[str, str]]:
    return set(workload["spec"]["template"]["metadata"]["labels"].items())


def selectors(value: Any, key: str = "") -> list[dict[str, str]]:
    """Return whatever selects pods of this folder, however deep it stands."""
    if isinstance(value, list):
        return [found for one in value for found in selectors(one, key)]
    if not isinstance(value, dict):
        return []
    if key == "matchLabels" or (key == "selector" and "matchLabels" not in value):
        return [value] if "app.kubernetes.io/name" in value else []
    return [found for name, one in value.items() for found in selectors(one, name)]


def test_selectors_find_the_pods_that_they_are_meant_for():
    counts = {"relay": 0, "redis": 0}
    for one in read_all_objects():
        own = one["metadata"]["labels"]["app.kubernetes.io/component"]
        for labels in selectors(one["spec"]):
            found = [
                workload
                for workload in (RELAY, REDIS)
                if set(labels.items()) <= labels_of(workload)
            ]
            assert 1 == len(found), (one["kind"], labels)
            counts[own] += 1

    # Deployment, two of its spread, Service, budget, policy with Redis's, monitor.
    assert counts["relay"] >= 8
    assert counts["redis"] >= 4


def test_services_lead_to_ports_of_the_pods():
    service, redis = find("Service"), find("Service", "seseragi-redis")
    assert service["spec"]["ports"][0]["targetPort"] == container_of(RELAY)["ports"][0]["name"]
    (port,) = redis["spec"]["ports"]
    log = environment_of(container_of(RELAY), PASSWORDS)["SESERAGI_LOG"]

    assert f"redis://:of-the-secret@{redis['metadata']['name']}:{port['port']}/0" == log
    assert redis["metadata"]["name"] == REDIS["spec"]["serviceName"]
    egress = find("NetworkPolicy")["spec"]["egress"]
    assert [{"port": port["port"]}] in [rule["ports"] for rule in egress]


def test_clients_are_let_in_by_names_that_the_relay_knows(settings):
    names = HostNames(settings.host, settings.allowed_hosts)
    public = [
        *find("HTTPRoute")["spec"]["hostnames"],
        *(rule["host"] for rule in find("Ingress")["spec"]["rules"]),
        *find("Ingress")["spec"]["tls"][0]["hosts"],
    ]
    within = ("seseragi", "seseragi.team.svc.cluster.local", "10.244.1.7:8000", "[fd00::7]:8000")
    for name in (*public, *within):
        host = parse_host(name.encode())
        assert host is not None
        assert names.allow(host.name), name
    assert not names.allow("attacker.example")


def test_ways_in_lead_to_the_service_and_wait_for_the_relay(settings):
    service, ingress, route = find("Service"), find("Ingress"), find("HTTPRoute")
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    port = service["spec"]["ports"][0]
    assert {"name": "seseragi", "port": {"name": port["name"]}} == path["backend"]["service"]
    assert [{"name": "seseragi", "port": port["port"]}] == route["spec"]["rules"][0]["backendRefs"]
    prefix = "nginx.ingress.kubernetes.io/"
    said = {name.removeprefix(prefix): v for name, v in ingress["metadata"]["annotations"].items()}

    assert "off" == said["proxy-buffering"]
    assert int(said["proxy-read-timeout"]) > settings.total_timeout_s
    assert int(said["proxy-body-size"].removesuffix("m")) * 2**20 > settings.max_request_bytes
    assert {"request": "0s"} == route["spec"]["rules"][0]["timeouts"]


def test_a_node_can_be_emptied_and_no_roll_takes_a_relay_away():
    rolling = RELAY["spec"]["strategy"]["rollingUpdate"]
    assert {"maxUnavailable": 0, "maxSurge": 1} == rolling
    budget = find("PodDisruptionBudget")["spec"]
    assert 0 < budget["maxUnavailable"] < RELAY["spec"]["replicas"]
    scaled = find("HorizontalPodAutoscaler")["spec"]

    assert scaled["minReplicas"] == RELAY["spec"]["replicas"]
    target = scaled["scaleTargetRef"]
    assert ("Deployment", "seseragi") == (target["kind"], target["name"])
    grace_s = RELAY["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    (policy,) = scaled["behavior"]["scaleDown"]["policies"]
    assert policy["periodSeconds"] > grace_s


def test_the_guide_makes_every_secret_that_is_needed():
    needed = secrets_of(RELAY) | secrets_of(REDIS)
    credentials = find("PodMonitor")["spec"]["podMetricsEndpoints"][0]["authorization"]
    needed[credentials["credentials"]["name"]] = {credentials["credentials"]["key"]}

    for name, keys in needed.items():
        (made,) = re.findall(rf"kubectl create secret generic {name} .*", GUIDE)
        for key in keys:
            assert re.search(rf"--from-(literal|file)={key}\b", made), (name, key)


def test_pods_are_scraped_as_the_job_that_alerts_look_for():
    """Without `jobLabel` the operator calls the job NAMESPACE/NAME of the PodMonitor."""
    alerts = (ROOT / "deploy/grafana/alerts.yml").read_text()
    monitor = find("PodMonitor")["spec"]
    labels = RELAY["spec"]["template"]["metadata"]["labels"]

    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert {labels[monitor["jobLabel"]]} == set(re.findall(r'job="(.+?)"', alerts))


def test_every_file_is_used_or_offered():
    said = (FOLDER / "kustomization.yaml").read_text()
    listed = set(re.findall(r"^  (?:# )?- (\S+\.yaml)", said, re.MULTILINE))

    assert listed == {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    component = yaml.safe_load((FOLDER / "autoscaling/kustomization.yaml").read_text())
    assert "#   - autoscaling" in said
    for file in component["resources"]:
        assert (FOLDER / "autoscaling" / file).is_file()


def test_objects_stay_in_the_namespace_that_they_are_applied_to():
    for one in read_all_objects():
        assert "namespace" not in one["metadata"]
    names = [(one["kind"], one["metadata"]["name"]) for one in read_objects()]
    assert len(set(names)) == len(names)


def test_alerts_are_those_of_prometheus():
    """The command that makes the file again is its second line."""
    alerts = yaml.safe_load((ROOT / "deploy/grafana/alerts.yml").read_text())

    assert alerts == find("PrometheusRule")["spec"]
