"""Which server of several is asked."""

import pytest

from heddle.engines.remote.address import Address
from heddle.engines.remote.dialect import Abilities
from heddle.engines.remote.endpoint import Endpoint, Endpoints
from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.problem import RemoteProblem, Trouble


def servers(count: int) -> list[Endpoint[Abilities]]:
    addresses = [Address.of(f"http://127.0.0.1:{1 + n}/v1", "--model") for n in range(count)]
    return [Endpoint(HttpClient(address), Abilities("m")) for address in addresses]


def test_the_one_with_the_least_to_do_is_asked() -> None:
    first, second = servers(2)
    first.in_flight, second.in_flight = 3, 2
    assert Endpoints([first, second]).choose(0.0) is second


def test_one_that_is_down_comes_last_until_its_pause_is_over() -> None:
    first, second = servers(2)
    second.in_flight = 5
    first.failed(RemoteProblem(Trouble.ABSENT, "can't be reached"), 10.0)
    both = Endpoints([first, second])
    assert both.choose(10.1) is second
    assert both.choose(10.3) is first
    assert both.notes() == (f"{first.name} can't be reached",)
    first.answered()
    assert both.notes() == ()


def test_a_server_that_goes_down_is_named_once_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (server,) = servers(1)
    for _ in range(3):
        server.failed(RemoteProblem(Trouble.ABSENT, "can't be reached"), 0.0)
    assert caplog.messages == [f"model 'm': {server.name} can't be reached"]
    server.answered()
    server.failed(RemoteProblem(Trouble.CUT, "closed the connection"), 0.0)
    assert len(caplog.messages) == 2


def test_the_pause_grows_up_to_a_bound() -> None:
    (server,) = servers(1)
    pauses = []
    for _ in range(30):
        server.failed(RemoteProblem(Trouble.CUT, "x"), 0.0)
        pauses.append(server.down_until_s)
    assert pauses[:3] == [0.25, 0.5, 1.0]
    assert pauses[-1] == 30.0


def test_one_that_is_busy_is_left_alone_as_long_as_it_says() -> None:
    first, second = servers(2)
    both = Endpoints([first, second])
    first.failed(RemoteProblem(Trouble.BUSY, "is too busy", retry_after_s=7.0), 0.0)
    second.failed(RemoteProblem(Trouble.ABSENT, "can't be reached"), 0.0)
    assert both.choose(0.1) is second, "one that is down may be tried, one that is busy not yet"
    second.failed(RemoteProblem(Trouble.BUSY, "is too busy", retry_after_s=3.0), 0.0)
    assert both.choose(0.1) is second
    assert both.choose(8.0) is first
    assert first.words == "", "a busy server is no reason to call the engine degraded"


def test_one_that_is_busy_for_a_day_is_asked_again_in_a_minute() -> None:
    (server,) = servers(1)
    server.failed(RemoteProblem(Trouble.BUSY, "is too busy", retry_after_s=86_400.0), 5.0)
    assert server.busy_until_s == 65.0


def test_one_that_has_failed_this_request_comes_last_among_equals() -> None:
    first, second = servers(2)
    assert Endpoints([first, second]).choose(0.0) is first
    assert Endpoints([first, second]).choose(0.0, [first]) is second


def test_the_last_try_waits_for_one_that_is_busy_and_not_for_one_that_has_failed() -> None:
    gone, busy = servers(2)
    both = Endpoints([gone, busy])
    gone.failed(RemoteProblem(Trouble.ABSENT, "can't be reached"), 0.0)
    busy.failed(RemoteProblem(Trouble.BUSY, "is too busy", retry_after_s=2.0), 0.0)
    assert both.choose(0.1, [gone]) is gone, "a connection that was cut once is soon made again"
    assert both.choose(0.1, [gone], is_last=True) is busy
    assert both.choose(0.1, [gone], is_last=True, left_s=1.0) is gone
    assert both.choose(0.1, is_last=True) is gone, "this request has not tried it"
