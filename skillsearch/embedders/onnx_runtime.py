"""Sessions of ONNX Runtime on the CPU, one thread each; its only importer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillsearch.embedders.model_calls import errors_of
from skillsearch.environ import forbid_telemetry

if TYPE_CHECKING:
    from numpy.typing import NDArray


def open_session(model: Path, weights: Mapping[str, NDArray[Any]] | None = None) -> Any:
    """Open a model for texts that are run one by one.

    Args:
        model: The ONNX file.
        weights: Values for those of its constants that it keeps outside itself, by name; they are
            copied. None where its own files hold them.

    Returns:
        An ``onnxruntime.InferenceSession``.

    Raises:
        EmbedderError: When ONNX Runtime refuses the file or the weights.
    """
    forbid_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # A pattern kept for every length of text gains nothing.
    with errors_of("ONNX Runtime", model):
        if weights is not None:
            values = [onnxruntime.OrtValue.ortvalue_from_numpy(part) for part in weights.values()]
            options.add_external_initializers(list(weights), values)
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
