"""Has hosts see a user's skills and a project's own: ``python scripts/hosts_tour.py [HOST]...``.

Makes an empty home with skills of the user and two projects beside each other, runs ``skillsearch
setup --yes`` there and nothing else, and starts our server as each host's file says, in the folder
of a project, where the host would start it. Prints what is found, and what the hosts' own lists say
if their programs are on the PATH; exits with 1 if a neighbour's skill is found or another is not.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

from skillsearch.hosts.entries import HOSTS, NAME
from skillsearch.hosts.files import host_file
from skillsearch.text.jsonc import parse_jsonc

SKILLS = {
    "user": ("fill-form", "Fill in PDF forms and save them."),
    "blog": ("publish-post", "Publish a blog post to the site."),
    "shop": ("refund-order", "Refund an order of the web shop."),
}
WANTED = {"blog": ("user", "blog"), "shop": ("user", "shop")}
SECONDS = 120


def make_world(home: Path, hosts: list[str]) -> None:
    """Make the folders of hosts, and the skills of the user and of the projects."""
    folders = {"user": home / ".claude"} | {
        name: home / "work" / name / ".claude" for name in WANTED
    }
    for whose, (name, description) in SKILLS.items():
        file = folders[whose] / "skills" / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(f"---\nname: {name}\ndescription: {description}\n---\n# {name}\n")
    for name in WANTED:
        (home / "work" / name / ".git").mkdir()
    for host in hosts:
        host_file(host).parent.mkdir(parents=True, exist_ok=True)


def command_of(host: str) -> list[str]:
    """Return what a host starts, by its own file."""
    text, form = host_file(host).read_text("utf-8"), HOSTS[host]["form"]
    if form == "yaml":
        import yaml

        settings: Any = yaml.safe_load(text)
    else:
        settings = tomllib.loads(text) if form == "toml" else parse_jsonc(text)
    entry = settings[HOSTS[host]["servers"]][NAME]
    first = entry.get("command", entry.get("cmd"))
    return list(first) if isinstance(first, list) else [first, *entry.get("args", [])]


def find(command: list[str], folder: Path) -> dict[str, list[str]]:
    """Start a server in a folder, and return the names that it finds for each skill's request."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL, **pipes) as process:
        write, read = process.stdin, process.stdout
        assert write is not None
        assert read is not None

        def ask(number: int, method: str, params: dict[str, Any]) -> Any:
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            write.write(json.dumps(request).encode() + b"\n")
            write.flush()
            while (answer := json.loads(read.readline())).get("id") != number:
                pass
            return answer["result"]

        client = {"name": "tour", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        ask(0, "initialize", hello)
        write.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        names = {}
        for number, (whose, (_, description)) in enumerate(SKILLS.items(), start=1):
            call = {"name": "search_skills", "arguments": {"query": description}}
            content = ask(number, "tools/call", call)["structuredContent"]
            names[whose] = [skill["name"] for skill in (*content["skills"], *content["perhaps"])]
        write.close()
        process.wait(SECONDS)
    return names


def check_project(host: str, project: str, folder: Path) -> int:
    """Print what a host's server finds in a project; return how many skills are wrong."""
    names, wrong = find(command_of(host), folder), 0
    anywhere = set(chain.from_iterable(names.values()))
    for whose, (name, _) in SKILLS.items():
        is_found = name in names[whose]
        is_right = is_found if whose in WANTED[project] else name not in anywhere
        wrong += not is_right
        state = "found" if is_found else "not found"
        print(f"{host}\t{project}\t{whose}\t{state}\t{'' if is_right else 'WRONG'}")
    return wrong


def print_list(host: str, folder: Path) -> None:
    """Print what the host's own list says, if it has one and its program is there."""
    words = shlex.split(HOSTS[host].get("list", ""))
    if words and shutil.which(words[0]):
        done = subprocess.run(words, cwd=folder, timeout=SECONDS, capture_output=True, text=True)
        lines = [line.strip() for line in done.stdout.splitlines() if NAME in line]
        print(f"{shlex.join(words)}\t{' '.join(lines)}")


def main(hosts: list[str]) -> int:
    """Make the tour, and return how many cells are wrong."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        for name in [*os.environ]:
            if name.startswith(("XDG_", "SKILLSEARCH_INDEX")):
                del os.environ[name]
        os.environ["HOME"] = str(home)
        make_world(home, hosts)
        projects = {project: home / "work" / project for project in WANTED}
        setup = [sys.executable, "-m", "skillsearch", "setup", "--yes"]
        subprocess.run(setup, cwd=projects["blog"], capture_output=True, check=True)
        for host in hosts:
            wrong += sum(check_project(host, *project) for project in projects.items())
            print_list(host, projects["blog"])
    return wrong


if __name__ == "__main__":
    sys.exit(int(main(sys.argv[1:] or [*HOSTS]) > 0))
