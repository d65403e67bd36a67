"""Models with every kind of RoPE that keys are turned by."""

from heddle.engines.llm.model.fused_types import FUSED_TYPES
from tests.helpers.tiny_models import FAMILIES, tiny_config, tiny_model

DISTANCES = (0, 1, 100, 3000, 27000, -13)
_LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
_PARTIAL = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
_ROPES = {
    **{family: (family, {}) for family in FAMILIES},
    "linear": ("llama", {"rope_parameters": _LINEAR}),
    "phi3-partial": ("phi3", {"rope_parameters": _PARTIAL}),
}
ROPES = tuple(_ROPES)
# Their layers are fused on a CPU, which turns keys as pairs that lie side by side.
PAIRED = tuple(r for r in ROPES if tiny_config(_ROPES[r][0]).model_type in FUSED_TYPES)


def roped_model(rope):
    """Return a tiny model with this kind of RoPE."""
    family, changes = _ROPES[rope]
    return tiny_model(family, **changes)


def angle_tolerance(distance):
    """Return how well a turned key is known.

    Angles are float32 in every model of transformers: far away they are known less well.
    """
    return 2e-4 + 2e-8 * abs(distance)
