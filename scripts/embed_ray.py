"""Embed skills on Ray: many processes or machines fill the user's cache of saved vectors.

Usage: python scripts/embed_ray.py [ROOT]... --index-dir D [--workers 2]
       python scripts/embed_ray.py --listing FILE --index-dir D --address auto --workers 64

Then `skillsearch index` with the same roots, model and fields finds every vector in the
cache. This process reads the skills and writes the cache, under the lock of the index; workers get
texts and give vectors back, so they need skillsearch and the model, but none of the files. Every
shard is on disk as it arrives: after a kill, the same command does only what is still missing. A
worker that dies is replaced, and its shards are done again.

Ray pickles what goes between its own processes; that is lists of strings one way, numpy arrays,
numbers and strings the other, and never reaches a file of ours. Without --address, Ray runs on this
machine alone, bound to loopback and behind a token. Needs: pip install ray
"""

from __future__ import annotations

import json
import math
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from ray_fleet import Fleet, tell
from ray_shards import Embedding, in_words

from skillsearch.cli import options
from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import Embedder, embed
from skillsearch.errors import EmbedderError, SkillSearchError
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.remote.opening import planned
from skillsearch.settings.environ import forbid_telemetry
from skillsearch.settings.values import is_url
from skillsearch.text.safe_text import one_line

if TYPE_CHECKING:
    from ray_fleet import Vectors

    from skillsearch.types.json_values import JsonObject

OBJECT_STORE_BYTES = 256 << 20
"""Of Ray on this machine; a shard of 256 texts takes 3 MB of it at most."""
MAX_BASE = 32
"""Characters of a folder for temporary files in which there is room for those of Ray: the paths of
its sockets have 75 more, and may have about a hundred."""


class Worker:
    """The part that runs in a Ray process; plain values in and out.

    It stands in the script itself, since that is all that Ray sends along with a call: the machines
    of a cluster need not have these files.
    """

    def __init__(self, cpus: int) -> None:
        """Claim CPUs; models are loaded when they are asked for."""
        self._claims = claim_cpus(cpus)
        pinned = sorted(os.sched_getaffinity(0)) if self._claims else []
        self._cpus = f", CPU {' '.join(map(str, pinned))}" if pinned else ""
        self._embedders: dict[str, Embedder] = {}

    def describe(self, model: str) -> JsonObject | str:
        """Load a model and describe it, or return the error message if it cannot be loaded."""
        try:
            embedder = self._load(model)
        except SkillSearchError as exc:
            return f"{socket.gethostname()}: {exc}"
        return {
            "fingerprint": embedder.fingerprint,
            "dimensions": embedder.dimensions,
            "where": f"pid {os.getpid()} on {socket.gethostname()}{self._cpus}",
        }

    def embed(self, model: str, fingerprint: str, texts: list[str]) -> Vectors | str:
        """Embed texts, or return the error message if that fails."""
        try:
            embedder = self._load(model)
            if embedder.fingerprint != fingerprint:
                raise EmbedderError(f"{model!r} is another model here; install the same everywhere")
            return embed(embedder, texts)
        except SkillSearchError as exc:
            return f"{socket.gethostname()}: {exc}"

    def _load(self, model: str) -> Embedder:
        """Return the embedder of a model, loaded once."""
        if model not in self._embedders:
            self._embedders[model] = load_embedder(model)
        return self._embedders[model]


def claim_cpus(count: int) -> list[socket.socket]:
    """Keep this process on CPUs that no other worker of the machine has; on Linux alone.

    A claim is an abstract socket, which the system frees however the process ends.

    Args:
        count: How many; if fewer are free, none is claimed and the system decides.

    Returns:
        The claims, to be kept open.
    """
    claims: list[socket.socket] = []
    if sys.platform != "linux":
        return claims
    mine: list[int] = []
    for cpu in sorted(os.sched_getaffinity(0)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0skillsearch-embed-cpu-{cpu}")
        except OSError:
            claim.close()
            continue
        claims.append(claim)
        mine.append(cpu)
        if len(mine) == count:
            os.sched_setaffinity(0, mine)
            return claims
    for claim in claims:
        claim.close()
    return []


@contextmanager
def connected(address: str | None, cpus: int, gpus: float) -> Iterator[Any]:
    """Connect to a cluster, or start Ray on this machine with so many CPUs and GPUs.

    Args:
        address: Of the cluster; None for this machine.
        cpus: CPUs to offer to workers on this machine.
        gpus: GPUs likewise.

    Yields:
        The library.

    Raises:
        UsageError: When it is not installed.
        ClickException: When it cannot be reached or started.
    """
    forbid_telemetry()
    # One try takes 40 seconds; Ray would make twenty.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    base = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(
        prefix="ray-",
        dir=base if len(base) <= MAX_BASE else "/tmp",
        ignore_cleanup_errors=True,
    ) as folder:
        if address is None:
            # Ray's own switch for a single node: it then binds to loopback only.
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
            options |= {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": folder}
            options |= {"num_gpus": math.ceil(gpus), "object_store_memory": OBJECT_STORE_BYTES}
        try:
            import ray
        except ImportError as exc:
            raise click.UsageError("This needs Ray: pip install ray") from exc
        try:
            # None would mean what RAY_ADDRESS names.
            ray.init(address=address or "local", **options)
        except (ConnectionError, RuntimeError, ValueError) as exc:
            raise click.ClickException(f"Ray cannot be used: {one_line(str(exc))}") from exc
        try:
            # Ray prints its warnings, and stdout is for the report.
            with redirect_stdout(sys.stderr):
                yield ray
        finally:
            ray.shutdown()


def chosen(
    listing: Path | None, roots: Sequence[options.NamedRoot]
) -> tuple[options.NamedRoot, ...]:
    """Return the roots named on the command line and in a listing."""
    text = listing.read_text(encoding="utf-8", errors="surrogateescape") if listing else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (*roots, *(line if is_url(line) else Path(line).absolute() for line in lines))


@click.command(help=__doc__.partition("\n")[0])
@options.roots()
@options.index_dir
@click.option(
    "--listing",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with further roots, one a line.",
)
@click.option("--model", cls=options.SettingOption, help="As in skillsearch index.")
@click.option(
    "--fields",
    cls=options.SettingOption,
    type=click.Choice(("metadata", "full")),
    help="As in skillsearch index.",
)
@click.option("--address", help="Of a Ray cluster, or auto; without it, this machine alone.")
@click.option("--workers", type=click.IntRange(1, 10_000), default=2, show_default=True)
@click.option("--cpus", type=click.IntRange(1, 64), default=1, help="Of each worker. [default: 1]")
@click.option("--gpus", type=click.FloatRange(0, 8), default=0, help="Likewise. [default: 0]")
@click.option(
    "--shard", type=click.IntRange(1, 8192), default=256, help="Texts in one. [default: 256]"
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    roots: tuple[options.NamedRoot, ...],
    listing: Path | None,
    address: str | None,
    workers: int,
    cpus: int,
    gpus: float,
    shard: int,
    as_json: bool,
) -> None:
    """Run it."""
    try:
        settings = options.read_settings()
        request = planned(RootChange(chosen(listing, roots), settings=settings))
        folder = IndexFolder(settings.index_dir.absolute())
        with folder.lock(), connected(address, workers * cpus, workers * gpus) as ray:
            kind = ray.remote(num_cpus=cpus, num_gpus=gpus)(Worker)
            fleet = Fleet(ray, lambda: kind.remote(cpus), workers, request.model)
            with ExitStack() as stack:
                embedding = Embedding(request, folder, fleet, shard, stack)
                embedding.run()
    except (OSError, SkillSearchError) as exc:
        raise click.ClickException(one_line(str(exc))) from exc
    tally = embedding.tally
    tell(in_words(tally))
    if as_json:
        report = {
            "skills": tally.read - tally.skipped,
            "skipped": tally.skipped,
            "lacking": tally.lacking,
            "embedded": tally.embedded,
            "deaths": fleet.deaths,
            "seconds": round(tally.seconds, 3),
            "skills_per_second": round(tally.speed, 1),
        }
        print(json.dumps(report))


if __name__ == "__main__":
    main()
