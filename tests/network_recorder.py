"""Run a command in a separate network and record the names it looks up.

Usage: unshare --map-root-user --net --mount python network_recorder.py REPORT COMMAND...

No name is known there and no address can be reached, but every try is counted by the kernel,
whoever makes it and however: names that were looked up go into REPORT, and packets by protocol.
"""

import fcntl
import json
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
NO_SUCH_NAME = b"\x81\x83"
COUNTERS = {
    "Ip:OutNoRoutes",
    "Ip6:OutNoRoutes",
    "Tcp:ActiveOpens",
    "Udp:OutDatagrams",
    "Udp6:OutDatagrams",
}
"""Addresses without a route, connections that were begun (TCP of both kinds), packets sent."""


def bring_up_loopback():
    """Bring up the namespace's loopback, on which the resolver listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def make_the_resolver_known(folder):
    """Have libc ask 127.0.0.1, and none of the services that would ask on its behalf."""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    for name, text in (
        ("resolv.conf", "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n"),
        ("nsswitch.conf", "hosts: files dns\n"),
    ):
        (folder / name).write_text(text, encoding="ascii")
        system_file = Path("/etc", name).resolve()
        if system_file.exists():
            subprocess.run(["mount", "--bind", folder / name, system_file], check=True)


def answer(server, names):
    """Note every name that is looked up, and deny that it exists."""
    while True:
        query, client = server.recvfrom(4096)
        labels, offset = [], 12
        while query[offset]:
            labels.append(query[offset + 1 : offset + 1 + query[offset]].decode("ascii", "replace"))
            offset += 1 + query[offset]
        names.add(".".join(labels))
        server.sendto(query[:2] + NO_SUCH_NAME + query[4:6] + bytes(6) + query[12:], client)


def counters():
    """Return what the kernel has counted in this namespace."""
    counts = {}
    lines = Path("/proc/self/net/snmp").read_text(encoding="ascii").splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        pairs = list(zip(names.split(), values.split(), strict=True))
        counts |= {pairs[0][0] + name: int(value) for name, value in pairs[1:]}
    for line in Path("/proc/self/net/snmp6").read_text(encoding="ascii").splitlines():
        name, value = line.split()
        kind = name[: name.index("6") + 1]
        counts[f"{kind}:{name.removeprefix(kind)}"] = int(value)
    return {name: counts[name] for name in COUNTERS if counts.get(name)}


def main(report, *command):
    """Run the command, write the report, and return the exit code."""
    bring_up_loopback()
    names = set()
    with tempfile.TemporaryDirectory() as folder:
        make_the_resolver_known(Path(folder))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 53))
            threading.Thread(target=answer, args=(server, names), daemon=True).start()
            code = subprocess.run(command, check=False).returncode
            seen = {"asked": sorted(names), "tries": counters()}
    Path(report).write_text(json.dumps(seen), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
