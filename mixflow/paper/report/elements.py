"""The paper, element by element: what it says, what is done here, whether that is the same, and what came out.

The text of the paper is not at hand. What is known of it is what docs/mathematics.md marks: the task, the network, its start, the
training, Algorithm 1, the three stages, the experiments with K = 2, K = 3 and images, and what its reviewers describe.
Words in “…” are the paper's.
"""

from dataclasses import dataclass

from .render import number


@dataclass(frozen=True)
class Element:
    """One statement, figure, algorithm or setting.

    part     what it is
    says     what the paper says of it
    here     what is done here
    status   "same", "choice" (the paper leaves it open; with the reason) or "unknown" (its text does not tell us)
    finding  (experiment, check) whose measurement is the finding, if there is one
    """

    part: str
    says: str
    here: str
    status: str
    finding: tuple = ()


ELEMENTS = (
    Element(
        "Task",
        "two classes; an identifier, two signed signals, the label is the own signal's sign; three tokens",
        "all K·2^K samples listed, K = 2; no draw, so loss and accuracy are exact",
        "same",
    ),
    Element("Features", "orthonormal", "orthonormal; other Gram matrices only under “Beyond the theorem”", "same"),
    Element(
        "Network",
        "two heads, one ReLU neuron each, softmax attention averaged over queries, logistic loss",
        "as stated",
        "same",
    ),
    Element(
        "Values",
        "one w for each head, or w₋ = −w₊: not clear from what is known",
        "each head its own. Reviewers describe Figure 1 as showing the alignment with c_k growing and call the "
        "identifier's “role as "
        "the key” crucial; with tied values w·c stays 0 and the identifier is the query",
        "choice",
        ("simultaneous", "w_c"),
    ),
    Element(
        "Bias b",
        "“a sufficiently small positive constant such as 1/2”",
        "1/2, not trained; that it is not trained is our choice",
        "same",
    ),
    Element(
        "Start",
        "w = 0; W_K, W_Q ~ N(0, ω²/m), ω < 1 “some small constant”",
        "ω = 0.3; the number is our choice",
        "choice",
    ),
    Element(
        "Width m",
        "finite; its value is not known to us",
        "infinite (the limit), and 8 to 4096 beside it",
        "choice",
        ("width", "slope 50"),
    ),
    Element(
        "Training",
        "full-batch gradient descent, learning rate 0.1, every weight at once",
        "as stated",
        "same",
        ("simultaneous", "loss"),
    ),
    Element(
        "Gradient flow",
        "the analysis is of the flow; what happens at a kink of the ReLU is not known to us",
        "Filippov's (Clarke's) solution, the limit of descent as η → 0",
        "choice",
        ("flow", "order 10"),
    ),
    Element(
        "Stage order",
        "neurons, then attention, then convergence",
        "read from the trajectory alone",
        "same",
        ("simultaneous", "stage order"),
    ),
    Element(
        "Stage 1",
        "the neurons align with the signals",
        "w·c = 0 exactly until the first neuron switches off, at a predicted time",
        "same",
        ("claims", "neurons-align"),
    ),
    Element(
        "Stage 2",
        "attention makes the features of the hard samples linearly separable",
        "exact maximum margin of the features",
        "same",
        ("geometry", "T2"),
    ),
    Element(
        "Stage 3", "the loss converges to 0", "slope of halving times, 1 for 1/t", "same", ("simultaneous", "decay")
    ),
    Element(
        "Algorithm 1",
        "w, then W_K and W_Q, then w; when to switch is not known to us",
        "durations 100, 500, 500; or events",
        "choice",
        ("three-stage", "order"),
    ),
    Element(
        "Figure 1",
        "losses, neurons and attention over training",
        "the figure of the first section; its axes may differ",
        "same",
        ("simultaneous", "T2"),
    ),
    Element(
        "Three classes",
        "K = 3 is learned; the analysis is for K = 2",
        "K = 3 and 4 by descent, learning times to K = 20 and beyond by flow",
        "same",
        ("classes", "accuracy 3"),
    ),
    Element(
        "Images",
        "MNIST digits 1 and 2 as signals; preprocessing, width and number of samples are not known to us",
        "unit length, not centred, 800 samples, width 64, ω = 0.8",
        "choice",
        ("mnist", "simultaneous hard"),
    ),
    Element(
        "Constants of the theorem",
        "bounds on T1, T2 and the final time",
        "not compared: the text does not reach us; proven bounds of our own",
        "unknown",
        ("claims", "critical-bounded"),
    ),
    Element("Proofs and appendix", "–", "not compared", "unknown"),
)


def elements(records):
    """The rows of the table, each with what was found (from the records, by experiment) and the command."""
    return [_row(element, records) for element in ELEMENTS]


def _row(element, records):
    known = {"part": element.part, "says": element.says, "here": element.here, "status": element.status}
    if not element.finding:
        return known | {"found": "", "command": ""}
    name, wanted = element.finding
    checks = {check["name"]: check for check in records[name]["checks"]} if name in records else {}
    check = checks.get(wanted)
    found = f"{check['sentence']}: {number(check['measured'])}" if check else "not run"
    return known | {"found": found, "command": f"mixflow reproduce --only {name}"}
