"""What stands for ssh on the way to a made-up box: carries stdin and stdout to the rehearsal's
server, which is told the user and the command. Run as a program, without the package.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading


def send(link: socket.socket) -> None:
    """Carries stdin until its end."""
    with contextlib.suppress(OSError):
        while text := os.read(0, 65_536):
            link.sendall(text)
        link.shutdown(socket.SHUT_WR)


def main(argv: list[str]) -> int:
    """Carries one command; 255 where the server closes before it says anything."""
    port, target, command = int(argv[argv.index("-p") + 1]), argv[-2], argv[-1]
    with socket.create_connection(("127.0.0.1", port)) as link:
        words = link.makefile("rb")
        words.readline()
        asked = {"user": target.partition("@")[0], "command": command}
        link.sendall(json.dumps(asked).encode() + b"\n")
        threading.Thread(target=send, args=(link,), daemon=True).start()
        begun = False
        while text := words.read1(65_536):
            begun = True
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
    return 0 if begun else 255


if __name__ == "__main__":
    # At once: the thread that waits for stdin would hold up an orderly end.
    os._exit(main(sys.argv))
