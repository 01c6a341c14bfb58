# %% [markdown]
# # Topics that are bars
#
# Can a topic model find the ten bars from which small images were made?
#
# Griffiths and Steyvers's (2004) test of latent Dirichlet allocation: a topic is a row or a column of a 5 × 5 image, a
# document a hundred pixels of a mixture of topics. The paper on TensorFlow Probability's joint distributions writes
# this model as a coroutine, as here, and Hakaru's paper compiles this sampler.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

# %% quick: documents, sweeps = 20, 5
documents, sweeps = 300, 300

# %%
random = np.random.default_rng(1)
bars = np.zeros((10, 5, 5))
for k in range(5):
    bars[k, k], bars[5 + k, :, k] = 0.2, 0.2
mixed = random.dirichlet(np.ones(10), documents)
doc = np.repeat(np.arange(documents), 100)
truth = np.concatenate([random.choice(10, 100, p=share) for share in mixed])
word = np.array([random.choice(25, p=bars[k].ravel()) for k in truth])


@fb.model
def topics(doc, documents, words, k):
    share = yield dist.Dirichlet(jnp.ones(k)).expand([documents])
    bar = yield dist.Dirichlet(jnp.ones(words)).expand([k])
    z = yield dist.Categorical(share[doc])
    word = yield dist.Categorical(bar[z])


post = topics(doc, documents, 25, 10).condition(word=word)
small = post.eliminate("share", "bar")
sampler = small.gibbs("z")
draws = sampler.run(jax.random.key(0), sweeps=sweeps, keep=1)
found = small.recover(jax.random.key(1), {"z": draws["z"][:, -1]})["bar"][0]
found.shape

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 0.8), layout="constrained")
order = np.argsort([np.argmax([(bar.reshape(5, 5) * each).sum() for each in bars]) for bar in found])
for place, axes in enumerate(figure.subplots(1, 10)):
    axes.imshow(np.asarray(found)[order[place]].reshape(5, 5), cmap="gray_r", vmin=0, vmax=0.2)
    axes.set(xticks=[], yticks=[])
pure = np.mean([np.sort(bar)[-5:].sum() for bar in np.asarray(found)])
fb.Picture(
    figure,
    f"Ten topics drawn back after the last sweep, as images of 5 × 5 pixels: each is one dark row or column. "
    f"On average {pure:.0%} of a topic is on its five darkest pixels.",
)

# %% [markdown]
# Exact: the conditional of each pixel's topic, with 300 mixtures and ten topics integrated out; the topics are then
# drawn back from their exact conditional.
