"""Files in a client's message, as parts of a chat request."""

import re

from ...errors import RequestError
from ...requests import (
    AudioPart,
    FilePart,
    FileSource,
    ImagePart,
    ImageUrl,
    InputAudio,
    UserPart,
    VideoPart,
    VideoUrl,
)
from ..writing.conversation import parse_data_url

_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav", "mp4": "m4a"}


def build_part(url: str, media_type: str, *, filename: str | None = None, path: str) -> UserPart:
    """Return the part for a file, chosen by its URL and media type.

    Raises:
        RequestError: `invalid_request`, only the client can read the URL.
    """
    if not re.match(r"(data|https?|gs|s3):", url):
        raise RequestError(
            "invalid_request",
            f"{path}: {url[:40]!r} is only readable in the page; send a data: or https: URL",
        )
    kind, _, subtype = media_type.lower().partition(";")[0].strip().partition("/")
    if kind == "image":
        return ImagePart(ImageUrl(url))
    if kind == "video":
        return VideoPart(VideoUrl(url))
    inline = parse_data_url(url)
    if kind == "audio" and inline is not None:
        return AudioPart(InputAudio(inline[1], _AUDIO_FORMATS.get(subtype, subtype)))
    if url.startswith("data:"):
        return FilePart(FileSource(file_data=url, filename=filename))
    return FilePart(FileSource(file_url=url, filename=filename))
