"""The attack on a corpus in PostgreSQL: what its ledger counts. `make attacks-short` runs it."""

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
