"""Admissions at Berkeley: departments differ, and so may the sexes within each."""

import fubini as fb
from fubini import dist


@fb.model
def admissions(dept, gender, applications, n_dept, n_gender):
    rate = yield dist.Beta(1.0, 1.0).expand([n_dept, n_gender])
    admit = yield dist.Binomial(applications, rate[dept, gender])
