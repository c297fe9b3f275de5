"""The figures and tables of the papers that the benchmarks repeat, and how a row about one of them is written.

A row is a dict, the same in a benchmark's record, in ``docs/results/`` and on the page ``docs/reproduction.md``:

- ``source`` and ``item``: a key of `ITEMS` and of the dict below it, such as "Afkanpour (2013)" and "Fig. 6.3";
- ``claim``: what the paper claims, in a sentence of ours;
- ``paper`` and ``ours``: the paper's figure and the one measured;
- ``verdict``: one of `VERDICTS`;
- ``because``: for what is not reproduced, the cause, if it was measured; for what was not run, why;
- ``settings``: what differs from the paper's settings;
- ``repetitions``: how many splits, data sets or seeds it rests on.
"""

from __future__ import annotations

ICML, THESIS = "Afkanpour et al. (2013)", "Afkanpour (2013)"
LI, ORABONA = "Li et al. (2017)", "Orabona et al. (2012)"

VERDICTS = ("reproduced", "partly", "differs", "not run")

#: What a reader finds in a figure or table, by the paper and its number there.
ITEMS: dict[str, dict[str, str]] = {
    ICML: {
        "Fig. 1": "objective against time: sampling by the gradient, uniform sampling, p-norm MKL",
        "Fig. 2": "test error and training time against the number of columns, products of up to degree 3",
    },
    THESIS: {
        "Fig. 3.2": "error of one Dirichlet kernel against its frequency",
        "Fig. 3.3": "errors over all frequencies and over a list; the frequencies found",
        "Fig. 6.1": "sampling by the gradient against RCDM and RACDM on a quadratic",
        "Fig. 6.2": "objective against time: sampling by the gradient, uniform sampling, p-norm MKL",
        "Fig. 6.3": "test error and training time against the number of columns, products of up to degree 3",
        "Fig. 6.4": "products of degree 2 and 3 and linear kernels on six data sets",
        "Fig. 6.5": "Gaussian kernels and ridge regression on eleven data sets",
        "Fig. 6.6": "error and time in 50 dimensions against the number of useless columns",
        "Fig. 6.7": "alignment in 50 dimensions against the number of useless columns",
        "Fig. 6.8": "time against rows and against the number of kernels",
        "Fig. 6.9": "errors on eight pairs of MNIST digits",
        "Fig. 6.10": "errors on twelve pairs of letters",
        "Fig. 6.11": "alignment on twelve pairs of letters",
        "Fig. 6.12": "errors on eleven data sets, SVM",
        "Fig. 6.13": "the function that a step of GCD-2s minimises",
        "Fig. 6.14": "stochastic and greedy coordinate descent on eleven data sets, ridge regression",
        "Table 6.1": "the methods compared",
        "Table 6.2": "the data sets",
        "Table 6.3": "median ranks, Gaussian kernels and ridge regression",
        "Table 6.4": "median ranks and times on MNIST, Letter and other data, SVM",
        "Table 6.5": "median ranks of stochastic and greedy coordinate descent",
    },
    LI: {
        "Fig. 1": "error against time with fixed training sizes, six data sets",
        "Fig. 2": "error against the number of training rows",
        "Table 2": "final errors of triply and doubly stochastic gradients, six data sets",
        "Theorem 5.1": "the squared distance to the optimum falls as 1/t",
    },
    ORABONA: {
        "Fig. 1": "weights on a toy problem of three classes: one set of weights, or one per class",
        "Fig. 2": "time and objective against Pegasos and others, Oxford flowers and pendigits",
        "Fig. 3": "OBSCURE and p-norm MKL over p, pendigits",
        "Fig. 4": "the effect of p: IDOL2, Caltech-101, and time",
        "Fig. 5": "the effect of the number of kernels, Caltech-101",
        "Fig. 6": "methods compared on Caltech-101",
        "Fig. 7": "error against the number of training rows, MNIST",
    },
}


def row(
    source: str,
    item: str,
    claim: str,
    *,
    verdict: str,
    paper: str,
    ours: str,
    repetitions: int | str,
    because: str = "",
    settings: str = "",
) -> dict:
    """Return a row about a figure or table of a paper; see above for what goes in."""
    if item not in ITEMS[source]:
        raise ValueError(f"{source} has no {item!r} among {list(ITEMS[source])}")
    if verdict not in VERDICTS:
        raise ValueError(f"verdict is one of {VERDICTS}, not {verdict!r}")
    if verdict == "not run" and not because:
        raise ValueError(f"{source}, {item}: say why it was not run")
    about = {"source": source, "item": item, "claim": claim, "verdict": verdict, "because": because}
    return {**about, "paper": paper, "ours": ours, "repetitions": repetitions, "settings": settings}


def said(row: dict) -> str:
    """Return a row as a line for the terminal."""
    why = f" because {row['because']}" if row["because"] else ""
    here = f"{row['ours']} (paper: {row['paper']}; repetitions: {row['repetitions']})"
    return f"{row['source']}, {row['item']}: {row['claim']}: {row['verdict']}{why}; {here}"
