import pytest

from heddle.core.errors import InternalError
from heddle.runtime.object_store import ObjectStore


def test_a_key_is_written_once():
    store = ObjectStore()
    store.put("a", 1)
    assert "a" in store
    assert store.get("a") == 1
    with pytest.raises(InternalError, match="'a' was written before"):
        store.put("a", 2)
    assert store.get("a") == 1


def test_none_is_a_value():
    store = ObjectStore()
    store.put("a", None)
    assert store.get("a") is None
    with pytest.raises(InternalError):
        store.put("a", None)


def test_a_key_is_not_read_before_it_is_written():
    with pytest.raises(InternalError, match="'b' is read before"):
        ObjectStore().get("b")
