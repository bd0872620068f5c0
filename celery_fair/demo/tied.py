"""Run a command that the kernel kills when the process that started it is gone.

``python tied.py PARENT_PID COMMAND…``, so that even a demo that was killed leaves nothing behind.
Not a ``preexec_fn``: Python code between fork and exec may deadlock. Elsewhere than on Linux it
only runs the command.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(sys.argv[1]):  # the parent died before we asked
            sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])
