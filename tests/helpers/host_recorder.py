"""A recorder for tests without a GPU."""

import torch


class HostRecorder:
    """Computes again, from the tensors that were there when it recorded, into those it returned."""

    def __init__(self):
        self.replays = 0

    def record(self, run):
        outputs = run()

        def replay():
            self.replays += 1
            for kept, new in zip(_tensors(outputs), _tensors(run()), strict=True):
                kept.copy_(new)

        return outputs, replay


def _tensors(outputs):
    return (outputs,) if isinstance(outputs, torch.Tensor) else outputs
