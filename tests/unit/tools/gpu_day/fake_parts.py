"""Parts that end in each way a part can."""

import os
import signal
import subprocess
import sys
import threading


def fine(place, note):
    note({"row": 1})
    return {"figure": 2.0}


def broken(place, note):
    note({"row": 1})
    raise ValueError("no such\nkernel")


def crashing(place, note):
    note({"row": 1})
    os.kill(os.getpid(), signal.SIGSEGV)


def hanging(place, note):
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note({"row": 1, "other": other.pid})
    threading.Event().wait()
