"""The stages of a request as a setting."""

import pytest

from heddle.app.stage_mix import stage_mix_of, stage_mix_text
from heddle.core.errors import ConfigError
from heddle.costs.memory_split import StageMix


def test_a_text_names_generations_and_searches() -> None:
    assert stage_mix_of("1.5, 2") == StageMix(1.5, 2.0)


def test_a_mix_is_read_as_it_was_written_to_three_digits() -> None:
    text = stage_mix_text(StageMix(1 / 3, 2.0))
    assert text == "0.333,2"
    assert stage_mix_of(text) == StageMix(0.333, 2.0)


@pytest.mark.parametrize("text", ["1", "1,2,3", "a,b", "-1,2", "0,0", "nan,1", "inf,1", "nan,nan"])
def test_what_is_no_mix_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"stage_mix is .*such as 1.5,2"):
        stage_mix_of(text)
