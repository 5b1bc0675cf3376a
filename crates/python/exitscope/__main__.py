"""The command `exitscope`: the same program as the binary of that name, in this process."""

import os
import signal
import sys

from exitscope._native import command


def main() -> None:
    """Runs the command with the arguments of this process, and ends with its exit status."""
    # As a program begins: Python raises KeyboardInterrupt at SIGINT, and has the kernel ignore SIGXFSZ (pylifecycle.c,
    # init_signals). SIGPIPE is ignored by both.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    status = command(["exitscope", *sys.argv[1:]], [sys.executable, os.path.abspath(sys.argv[0])])
    # All is written, and nothing of Python is to be said of a pipe that was closed.
    os._exit(status)


if __name__ == "__main__":
    main()
