"""torch and its devices, imported when somebody first needs them; the one importer of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skillsearch.errors import EmbedderError, importing
from skillsearch.settings.environ import forbid_telemetry, set_defaults
from skillsearch.settings.user_folders import cache_dir

if TYPE_CHECKING:
    from torch import Tensor as Tensor
    from torch.nn import Module as Module


def import_torch(extra: str, purpose: str) -> Any:
    """Return the module; a MissingDependencyError that names the extra if it is not installed."""
    forbid_telemetry()
    # torch makes this folder when its compiler is imported: with torch, or by the first optimizer.
    set_defaults({"TORCHINDUCTOR_CACHE_DIR": str(cache_dir() / "torch")})
    with importing("torch", extra, purpose):
        import torch
    return torch


def require_torch_device(device: str) -> None:
    """Raise an EmbedderError that lists torch's devices unless `device` is one of them."""
    torch = import_torch("st", f"The device {device!r}")
    there = ["cpu"]
    if torch.cuda.is_available():
        there += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        there.append("mps")
    if device not in there:
        raise EmbedderError(
            f"torch has no device {device!r} here, only {', '.join(there)}: choose one of them "
            "with --device or SKILLSEARCH_DEVICE, or install a torch that was built for yours."
        )
