"""What decides a training run beside the weights it begins with and its batches; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How weights are trained.

    Attributes:
        steps: Batches in all, each used once.
        batch_size: Pairs of a batch at most; every pair is a negative of the others.
        learning_rate: The highest; it is reached after a warm-up and then falls to zero.
        warm_up: Share of the steps in which the learning rate rises.
        weight_decay: Of AdamW.
        scale: What cosines are multiplied by before the softmax; a higher one looks at the
            nearest negatives alone.
        query_tokens: Tokens of a query that count in training.
        document_tokens: Tokens of a document that count in training.
        judged_share: Share of a batch taken from judged queries, where there are enough of them.
        teacher_share: Share of the loss that follows a teacher, where there is one.
        teacher_scale: What the cosines of the teacher are multiplied by.
        freeze_words: Leave the word embeddings as they are. What no skill says keeps its
            meaning; the encoder above it learns.
        precision: ``bfloat16``, ``float32``, or ``auto`` for the faster of the two here.
        device: As torch names it, such as ``cpu`` and ``cuda``.
        check_every: Steps between looks at how good it is on what was held out.
        patience: Looks without a better value after which training ends.
        save_every: Steps between checkpoints.
        seed: Of every choice; the same seed gives the same plan and the same weights, up to the
            rounding of floats.
    """

    steps: int = 200
    batch_size: int = 64
    learning_rate: float = 6e-5
    warm_up: float = 0.05
    weight_decay: float = 0.01
    scale: float = 20.0
    query_tokens: int = 96
    document_tokens: int = 112
    judged_share: float = 0.25
    teacher_share: float = 0.5
    teacher_scale: float = 20.0
    freeze_words: bool = False
    precision: str = "auto"
    device: str = "cpu"
    check_every: int = 50
    patience: int = 3
    save_every: int = 50
    seed: int = 0

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        rising = max(1.0, self.warm_up * self.steps)
        if step <= rising:
            return self.learning_rate * step / rising
        return self.learning_rate * max(0.02, (self.steps - step) / (self.steps - rising))
