"""How the growth of a cost is fitted and shown."""

import pytest

from bench import growth

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("power", [1, 2])
def test_the_power_of_the_last_points_is_fitted(power):
    points = [(size, 5.0 * size**power) for size in (10, 100, 1000)]

    assert pytest.approx(power) == growth.fit([(1, 1e9), *points])


def test_each_series_has_a_row():
    found = {f"{series.name}_exponent": 1.042 for series in growth.SERIES}
    found |= {
        f"{series.name}_{size}_us": 12.34 for series in growth.SERIES for size in series.quick
    }
    rows = growth.summarize(found).splitlines()

    assert len(growth.SERIES) == len(rows)
    assert "| events of a stream | 10 to 10,000 | 12.3 to 12.3 | 1.04 |" == rows[0]
