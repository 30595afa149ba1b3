"""Experiments to start from: each says what it shows and what differs from the defaults."""

PRESETS = [
    {
        "id": "paper",
        "name": "The paper's figure",
        "shows": "Two mixtures at width 256. First the neurons learn the easy samples, then the loss sits on a plateau while "
        "attention finds which identifier belongs to which signal, then everything converges.",
        "state": {"width": "256"},
    },
    {
        "id": "infinite",
        "name": "Infinite width",
        "shows": "The mean-field limit: no randomness is left, 22 numbers tell the whole story, the same three stages remain.",
        "state": {},
    },
    {
        "id": "flow",
        "name": "Descent against flow",
        "shows": "Gradient flow is descent with an infinitely small step. Neurons do not only switch on and off: look at the "
        "switchboard, some slide along their edge for hundreds of units of time.",
        "state": {"method": "flow", "compare": "gd"},
    },
    {
        "id": "stages",
        "name": "The paper's three stages",
        "shows": "Algorithm 1 trains neurons, attention and neurons again, one after the other; compare with all at once.",
        "state": {"method": "three", "compare": "gd"},
    },
    {
        "id": "three",
        "name": "Three mixtures",
        "shows": "One class more: the same mechanism, about three times as long.",
        "state": {"classes": 3, "steps": 40_000},
    },
    {
        "id": "one",
        "name": "One sample at a time",
        "shows": "Each step sees a single sample, drawn at random, instead of all eight. Margins and what tokens are "
        "worth tremble on their way, but the same three stages come at nearly the same times: the order is no accident of seeing "
        "everything at once.",
        "state": {"batch": "1"},
    },
    {
        "id": "fifty",
        "name": "Fifty mixtures",
        "shows": "Fifty identifiers and fifty signals: 50·2^50 samples, exactly, because the two symmetric sectors close. The "
        "contrast sector alone learns the hidden link, after a plateau of a million units of time "
        "(the step is large, so descent rattles where the loss falls; the flow takes minutes at this size, a script has them).",
        "state": {"classes": 50, "omega": 1.0, "learning_rate": 500.0, "steps": 5000},
    },
    {
        "id": "construct",
        "name": "The constructed transformer",
        "shows": "Nothing is trained here: every weight is written down, and all samples have the same certified margin. The "
        "identifier attends to itself unless its own signal outbids it, in head + when the label is −, in head − when it is +; "
        "so two heads are enough for any K. There is no time to move through.",
        "state": {"method": "construct", "classes": 3},
    },
    {
        "id": "coherent",
        "name": "Features that are nearly alike",
        "shows": "Every two features have the inner product 0.9 instead of 0. The same three stages remain; the plateau is more "
        "than twice as long, because what tells identifiers apart is only a tenth of them.",
        "state": {"task": "coherent", "coherence": 0.9},
    },
    {
        "id": "wrong",
        "name": "One label in five is wrong",
        "shows": "No network can get below the entropy of such labels, 0.5004. This one gets there, later than with clean "
        "labels, and then its scores stand still: margins of log 4 are all that these odds justify.",
        "state": {"task": "noisy", "wrong": 0.2},
    },
    {
        "id": "distracted",
        "name": "Two tokens that say nothing",
        "shows": "Every sample holds two more tokens that have nothing to do with its label. The stages remain, the plateau is "
        "twice as long, and the network finds another way: the identifier now looks at its own signal (A[v_k, c_k] turns "
        "positive) where it used to look away.",
        "state": {"task": "longer", "distractors": 2},
    },
    {
        "id": "unequal",
        "name": "What breaks: unequal classes",
        "shows": "Nine of ten samples are of class 1, and its link is all that is learned. The hard samples of class 2 are first "
        "answered wrongly, then fall silent: both neurons off, margin 0, no gradient, and the loss ends on a floor.",
        "state": {"task": "unequal", "prior": 0.9},
    },
    {
        "id": "narrow",
        "name": "What breaks: a loud start at small width",
        "shows": "Width 4 with ω = 1.5: chance gives every token a taste of its own before anything is learned. With this "
        "seed one hard sample is silenced for good: both neurons off, margin 0, no gradient.",
        "state": {"width": "4", "omega": 1.5, "seed": 2},
    },
    {
        "id": "step",
        "name": "What breaks: a huge step",
        "shows": "A learning rate of 600: the first steps throw the neurons far beyond what is needed, the easy samples are "
        "settled, and attention, never pushed gently, does not find the pairs. The loss stays at ½ ln 2.",
        "state": {"learning_rate": 600.0, "steps": 400},
    },
    {
        "id": "bias",
        "name": "What breaks: no bias",
        "shows": "With b = 0 both neurons stand on their edge from the start, z = 0, and nothing passes: no gradient, and "
        "nothing ever moves.",
        "state": {"bias": 0.0, "steps": 2000},
    },
    {
        "id": "shared",
        "name": "What breaks: one attention for both heads",
        "shows": "Both heads look at the same tokens. At infinite width what one head would learn the other unlearns: the score "
        "between identifier and signal stays 0, half of the samples stay undecided, and the loss cannot fall below ½ ln 2. A "
        "hair's breadth of asymmetry frees it: try width 256, or 20,000 steps, after which the computer's own rounding does.",
        "state": {"network": "shared", "steps": 8000},
    },
    {
        "id": "linear",
        "name": "What breaks: no ReLU",
        "shows": "Without a ReLU no neuron ever switches off, and nothing tells a signal from its opposite: the same trap, at "
        "the same loss.",
        "state": {"network": "linear"},
    },
    {
        "id": "tied",
        "name": "Another mechanism: tied values",
        "shows": "With w_− = −w_+ the identifier cannot be worth anything (w·c stays 0), so it cannot be read; instead it learns "
        "whom to look at. It takes about twice as long; watch which scores grow.",
        "state": {"tie_values": True},
    },
]
