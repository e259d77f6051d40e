"""The URLs in a request that a provider fetches, in any dialect.

A provider fetches with its own rights, or with the relay's: a `gs:` or `s3:` URL is read as
the relay's account. URLs in arguments and results of tools are not fetched.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

_FORMS: Final = frozenset(
    (
        *("tools", "toolConfig", "functions", "metadata", "requestMetadata", "generationConfig"),
        *("response_format", "text", "format", "outputConfig", "output_config", "output_format"),
    )
)
"""The fields of a body in which no media stand, but schemas, which may speak of anything."""

_DIRECT: Final = frozenset(
    (
        *("image_url", "video_url", "audio_url", "document_url", "file_url", "imageUrl"),
        *("fileUri", "file_uri", "gcsUri", "gcs_uri", "file_data", "fileData", "file_id"),
        *("image", "images", "video", "audio", "document", "s3Location", "s3_location"),
    )
)
"""What holds a URL, or an object or a list with one; some hold data or an id as well."""

_WITHIN: Final = frozenset(("url", "uri"))
_OPAQUE: Final = frozenset(
    (
        *("args", "arguments", "response", "json", "parameters", "functionCall"),
        *("input_schema", "function", "output_schema"),
    )
)
"""What is the client's own business, and that of its tools."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_SPACE: Final = re.compile(r"[\x00-\x20]+")
"""What readers of a URL ignore."""


def find_foreign(body: dict[str, Any], schemes: Collection[str]) -> tuple[str, str] | None:
    """Find a URL of any other scheme; return its place in the body, and its scheme."""
    media = {name: value for name, value in body.items() if name not in _FORMS}
    if not any(_scheme(url) not in (None, *schemes) for _, url in _urls(media, places=False)):
        return None  # nearly always, and to know no places takes half the time
    for path, url in _urls(media, places=True):
        scheme = _scheme(url)
        if scheme not in (None, *schemes):
            return _place(path), scheme or ""
    return None


def _scheme(url: str) -> str | None:
    end = url.find(":", 0, 1000)
    if end < 0:
        return None
    scheme = _SPACE.sub("", url[:end]).lower()
    return scheme if _SCHEME.fullmatch(scheme) else None


Path = tuple[str | int, Any] | None
"""The last step to a place, and the path of those before."""


def _urls(media: dict[str, Any], *, places: bool) -> Iterator[tuple[Path, str]]:
    """Yield every URL, and data and ids that stand where one may; `places`: with its path."""
    left: list[tuple[Any, Path]] = [(media, None)]
    while left:
        value, path = left.pop()
        if isinstance(value, list):
            for index, item in enumerate(value):
                if type(item) is dict or type(item) is list:
                    left.append((item, (index, path) if places else None))
            continue
        for name, inner in value.items():
            if name in _DIRECT:
                yield from _direct(inner, (name, path))
            elif name == "url" and type(inner) is str and value.get("type") == "url":
                yield (name, path), inner
            if type(inner) is dict:
                if name not in _OPAQUE and name != "input":
                    left.append((inner, (name, path) if places else None))
            elif type(inner) is list and name not in _OPAQUE:
                left.append((inner, (name, path) if places else None))


def _direct(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the URLs of what holds one: a text, an object, or a list of them."""
    for index, item in enumerate(value if isinstance(value, list) else (value,)):
        where = (index, path) if isinstance(value, list) else path
        if isinstance(item, str):
            yield where, item
        elif isinstance(item, dict):
            for name in item.keys() & _WITHIN:
                if isinstance(item[name], str):
                    yield (name, where), item[name]


def _place(path: Path) -> str:
    steps: list[str] = []
    while path is not None:
        step, path = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")[:200]
