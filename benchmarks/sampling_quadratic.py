"""Coordinates drawn by the gradient against Nesterov's RCDM and RACDM on a quadratic (Afkanpour 2013, Fig. 6.1).

f(x) = ½ Σ_i (x_i - 0.9^i)² in 10^4 dimensions, from x = 0. RCDM with α = 1 draws uniformly, as every
Lipschitz constant is 1, and puts the drawn coordinate right in one step. RACDM (Nesterov 2010, (6.1)) adapts
the constants: it doubles L_i while the partial derivative changes sign, halves it afterwards, and draws in
proportion to L_i; as a coordinate that is right never changes sign again, its L_i sinks and it is drawn less
and less. Gradient sampling draws i with probability q_i = |∂_i f|/‖∇f‖₁ and steps by η ∂_i f/q_i, the
unbiased estimate of the gradient, with η = 1/√T. The paper does not say whether η multiplies that or ∂_i f
alone: both are run, and so is the greedy rule that takes the largest |∂_i f|, with the step 1/L_i that RCDM
takes.

Drawing by the gradient needs the whole gradient. It is known here; seconds are reported beside the steps.

python benchmarks/sampling_quadratic.py --out results/sampling_quadratic.json
"""

from __future__ import annotations

import numpy as np

from common import Clock, finish, grade, handles_of, legend_below, parser, tidy
from papers import THESIS, row

DIMENSION, STEPS = 10_000, 20_000
COLORS = {
    "gradient sampling": "#2a6f97",
    "gradient sampling, step on ∂f": "#7db8d6",
    "greedy": "#6a994e",
    "RCDM": "#c1121f",
    "RACDM": "#e09f3e",
}


def gradient_sampling(target, steps, rng, unbiased=True):
    """Return f after every step; without `unbiased` the step is η ∂_i f."""
    eta = 1 / np.sqrt(steps)
    gradient = -target
    values = [0.5 * float(target @ target)]
    for u in rng.random(steps):
        cumulated = np.cumsum(np.abs(gradient))
        i = min(int(np.searchsorted(cumulated, u * cumulated[-1], side="right")), len(target) - 1)
        gradient[i] -= eta * (np.sign(gradient[i]) * cumulated[-1] if unbiased else gradient[i])
        values.append(0.5 * float(gradient @ gradient))
    return np.array(values)


def greedy(target, steps, rng):
    """Return f after every step on the coordinate with the largest partial derivative."""
    gradient = -target
    values = [0.5 * float(target @ target)]
    for _ in range(steps):
        gradient[int(np.argmax(np.abs(gradient)))] = 0.0
        values.append(0.5 * float(gradient @ gradient))
    return np.array(values)


def rcdm(target, steps, rng):
    """Return f after every step of Nesterov's (2.6), α = 1, L_i = 1."""
    gradient = -target
    values = [0.5 * float(target @ target)]
    for i in rng.integers(len(target), size=steps):
        gradient[i] = 0.0
        values.append(0.5 * float(gradient @ gradient))
    return np.array(values)


def racdm(target, steps, rng):
    """Return f after every step of Nesterov's (6.1), α = 1, from the true constants."""
    gradient, constants = -target, np.ones(len(target))
    values = [0.5 * float(target @ target)]
    for _ in range(steps):
        i = int(rng.integers(len(target)))
        while rng.random() > constants[i]:  # no constant ever exceeds 1 here: draw by rejection
            i = int(rng.integers(len(target)))
        while gradient[i] * (gradient[i] - gradient[i] / constants[i]) < 0:
            constants[i] *= 2
        gradient[i] -= gradient[i] / constants[i]
        constants[i] /= 2
        values.append(0.5 * float(gradient @ gradient))
    return np.array(values)


METHODS = {
    "gradient sampling": gradient_sampling,
    "gradient sampling, step on ∂f": lambda *given: gradient_sampling(*given, unbiased=False),
    "greedy": greedy,
    "RCDM": rcdm,
    "RACDM": racdm,
}


def first_below(curve, level):
    """Return the first step at which the curve is at most `level`, or None."""
    below = np.flatnonzero(curve <= level)
    return int(below[0]) if len(below) else None


def summary(curves, seconds):
    mean = curves.mean(axis=0)
    return {
        "final": mean[-1],
        "steps_to_0.1": first_below(mean, 0.1),
        "steps_to_0.001": first_below(mean, 1e-3),
        "seconds": seconds,
    }


def rows(table, seeds) -> list[dict]:
    """Compare with Fig. 6.1."""
    ours, rest = table["gradient sampling"], [table["RCDM"], table["RACDM"]]
    steps, others = ours["steps_to_0.1"], [r["steps_to_0.1"] for r in rest]
    late = ["never" if o is None else f"after {o:,}" for o in others]
    first = steps is not None and all(o is None or o > steps for o in others)
    ends = ", ".join(f"{r['final']:.0e}" for r in (ours, *rest))
    return [
        row(
            THESIS,
            "Fig. 6.1",
            "Drawing coordinates by the gradient is far ahead of RCDM and RACDM",
            verdict=grade(first),
            paper="ahead from the first steps on (a plot)",
            ours=f"a tenth of the start is reached after {steps} steps; RCDM {late[0]}, RACDM {late[1]}; in the end at "
            f"{ends} of the start. Taking the largest component: after {table['greedy']['steps_to_0.1']}",
            repetitions=seeds,
        )
    ]


def draw(plt, bands, steps):
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    for axis, logarithmic in zip(axes, (False, True), strict=True):
        for name, curves in bands.items():
            x = np.arange(curves.shape[1])
            keep = slice(1, None) if logarithmic else slice(None)
            low, middle, high = (f(curves, axis=0) for f in (np.min, np.mean, np.max))
            thin = (
                np.unique(np.geomspace(1, steps + 1, 600).astype(int) - 1)[keep] if logarithmic else x[::25]
            )
            axis.plot(x[thin], middle[thin], color=COLORS[name], lw=1.8, label=name)
            axis.fill_between(x[thin], low[thin], high[thin], color=COLORS[name], alpha=0.15, lw=0)
        axis.set_yscale("log")
        axis.set_ylim(1e-8, 2)
        axis.set_xlabel("step" + (" (logarithmic)" if logarithmic else ""))
        tidy(axis)
    axes[1].set_xscale("log")
    axes[0].set_xlim(0, steps)
    axes[1].set_xlim(1, steps)
    axes[0].set_ylabel("f(x) / f(0)")
    legend_below(figure, handles_of(axes[0]), ncols=len(bands), fontsize=9)
    figure.suptitle(
        rf"$\frac{{1}}{{2}}\sum_i (x_i - 0.9^i)^2$ in {DIMENSION:,} dimensions: mean and range of the runs"
    )
    return figure


def main():
    args = parser(__doc__).parse_args()
    steps, seeds = (2000, 2) if args.quick else (STEPS, 10)
    target = 0.9 ** np.arange(1, DIMENSION + 1)
    bands, table = {}, {}
    for name, method in METHODS.items():
        with Clock() as clock:
            runs = [method(target, steps, np.random.default_rng(seed)) for seed in range(seeds)]
        bands[name] = np.array(runs) / runs[0][0]
        table[name] = summary(bands[name], clock.wall / seeds)
    record = {
        "benchmark": "sampling_quadratic",
        "dimension": DIMENSION,
        "steps": steps,
        "seeds": seeds,
        "rows": rows(table, seeds),
        "methods": table,
    }
    finish(record, args.out, figure=lambda plt: draw(plt, bands, steps))


if __name__ == "__main__":
    main()
