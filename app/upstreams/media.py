"""Search for URLs and ids of stored objects in a request body, in any dialect.

A provider fetches them with its own rights or the relay's: a `gs:` or `s3:` URL, a file or a
container by id, as the relay's account. Arguments and results of tools, and citations, are
not fetched.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

_FORMS: Final = frozenset(
    (
        "format",
        "functions",
        "generationConfig",
        "metadata",
        "outputConfig",
        "output_config",
        "output_format",
        "requestMetadata",
        "response_format",
        "text",
        "toolConfig",
    )
)
"""The fields of a body without media, whose schemas may contain any name."""

STORED: Final = frozenset(
    (
        "container",
        "container_id",
        "fileUri",
        "file_id",
        "file_ids",
        "file_uri",
        "uri",
        "vector_store_ids",
    )
)
"""The fields with the id of an object in the provider's account, or a list of ids.

OpenAI's code interpreter also reuses the container of an earlier call in the input.
"""

_TYPED: Final = {"url": ("url",), "uri": ("image", "audio", "video", "document")}
"""The fields with a URL in objects of these types. `uri` is that of the Interactions API, of
stored files too.
"""

_GEMINI_HOST: Final = "generativelanguage"
"""In the URL of each file uploaded to Gemini: `https://generativelanguage.googleapis.com/...`.
Any other URL is fetched anonymously.
"""

MAX_ESCAPES: Final = 1000
"""Escaped characters of a URL that may be that of a file: decoding 4 MiB of them takes 0.5 s."""

_DIRECT: Final = STORED - {"uri"} | frozenset(
    (
        "audio",
        "audio_url",
        "document",
        "document_url",
        "fileData",
        "file_data",
        "file_url",
        "gcsUri",
        "gcs_uri",
        "image",
        "imageUrl",
        "image_url",
        "images",
        "s3Location",
        "s3_location",
        "video",
        "video_url",
    )
)
"""The fields with a URL, or an object or list of them; some may contain data or an id instead."""

_WITHIN: Final = frozenset(("url", "uri"))
_OPAQUE: Final = frozenset(
    (
        "annotations",
        "args",
        "arguments",
        "citations",
        "function",
        "functionCall",
        "functionDeclarations",
        "function_declarations",
        "input_examples",
        "input_schema",
        "json",
        "output_schema",
        "parameters",
        "response",
    )
)
"""The fields of clients and their tools, and of cited sources."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_SPACE: Final = re.compile(r"[\x00-\x20]+")
"""Characters that URL parsers ignore."""


class ForeignReference(NamedTuple):
    """A URL or an object that a provider would read, though the client may not."""

    field: str
    scheme: str | None
    """The URL's scheme; None for a stored object."""


def find_foreign(
    body: dict[str, Any], *, schemes: Collection[str], stored: Collection[str]
) -> ForeignReference | None:
    """Return a URL with a scheme not in `schemes`, or an id in a field of `stored`."""
    for field, url in _urls({name: value for name, value in body.items() if name not in _FORMS}):
        scheme = _scheme(url)
        if scheme not in (None, *schemes):
            return ForeignReference(field, scheme)
        if field in stored and _is_stored(field, url):
            return ForeignReference(field, None)
    return None


def _is_stored(field: str, value: str) -> bool:
    if field in ("fileUri", "file_uri", "uri"):
        scheme, escapes = _scheme(value), value.count("%")
        if scheme == "data" or (scheme is not None and escapes > MAX_ESCAPES):
            return scheme != "data"
        return scheme is None or _GEMINI_HOST in unquote(value).lower()
    return value != ""


def _scheme(url: str) -> str | None:
    end = url.find(":", 0, 1000)
    if end < 0:
        return None
    scheme = _SPACE.sub("", url[:end]).lower()
    return scheme if _SCHEME.fullmatch(scheme) else None


def _urls(media: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every URL, and data and ids in the same fields, with its field."""
    left: list[Any] = [media]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += [item for item in value if type(item) is dict or type(item) is list]
            continue
        for name, inner in value.items():
            if name in _DIRECT:
                yield from _direct(name, inner)
            elif name in _TYPED and type(inner) is str and value.get("type") in _TYPED[name]:
                yield name, inner
            if name not in _OPAQUE and (
                type(inner) is list or (type(inner) is dict and name != "input")
            ):
                left.append(inner)


def _direct(field: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the URLs of a field: a string, an object, or a list of them."""
    for item in value if isinstance(value, list) else (value,):
        if isinstance(item, str):
            yield field, item
        elif isinstance(item, dict):
            for name in item.keys() & _WITHIN:
                if isinstance(item[name], str):
                    yield field, item[name]
