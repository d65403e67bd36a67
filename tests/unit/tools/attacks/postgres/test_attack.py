"""The attack on a corpus in PostgreSQL: what its ledger counts, and a short run of it."""

import json

import pytest

from tests.helpers.postgres import skip_without_postgres
from tools.attacks.postgres.__main__ import main
from tools.attacks.postgres.ledger import Ledger, Written


def test_the_ledger_knows_whose_chunks_are_and_which_are_gone():
    ledger = Ledger()
    mine, shared = Written("a", "ann", (1, 2)), Written("b", "", (3,))
    for written in (mine, shared):
        ledger.began(written)
        ledger.put(written)
    assert [ledger.foreign([1, 2, 3], tenant) for tenant in ("ann", "bob", "")] == [0, 2, 2]
    ledger.deleting(mine)
    assert (ledger.live(), ledger.gone()) == ([shared], frozenset())
    ledger.deleted(mine)
    assert ledger.gone() == {1, 2}
    assert (ledger.writes, ledger.deletes) == (2, 1)


@pytest.mark.slow
def test_a_short_attack_loses_nothing(tmp_path):
    skip_without_postgres()
    assert main(["--writes", "20", "--down-s", "0.2", "--json", str(tmp_path / "found.json")]) == 0
    headline = json.loads((tmp_path / "found.json").read_text())["headline"]
    assert headline["outages"] >= 6
    assert headline["writes"] >= 20
