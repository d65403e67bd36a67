from extractor_training.word_index import WordIndex

from tests.helpers.small_extractor import passage

PASSAGES = [
    passage("a", "The bridge of Oslo opened late."),
    passage("b", "Bread is made of flour."),
    passage("c", "Oslo has a bridge, and Oslo has a tower."),
    *(passage(f"x{n}", "Filler without anything to find.") for n in range(9)),
]


def test_the_passage_with_most_of_the_rare_words_comes_first():
    index = WordIndex(PASSAGES, ["When did Oslo's bridge open?", "flour"])
    assert [p.key for p in index.best("Oslo bridge", 3)] == ["c", "a"]
    assert [p.key for p in index.best("flour", 3)] == ["b"]


def test_words_that_stand_nowhere_find_nothing():
    assert WordIndex(PASSAGES, ["zebra"]).best("zebra", 3) == []
