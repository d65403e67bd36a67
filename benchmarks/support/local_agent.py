"""`heddle agent` in a process of its own on this machine, which stands for a node."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.support.held_cores import held_to
from heddle.core.errors import InternalError
from heddle.hosts.nodes.address import Address
from heddle.hosts.nodes.secret import read_secret, write_secret


class LocalAgent(NamedTuple):
    """An agent that listens, and the file with its secret."""

    address: Address
    secret_file: Path

    @property
    def secret(self) -> bytes:
        """The cluster's secret."""
        return read_secret(self.secret_file)


@contextmanager
def local_agent(cpus: Sequence[int]) -> Iterator[LocalAgent]:
    """Start an agent that may use these cores, and end it at last.

    Raises:
        InternalError: it said no address.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "secret"
        write_secret(file)
        command = ["agent", "--listen", "127.0.0.1:0", "--cluster-secret-file", str(file)]
        with held_to(cpus):
            process = subprocess.Popen(
                [sys.executable, "-m", "heddle.cli.main", *command],
                stdout=subprocess.PIPE,
                text=True,
            )
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            found = re.search(r"listens at (\S+)", said)
            if found is None:
                raise InternalError(f"heddle agent said {said!r} and no address")
            yield LocalAgent(Address.of(found[1], "agent"), file)
        finally:
            process.terminate()
            process.communicate()
