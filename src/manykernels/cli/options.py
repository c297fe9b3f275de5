"""The arguments and options of the command line, with their help; defaults are in the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

#: What --solver may be, besides auto. A copy: the registry imports the solvers, and help should not wait for them.
SOLVER_NAMES = (
    "alignment, blockwise, greedy, greedy-alignment, hessian-mkl, hierarchical, leave-one-out, lp-norm, "
    "mirror-descent, obscure, polynomial-mkl, silp, simple-mkl, single, triply-stochastic, ufo, uniform"
)
#: The largest seed that scikit-learn takes.
MOST_SEED = 2**32 - 1

# Of several commands.
Data = Annotated[
    Path,
    Argument(
        help="A table (CSV, TSV, Parquet, Arrow, Feather, Excel, npz, svmlight), a folder of them, or a quoted pattern "
        "such as 'rows/*.csv'.",
        metavar="DATA",
        show_default=False,
    ),
]
Model = Annotated[Path, Argument(help="A model file.", metavar="MODEL", show_default=False)]
Separator = Annotated[
    str | None,
    Option(
        "--sep",
        help="What stands between two values of text; told by the text by default.",
        show_default=False,
    ),
]
Decimal = Annotated[
    str | None,
    Option(help="The decimal mark in text, . or , as the text tells by default.", show_default=False),
]
Encoding = Annotated[
    str | None,
    Option(
        help="The encoding of text; UTF-8, UTF-16 and Windows' are told apart by default.", show_default=False
    ),
]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.")]

# Of fit.
Target = Annotated[str, Option("--target", "-t", help="The column to predict.", show_default=False)]
Kernels = Annotated[
    str,
    Option(help="auto, for a table of any columns; gaussian, laplacian, linear, or products, of numbers."),
]
Degree = Annotated[int | None, Option(help="Most factors of a product (kernels: products), 2 by default.")]
Solver = Annotated[str, Option(help=f"auto, {SOLVER_NAMES}.")]
MaxIter = Annotated[int | None, Option(help="Most iterations, for solvers that iterate.", min=1)]
Norm = Annotated[
    float | None, Option(help="Norm over kernels, 1 < p <= 2: the smaller, the sparser (lp-norm).")
]
Loss = Annotated[str, Option(help="auto, hinge, logistic, softmax, squared, ...")]
Cost = Annotated[
    str, Option("--C", "-C", help="Weight of the losses against the norm, as in SVC: a number, or auto.")
]
Task = Annotated[str, Option(help="auto, classify or regress.")]
Columns = Annotated[list[str] | None, Option(help="Use these columns only: a,b,c.", show_default=False)]
Drop = Annotated[list[str] | None, Option(help="Use all columns but these: id,date.", show_default=False)]
View = Annotated[
    list[str] | None,
    Option(help="Columns that are a source of their own: rna=rna_*; once for each.", show_default=False),
]
Groups = Annotated[
    str | None,
    Option(
        help="The column with the subject, say, of every row: a subject's rows are held out together.",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None,
    Option(help="Memory for a fit on all pairs of rows, as 4GiB; 1 GiB by default.", show_default=False),
]
Standardize = Annotated[
    bool,
    Option(help="Bring columns to mean 0 and deviation 1; predict does the same. (auto does so by itself.)"),
]
TestSize = Annotated[float, Option(help="Share of the rows held out for the score; 0 fits on all rows.")]
SplitSeed = Annotated[
    int,
    Option(help="Seed of the split into training and test rows, and of the solver.", min=0, max=MOST_SEED),
]
ModelOutput = Annotated[Path, Option("--output", "-o", help="The model file.")]
ModelForce = Annotated[bool, Option("--force", "-f", help="Overwrite the model file.")]
Checkpoint = Annotated[
    Path | None,
    Option(help="Where to keep the state of a long fit, to go on from after a break.", show_default=False),
]

# Of predict.
TableOutput = Annotated[
    Path | None,
    Option(
        "--output", "-o", help="CSV (.csv.gz: compressed), Parquet or Feather; CSV on the screen by default."
    ),
]
TableForce = Annotated[bool, Option("--force", "-f", help="Overwrite the output file.")]
Proba = Annotated[
    bool,
    Option("--proba", help="Add class probabilities, where the model has them: --loss logistic, for one."),
]

# Of show.
Top = Annotated[
    int | None,
    Option(help="List this many kernels; by default those in use, 20 at most, and all with --json.", min=0),
]
Json = Annotated[bool, Option("--json", help="Print JSON.")]

# Of explain and report.
By = Annotated[str, Option(help="What to split predictions by: column, kernel or view.")]
PartsOutput = Annotated[
    Path | None,
    Option("--output", "-o", help="Write what each prediction is made of: CSV, Parquet or Feather."),
]
ReportTarget = Annotated[
    str | None,
    Option("--target", "-t", help="The target; by default as in the model file.", show_default=False),
]
ReportOutput = Annotated[Path, Option("--output", "-o", help="The HTML file.")]

# Of compare.
Methods = Annotated[
    list[str] | None,
    Option(
        help="What to compare: default, a solver, linear, svm, random-forest, hist-gradient-boosting, catboost, "
        "lightgbm, xgboost, explainable-boosting; by default the default, equal weights, and all that are installed.",
        show_default=False,
    ),
]
Folds = Annotated[int, Option(help="Parts that the rows are cut into; each is tested on once.", min=2)]

# Of demo.
DemoOutput = Annotated[Path, Option("--output", "-o", help="The folder to write to.")]
DemoSeed = Annotated[int, Option(help="Seed of the split and of the noise.", min=0, max=MOST_SEED)]
