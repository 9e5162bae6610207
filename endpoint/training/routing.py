"""Which experts the tokens of a step go to.

As measured on real routers, some experts get many times as many tokens as others, and it changes from step to step
which. Popularity follows Zipf's law: the expert of rank i gets a share as 1 / i^skew, in an order that is drawn anew
for each step, so that traffic comes in bursts to few GPUs. Everybody can work out everybody's routing from the seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def route(seed: Sequence[int], source: int, tokens: int, experts: int, top_k: int, skew: float) -> list[npt.NDArray]:
    """Return for each expert the numbers of the source's tokens that go there, ascending.

    `seed` is the step's, the same for all sources. Every token goes to `top_k` different experts.
    """
    popularity = np.random.default_rng(seed).permutation(experts)
    weights = -skew * np.log1p(popularity)
    # The largest of log-weights with Gumbel noise are a draw without replacement (Gumbel-top-k, Kool et al. 2019).
    noise = np.random.default_rng([*seed, source + 1]).gumbel(size=(tokens, experts))
    chosen = np.argsort(weights + noise, axis=1)[:, experts - top_k :]
    return [np.flatnonzero((chosen == expert).any(axis=1)) for expert in range(experts)]
