"""The commands beside the relay itself."""

from collections.abc import Mapping
from typing import Final

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "key": ("keys", "create, list and revoke the API keys of clients"),
    "records": ("records", "report usage and cost, list streams, or erase a user"),
    "prices": ("prices", "show the price of each model"),
    "check": ("check.command", "call each target once, and report what fails"),
    "doctor": ("doctor.command", "measure what proxies do to streams"),
    "why": ("why", "explain why an answer stopped"),
    "plugins": ("plugins", "list the parts that can be named, and their packages"),
}
"""The module and the summary of each built-in subcommand."""
GROUP: Final = "seseragi.commands"
"""The entry points of other subcommands: modules like those of `app/commands`."""
