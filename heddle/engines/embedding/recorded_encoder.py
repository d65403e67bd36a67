"""An encoder's short batches, recorded once for each of a few shapes and replayed with other rows.

A short batch is hundreds of short kernels, and a GPU waits for the host that launches them. A
recording (a CUDA graph) launches all of them at once, but its shape is fixed. So a batch is padded
to the next of a few shapes:

1. All shapes are recorded when a lane starts: no request waits for it, and no profile takes it for
   a slow step. The first launch of a shape loads what its kernels need, the second is timed, and
   then the shape is recorded and its replay timed.
2. A shape whose replay takes longer than the quickest launch of any is not replayed: it is bound
   by computing, and padding would only add to it. Nor is a batch larger than each shape.
3. After a failure to record, all batches are launched, and the log says why: the model waits for
   the device in its midst, say.
"""

import bisect
import itertools
import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import torch
from torch import Tensor

from heddle.core.ports import Clock
from heddle.engines.embedding.padded_encoder import PaddedEncoder, padded
from heddle.kernels.cuda_recorder import Recorder

log = logging.getLogger(__name__)
ROW_COUNTS: Final = (1, 2, 4, 8, 16, 32, 64)
LENGTHS: Final = (16, 32, 64, 128, 256, 512)  # of rows [tokens]
BATCH_TOKENS_MAX: Final = 8192  # of a recorded batch, with its padding

Shape = tuple[int, int]
"""Rows of a batch, and tokens of each of them."""
States = tuple[Tensor, Tensor]
"""States [n, l, d] float32 and a mask [n, l] int64."""


class RecordedEncoder:
    """The token states of a padded encoder, up to the last digits: other shapes, other kernels.

    Args:
        encoder: computes them.
        device: where it does.
        recorder: records.
        clock: times batches.
        length_max: most tokens that the encoder takes in a row.
    """

    def __init__(
        self,
        encoder: PaddedEncoder,
        device: torch.device,
        recorder: Recorder,
        clock: Clock,
        *,
        length_max: int,
    ) -> None:
        self._encoder, self._recorder, self._clock = encoder, recorder, clock
        self._lengths = sorted({min(length, length_max) for length in LENGTHS})
        # Recordings read them where they lie.
        self._inputs = torch.zeros(2 * BATCH_TOKENS_MAX, dtype=torch.long, device=device)
        self._recordings: dict[Shape, tuple[Tensor, Callable[[], None]]] = {}

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its weights."""
        return self._encoder.dtype

    def states(self, rows: Sequence[Sequence[int]]) -> States:
        """Return the states of all tokens, and a mask that is 1 where a row has one.

        Shapes: states [n, l, d] float32; mask [n, l] int64; l is the longest row's length.
        """
        shape = self._shape_of(len(rows), max(map(len, rows)))
        if shape not in self._recordings:
            return self._encoder.states(rows)
        return self._replayed(rows, shape)

    @torch.inference_mode()
    def record_shapes(self) -> None:
        """Record every shape that is replayed quicker than launched; where one fails, none."""
        launch_s, replay_s = math.inf, dict[Shape, float]()
        for shape in self._shapes():
            rows = [[0] * shape[1]] * shape[0]
            self._encoder.states(rows)
            launch_s = min(launch_s, self._seconds(partial(self._encoder.states, rows)))
            ids, mask = self._filled(rows, shape)
            compute = partial(self._encoder.compute, ids, mask)
            try:
                self._recordings[shape] = self._recorder.record(compute)
            except RuntimeError as error:  # it waits for the device, or there is too little memory
                self._recordings.clear()
                log.warning(
                    "the encoder's short batches are launched kernel by kernel, as they can't be "
                    "recorded: %s",
                    error,
                )
                return
            replays = (self._seconds(partial(self._replayed, rows, shape)) for _ in range(2))
            replay_s[shape] = min(replays)
        for shape, seconds in replay_s.items():
            if seconds > launch_s:
                del self._recordings[shape]

    def _shapes(self) -> list[Shape]:
        """Return all shapes, the largest first: smaller ones fit into its memory."""
        shapes = itertools.product(ROW_COUNTS, self._lengths)
        recorded = (shape for shape in shapes if math.prod(shape) <= BATCH_TOKENS_MAX)
        return sorted(recorded, key=math.prod, reverse=True)

    def _shape_of(self, rows: int, length: int) -> Shape:
        """Return the smallest shape that holds a batch; the batch's own where none does."""
        row_index = bisect.bisect_left(ROW_COUNTS, rows)
        length_index = bisect.bisect_left(self._lengths, length)
        if row_index == len(ROW_COUNTS) or length_index == len(self._lengths):
            return rows, length
        return ROW_COUNTS[row_index], self._lengths[length_index]

    def _replayed(self, rows: Sequence[Sequence[int]], shape: Shape) -> States:
        """Return what a shape's recording computes of these rows."""
        _, mask = self._filled(rows, shape)
        states, replay = self._recordings[shape]
        replay()
        count, length = len(rows), max(map(len, rows))
        # Copies: the next batch overwrites what recordings read and write.
        own = states[:count, :length].to(torch.float32, copy=True)
        return own, mask[:count, :length].clone()

    def _filled(self, rows: Sequence[Sequence[int]], shape: Shape) -> Tensor:
        """Copy rows to where recordings of a shape read them. Shapes: result [2, *shape]."""
        # torch keeps page-locked memory until it is copied.
        both = padded(rows, *shape, is_pinned=self._inputs.device.type == "cuda")
        both[1, len(rows) :] = 1  # attention over no token at all could give NaN
        inputs = self._inputs[: both.numel()].view(both.shape)
        return inputs.copy_(both, non_blocking=True)

    def _seconds(self, run: Callable[[], States]) -> float:
        """Return how long the device takes for states [s]."""
        started_s = self._clock.now_s()
        states, _ = run()
        states[0, 0, 0].item()  # waits for the device
        return self._clock.now_s() - started_s
