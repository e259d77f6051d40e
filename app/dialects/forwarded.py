"""Calls that are forwarded to the provider: their table, requests, and usage. No I/O.

The body is the client's own, except for the model's name and fields that clients may not set; the
answer is the provider's own. Only `usage` is read from it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Raw

from ..errors import RequestError
from ..events import TokenCounts
from ..framing.multipart import Part, parse_form, render_form, text_part
from ..requests import convert_body, parse_body, parse_part
from .reading.billing import parse_cost
from .reading.json_values import count, decode_or, mapping
from .writing.output_ceiling import CHOICES, plain_name
from .writing.token_estimate import AUDIO_BYTES, estimate_text

Kind = Literal[
    "moderations", "rerank", "images", "image_edits", "speech", "transcriptions", "translations"
]

ResultCount: Final[Any] = Annotated[int, msgspec.Meta(ge=1, le=100)] | None
"""The number of results for which output is reserved."""

MAX_MODEL: Final = 4096
"""Bytes of a model's name that are read from a form: no model has a longer one."""

TAIL_BYTES: Final = 256 * 1024
"""The end of an answer in which its usage is looked for. A streamed image is megabytes, and its
usage follows it."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of call."""

    kind: Kind
    path: str
    """Below `/v1/`, and below the base URL of OpenAI's upstreams."""
    other_path: str = ""
    """Another path for clients."""
    model: str = ""
    """The model of a request without one; "" if it is required."""
    fields: frozenset[str]
    """The fields that only affect the answer: clients may always set them."""
    answers: tuple[str, ...] = ("application/json",)
    """Media types of the answer."""
    form: bool = False
    """Whether the request is `multipart/form-data` instead of JSON."""
    image_tokens: int = 0
    """The input for each file of a form, at most; 0 if its files are sound."""
    output_tokens: int = 0
    """The output for which money is reserved: of one result."""
    spoken: int = 0
    """Tokens of output per token of input, at most: an estimate before the first byte."""
    token_bytes: Mapping[str, int] = {}
    """Bytes of an answer per token of output, at least, by media type; "" is any other. Empty if
    an answer is whole before its first byte."""

    @property
    def paths(self) -> list[str]:
        """The paths for clients."""
        return [f"/v1/{self.path}", *filter(None, [self.other_path])]


def _fields(names: str) -> frozenset[str]:
    return frozenset(("model", *names.split()))


_IMAGE_FIELDS: Final = (
    "prompt n size quality response_format background stream user output_compression"
    " output_format partial_images"
)

CALLS: Final = (
    Call(
        kind="moderations",
        path="moderations",
        model="omni-moderation-latest",
        fields=_fields("input"),
    ),
    Call(
        kind="rerank",  # Cohere's request, which others accept at this path
        path="rerank",
        other_path="/v2/rerank",  # that of Cohere's own client
        fields=_fields(
            "query documents top_n top_k return_documents rank_fields instruction truncation"
            " max_chunks_per_doc max_tokens_per_doc truncate_prompt_tokens"
        ),
    ),
    Call(
        kind="images",
        path="images/generations",
        fields=_fields(
            f"{_IMAGE_FIELDS} style moderation aspect_ratio resolution seed steps"
            " width height negative_prompt guidance guidance_scale num_inference_steps"
        ),
        answers=("application/json", "text/event-stream"),
        output_tokens=6_208,  # gpt-image-1: high quality, 1024x1536
    ),
    Call(
        kind="image_edits",
        path="images/edits",
        fields=_fields(f"{_IMAGE_FIELDS} image mask input_fidelity"),
        answers=("application/json", "text/event-stream"),
        form=True,
        output_tokens=6_208,
        image_tokens=6_600,  # gpt-image-1: 323, and 6,240 for high fidelity
    ),
    Call(
        kind="speech",
        path="audio/speech",
        fields=_fields(
            "input voice instructions response_format speed stream stream_format language"
            " sample_rate"
        ),
        answers=("audio/*", "text/event-stream"),
        output_tokens=12_500,  # ten minutes at 1,250 a minute, for the longest input
        spoken=12,  # four characters in 0.6 s: slow speech
        # 20.8 tokens a second; 16 bits at 16 kHz, MP3 of 64 kbit/s, others of 32 kbit/s.
        token_bytes={"audio/wav": 1_500, "audio/pcm": 1_500, "audio/mpeg": 384, "": 192},
    ),
    Call(
        kind="transcriptions",
        path="audio/transcriptions",
        fields=_fields(
            "file language prompt response_format temperature timestamp_granularities include"
            " chunking_strategy stream known_speaker_names known_speaker_references"
        ),
        answers=("application/json", "text/plain", "text/event-stream"),
        form=True,
        output_tokens=2_000,  # the maximum of gpt-4o-transcribe
        token_bytes={"": 3},  # a Chinese character; JSON only makes it too high
    ),
    Call(
        kind="translations",
        path="audio/translations",
        fields=_fields("file prompt response_format temperature"),
        answers=("application/json", "text/plain"),
        form=True,
        output_tokens=2_000,
        token_bytes={"": 3},
    ),
)


OPENAI: Final[Mapping[str, str]] = {call.kind: call.path for call in CALLS}
"""The paths of all calls, for OpenAI's upstream formats."""


class ForwardedRequest(msgspec.Struct, frozen=True):
    """A client's request."""

    call: Call
    model: str
    extras: Mapping[str, Any]
    """The other fields, by name."""
    input_tokens: int
    """An estimate."""
    output_tokens: int
    """The output for which money is reserved."""
    render: Callable[[str, Collection[str]], tuple[str, bytes]]
    """(model, fields to drop) to the content type and the body."""
    texts: Callable[[], list[str]]
    """Returns the body as JSON, or the fields of a form that are no files."""
    with_texts: Callable[[Sequence[str]], "ForwardedRequest"]
    """Returns the request with other texts."""

    def estimate(self, size: int = 0, content_type: str = "") -> TokenCounts:
        """Estimate the usage, at most what is reserved, from the bytes of the answer so far.

        If its head states more, those have been made. Without a byte all of it may have been.
        """
        call, output = self.call, self.output_tokens
        if not size:
            output = min(output, call.spoken * self.input_tokens or output)
        elif rates := call.token_bytes:
            output = min(output, -(-size // rates.get(_media_type(content_type), rates[""])))
        return TokenCounts(
            self.input_tokens,
            output,
            audio_input_tokens=(self.input_tokens if call.form and not call.image_tokens else None),
            audio_output_tokens=output if call.kind == "speech" else None,
            estimated=True,
        )


_raw_fields = msgspec.json.Decoder(dict[str, Raw])


def parse_json(call: Call, body: bytes) -> ForwardedRequest:
    """Parse a JSON request; the fields of the call are not decoded, but sent on as they are.

    Raises:
        RequestError: `invalid_request`, with the path and the reason.
    """
    fields = parse_body(body, _raw_fields, example='{"model": "upstream/model"}')
    model = parse_part(fields.get("model", Raw(b"null")), path="model") or call.model
    if not model:
        raise _without_model()
    extras: dict[str, Any] = {}
    results = 1
    for name, raw in fields.items():
        if name not in call.fields:
            extras[name] = parse_part(raw, path=name[:80])
        if plain_name(name) in CHOICES:
            number = convert_body(parse_part(raw, path=name[:80]), ResultCount, path=name[:80])
            results = max(results, number or 1)

    def render(model: str, dropped: Collection[str]) -> tuple[str, bytes]:
        # Encode the checked extras: hosts disagree on which of two equal names counts.
        sent = fields | extras | {"model": model}
        for name in dropped:
            sent.pop(name, None)
        return "application/json", msgspec.json.encode(sent)

    return ForwardedRequest(
        call,
        convert_body(model, str, path="model"),
        extras,
        input_tokens=estimate_text(body),
        output_tokens=call.output_tokens * results,
        render=render,
        texts=lambda: [body.decode()],
        with_texts=lambda texts: parse_json(call, texts[0].encode()),
    )


def parse_upload(call: Call, body: bytes, content_type: str, *, boundary: str) -> ForwardedRequest:
    """Parse a form; `boundary` is a random one for the form that is sent on.

    Raises:
        RequestError: `invalid_request`, with the reason.
    """
    return _upload(call, parse_form(body, content_type), len(body), boundary)


def _upload(call: Call, parts: list[Part], size: int, boundary: str) -> ForwardedRequest:
    models = [bytes(part.content[:MAX_MODEL]) for part in parts if _base(part.name) == "model"]
    if len(models) > 1:
        raise RequestError("invalid_request", "model: the form has it twice; send it once")
    if not any(models):
        raise _without_model()

    texts = [part for part in parts if b"filename" not in part.head]
    counts = [_count(part) for part in parts if plain_name(_base(part.name)) in CHOICES]
    tokens = size // AUDIO_BYTES
    if call.image_tokens:
        tokens = call.image_tokens * (len(parts) - len(texts))
        tokens += sum(estimate_text(bytes(part.content)) for part in texts)

    def with_texts(new: Sequence[str]) -> ForwardedRequest:
        changed = (
            part._replace(content=text.encode()) for part, text in zip(texts, new, strict=True)
        )
        files = [part for part in parts if b"filename" in part.head]
        return _upload(call, [*changed, *files], size, boundary)

    def render(model: str, dropped: Collection[str]) -> tuple[str, bytes]:
        out = {"model", *dropped}
        sent = [part for part in parts if _base(part.name) not in out]
        form = render_form([text_part("model", model), *sent], boundary)
        return f"multipart/form-data; boundary={boundary}", form

    return ForwardedRequest(
        call,
        models[0].decode(errors="replace"),
        dict.fromkeys({_base(part.name) for part in parts} - call.fields, ""),
        input_tokens=tokens,
        output_tokens=call.output_tokens * max(counts, default=1),
        render=render,
        texts=lambda: [bytes(part.content).decode(errors="replace") for part in texts],
        with_texts=with_texts,
    )


def _count(part: Part) -> int:
    """Return a number of results."""
    text = bytes(part.content[:4])
    if not text.isdigit() or not 1 <= int(text) <= 100:
        raise RequestError("invalid_request", f"{part.name[:80]}: send an integer from 1 to 100")
    return int(text)


def _without_model() -> RequestError:
    # `default_model` is a chat model.
    return RequestError("invalid_request", "model: missing; name a route or 'upstream/model'")


def _base(name: str) -> str:
    """Return the field that a part belongs to: `chunking_strategy[type]` is one of several."""
    return name.partition("[")[0]


class UsageReader:
    """Reads the `usage` of an answer from its end: a JSON document, or server-sent events."""

    def __init__(self, content_type: str) -> None:
        media_type = _media_type(content_type)
        self._events = media_type == "text/event-stream"
        self._reads = self._events or media_type == "application/json"
        self._tail = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        if self._reads:
            self._tail += piece
            if len(self._tail) > 2 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]

    def read(self) -> TokenCounts:
        """Return the counts, as far as the answer has any."""
        document = bytes(self._tail)
        if self._events:
            document = _last_event(document)
        # Of a long document the begin is missing. Its end, from a member on, is only an object if
        # that is a member of the outermost one.
        end = b"{" + document[document.rfind(b'"usage"') :]
        for text in (document, end):
            try:
                usage = _answer.decode(text).usage
            except (msgspec.MsgspecError, RecursionError):
                continue
            if bytes(usage) == b"null":
                break
            return _parse_usage(mapping(decode_or(bytes(usage).decode(errors="replace"), None)))
        return TokenCounts()


class _Answer(msgspec.Struct):
    usage: Raw = Raw(b"null")


_answer = msgspec.json.Decoder(_Answer)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _last_event(tail: bytes) -> bytes:
    """Return the data of the last event with data, or its end; `[DONE]` is none."""
    for line in reversed(tail.splitlines()):
        data = line.removeprefix(b"data:").strip()
        if data.endswith(b"}"):
            return data
    return b""


def _parse_usage(usage: dict[str, Any]) -> TokenCounts:
    """Parse a `usage` object of OpenAI's images and audio, or of a reranker."""

    def first(*names: str) -> int | None:
        return next((n for name in names if (n := count(usage.get(name))) is not None), None)

    output, total = first("output_tokens", "completion_tokens"), first("total_tokens")
    # Rerankers state only the total (Jina, vLLM), OpenAI's transcriptions `input_token_details`.
    inputs = first("input_tokens", "prompt_tokens")
    if output is None and total is not None:
        inputs = total if inputs is None else inputs
        output = total - inputs
    details = mapping(usage.get("input_tokens_details") or usage.get("input_token_details"))
    cost = parse_cost(usage)
    return TokenCounts(
        inputs,
        output,
        total,
        cached_input_tokens=count(details.get("cached_tokens")),
        audio_input_tokens=count(details.get("audio_tokens")) or None,
        cost=cost,
        cost_from=None if cost is None else "provider",
    )
