"""Ctrl-C ends the process at once, or raises so that a command can clean up."""

from __future__ import annotations

import os
import signal
import sys

from skillsearch.settings.environ import INTERRUPTED

TYPE_CHECKING = False  # importing `typing` would slow down every prompt of a host
if TYPE_CHECKING:
    from types import FrameType

# An interrupt while a hook of Python runs would be lost in the hook.
_HOOK_SECONDS = 0.01


def leave_on_interrupt() -> None:
    """Make Ctrl-C end the process at once, unless the caller ignores it.

    An exception could hit an import half done, or a place where Python prints it and goes on.
    """
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _raise):
        signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Make Ctrl-C raise KeyboardInterrupt again, for commands that have to clean up."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, _raise)
        sys.unraisablehook = _raise_again


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not within an import: numpy makes an ImportError of it."""
    around = frame
    while around is not None:
        if around.f_code.co_filename.startswith("<frozen importlib"):
            _raise_soon()
            return
        around = around.f_back
    signal.default_int_handler(number, frame)


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    """Interrupt once more, after this hook, if the first interrupt was lost in a callback."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    _raise_soon()


def _raise_soon() -> None:
    import _thread

    _thread.start_new_thread(_interrupt_soon, (_thread.get_ident(),))


def _interrupt_soon(thread: int) -> None:
    """Send a real signal, which also ends a system call that the thread waits in."""
    import time

    time.sleep(_HOOK_SECONDS)
    signal.pthread_kill(thread, signal.SIGINT)
