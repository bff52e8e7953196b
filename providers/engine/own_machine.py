"""How failures of this machine itself read: a full disk, a file that cannot be used, no folder for
temporary files. Owns only those words.
"""

from __future__ import annotations

import errno
import os

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""A disk without room; these name no file."""


def of_machine(error: OSError) -> str:
    """A failure of this machine's own, with the file. Where the state's folder or a full disk is
    at fault, or no folder takes temporary files, it says how to have another folder.
    """
    from providers.home import home

    said = str(error.strerror or error)
    if error.errno is not None and said != os.strerror(error.errno):
        if error.filename:
            return f"{error.filename}: {said}"  # words of ours, which say what to do
        if error.errno == errno.ENOENT and "temporary directory" in said:  # `tempfile`'s own words
            _, _, tried = said.partition(" found in ")
            found = f"none among {tried}" if tried else "none"
            return (
                f"wanted a folder that takes temporary files, found {found}; make room on the disk,"
                " or set TMPDIR to a folder that can be written"
            )
    text = f"{said}: {error.filename}" if error.filename else said
    try:
        ours = error.filename is not None and str(error.filename).startswith(str(home()))
    except OSError:
        ours = False
    if ours or error.errno in _FULL:
        return f"{text}; make room there, or set GPUS_HOME to a folder that can be written"
    return text
