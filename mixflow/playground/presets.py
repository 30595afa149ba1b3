"""Settings that tell a story: each names what it shows and what differs from the defaults."""

PRESETS = [
    {
        "id": "paper",
        "name": "The paper's figure",
        "story": "Two mixtures at width 256. First the neurons learn the easy samples, then the loss sits on a plateau while "
        "attention finds which identifier belongs to which signal, then everything converges.",
        "state": {"width": "256"},
    },
    {
        "id": "infinite",
        "name": "Infinite width",
        "story": "The mean-field limit: no randomness is left, 22 numbers tell the whole story, the same three stages remain.",
        "state": {},
    },
    {
        "id": "flow",
        "name": "Descent against flow",
        "story": "Gradient flow is descent with an infinitely small step. Neurons do not only switch on and off: look at the "
        "switchboard, some slide along their edge for hundreds of units of time.",
        "state": {"method": "flow", "compare": "gd"},
    },
    {
        "id": "stages",
        "name": "The paper's three stages",
        "story": "Algorithm 1 trains neurons, attention and neurons again, one after the other; compare with all at once.",
        "state": {"method": "three", "compare": "gd"},
    },
    {
        "id": "three",
        "name": "Three mixtures",
        "story": "One class more: the same mechanism, about three times as long.",
        "state": {"classes": 3, "steps": 40_000},
    },
    {
        "id": "fifty",
        "name": "Fifty mixtures",
        "story": "Fifty identifiers and fifty signals: 50·2^50 samples, exactly, because the two symmetric sectors close. The "
        "contrast sector alone learns the hidden link, after a plateau of a million units of time "
        "(the step is large, so descent rattles where the loss falls; the flow takes minutes at this size, a script has them).",
        "state": {"classes": 50, "omega": 1.0, "learning_rate": 500.0, "steps": 5000},
    },
    {
        "id": "construct",
        "name": "The constructed transformer",
        "story": "Nothing is trained here: every weight is written down, and all samples have the same certified margin. The "
        "identifier attends to itself unless its own signal outbids it, in head + when the label is −, in head − when it is +; "
        "so two heads are enough for any K. There is no time to move through.",
        "state": {"method": "construct", "classes": 3},
    },
    {
        "id": "coherent",
        "name": "Features that are nearly alike",
        "story": "Every two features have the inner product 0.9 instead of 0. The same three stages remain; the plateau is more "
        "than twice as long, because what tells identifiers apart is only a tenth of them.",
        "state": {"task": "coherent", "coherence": 0.9},
    },
    {
        "id": "wrong",
        "name": "One label in five is wrong",
        "story": "No network can get below the entropy of such labels, 0.5004. This one gets there, later than with clean "
        "labels, and then its scores stand still: margins of log 4 are all that these odds justify.",
        "state": {"task": "noisy", "wrong": 0.2},
    },
    {
        "id": "distracted",
        "name": "Two tokens that say nothing",
        "story": "Every sample holds two more tokens that have nothing to do with its label. The stages remain, the plateau is "
        "twice as long, and the network finds another way: the identifier now looks at its own signal (A[v_k, c_k] turns "
        "positive) where it used to look away.",
        "state": {"task": "longer", "distractors": 2},
    },
    {
        "id": "unequal",
        "name": "What breaks: unequal classes",
        "story": "Nine of ten samples are of class 1, and its link is all that is learned. The hard samples of class 2 are first "
        "answered wrongly, then fall silent: both neurons off, margin 0, no gradient, and the loss ends on a floor.",
        "state": {"task": "unequal", "prior": 0.9},
    },
    {
        "id": "narrow",
        "name": "What breaks: a seed at small width",
        "story": "Width 4: chance decides how much attention each class starts with, and some seeds take much longer.",
        "state": {"width": "4", "seed": 1},
    },
    {
        "id": "tied",
        "name": "What breaks: tied values",
        "story": "With w_− = −w_+ the identifier cannot be read as a key; watch which scores grow instead.",
        "state": {"tie_values": True},
    },
    {
        "id": "step",
        "name": "What breaks: a large step",
        "story": "Descent with a learning rate of 8: neurons flicker on and off, the stages blur.",
        "state": {"learning_rate": 8.0, "steps": 2000},
    },
]
