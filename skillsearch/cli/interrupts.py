"""What Ctrl-C does: end the process at once, or raise so that a command can clean up."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # importing `typing` would slow down every prompt of a host
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def leave_on_interrupt() -> None:
    """Make Ctrl-C end the process at once, unless the caller ignores it.

    An exception could hit an import half done, or a place where Python prints it and goes on.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Make Ctrl-C raise KeyboardInterrupt again, for commands that have to clean up."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _raise_again


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt once more if the first one was lost in a callback."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    import _thread

    _thread.interrupt_main()
