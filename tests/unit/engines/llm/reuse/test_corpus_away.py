"""A corpus that can't be read costs prompts the reuse of chunk KV, and nothing else."""

import pytest

from heddle.core.commands import Admit, Release
from heddle.core.errors import StorageError, Unreachable
from heddle.core.frames import Done, Failed
from heddle.core.payloads import PrimePayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from tests.helpers.fused_serving import FusedServing, InstantStore, segments
from tests.helpers.tiny_models import prompt, tiny_model

PREFIX = prompt(21, 0)
FIRST, SECOND = prompt(37, 1), prompt(18, 2)
QUESTION = prompt(9, 6)
AWAY = Unreachable("corpus: the database can't be reached")


class AwayStore(InstantStore):
    """A store whose corpus can't be read while `away` is an error."""

    away = None

    def lookup(self, probes, now_s):
        self._ask()
        return super().lookup(probes, now_s)

    def put(self, entry, now_s, ended=None):
        self._ask()
        return super().put(entry, now_s, ended)

    def _ask(self):
        if self.away is not None:
            raise self.away


@pytest.fixture
def serving(tmp_path):
    one = FusedServing(
        tiny_model("llama"), store_class=AwayStore, directory=tmp_path, disk_bytes_max=1 << 28
    )
    yield one
    one.engine.close()


def asked(serving):
    """Return a new request about both chunks."""
    return serving.start(segments(PREFIX, [FIRST, SECOND], QUESTION))


def assert_nothing_is_held(serving):
    assert len(serving.engine.sequences) == 0
    assert (serving.held_pages, serving.pinned_chunks) == (0, 0)


@pytest.mark.parametrize("error", [AWAY, StorageError("corpus: the disk refuses")])
def test_prompts_are_computed_whole_and_say_why(serving, error):
    serving.store.away = error
    first = asked(serving)
    serving.drain()
    fused = serving.prefilled[first].fused
    assert fused.chunks == {"miss": 2}
    assert str(error) in fused.notes[0]
    assert_nothing_is_held(serving)
    serving.store.away = None
    second = asked(serving)
    serving.drain()
    third = asked(serving)
    serving.drain_loads([third])
    assert serving.prefilled[third].fused.chunks == {"exact": 2}
    assert serving.tokens[first] == serving.tokens[second] == serving.tokens[third]
    assert_nothing_is_held(serving)


def test_a_prompt_that_can_not_store_its_chunks_gives_back_all_and_the_others_go_on(serving):
    serving.prime(priming([FIRST]))
    number, other = asked(serving), serving.start(segments(PREFIX, [], QUESTION), new_tokens=20)
    serving.store.away = AWAY
    serving.drain_loads([number, other])
    assert serving.prefilled[number].fused.chunks == {"exact": 1, "miss": 1}
    assert len(serving.tokens[other]) == 20
    assert_nothing_is_held(serving)
    assert serving.store.stats().entries == 1


def priming(chunks):
    return segments(PREFIX, chunks, ())[:-1]


def ends(serving, prompt):
    """Send a priming and step until it has ended; return how."""
    task = Task(99, PrimitiveKind.PRIMING, Identity(99, "test"), PrimePayload(tuple(prompt)))
    serving.engine.apply(Admit(task, 0))
    events = []
    while serving.engine.has_work:
        events += serving.engine.step(0.0, float("inf")).events
        serving.engine.check()
    return [event for event in events if isinstance(event, Done | Failed)]


@pytest.mark.parametrize("chunks", [[FIRST], [SECOND, FIRST]])
@pytest.mark.parametrize("error", [AWAY, StorageError("corpus: the disk refuses")])
def test_a_priming_says_why_it_has_failed(serving, chunks, error):
    serving.store.away = error
    [failed] = ends(serving, priming(chunks))
    assert isinstance(failed, Failed)
    assert str(error) in failed.message
    assert failed.is_away == isinstance(error, Unreachable)
    assert_nothing_is_held(serving)
    serving.store.away = None
    assert serving.prime(priming(chunks)).is_new


def test_a_prompt_that_can_not_be_taken_in_leaves_nothing(serving):
    """For any error: the host fails the task, and no command comes to end the prompt."""
    serving.store.away = RuntimeError("a bug")
    with pytest.raises(RuntimeError, match="a bug"):
        asked(serving)
    assert_nothing_is_held(serving)
    assert not serving.engine.scheduler.has_work


def test_what_a_prompt_holds_is_given_back_whatever_storing_raises(serving):
    number = serving.start(segments(PREFIX, [FIRST], QUESTION), decodes=False)
    serving.store.away = RuntimeError("a bug")
    serving.drain()
    handle = serving.prefilled[number].handle
    with pytest.raises(RuntimeError, match="a bug"):
        serving.engine.apply(Release(handle))
    assert_nothing_is_held(serving)
