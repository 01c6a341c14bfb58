"""Counts, words, items and animals: zero inflation, occupancy, capture–recapture, topics, item response."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, gammaln, logsumexp, softmax
from scipy.stats import beta, betabinom, dirichlet, gamma, halfnorm, norm, poisson

import fubini as fb
from fubini import dist
from tests.catalogue.oracles import (
    assert_close,
    assert_labels,
    assert_mean,
    beta_bernoulli,
    dirichlet_counts,
    evidence,
    forward_backward,
    left,
    paths,
    recovered,
)

COUNTS = np.array([0, 0, 3, 1, 0, 5])

# -- zero inflation --------------------------------------------------------------------------------------------------


@fb.model
def zero_inflated(n):
    psi = yield dist.Beta(2.0, 2.0)
    rate = yield dist.Gamma(2.0, 1.0)
    z = yield dist.Bernoulli(psi).expand([n])
    y = yield dist.Poisson(jnp.where(z == 1, rate, 0.0))


def zero_inflation(psi, rate):
    """log p(y, z) of each count, for z = 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.stack([np.log(1 - psi) + np.log(COUNTS == 0), np.log(psi) + poisson.logpmf(COUNTS, rate)], axis=1)


def test_zero_inflated_poisson_by_a_latent():
    small = left(zero_inflated(6).condition(y=COUNTS), ["z"], ["psi", "rate"])
    for psi, rate in ((0.4, 2.0), (0.9, 0.7)):
        each = zero_inflation(psi, rate)
        prior = beta.logpdf(psi, 2, 2) + gamma.logpdf(rate, 2)
        assert_close(small.log_prob(psi=psi, rate=rate), logsumexp(each, axis=1).sum() + prior)
    assert_mean(recovered(small, {"psi": psi, "rate": rate})["z"], softmax(each, axis=1)[:, 1])


@fb.model
def zero_inflated_by_a_product(n):
    psi = yield dist.Beta(2.0, 2.0)
    rate = yield dist.Gamma(2.0, 1.0)
    z = yield dist.Bernoulli(psi).expand([n])
    y = yield dist.Poisson(z * rate)


def test_zero_inflated_poisson_by_a_product():
    """A rate of zero times anything."""
    small = left(zero_inflated_by_a_product(6).condition(y=COUNTS), ["z"], ["psi", "rate"])
    for psi, rate in ((0.4, 2.0), (0.9, 0.7)):
        prior = beta.logpdf(psi, 2, 2) + gamma.logpdf(rate, 2)
        expected = logsumexp(zero_inflation(psi, rate), axis=1).sum() + prior
        assert_close(small.log_prob(psi=psi, rate=rate), expected)


@fb.model
def zero_inflated_family(n):
    gate = yield dist.Beta(2.0, 2.0)
    rate = yield dist.Gamma(2.0, 1.0)
    y = yield dist.ZeroInflatedPoisson(gate, rate).expand([n])


def test_zero_inflated_poisson_as_a_family():
    """Nothing is left to sum: both parameters stay."""
    small = left(zero_inflated_family(6).condition(y=COUNTS), [], ["gate", "rate"])
    for gate, rate in ((0.4, 2.0), (0.9, 0.7)):
        prior = beta.logpdf(gate, 2, 2) + gamma.logpdf(rate, 2)
        expected = logsumexp(zero_inflation(1 - gate, rate), axis=1).sum() + prior
        assert_close(small.log_prob(gate=gate, rate=rate), expected)


@fb.model
def waiting_times(n):
    p = yield dist.Beta(1.0, 2.0)
    rate = yield dist.Gamma(2.0, 1.0).expand([2])
    z = yield dist.Bernoulli(p).expand([n])
    y = yield dist.Exponential(rate[z])


def test_exponential_times_with_labels():
    times = np.array([0.3, 2.5, 0.1, 1.2])
    small = left(waiting_times(4).condition(y=times), ["z"], ["p", "rate"])
    for p, rate in ((0.3, np.array([0.5, 3.0])), (0.7, np.array([1.0, 2.0]))):
        each = np.log([1 - p, p]) + np.log(rate) - times[:, None] * rate
        prior = beta.logpdf(p, 1, 2) + gamma.logpdf(rate, 2).sum()
        assert_close(small.log_prob(p=p, rate=rate), logsumexp(each, axis=1).sum() + prior)
    assert_labels(recovered(small, {"p": p, "rate": rate})["z"], softmax(each, axis=1))


@fb.model
def coin(n):
    p = yield dist.Uniform(0.0, 1.0)
    y = yield dist.Bernoulli(p).expand([n])


def test_a_uniform_probability():
    """A Beta(1, 1)."""
    post = coin(5).condition(y=np.array([1, 0, 1, 1, 0]))
    assert_close(evidence(post, ["p"]), beta_bernoulli(1.0, 1.0, 3, 2))
    assert_close(post.marginal("p").mean("p").data, 4 / 7)


@fb.model
def alarm():
    burglary = yield dist.Bernoulli(0.2)
    earthquake = yield dist.Bernoulli(0.1)
    rings = yield dist.Bernoulli(jnp.where(jnp.logical_or(burglary, earthquake), 0.9, 0.05))
    calls = yield dist.Bernoulli(jnp.array([0.1, 0.7])[rings])


def test_a_network_in_plain_jax():
    post = alarm().condition(calls=1)
    joint = np.zeros((2, 2, 2))
    for b, e, r in paths([2, 2, 2]):
        chance = 0.9 if b or e else 0.05
        weight = [0.8, 0.2][b] * [0.9, 0.1][e] * (chance if r else 1 - chance)
        joint[b, e, r] = weight * [0.1, 0.7][r]
    assert_close(evidence(post, ["burglary", "earthquake", "rings"]), np.log(joint.sum()))
    assert_close(post.marginal("burglary").mean("burglary").data, joint[1].sum() / joint.sum())


# -- animals ---------------------------------------------------------------------------------------------------------

VISITS = np.array([[0, 0, 1], [0, 0, 0], [1, 1, 0], [0, 0, 0]])


@fb.model
def occupancy(sites, visits):
    psi = yield dist.Beta(1.0, 1.0)
    p = yield dist.Beta(2.0, 3.0)
    z = yield dist.Bernoulli(psi).expand([sites])
    y = yield dist.Bernoulli(z[:, None] * p).expand([sites, visits])


def seen(psi, p, there):
    """log p(visits of each site, z), for z = 0 and 1; an animal is seen only where there is one."""
    with np.errstate(divide="ignore"):
        absent = np.log(1 - psi) + np.log(there.sum(1) == 0)
        return np.stack([absent, np.log(psi) + np.where(there == 1, np.log(p), np.log1p(-p)).sum(1)], axis=1)


def test_occupancy():
    small = left(occupancy(4, 3).condition(y=VISITS), ["z"], ["psi", "p"])
    for psi, p in ((0.4, 0.5), (0.8, 0.1)):
        each = seen(psi, p, VISITS)
        prior = beta.logpdf(psi, 1, 1) + beta.logpdf(p, 2, 3)
        assert_close(small.log_prob(psi=psi, p=p), logsumexp(each, axis=1).sum() + prior)
    assert_mean(recovered(small, {"psi": psi, "p": p})["z"], softmax(each, axis=1)[:, 1])


@fb.model
def augmented(size, days):
    psi = yield dist.Beta(1.0, 1.0)
    p = yield dist.Beta(1.0, 1.0).expand([days])
    z = yield dist.Bernoulli(psi).expand([size])
    y = yield dist.Bernoulli(jnp.where(z[:, None] == 1, p, 0.0))


def test_capture_recapture_by_data_augmentation():
    """The size of a population: animals never seen may or may not exist."""
    small = left(augmented(4, 3).condition(y=VISITS), ["z"], ["psi", "p"])
    for psi, p in ((0.4, np.array([0.5, 0.2, 0.3])), (0.8, np.array([0.1, 0.4, 0.6]))):
        each = seen(psi, p, VISITS)
        assert_close(small.log_prob(psi=psi, p=p), logsumexp(each, axis=1).sum())
    assert_mean(recovered(small, {"psi": psi, "p": p})["z"], softmax(each, axis=1)[:, 1])


@fb.model
def capture_with_heterogeneity(size, days):
    z = yield dist.Bernoulli(0.6).expand([size])
    p = yield dist.Beta(2.0, 3.0).expand([size])
    y = yield dist.Binomial(days, jnp.where(z == 1, p, 0.0))


def test_capture_probabilities_of_their_own():
    """Each animal has a probability, integrated out where it is there."""
    post = capture_with_heterogeneity(4, 5).condition(y=np.array([0, 2, 0, 5]))
    with np.errstate(divide="ignore"):
        absent = np.log(0.4) + np.log(np.array([0, 2, 0, 5]) == 0)
    each = np.stack([absent, np.log(0.6) + betabinom.logpmf([0, 2, 0, 5], 5, 2, 3)], axis=1)
    assert_close(evidence(post, ["z", "p"]), logsumexp(each, axis=1).sum())


HISTORY = np.array([1, 0, 1, 0, 0])


def survival(phi, p, history):
    """log-evidence and smoothed probabilities of being alive, for an animal marked at first and seen only alive."""
    with np.errstate(divide="ignore"):
        likelihood = np.stack([np.log(history == 0), np.where(history == 1, np.log(p), np.log(1 - p))], 1)
    likelihood[0] = 0.0
    total, smooth = forward_backward([0.0, 1.0], np.array([[1.0, 0.0], [1 - phi, phi]]), likelihood)
    return total, smooth[:, 1]


@fb.model
def cormack_jolly_seber(n):
    phi = yield dist.Beta(3.0, 1.0)
    p = yield dist.Beta(2.0, 2.0)
    step = jnp.array([[1.0, 0.0], [1 - phi, phi]])
    alive = yield dist.Markov(dist.Categorical(jnp.array([0.0, 1.0])), lambda alive: dist.Categorical(step[alive]), n)
    y = yield dist.Bernoulli(jnp.where(alive[1:] == 1, p, 0.0))


@fb.model
def cormack_jolly_seber_by_a_product(n):
    phi = yield dist.Beta(3.0, 1.0)
    p = yield dist.Beta(2.0, 2.0)
    alive = yield dist.Markov(dist.Bernoulli(1.0), lambda alive: dist.Bernoulli(phi * alive), n)
    y = yield dist.Bernoulli(p * alive[1:])


def check_of_one_animal(model):
    small = left(model(5).condition(y=HISTORY[1:]), ["alive"], ["phi", "p"])
    for phi, p in ((0.8, 0.5), (0.6, 0.9)):
        total, smooth = survival(phi, p, HISTORY)
        assert_close(small.log_prob(phi=phi, p=p), total + beta.logpdf(phi, 3, 1) + beta.logpdf(p, 2, 2))
    assert_mean(recovered(small, {"phi": phi, "p": p})["alive"], smooth)


def test_cormack_jolly_seber():
    """An animal, marked at first, is alive or not; it is seen only while it is alive."""
    check_of_one_animal(cormack_jolly_seber)


def test_cormack_jolly_seber_by_a_product():
    """The probability to survive is a number times the state before."""
    check_of_one_animal(cormack_jolly_seber_by_a_product)


@fb.model
def several_animals(animals, n):
    phi = yield dist.Beta(3.0, 1.0)
    p = yield dist.Beta(2.0, 2.0)
    alive = yield dist.Markov(
        dist.Categorical(jnp.array([0.0, 1.0])).expand([animals]),
        lambda alive: dist.Bernoulli(jnp.where(alive == 1, phi, 0.0)),
        n,
    )
    y = yield dist.Bernoulli(jnp.where(alive[1:] == 1, p, 0.0))


HISTORIES = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]])


def test_cormack_jolly_seber_of_several_animals():
    small = left(several_animals(3, 4).condition(y=HISTORIES[:, 1:].T), ["alive"], ["phi", "p"])
    for phi, p in ((0.8, 0.5), (0.6, 0.9)):
        each = [survival(phi, p, history) for history in HISTORIES]
        prior = beta.logpdf(phi, 3, 1) + beta.logpdf(p, 2, 2)
        assert_close(small.log_prob(phi=phi, p=p), sum(total for total, _ in each) + prior)
    draws = recovered(small, {"phi": phi, "p": p})["alive"]
    assert_mean(draws, np.stack([smooth for _, smooth in each], axis=1))


@fb.model
def survival_by_a_product(n):
    before = yield dist.Bernoulli(0.9).expand([n])
    after = yield dist.Bernoulli(0.8 * before)
    y = yield dist.Normal(1.0 * after, 1.0)


def test_survival_by_a_product():
    y = np.array([1.0, 0.2])
    found = evidence(survival_by_a_product(2).condition(y=y), ["before", "after"])
    assert_close(found, np.log(0.72 * norm.pdf(y, 1) + 0.28 * norm.pdf(y, 0)).sum())


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_certain_labels(p):
    @fb.model
    def certain():
        z = yield dist.Bernoulli(p).expand([2])
        y = yield dist.Normal(1.0 * z, 1.0)

    y = np.array([1.0, 0.2])
    assert_close(evidence(certain().condition(y=y), ["z"]), norm.logpdf(y, p).sum())


@fb.model
def n_mixture(visits):
    p = yield dist.Beta(2.0, 2.0)
    size = yield dist.Categorical(jnp.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.1]))
    y = yield dist.Binomial(size, p).expand([visits])


def test_a_number_of_animals():
    """Both the size of a population and the chance to see one of it."""
    y, weights = np.array([2, 1, 3]), np.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.1])
    post = n_mixture(3).condition(y=y)
    each = np.full(6, -np.inf)
    for size in range(3, 6):
        chosen = (gammaln(size + 1) - gammaln(y + 1) - gammaln(size - y + 1)).sum()
        each[size] = np.log(weights[size]) + chosen + betaln(2 + y.sum(), 2 + 3 * size - y.sum()) - betaln(2, 2)
    assert_close(evidence(post, ["p", "size"]), logsumexp(each))
    assert_close(post.marginal("size").mean("size").data, softmax(each) @ np.arange(6))


# -- items -----------------------------------------------------------------------------------------------------------

ANSWERS = np.array([[1, 0, 1], [1, 1, 1], [0, 0, 1], [0, 1, 0]])


@fb.model
def rasch(people, items):
    theta = yield dist.Normal(0.0, 1.0).expand([people])
    b = yield dist.Normal(0.0, 2.0).expand([items])
    y = yield dist.Bernoulli(logits=theta[:, None] - b)


def test_item_response():
    """Nothing has a closed form."""
    small = left(rasch(4, 3).condition(y=ANSWERS), [], ["theta", "b"])
    for theta, b in ((np.array([0.5, 1.0, -1.0, 0.0]), np.array([0.3, -0.2, 1.0])), (np.zeros(4), np.ones(3))):
        logits = theta[:, None] - b
        expected = (ANSWERS * logits - np.log1p(np.exp(logits))).sum()
        expected += norm.logpdf(theta).sum() + norm.logpdf(b, 0, 2).sum()
        assert_close(small.log_prob(theta=theta, b=b), expected)


@fb.model
def abilities_of_a_population(people, items):
    mu = yield dist.Normal(0.0, 1.0)
    tau = yield dist.HalfNormal(1.0)
    theta = yield dist.Normal(mu, tau).expand([people])
    b = yield dist.Normal(0.0, 2.0).expand([items])
    y = yield dist.Bernoulli(logits=theta[:, None] - b)


def test_item_response_of_a_population():
    """The mean of the population is integrated out given the abilities."""
    small = left(abilities_of_a_population(4, 3).condition(y=ANSWERS), ["mu"], ["tau", "theta", "b"])
    b = np.array([0.3, -0.2, 1.0])
    for tau, theta in ((0.7, np.array([0.5, 1.0, -1.0, 0.0])), (1.5, np.array([0.5, 0.7, -2.0, 0.3]))):
        logits = theta[:, None] - b
        expected = (ANSWERS * logits - np.log1p(np.exp(logits))).sum() + norm.logpdf(b, 0, 2).sum()
        covariance = tau**2 * np.eye(4) + 1
        expected -= 0.5 * (theta @ np.linalg.solve(covariance, theta) + np.linalg.slogdet(2 * np.pi * covariance)[1])
        assert_close(small.log_prob(tau=tau, theta=theta, b=b), expected + halfnorm.logpdf(tau))
    precision = 1 + 4 / tau**2
    draws = recovered(small, {"tau": tau, "theta": theta, "b": b})["mu"]
    assert_mean(draws, theta.sum() / tau**2 / precision, 1 / precision)


@fb.model
def diagnosis(people, items):
    """Which of two classes a person is in decides how likely each answer is."""
    pi = yield dist.Beta(2.0, 2.0)
    slip = yield dist.Beta(1.0, 4.0).expand([items])
    guess = yield dist.Beta(1.0, 4.0).expand([items])
    able = yield dist.Bernoulli(pi).expand([people])
    y = yield dist.Bernoulli(jnp.where(able[:, None], 1 - slip, guess))


def test_slips_and_guesses():
    small = left(diagnosis(4, 3).condition(y=ANSWERS), ["able"], ["pi", "slip", "guess"])
    for pi, slip, guess in (
        (0.6, np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.1, 0.4])),
        (0.3, np.array([0.3, 0.1, 0.2]), np.array([0.5, 0.6, 0.1])),
    ):
        chance = np.stack([guess, 1 - slip])
        each = np.where(ANSWERS[:, None] == 1, np.log(chance), np.log1p(-chance)).sum(-1) + np.log([1 - pi, pi])
        prior = beta.logpdf(pi, 2, 2) + beta.logpdf(slip, 1, 4).sum() + beta.logpdf(guess, 1, 4).sum()
        assert_close(small.log_prob(pi=pi, slip=slip, guess=guess), logsumexp(each, axis=1).sum() + prior)
    assert_mean(recovered(small, {"pi": pi, "slip": slip, "guess": guess})["able"], softmax(each, axis=1)[:, 1])


@fb.model
def ordinal(n):
    eta = yield dist.Normal(0.0, 1.0)
    z = yield dist.OrderedLogistic(eta, jnp.array([-1.0, 1.0])).expand([n])
    y = yield dist.Normal(1.0 * z, 0.8)


def test_an_ordinal_label():
    """A grade that is seen with noise."""
    y = np.array([0.2, 1.7, 1.1])
    small = left(ordinal(3).condition(y=y), ["z"], ["eta"])
    for eta in (0.3, -1.2):
        below = 1 / (1 + np.exp(eta - np.array([-1.0, 1.0])))
        each = np.log(np.diff([0.0, *below, 1.0])) + norm.logpdf(y[:, None], np.arange(3), 0.8)
        assert_close(small.log_prob(eta=eta), logsumexp(each, axis=1).sum() + norm.logpdf(eta))
    assert_labels(recovered(small, {"eta": eta})["z"], softmax(each, axis=1))


# -- words -----------------------------------------------------------------------------------------------------------

DOCUMENT, WORD = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 2, 2])
TOPICS = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])


@fb.model
def topics(document, documents):
    theta = yield dist.Dirichlet(jnp.array([1.0, 2.0])).expand([documents])
    z = yield dist.Categorical(theta[document])
    w = yield dist.Categorical(jnp.array(TOPICS)[z])


def test_topics_of_words_with_topics_known():
    """The topic of each word is summed out given the proportions of its document; and the other way round."""
    post = topics(DOCUMENT, 2).condition(w=WORD)
    small = left(post, ["z"], ["theta"])
    for theta in (np.array([[0.3, 0.7], [0.8, 0.2]]), np.array([[0.5, 0.5], [0.1, 0.9]])):
        each = np.log(theta[DOCUMENT]) + np.log(TOPICS[:, WORD].T)
        prior = sum(dirichlet.logpdf(row, [1, 2]) for row in theta)
        assert_close(small.log_prob(theta=theta), logsumexp(each, axis=1).sum() + prior)
    assert_labels(recovered(small, {"theta": theta})["z"], softmax(each, axis=1))
    other = post.eliminate("theta")
    labels = paths([2] * 5)
    expected = []
    for z in labels:
        counts = np.stack([np.bincount(z[document == DOCUMENT], minlength=2) for document in range(2)])
        expected.append(np.log(TOPICS[z, WORD]).sum() + sum(dirichlet_counts([1.0, 2.0], row) for row in counts))
    assert_close(other.log_prob(z=labels), expected)


@fb.model
def latent_dirichlet_allocation(document, documents, words):
    phi = yield dist.Dirichlet(0.5 * jnp.ones(words)).expand([2])
    theta = yield dist.Dirichlet(jnp.ones(2)).expand([documents])
    z = yield dist.Categorical(theta[document])
    w = yield dist.Categorical(phi[z])


def test_topics_and_their_words():
    """Labels go by themselves; or all proportions go, given the labels."""
    post = latent_dirichlet_allocation(DOCUMENT, 2, 3).condition(w=WORD)
    small = left(post, ["z"], ["phi", "theta"])
    phi, theta = TOPICS, np.array([[0.3, 0.7], [0.8, 0.2]])
    each = logsumexp(np.log(theta[DOCUMENT]) + np.log(phi[:, WORD].T), axis=1).sum()
    prior = sum(dirichlet.logpdf(row, [0.5] * 3) for row in phi) + sum(dirichlet.logpdf(row, [1, 1]) for row in theta)
    assert_close(small.log_prob(phi=phi, theta=theta), each + prior)
    other = post.eliminate("phi", "theta")
    for z in (np.array([0, 1, 0, 1, 1]), np.array([1, 1, 0, 0, 0])):
        expected = sum(dirichlet_counts(1.0, np.bincount(z[document == DOCUMENT], minlength=2)) for document in (0, 1))
        expected += sum(dirichlet_counts(0.5, np.bincount(WORD[z == k], minlength=3)) for k in (0, 1))
        assert_close(other.log_prob(z=z), expected)


BAGS = np.array([[2, 1, 0], [0, 3, 2], [1, 0, 4]])
KINDS = np.array([0, 1, 1])


@fb.model
def naive_bayes(documents, words):
    pi = yield dist.Dirichlet(jnp.ones(2))
    phi = yield dist.Dirichlet(jnp.ones(words)).expand([2])
    kind = yield dist.Categorical(pi).expand([documents])
    w = yield dist.Multinomial(jnp.array(BAGS.sum(1)), probs=phi[kind])


def test_naive_bayes_with_known_classes():
    post = naive_bayes(3, 3).condition(w=BAGS, kind=KINDS)
    several = (gammaln(BAGS.sum(1) + 1) - gammaln(BAGS + 1).sum(1)).sum()
    expected = several + dirichlet_counts(1.0, np.bincount(KINDS))
    expected += sum(dirichlet_counts(1.0, BAGS[kind == KINDS].sum(0)) for kind in (0, 1))
    assert_close(evidence(post, ["pi", "phi"]), expected)
    counts = np.stack([BAGS[kind == KINDS].sum(0) for kind in (0, 1)]) + 1.0
    assert_close(post.marginal("phi").mean("phi").data, counts / counts.sum(1, keepdims=True))


def test_naive_bayes_with_classes_summed():
    small = left(naive_bayes(3, 3).condition(w=BAGS), ["kind"], ["pi", "phi"])
    several = (gammaln(BAGS.sum(1) + 1) - gammaln(BAGS + 1).sum(1)).sum()
    for pi, phi in ((np.array([0.3, 0.7]), TOPICS), (np.array([0.6, 0.4]), TOPICS[:, ::-1])):
        each = np.log(pi) + BAGS @ np.log(phi).T
        prior = dirichlet.logpdf(pi, [1, 1]) + sum(dirichlet.logpdf(row, [1, 1, 1]) for row in phi)
        assert_close(small.log_prob(pi=pi, phi=phi), logsumexp(each, axis=1).sum() + several + prior)
    assert_labels(recovered(small, {"pi": pi, "phi": phi})["kind"], softmax(each, axis=1))


@fb.model
def naive_bayes_of_bits(rows, columns):
    pi = yield dist.Beta(1.0, 1.0)
    p = yield dist.Beta(1.0, 2.0).expand([2, columns])
    spam = yield dist.Bernoulli(pi).expand([rows])
    y = yield dist.Bernoulli(p[spam])


def test_naive_bayes_of_bits_with_known_classes():
    spam = np.array([1, 1, 0, 0])
    post = naive_bayes_of_bits(4, 3).condition(y=ANSWERS, spam=spam)
    expected = beta_bernoulli(1.0, 1.0, 2, 2)
    for kind in (0, 1):
        ones = ANSWERS[spam == kind].sum(0)
        expected += beta_bernoulli(1.0, 2.0, ones, 2 - ones).sum()
    assert_close(evidence(post, ["pi", "p"]), expected)
