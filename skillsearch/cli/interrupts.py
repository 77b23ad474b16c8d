"""What Ctrl-C does: end the process at once, or raise if something has to be put in order."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # `typing` would cost the hook of a host some milliseconds
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130


def leave_on_interrupt() -> None:
    """Have Ctrl-C end the process at once, unless its caller has it ignored.

    An exception could come amid an import, or where Python prints it and goes on.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Have Ctrl-C raise KeyboardInterrupt again, for what has to be put in order first."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _raise_again


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End the process."""
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt once more if the first time was in a callback, which loses what it raises."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    import _thread

    _thread.interrupt_main()
