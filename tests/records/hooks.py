"""Functions that an operator may have content go through."""

from typing import Any

calls: list[Any] = []


def redact(content: dict[str, Any]) -> dict[str, Any] | None:
    if "secret" in str(content["messages"]):
        return None
    return {"length": len(content["answer"][0]["text"]), "asked": content["messages"]}


def fail(content: dict[str, Any]) -> dict[str, Any]:
    raise ValueError(f"cannot read {content}")


def forget_to_return(content: dict[str, Any]) -> str:
    return "done"


number = 5
