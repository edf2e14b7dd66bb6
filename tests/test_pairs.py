from itertools import combinations

from .pairs import pairs


def test_every_pair_of_values_occurs_in_fewer_cases():
    values = {"a": "xyz", "b": (1, 2, 3, 4), "c": (False, True), "d": "pq"}
    names, cases = pairs(**values).args
    assert names == tuple(values)
    assert len(cases) < 3 * 4 * 2 * 2 / 3
    for i, j in combinations(range(4), 2):
        options = len(values[names[i]]) * len(values[names[j]])
        assert len({(case[i], case[j]) for case in cases}) == options
