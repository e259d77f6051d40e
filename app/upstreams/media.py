"""The URLs in a request that a provider fetches, and the ids of what it stores, in any dialect.

A provider reads with its own rights, or with the relay's: a `gs:` or `s3:` URL, a file and a
container by its id, as the relay's account. What stands in arguments and results of tools, and
in citations, is not read.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

_FORMS: Final = frozenset(
    (
        *("toolConfig", "functions", "metadata", "requestMetadata", "generationConfig"),
        *("response_format", "text", "format", "outputConfig", "output_config", "output_format"),
    )
)
"""The fields of a body in which no media stand, but schemas, which may speak of anything."""

STORED: Final = frozenset(
    (
        *("file_id", "file_ids", "fileUri", "file_uri"),
        *("container", "container_id", "vector_store_ids"),
    )
)
"""What holds the id of something in the provider's account, or a list of them.

OpenAI's code interpreter also goes on in the container that an earlier call of the input names.
"""

_OF_GEMINI: Final = "generativelanguage"
"""In the URL of each file in Gemini's own store: `https://generativelanguage.googleapis.com/...`.
Any other URL is fetched as everybody can."""

_DIRECT: Final = STORED | frozenset(
    (
        *("image_url", "video_url", "audio_url", "document_url", "file_url", "imageUrl"),
        *("gcsUri", "gcs_uri", "file_data", "fileData"),
        *("image", "images", "video", "audio", "document", "s3Location", "s3_location"),
    )
)
"""What holds a URL, or an object or a list with one; some hold data or an id as well."""

_WITHIN: Final = frozenset(("url", "uri"))
_OPAQUE: Final = frozenset(
    (
        *("args", "arguments", "response", "json", "parameters", "functionCall"),
        *("input_schema", "function", "output_schema", "functionDeclarations", "input_examples"),
        *("function_declarations", "annotations", "citations"),
    )
)
"""What is the client's own business, and that of its tools; and sources that an answer named."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_SPACE: Final = re.compile(r"[\x00-\x20]+")
"""What readers of a URL ignore."""


class Foreign(NamedTuple):
    """What a provider would read though the client may not."""

    place: str
    """In the body."""
    field: str
    scheme: str | None
    """Of its URL; None for what the provider stores."""


def find_foreign(
    body: dict[str, Any], *, schemes: Collection[str], stored: Collection[str]
) -> Foreign | None:
    """Find a URL of any other scheme, or an id in one of these fields of `STORED`."""
    media = {name: value for name, value in body.items() if name not in _FORMS}

    def is_foreign(field: str, url: str) -> bool:
        scheme = _scheme(url)
        return scheme not in (None, *schemes) or (field in stored and _is_stored(field, url))

    if not any(is_foreign(field, url) for _, field, url in _urls(media, places=False)):
        return None  # nearly always, and to know no places takes half the time
    for path, field, url in _urls(media, places=True):
        if is_foreign(field, url):
            scheme = _scheme(url)
            return Foreign(_place(path), field, None if scheme in (None, *schemes) else scheme)
    return None


def _is_stored(field: str, value: str) -> bool:
    if field in ("fileUri", "file_uri"):
        return _scheme(value) is None or _OF_GEMINI in unquote(value).lower()
    return value != ""


def _scheme(url: str) -> str | None:
    end = url.find(":", 0, 1000)
    if end < 0:
        return None
    scheme = _SPACE.sub("", url[:end]).lower()
    return scheme if _SCHEME.fullmatch(scheme) else None


Path = tuple[str | int, Any] | None
"""The last step to a place, and the path of those before."""


def _urls(media: dict[str, Any], *, places: bool) -> Iterator[tuple[Path, str, str]]:
    """Yield every URL, and data and ids that stand where one may, with the field that holds it.

    `places`: with its path.
    """
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
                yield from _direct(name, inner, path)
            elif name == "url" and type(inner) is str and value.get("type") == "url":
                yield (name, path), name, inner
            if type(inner) is dict:
                if name not in _OPAQUE and name != "input":
                    left.append((inner, (name, path) if places else None))
            elif type(inner) is list and name not in _OPAQUE:
                left.append((inner, (name, path) if places else None))


def _direct(field: str, value: Any, path: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield the URLs of what holds one: a text, an object, or a list of them."""
    path = (field, path)
    for index, item in enumerate(value if isinstance(value, list) else (value,)):
        where = (index, path) if isinstance(value, list) else path
        if isinstance(item, str):
            yield where, field, item
        elif isinstance(item, dict):
            for name in item.keys() & _WITHIN:
                if isinstance(item[name], str):
                    yield (name, where), field, item[name]


def _place(path: Path) -> str:
    steps: list[str] = []
    while path is not None:
        step, path = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")[:200]
