"""`allowed_tools`, for formats that have no field for it."""

import msgspec

from ...errors import RequestError
from ...requests import ChatRequest


def restrict_tools(request: ChatRequest) -> ChatRequest:
    """Return a request with the allowed tools only.

    Raises:
        RequestError: none of the tools is allowed.
    """
    if request.allowed_tools is None:
        return request
    allowed = {*request.allowed_tools}
    tools = [tool for tool in request.tools or () if tool.function.name in allowed]
    if not tools:
        what = f"allowed_tools: {request.allowed_tools[0][:80]!r} is none of the tools"
        raise RequestError("invalid_request", what)
    return msgspec.structs.replace(request, tools=tools, allowed_tools=None)
