"""Roots as they are named → their folders: archives and URLs are unpacked on the way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from skillsearch.roots.sources import is_bundle, place_of, source_of


def local_root(root: str | Path, cache_dir: Path | None = None) -> Path:
    """Return the folder of a root; an archive or URL is looked at, and unpacked where it is new.

    This is the only place that asks the network, and only for a root that is a URL. Where the
    server cannot be reached, what was unpacked before is used, with a warning in the log. A plain
    folder is returned as it is, there or not.

    Args:
        root: As in `source_of`.
        cache_dir: The cache; by default the user's.

    Returns:
        The folder, an absolute path that is always the same for the same root.

    Raises:
        RootError: When it cannot be had, or is refused; what was unpacked before stays.
    """
    source = source_of(root)
    place = place_of(source, cache_dir)
    if is_bundle(source):
        # What unpacks and downloads takes long to import, and few roots need it.
        from skillsearch.roots.cached import update

        update(source, place)
    return place


def local_roots(roots: Iterable[str | Path]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the folders of some roots, each as `local_root` does.

    Args:
        roots: As in `source_of`.

    Returns:
        The folders, and what they come from as `source_of` writes it; the latter empty where all
        are plain folders.

    Raises:
        RootError: When one cannot be had, or is refused.
    """
    sources = tuple(source_of(root) for root in roots)
    folders = tuple(local_root(source) for source in sources)
    return folders, sources if any(map(is_bundle, sources)) else ()
