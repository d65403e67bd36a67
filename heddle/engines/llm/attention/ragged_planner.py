"""Plans what the Triton kernel computes in a step. (FusionRAG §4.3)

A decode adds one key to what its row read the step before. So what chunks a row reads, and how
queries meet their keys, is kept from one step to the next.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.attention.key_rotation import KeyRotation
from heddle.engines.llm.attention.row_keys import ChunkKeys, RowKeys, row_keys
from heddle.engines.llm.attention.tiles import Heads, Tiling, Work, large_work, small_work
from heddle.engines.llm.attention.tilings import Tilings, tilings_for
from heddle.engines.llm.attention.triton_rows import Launch, QueryRotations, RaggedPlan, gpu_of
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import PageStore
from heddle.kv.rows import Numbers, SharedKeys


class RaggedPlanner:
    """Plans the steps of one model.

    Args:
        store: where keys are.
        heads: of the queries.
        rotation: rotates the queries for keys that are stored elsewhere.
        tilings: sizes of the tiles; None = the largest that fit the store's GPU.

    Raises: ConfigError: no tiles fit that GPU.
    """

    def __init__(
        self,
        store: PageStore,
        heads: int,
        rotation: KeyRotation,
        tilings: Tilings | None = None,
    ) -> None:
        self._store, self._rotation = store, rotation
        self._head_count, self._heads = heads, Heads.of(heads, store.shape.kv_heads)
        itemsize = store.shape.dtype.itemsize
        self.tilings = tilings or tilings_for(gpu_of(store.device), itemsize)
        self._known: dict[tuple[SharedKeys, ...], ChunkKeys] = {}
        self._rotated: tuple[bytes, QueryRotations] | None = None

    def plan(self, rows: Sequence[BatchRow]) -> RaggedPlan:
        """Return the plan of a step. Mutates: what is kept for the next one.

        Args:
            rows: those of the step, at least one, in the order of their queries.
        """
        keys = row_keys(rows, self._known)
        device = self._store.device
        distances = np.unique(np.concatenate([own.rotations for own in keys]))
        slots, key_places = _where_keys_lie(keys, device)
        return RaggedPlan(
            self._head_count,
            slots,
            key_places,
            _int32(np.concatenate([own.places for own in keys]), device),
            self._rotations(distances) if distances.any() else None,
            tuple(self._launches(keys, distances)),
        )

    def _launches(self, keys: Sequence[RowKeys], distances: Numbers) -> list[Launch]:
        """Return the launches: rows of one small tile together, and of each large tiling."""
        small = self.tilings.small
        rows: dict[Tiling, list[RowKeys]] = {}
        for own in keys:
            rows.setdefault(self._tiling(own), []).append(own)
        found = []
        if few := rows.pop(small, None):
            found.append(self._launch(small_work(few, self._heads, small, distances), small))
        for large, many in rows.items():
            works = [large_work(own, self._heads, large, distances) for own in many]
            found.append(self._launch(Work.joined(works), large))
        return found

    def _tiling(self, keys: RowKeys) -> Tiling:
        """Return a row's tiles. Only the row decides: others must not change its numbers."""
        tilings = self.tilings
        if keys.row.queries * self._heads.group <= tilings.small.lines:
            return tilings.small
        return tilings.large_shared if keys.rotations.any() else tilings.large

    def _launch(self, work: Work, tiling: Tiling) -> Launch:
        # The longest first: what starts last should end soon.
        items = work.items[np.argsort(-work.items[:, -1], kind="stable")]
        device = self._store.device
        return Launch(
            tiling,
            _int32(items[:, :-1], device),
            _int32(work.spans, device),
            _int32(work.merges, device),
            work.parts,
        )

    def _rotations(self, distances: Numbers) -> QueryRotations:
        """Return how queries meet keys at some distances. Shapes: distances [n]."""
        wanted = distances.tobytes()
        if self._rotated is None or self._rotated[0] != wanted:
            self._rotated = wanted, _query_rotations(distances, self._rotation, self._store)
        return self._rotated[1]


def _query_rotations(distances: Numbers, rotation: KeyRotation, store: PageStore) -> QueryRotations:
    """Return how queries are rotated for keys that are stored so far back.

    The model's own rotation is applied to each unit vector. The result shows which dimensions it
    pairs, in any layout, and by which angle.

    Shapes: distances [n].
    """
    head_dim = store.shape.head_dim
    # The query rotates back as far as its keys would have to rotate forth; one more distance shows
    # the pairs. A dimension stands in for a head.
    back = torch.from_numpy(np.append(-distances, 1)).to(store.device)
    units = torch.eye(head_dim, device=store.device)
    rotated = units[:, None].expand(-1, len(back), -1).contiguous()  # [from, distance, to]
    rotation.rotator(back)(rotated)
    matrices = rotated.transpose(0, 1)
    own_part = matrices[:-1].diagonal(dim1=1, dim2=2)
    partner_part = (matrices[:-1] - torch.diag_embed(own_part)).sum(dim=1)
    partner = matrices[-1].clone().fill_diagonal_(0.0).abs().argmax(dim=0)
    # The kernel takes rows that lie one after another; the diagonals may have had other strides.
    return QueryRotations(partner.int(), own_part.contiguous(), partner_part.contiguous())


def _where_keys_lie(keys: Sequence[RowKeys], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the slot of each key of the step and its place in its row. Shapes: [keys] int32 both.

    Only the runs travel to the device: two numbers for each key would be megabytes for long
    contexts.
    """
    runs = np.concatenate([own.runs() for own in keys])
    lengths = runs[:, 2]
    # What is added to a key's number in the step.
    shifts = runs[:, :2] - (np.cumsum(lengths) - lengths)[:, None]
    count = int(lengths.sum())
    each = torch.repeat_interleave(
        _int32(shifts.T, device), torch.from_numpy(lengths).to(device), dim=1, output_size=count
    )
    each += torch.arange(count, dtype=torch.int32, device=device)
    return each[0], each[1]


def _int32(numbers: NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.int32)).to(device)
