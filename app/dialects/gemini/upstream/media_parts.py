"""Conversion of images, audio and files of a request to Gemini's parts.

Data is sent inline. A URL is sent for Gemini to fetch and needs a media type, which is guessed
from its extension.
"""

import re
from typing import Any, Final

from ....errors import RequestError
from ....requests import AudioPart, FilePart, ImagePart, VideoPart
from ...writing.conversation import parse_data_url, unsupported

FORMAT: Final = "Gemini's format"

_TYPES: Final = {
    **{end: f"image/{end}" for end in ("png", "jpeg", "webp", "heic", "heif", "gif", "bmp")},
    "jpg": "image/jpeg",
    **{end: f"audio/{end}" for end in ("wav", "mp3", "aiff", "aac", "ogg", "flac", "m4a")},
    **{end: f"video/{end}" for end in ("mp4", "mpeg", "webm", "wmv", "3gpp")},
    **{"mov": "video/quicktime", "avi": "video/x-msvideo", "mpg": "video/mpeg"},
    **{"pdf": "application/pdf", "json": "application/json", "rtf": "text/rtf"},
    **{end: f"text/{end}" for end in ("html", "css", "csv", "xml")},
    **{"txt": "text/plain", "md": "text/markdown", "js": "text/javascript"},
    "py": "text/x-python",
}
_URL: Final = re.compile(r"(?:https?|gs)://(?P<host>[^/?#]*)(?P<path>[^?#]*)")
_HOST: Final = re.compile(r"[\w.-]+")
_FILE: Final = re.compile(r"/v\w+/files/[\w-]+")


def render_image(part: ImagePart, *, path: str) -> dict[str, Any]:
    """Return an image part; a URL without a known extension is sent as a JPEG.

    Raises:
        RequestError: Gemini cannot fetch the URL.
    """
    url = part.image_url.url
    return _inline(url) or _by_url(url, default="image/jpeg", path=f"{path}.image_url.url")


def render_video(part: VideoPart, *, path: str) -> dict[str, Any]:
    """Return a video part; a URL without a known extension, as YouTube's, is sent as MP4.

    Raises:
        RequestError: Gemini cannot fetch the URL.
    """
    url = part.video_url.url
    return _inline(url) or _by_url(url, default="video/mp4", path=f"{path}.video_url.url")


def render_audio(part: AudioPart) -> dict[str, Any]:
    audio = part.input_audio
    return {"inlineData": {"mimeType": f"audio/{audio.format}", "data": audio.data}}


def render_file(part: FilePart, *, path: str) -> dict[str, Any]:
    """Return a file part: its data, its URL, or by `file_id` the URI of an uploaded file.

    A URL without a known extension is sent as a PDF, which other formats take by URL.

    Raises:
        RequestError: it has none of them, or its media type is unknown.
    """
    file = part.file
    known = _guess(file.filename or "")
    if file.url:
        return _by_url(file.url, default=known or "application/pdf", path=f"{path}.file.file_url")
    if file.file_data:
        if found := _inline(file.file_data):
            return found
        if known is None:
            subject = "data without a media type; make it a data: URL, which"
            raise unsupported(f"{path}.file.file_data", subject, format=FORMAT)
        return {"inlineData": {"mimeType": known, "data": file.file_data}}
    if file.file_id:
        return _by_url(file.file_id, default=known, path=f"{path}.file.file_id")
    raise RequestError("invalid_request", f"{path}.file: has no file_data, file_url or file_id")


def _inline(url: str) -> dict[str, Any] | None:
    found = parse_data_url(url)
    return found and {"inlineData": {"mimeType": found[0], "data": found[1]}}


def _by_url(url: str, *, default: str | None, path: str) -> dict[str, Any]:
    found = _URL.match(url)
    if found is None:
        subject = "anything but a base64 data:, https: or gs: URL"
        raise unsupported(path, subject, format=FORMAT)
    if _is_uploaded(url, found):
        return {"fileData": {"fileUri": url}}
    kind = _guess(found["path"]) or default
    if kind is None:
        subject = "a URL without a known extension, and without a filename with one,"
        raise unsupported(path, subject, format=FORMAT)
    return {"fileData": {"mimeType": kind, "fileUri": url}}


def _is_uploaded(url: str, found: re.Match[str]) -> bool:
    """Return whether the URL is a file uploaded to Gemini, which knows its type."""
    return (
        url.startswith("https://")
        and "generativelanguage" in found["host"]
        and _HOST.fullmatch(found["host"]) is not None
        and found.end() == len(url)
        and _FILE.fullmatch(found["path"]) is not None
    )


def _guess(name: str) -> str | None:
    return _TYPES.get(name.rpartition(".")[2].lower())
