"""The manifests of `deploy/kubernetes` and the Dockerfile, as a cluster reads them."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())

Object = dict[str, Any]
Secrets = Mapping[str, Mapping[str, str]]
"""What is in each Secret, by its name."""


def read_objects(*files: str) -> list[Object]:
    """Read all objects of some files; without names, of those that are applied."""
    names = files or KUSTOMIZATION["resources"]
    return [one for name in names for one in yaml.safe_load_all((FOLDER / name).read_text())]


def read_all_objects() -> list[Object]:
    """Read the objects of every file, also of those that have to be asked for."""
    files = sorted(path.relative_to(FOLDER) for path in FOLDER.rglob("*.yaml"))
    return read_objects(*(str(name) for name in files if name.name != "kustomization.yaml"))


def find(kind: str, name: str = "seseragi") -> Object:
    """Return the one object of a kind and name."""
    (found,) = (
        one for one in read_all_objects() if (one["kind"], one["metadata"]["name"]) == (kind, name)
    )
    return found


def settings_file(*, with_examples: bool) -> str:
    """Return what the ConfigMap has as `seseragi.toml`; its examples are in comments."""
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    assert ["seseragi.toml"] == generator["files"]
    text = (FOLDER / "seseragi.toml").read_text()
    if not with_examples:
        return text
    return re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE)


class Image(NamedTuple):
    """What the Dockerfile says of how its image is run."""

    environment: Mapping[str, str]
    user: str
    port: int
    command: tuple[str, ...]


def read_image() -> Image:
    """Read the last stage of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.rpartition("\nFROM ")[2].splitlines() if line]
    said = {words[0]: words[1] for words in lines if len(words) == 2}
    pairs = (word.partition("=") for word in shlex.split(said["ENV"]))
    return Image(
        {name: value for name, _, value in pairs if name != "PATH"},
        said["USER"],
        int(said["EXPOSE"]),
        tuple(yaml.safe_load(said["CMD"])),
    )


def container_of(workload: Object) -> Object:
    """Return the one container of a workload's pods."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: Object = container
    return found


def environment_of(container: Object, secrets: Secrets) -> dict[str, str]:
    """Return the variables of a container, beside its image's, as the kubelet puts them together."""
    values: dict[str, str] = {}
    for entry in container.get("env", ()):
        if "value" in entry:
            value = expand(entry["value"], values)
        else:
            reference = entry["valueFrom"]["secretKeyRef"]
            value = secrets[reference["name"]][reference["key"]]
        values[entry["name"]] = value
    return values


def expand(text: str, values: Mapping[str, str]) -> str:
    """Put variables into a text, as `$(NAME)`; a name that is not known stays as it is."""
    return re.sub(r"\$\((\w+)\)", lambda match: values.get(match[1], match[0]), text)


def secrets_of(workload: Object) -> dict[str, set[str]]:
    """Return the names of the Secrets that pods need, with the keys that are named there."""
    found: dict[str, set[str]] = {}
    for volume in workload["spec"]["template"]["spec"].get("volumes", ()):
        if "secret" in volume:
            found.setdefault(volume["secret"]["secretName"], set())
    for entry in container_of(workload).get("env", ()):
        if reference := entry.get("valueFrom", {}).get("secretKeyRef"):
            found.setdefault(reference["name"], set()).add(reference["key"])
    return found
