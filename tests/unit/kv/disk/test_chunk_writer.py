"""What was taken in is written, in order, also on close; what doesn't fit is refused at once."""

import threading

from heddle.kv.disk.chunk_writer import ChunkWriter


def test_everything_is_written_in_order_before_close_returns():
    gate, written = threading.Event(), []

    def write(item):
        gate.wait(30)
        written.append(item)

    writer = ChunkWriter(write, bytes_max=100)
    assert all(writer.offer(i, 10) for i in range(10))
    closing = threading.Thread(target=writer.close)
    closing.start()
    gate.set()
    closing.join(30)
    assert written == list(range(10))
    assert not writer.offer(11, 1)
    writer.close()


def test_a_full_queue_refuses_without_waiting_and_takes_again_when_written():
    gate, written = threading.Event(), []

    def write(item):
        gate.wait(30)
        written.append(item)

    writer = ChunkWriter(write, bytes_max=100)
    assert writer.offer("a", 60)
    assert not writer.offer("b", 60)
    assert writer.offer("c", 40)
    gate.set()
    writer.flush()
    assert written == ["a", "c"]
    assert writer.offer("larger than the queue", 500)
    writer.close()
    assert written[-1] == "larger than the queue"


def test_an_item_that_fails_does_not_stop_the_next(caplog):
    written = []

    def write(item):
        if item == "bad":
            raise ValueError("this one can't be packed")
        written.append(item)

    writer = ChunkWriter(write, bytes_max=100)
    for item in ("bad", "good"):
        writer.offer(item, 1)
    writer.flush()
    writer.close()
    assert written == ["good"]
    assert "this one can't be packed" in caplog.text
