"""Which of a request's tools a demo calls: those that only look, by their names.

Whoever tries a coding agent with a demo has tools that write files and run commands, and what
a demo would put into them is nobody's wish.
"""

import re
from typing import Final

from .request import DemoRequest, Tool, ToolChoice

MOST: Final = 2
"""How many tools a demo calls at once."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LOOKING: Final = _words("""
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
"""Tools by which agents take an answer, where every turn has to be a call."""

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def chosen(request: DemoRequest) -> list[Tool]:
    """Choose the tools to call now, none where the answer is to be a text."""
    tools = request.tools or []
    choice = request.tool_choice
    if isinstance(choice, ToolChoice):
        named = [tool for tool in tools if tool.function.name == choice.function.name]
        return [] if request.has_results else named[:1]
    if choice == "none" or not tools:
        return []
    forced = choice == "required"
    if request.has_results:
        final = [tool for tool in tools if tool.function.name.lower() in _FINAL]
        return final[:1] if forced else []
    if not forced and request.model != "demo-tools":
        return []
    most = 1 if request.parallel_tool_calls is False else MOST
    for group in (_looking, _harmless):
        if found := [tool for tool in tools if group(tool.function.name)]:
            return found[:most]
    return tools[:1] if forced else []


def _words_of(name: str) -> frozenset[str]:
    """Take the words of a name, however they are joined; not those of the server it is of."""
    own = name.rpartition("__")[2] or name
    return frozenset(word.lower() for word in _WORD.findall(own))


def _looking(name: str) -> bool:
    words = _words_of(name)
    return not words.isdisjoint(_LOOKING) and words.isdisjoint(_CHANGING)


def _harmless(name: str) -> bool:
    return _words_of(name).isdisjoint(_CHANGING)
