import numpy as np

from heddle.engines.vector.ivf.early_stop.orders import Past, Planned, history_bonus, soft_order

LISTS = np.array([4, 7, 1, 9, 3])
PAST = Past(np.array([1.0, 0.0], np.float32), np.array([9, 9, 9, 1, 2]))


def towards(angle):
    return np.array([np.cos(angle), np.sin(angle)], np.float32)


def test_more_hits_and_nearer_questions_move_a_cluster_further():
    near, nearer = (history_bonus(LISTS, towards(angle), PAST) for angle in (0.5, 0.1))
    assert near[[0, 1, 4]].tolist() == [0, 0, 0]  # nothing was found there
    assert 0 < near[2] < near[3]
    assert (nearer[2:4] > near[2:4]).all()


def test_a_question_that_has_drifted_away_keeps_the_order_by_distance():
    bonuses = history_bonus(LISTS, towards(np.pi / 3 + 0.01), PAST)
    assert not bonuses.any()
    assert not history_bonus(LISTS, towards(0.0), None).any()
    distances = np.array([0.1, 0.2, 0.2, 0.3, 0.4], np.float32)
    assert soft_order(Planned(LISTS, distances, bonuses, PAST)).tolist() == [0, 1, 2, 3, 4]


def test_soft_order_moves_a_cluster_by_its_bonus_and_no_further():
    distances = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    planned = Planned(LISTS[:4], distances, np.array([0, 0, 0, 0.25]), PAST)
    assert soft_order(planned).tolist() == [0, 3, 1, 2]
