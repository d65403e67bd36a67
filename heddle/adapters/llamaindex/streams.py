"""Streams of a wrapped query engine: read at their place in the run, which ends with them."""

from collections.abc import AsyncGenerator, Callable, Generator

from heddle.adapters.run import Place, at

Ended = Callable[[BaseException | None], None]


def placed(
    stream: Generator[str, None, None], place: Place, ended: Ended
) -> Generator[str, None, None]:
    """Yield a stream's pieces, each read at the place; `ended` is called with its error or None."""
    problem: BaseException | None = None
    try:
        while True:
            with at(place):
                piece = next(stream, None)
            if piece is None:
                return
            yield piece
    except BaseException as error:
        problem = error
        raise
    finally:
        stream.close()
        ended(problem)


async def aplaced(
    stream: AsyncGenerator[str, None], place: Place, ended: Ended
) -> AsyncGenerator[str, None]:
    """Yield a stream's pieces, as `placed` does."""
    problem: BaseException | None = None
    try:
        while True:
            with at(place):
                piece = await anext(stream, None)
            if piece is None:
                return
            yield piece
    except BaseException as error:
        problem = error
        raise
    finally:
        await stream.aclose()
        ended(problem)
