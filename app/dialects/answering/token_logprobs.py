"""Log probabilities of tokens in OpenAI's form."""

from typing import Any

from ..reading.json_values import mappings


def render_logprobs(content: object, *, bytes_always: bool = False) -> list[dict[str, Any]]:
    """Return the tokens that have the required fields, with their alternatives.

    With `bytes_always`, a token without bytes gets those of its text.
    """
    return [
        {
            **_render_token(row, bytes_always),
            "top_logprobs": [
                _render_token(top, bytes_always) for top in _list_tokens(row.get("top_logprobs"))
            ],
        }
        for row in _list_tokens(content)
    ]


def _list_tokens(content: object) -> list[dict[str, Any]]:
    return [
        row
        for row in mappings(content)
        if isinstance(row.get("token"), str) and isinstance(row.get("logprob"), int | float)
    ]


def _render_token(row: dict[str, Any], bytes_always: bool) -> dict[str, Any]:
    token, encoded = row["token"], row.get("bytes")
    if bytes_always:
        encoded = encoded or list(token.encode())
    return {"token": token, "logprob": row["logprob"], "bytes": encoded}
