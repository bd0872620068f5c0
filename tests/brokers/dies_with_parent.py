"""Run a command that the kernel kills when the process that started it is gone.

``python dies_with_parent.py PARENT_PID COMMAND…``. A launcher, not a ``preexec_fn``: Python code
between fork and exec can deadlock in a threaded parent, and Python 3.12 warns of it.
Elsewhere than on Linux it only runs the command.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process as soon as its parent, which that was, is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
