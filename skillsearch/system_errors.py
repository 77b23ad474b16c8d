"""Errors of the system in words: the reason and the remedy. Any other error is a bug of ours."""

from __future__ import annotations

import errno

BUG = "This is a bug in skillsearch"
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Numbers of system errors for which only more space helps."""
_NO_LIBRARY = "cannot open shared object file"
"""What the loader of shared libraries says of one that is missing, not of short memory."""
_REMEDIES = {
    **dict.fromkeys(DISK_FULL, "free some space"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "let it open more files (ulimit -n)"),
    errno.ENOMEM: "let it have more memory (ulimit -v), or close other programs",
    errno.EAGAIN: "let it start more processes (ulimit -u)",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "check the permissions of that folder"),
    errno.EROFS: "choose a place that can be written",
    **dict.fromkeys((errno.ENOLCK, errno.ENOSYS), "choose a disk of this machine"),
}
"""What helps against errors of the system, by their numbers; else the disk is in doubt."""
_THREAD = "can't start new thread"


def machine_problem(error: BaseException | None) -> str:
    """Return the system error behind an exception and its remedy; empty if there is none.

    A refusal of the system is not a bug, whichever library reports it.
    """
    while error is not None:
        if isinstance(error, OSError | MemoryError) or str(error).startswith(_THREAD):
            file = getattr(error, "filename", None)
            return f"{reason_of(error)}{f': {file}' if file else ''}; {remedy(error)}"
        if isinstance(error, ImportError) and not (error.path or ".py").endswith(".py"):
            is_absent = _NO_LIBRARY in str(error)
            helps = "install what it names, or the library" if is_absent else remedy(MemoryError())
            return f"A library cannot be loaded: {error}; {helps}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return ""


def unexpected(error: Exception, hint: str = "") -> str:
    """Return the message for an unforeseen error: that of the system, or that of a bug."""
    bug = f"{BUG}, please report it: {type(error).__name__}: {error}{hint}"
    return machine_problem(error) or bug


def is_missing(error: OSError) -> bool:
    """Return whether a file is not there, unlike one that the machine does not let us read."""
    return isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError)


def reason_of(error: object) -> str:
    """Return why something failed, in the words of the system if it is a refusal of it."""
    if isinstance(error, MemoryError):
        return "Cannot allocate memory"
    return str(getattr(error, "strerror", None) or error)


def remedy(error: BaseException) -> str:
    """Return what helps against an error of the system."""
    if isinstance(error, FileNotFoundError) and not error.filename:  # of `os.getcwd` alone
        return "the folder that this runs in is gone, so change to another one"
    number = errno.ENOMEM if isinstance(error, MemoryError) else getattr(error, "errno", None)
    number = errno.EAGAIN if str(error).startswith(_THREAD) else number
    return _REMEDIES.get(number or 0, "check the disk and the path")
