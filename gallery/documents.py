# %% [markdown]
# # Which newsgroup is it from?
#
# Given two hundred labelled articles, which group do two hundred others belong to?
#
# Naive Bayes on articles of four newsgroups, the document classification of Hakaru's paper. Shares of groups and the
# words of each group are integrated out; the labels that are not known are drawn from their exact conditionals, so that
# articles without a label teach the classifier too.

# %%
import lzma
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import fubini as fb
from fubini import dist

# %% quick: each = 10
each = 100

# %%
folder = Path(os.environ["FUBINI_DATA"]) / "newsgroups20"
groups = {"rec.sport.hockey": "hockey", "sci.space": "space", "talk.politics.guns": "guns", "rec.autos": "autos"}
names = (folder / "topics.txt").read_text().split()
articles = pd.read_csv(folder / "docs.csv.xz")
known = articles[(articles["n_tokens"] > 20) & articles["topic"].isin([names.index(name) for name in groups])]
chosen = known.groupby("topic").head(each)
with lzma.open(folder / "tokens.txt.xz", "rt") as file:
    wanted = set(chosen["doc"])
    tokens = {d: np.array(line.split(), int)[:60] for d, line in enumerate(file) if d in wanted}
used = np.unique(np.concatenate(list(tokens.values())))
word = np.searchsorted(used, np.concatenate([tokens[d] for d in chosen["doc"]]))
doc = np.repeat(np.arange(len(chosen)), [len(tokens[d]) for d in chosen["doc"]])
truth = np.array([[names.index(name) for name in groups].index(topic) for topic in chosen["topic"]])
len(chosen), len(used), len(word)


# %%
@fb.model
def naive_bayes(doc, documents, words, classes):
    share = yield dist.Dirichlet(jnp.ones(classes))
    topic = yield dist.Dirichlet(0.1 * jnp.ones(words)).expand([classes])
    label = yield dist.Categorical(share).expand([documents])
    word = yield dist.Categorical(topic[label[doc]])


post = naive_bayes(doc, len(chosen), len(used), len(groups)).condition(word=word)
sampler = post.eliminate("share", "topic").gibbs("label")

# %% quick: sweeps = 5
sweeps = 100

# %%
random = np.random.default_rng(0)
is_known = random.uniform(size=len(chosen)) < 0.5
start = {"label": np.where(is_known, truth, random.integers(0, len(groups), len(chosen)))}
draws = sampler.run(jax.random.key(0), sweeps=sweeps, warmup=sweeps // 4, start=start, fixed=is_known)
votes = np.stack([(draws["label"] == k).mean((0, 1)) for k in range(len(groups))], axis=1)
right = (votes.argmax(1) == truth)[~is_known].mean()
print(f"{right:.1%} of the {np.sum(~is_known)} articles without a label are classified rightly")

# %%
from matplotlib.figure import Figure

confusion = np.zeros((4, 4), int)
np.add.at(confusion, (truth[~is_known], votes.argmax(1)[~is_known]), 1)
figure = Figure(figsize=(4.4, 3.6), layout="constrained")
axes = figure.subplots()
axes.imshow(confusion, cmap="Blues")
for (row, column), count in np.ndenumerate(confusion):
    axes.text(column, row, count, ha="center", va="center", color="white" if count > confusion.max() / 2 else "black")
axes.set_xticks(range(4), groups.values())
axes.set_yticks(range(4), groups.values())
axes.set(xlabel="drawn most often", ylabel="newsgroup")
fb.Picture(
    figure, f"Counts of articles by newsgroup and by the label drawn most often: {right:.0%} lie on the diagonal."
)

# %% [markdown]
# Exact: the conditional of each label given all others, with every word probability integrated out.
