"""What a process holds at the end of its start is left out of later collections."""

import subprocess
import sys

# In a process of its own: the test runner's objects must stay collectable.
TRIED = """
import gc, weakref
from heddle.hosts.memory.started import uncollected_start

class Ring:
    def __init__(self):
        self.itself = self

def failing():
    with uncollected_start():
        raise LookupError

kept, lost = Ring(), None
with uncollected_start():
    before = gc.isenabled()
    ring = Ring()
    lost = weakref.ref(ring)
    del ring
print(before, gc.isenabled(), lost() is None, gc.get_freeze_count() > 1_000)
later = Ring()
for name in ("later", "kept"):
    seen = weakref.ref(globals().pop(name))
    gc.collect()
    print(seen() is None)
try:
    failing()
except LookupError:
    print(gc.isenabled())
"""


def test_rings_made_later_are_collected_and_what_was_there_stays() -> None:
    done = subprocess.run([sys.executable, "-c", TRIED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True", "True", "False", "True"]
