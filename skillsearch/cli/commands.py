"""The table of commands, in the order of the help.

A command is a function ``NAME_command`` in a module of this package: in `authoring` if it is for
authors of skills, in `hosts` if it is for hosts of agents. It returns its exit code, or nothing for
0. Options that several commands share are in `options`.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command: where it is, what else it is called, and what Ctrl-C does to it.

    Attributes:
        module: Its module in this package, imported only if the command runs.
        intents: What people type who mean it, as in other tools.
        alias: Another name of it, which the help does not list.
        after_interrupt: What the user should know about what is left after Ctrl-C, of a command
            that cleans up; None if it ends at once.
    """

    module: str
    intents: str = ""
    alias: str = ""
    after_interrupt: str | None = None


_TEXTS_STAY = "; embedded texts are kept"

COMMANDS = {
    "index": Command("index", "scan reindex build rebuild", after_interrupt=_TEXTS_STAY),
    "query": Command("query", "ask look lookup find-skills grep", alias="search"),
    "add": Command("sources", "install get i clone fetch import", after_interrupt=_TEXTS_STAY),
    "remove": Command("sources", "uninstall delete rm del unlink"),
    "update": Command("sources", "upgrade sync pull outdated refresh", after_interrupt=_TEXTS_STAY),
    "find": Command("interactive.find"),
    "list": Command("browse", "ls all skills"),
    "families": Command("browse"),
    "show": Command("browse", "info cat view get-skill describe read load"),
    "why": Command("authoring.why", "explain debug missing"),
    "ui": Command("interactive.ui", "web browse open"),
    "run": Command("run", "exec execute", after_interrupt=""),
    "status": Command("upkeep.status"),
    "doctor": Command("upkeep.status", "diagnose health fix"),
    "validate": Command("authoring.check", "lint check test"),
    "audit": Command("authoring.check"),
    "watch": Command("watch", after_interrupt=_TEXTS_STAY),
    "mcp": Command("hosts.mcp", "serve server start-server"),
    "catalog": Command("catalog", "publish website well-known export"),
    "setup": Command("hosts.setup", "init config configure connect"),
    "mcp-config": Command("hosts.mcp_config"),
    "daemon": Command("upkeep.daemon"),
    "cache": Command("upkeep.cache"),
    "env": Command("upkeep.env"),
    "hook": Command("hosts.prompt"),
    "prompt": Command("hosts.prompt"),
    "budget": Command("hosts.budget"),
    "library": Command("hosts.library"),
    "enrich": Command(
        "authoring.enrich", after_interrupt="; what you agreed to is kept, and the next run goes on"
    ),
    "improve": Command(
        "authoring.improve", "rewrite edit-description optimize", after_interrupt=_TEXTS_STAY
    ),
    "usage": Command("usage", "used unused stats gaps pin history"),
    "eval": Command("authoring.eval", after_interrupt=_TEXTS_STAY),
    "tune": Command("authoring.tune", after_interrupt="; run it again to continue"),
    "completion": Command("completion"),
}
