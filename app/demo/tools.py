"""The choice of the tools that a demo calls: read-only ones, guessed from their names.

Coding agents offer tools that write files and run commands, and the demo's arguments are made up.
"""

import re
from typing import Final

from .request import DemoRequest, Tool

MOST: Final = 2
"""Tools called at once."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READING: Final = _words("""
    calc calculate calculator cat check convert count describe echo fetch find forecast get glob
    grep inspect list lookup ls measure now ping query read retrieve search show stat status time
    translate tree view weather
""")
_CHANGING: Final = _words("""
    agent append apply bash browser buy call cancel chmod click close code command commit computer
    console copy create cron delete deploy destroy download drop edit email enter erase eval exec
    execute exit fill form insert install interpreter invoke kill launch mail merge message mkdir
    mode modify move mv navigate notify order overwrite patch pay plan post press prompt publish
    purchase push put python question remove rename replace reset restart revert rm rollback run
    save schedule script send set shell skill sleep spawn start stop subagent submit swarm switch
    task terminal todo todos type undo uninstall unlink update upload wait workflow write
""")
_FINAL: Final = _words("""
    answer attempt_completion complete completion done final_answer final_result finish finish_task
    respond task_complete
""")
"""Tools that end a task, for agents that require a call in every turn."""

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def chosen(request: DemoRequest) -> list[Tool]:
    """Return the tools to call now; none if the answer is text."""
    tools = request.tools or []
    choice = request.tool_choice
    if isinstance(choice, Tool):
        named = [tool for tool in tools if tool.function.name == choice.function.name]
        return [] if request.results else named[:1]
    if choice == "none" or not tools:
        return []
    forced = choice == "required"
    if request.results:
        final = [tool for tool in tools if tool.function.name.lower() in _FINAL]
        return final[:1] if forced else []
    if not forced and request.model != "demo-tools":
        return []
    most = 1 if request.parallel_tool_calls is False else MOST
    harmless = [tool for tool in tools if _words_of(tool.function.name).isdisjoint(_CHANGING)]
    reading = [t for t in harmless if not _words_of(t.function.name).isdisjoint(_READING)]
    return (reading or harmless)[:most] or (tools[:1] if forced else [])


def _words_of(name: str) -> frozenset[str]:
    """Return the words of a tool's name, without the MCP server's before it."""
    own = name.rpartition("__")[2] or name
    return frozenset(word.lower() for word in _WORD.findall(own))
