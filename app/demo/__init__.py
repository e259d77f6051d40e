"""The demo upstream: a provider without a model, inside the process.

It speaks Chat Completions on a real byte stream, so that everything between a provider and
a browser can be tried without a key and without a network. The same request always gets
the same bytes: nothing here reads a clock or a random number.

    request       the JSON body as a provider reads it, and error responses
    sample_calls  which of a request's tools are called, and values for a JSON Schema
    answers       requests to tokens; the list of models
    texts         the texts, in English and Japanese
    renderer      answers to bytes, with their pauses
    transport     the httpx2 transport: mount it and use the client as with any provider
"""

from .answers import MODELS
from .transport import DemoTransport

__all__ = ["MODELS", "DemoTransport"]
