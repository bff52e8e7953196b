"""Two imports of Google's client that a rehearsal never uses, put off until they are: some 60 ms of
every command on a stack with machines.

Owns nothing else; imports nothing of the package. httplib2 0.32 builds a grammar of HTTP challenges
(pyparsing), googleapiclient 2.202 loads the signing of service accounts (cryptography); both only
name the module, and reach into it once there is a challenge or such an account.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType

POSTPONED = ("httplib2.auth", "google.oauth2.service_account")

_lock = threading.RLock()


class _Later(ModuleType):
    """Stands for a module until somebody asks it for something; then that module is imported, and
    this has its content.
    """

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        from importlib import import_module

        with _lock:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            found = import_module(self.__name__)
        return getattr(found, attribute)


def postpone() -> None:
    """Lets these modules be imported by name at no cost.
    Does nothing for what is imported already.
    """
    with _lock:
        for name in POSTPONED:
            sys.modules.setdefault(name, _Later(name))
