"""An independent checker of proofs, to be read on its own: it shares no code with the prover and imports nothing of mixflow.

Run it with `python checker.py FILE` or `mixflow prove --check FILE`. ℓ is the loss of the mean-field
transformer on the uniform mixture, in coordinates x ∈ R³⁴ in which training is x' ∈ −∂ℓ(x) (see `Network`). The flow from
the start of ω is within r(t) of the file's polynomial x̂(t) because, verified in balls (Arb) for each cell [t, t+h] of time,
  1. x̂ is continuous, exactly (whole numbers), and begins within r(0) of the start;
  2. neurons with ∂ℓ/∂ReLU < 0 are on in the tube of radius R = 3/2 r(t+h) around x̂, and x̂ has the signs its gates say;
  3. |x̂' + g| ≤ δ for a g ∈ ∂ℓ(x̂);
  4. −∇²ℓ_γ ≤ μ in the tube, for every choice γ of the gates whose sign there is open;
  5. r(t+h) = (r(t) + hδ)(1 + hμ + h²μ²) with 0 ≤ hμ ≤ 1, which is at least e^(hμ) (r(t) + hδ).
So ℓ + μ|x|²/2 is convex on each ball of the tube, |x − x̂|' ≤ μ|x − x̂| + δ, and |x − x̂| ≤ r < R. A stage of training may move
only w or only the attention: then all this is about the coordinates that move, for all others within a fixed radius s of x̂;
δ gains s |∂∇ℓ/∂x|, and μ = 0 for w, in which z is affine. A stage that ends between a and b hands over at b, with what x̂ moves
from a to b added to the radius; so times after it are up to b − a late. A proof has one form: radii agree with 5. to 1e-13, and
μ is at most three times what 4. asks for."""

import hashlib
import json
import math
import sys
from functools import partial, reduce
from itertools import pairwise, product

from flint import arb, arb_mat, arb_poly, arb_series, ctx, fmpq

TERMS, LOOSE, ZERO, UNIT, SHARE = 8, 3, arb(0), arb(0, 1), arb(0.5, 0.5)  # UNIT is [−1, 1], SHARE is [0, 1]
MOVING = {"all": range(34), "w": range(2), "attention": range(2, 34)}


class Refused(Exception):
    """Why a proof is not accepted."""


def demand(condition, reason):
    if not condition:
        raise Refused(reason)


class Network:
    """ℓ(x) and its derivatives. x = (√(2K) w, √2 K₁, √2 Q₁, √(2K−2) K₂, √(2K−2) Q₂): w over (c, v), 4×2 matrices by rows.
    Scores e of key and query (c or v, each): (A₁ + (K−1)A₂)/K for one class, (A₁ − A₂)/K for two, with A = KᵀQ. A sample
    holds c_1, s_1 v_1, …, s_K v_K, its label is s_1. Head − is head + with v → −v: its z is head +'s on the negated signs."""

    def __init__(self, K, bias):
        self.K, self.bias, self.scale = K, bias, 1 / arb(2 * K).sqrt()
        signs = [[1] * (n + 1) + [-1] * (K - 1 - n) for n in range(K)]  # label +, n of the other signs +
        self.probability = [fmpq(math.comb(K - 1, n), 2 ** (K - 1)) for n in range(K)]
        signs += [[-s for s in row] for row in signs]
        self.tokens = [[(0, 0, 1)] + [(1, k, s) for k, s in enumerate(row)] for row in signs]  # c or v, class, sign
        own, other = fmpq(1, 2 * K), fmpq(-1, 2 * K * (K - 1))
        self.links = [  # e[row] = Σ factor · x[key] · x[query]
            (4 * apart + 2 * i + j, 2 + 16 * s + 2 * a + i, 10 + 16 * s + 2 * a + j, other if apart and s else own)
            for s, a, i, j, apart in product((0, 1), range(4), (0, 1), (0, 1), (0, 1))
        ]

    def neurons(self, x, second=False):
        """Of each of the 2K neurons: z, ∂z/∂(w, e) (10) and, if wanted, ∂²z (10×10)."""
        zero, e, w = x[0] * 0, [x[0] * 0] * 8, [x[0] * self.scale, x[1] * self.scale]
        for row, key, query, factor in self.links:
            e[row] = e[row] + x[key] * x[query] * factor
        up_down = {1: [s.exp() for s in e], -1: [(-s).exp() for s in e]}
        return [self.neuron(tokens, w, up_down, zero, second) for tokens in self.tokens]

    def neuron(self, tokens, w, up_down, zero, second):
        L, z, slope, bend = len(tokens), zero, [zero] * 10, [[zero] * 10 for _ in range(10 if second else 0)]
        for query in tokens:
            met = [(4 * (k[1] != query[1]) + 2 * k[0] + query[0], k[2] * query[2]) for k in tokens]
            weights = [up_down[sign][place] for place, sign in met]
            whole = self.inverse(sum(weights[1:], weights[0]))
            a, v = [weight * whole for weight in weights], [w[kind] * sign for kind, _, sign in tokens]
            mean = sum((p * q for p, q in zip(a, v)), zero)
            z, by_score, by_both = z + mean, [zero] * 10, [zero] * 10  # Σ a ∂s, and Σ a ∂v + Σ a (v − mean) ∂s
            for p, q, (place, sign), (kind, _, s) in zip(a, v, met, tokens):
                d = p * (q - mean)
                by_score[2 + place] = by_score[2 + place] + p * sign
                by_both[2 + place] = by_both[2 + place] + d * sign
                by_both[kind] = by_both[kind] + p * s
                if second:
                    bend[2 + place][2 + place] += d
                    bend[2 + place][kind] += p * (sign * s)
                    bend[kind][2 + place] += p * (sign * s)
            slope = [p + q for p, q in zip(slope, by_both)]
            for i, j in product(range(len(bend)), repeat=2):
                bend[i][j] -= by_score[i] * by_both[j] + by_both[i] * by_score[j]
        return z / L + self.bias, [p / L for p in slope], [[p / L for p in row] for row in bend]

    def inverse(self, y):
        demand((y[0] if isinstance(y, arb_series) else y) > 0, "a number is too uncertain to divide by it")
        return 1 / y

    def pulls(self, neurons, gates):
        """∂ℓ/∂z of each neuron, and p σ(m) σ(−m) and ∂m/∂(w, e) of each sample."""
        pairs = [(neurons[n], gates[n], neurons[n + self.K], gates[n + self.K]) for n in range(self.K)]
        fall = [self.inverse(1 + (i[0] * on - j[0] * other).exp()) for i, on, j, other in pairs]
        slopes = [[a * on - b * other for a, b in zip(i[1], j[1])] for i, on, j, other in pairs]
        r = [f * p for f, p in zip(fall, self.probability)]
        by_z = [q * s * g for q, s, g in zip(r + r, [-1] * self.K + [1] * self.K, gates)]
        return by_z, [(q * (1 - f), slope) for q, f, slope in zip(r, fall, slopes)]

    def gradient(self, x, neurons, gates):
        """∇ℓ (34)."""
        by_z, _ = self.pulls(neurons, gates)
        g = [sum((r * each[1][i] for r, each in zip(by_z, neurons)), x[0] * 0) for i in range(10)]
        out = [g[0] * self.scale, g[1] * self.scale] + [x[0] * 0] * 32
        for row, key, query, factor in self.links:
            pull = g[2 + row] * factor
            out[key], out[query] = out[key] + pull * x[query], out[query] + pull * x[key]
        return out

    def jacobian(self, x):
        """∂(w, e)/∂x (10×34)."""
        J = arb_mat(10, 34)
        J[0, 0] = J[1, 1] = self.scale
        for row, key, query, factor in self.links:
            J[2 + row, key] += x[query] * factor
            J[2 + row, query] += x[key] * factor
        return J

    def hessian(self, neurons, gates, J):
        """∇²ℓ_γ (34×34), above its diagonal, for gates 0 or 1, from neurons with second derivatives."""
        by_z, samples = self.pulls(neurons, gates)
        curved = sum((arb_mat(each[2]) * r for r, each in zip(by_z, neurons)), arb_mat(10, 10))
        curved += sum((arb_mat(10, 1, m) * arb_mat(1, 10, m) * bend for bend, m in samples), arb_mat(10, 10))
        H = J.transpose() * curved * J
        for row, key, query, factor in self.links:
            H[key, query] += sum((r * each[1][2 + row] for r, each in zip(by_z, neurons)), ZERO) * factor
        return H


def length(vector):
    return sum((arb(x.abs_upper()) ** 2 for x in vector), ZERO).sqrt()


def grows_at_most(H, n, mu):
    """Whether λ_max(−H) ≤ μ on the coordinates n for every symmetric H in the balls: λ_max(−middle) + |radii| ≤ μ is enough
    (Weyl), |radii| ≤ max_i (radii y)_i / y_i for any y > 0 (Collatz, Wielandt), elimination tells positive definite ones."""
    entry = [[H[min(i, j), max(i, j)] for j in n] for i in n]
    away = [[1.000001 * float(each.rad()) for each in row] for row in entry]  # floats, well above their rounding
    y = reduce(lambda y, _: [sum(p * q for p, q in zip(row, y)) + 1e-200 for row in away], range(4), [1.0] * len(n))
    spread = max(1.000001 * sum(p * q for p, q in zip(row, y)) / each for row, each in zip(away, y))
    rows = [[each.mid() + (mu - spread if i == j else 0) for j, each in enumerate(row)] for i, row in enumerate(entry)]
    while rows:
        (pivot, *head), *rows = rows
        if not pivot > 0:
            return False
        rows = [[a - first / pivot * b for a, b in zip(row, head)] for first, *row in rows]
    return True


class Cell:
    """One stretch of time: x̂ as series in σ ∈ [−1, 1] about its middle and about all of its points."""

    def __init__(self, proof, stage, k):
        cells, self.held, self.moving = stage["cells"], arb(stage["held"]), MOVING[stage["moves"]]
        self.piece, begin, end = stage["pieces"][cells["piece"][k]], cells["begin"][k], cells["end"][k]
        self.delta, self.mu, self.radius = (arb(cells[name][k]) for name in ("delta", "mu", "radius"))
        self.time, self.open = arb(fmpq(end - begin, 2 ** proof["tick_bits"])), "?" in self.piece["gates"]
        self.gates = [{"0": 0, "1": 1, "?": SHARE}[letter] for letter in self.piece["gates"]]
        self.polynomials = [arb_poly([fmpq(c, 2 ** proof["quantum_bits"]) for c in p]) for p in zip(*self.piece["x"])]
        half, middle = (self.s(end) - self.s(begin)) / 2, (self.s(end) + self.s(begin)) / 2
        about = [arb_poly([centre, half]) for centre in (middle, middle + half * UNIT)]
        self.middle, self.whole = ([p(s).coeffs() + [ZERO] * (TERMS + 1) for p in self.polynomials] for s in about)

    def s(self, ticks):
        return arb(fmpq(2 * ticks - self.piece["begin"] - self.piece["end"], self.piece["end"] - self.piece["begin"]))

    def box(self, radius):
        """All x over the cell, so far from x̂ where it moves and `held` where not."""
        room = [radius if i in self.moving else self.held for i in range(34)]
        return [m[0] + m[1] * UNIT + w[2] * SHARE + r * UNIT for m, w, r in zip(self.middle, self.whole, room)]

    def residual(self, network, about):
        """A bound of |x̂' + g| over the cell: Taylor's coefficients about the middle, the last one about every point."""
        rate, total, last = 2 / self.time, [], TERMS - 1
        if self.open:
            g = network.gradient(self.box(ZERO), network.neurons(self.box(ZERO)), self.gates)
            return length([self.whole[i][1] * rate + g[i] for i in self.moving])
        g, g_all = (network.gradient(x, neurons, self.gates) for x, neurons in about)
        for m, w, p, q in ((self.middle[i], self.whole[i], g[i], g_all[i]) for i in self.moving):
            terms = [m[j + 1] * (j + 1) * rate + p[j] for j in range(last)] + [w[TERMS] * TERMS * rate + q[last]]
            total.append(sum((arb(t.abs_upper()) for t in terms), ZERO))
        return length(total)

    def check(self, network, before):
        """Conditions 2 to 5; returns what is read in the tube."""
        R, K, box = self.radius * 3 / 2, network.K, self.box(self.radius * 3 / 2)
        series = ([arb_series(c[:TERMS], TERMS) for c in each] for each in (self.middle, self.whole))
        about = [(x, network.neurons(x)) for x in series]
        neurons, J = network.neurons(box, second=True), network.jacobian(box)
        slopes = [length((arb_mat([slope]) * J).entries()) for _, slope, _ in neurons]
        curve = [m[0][0] + w[0][1] * UNIT + s * self.held * UNIT for m, w, s in zip(about[0][1], about[1][1], slopes)]
        tube = [z + slope * R * UNIT for z, slope in zip(curve, slopes)]
        for i, (gate, z) in enumerate(zip(self.piece["gates"], curve)):
            demand(i >= K or (gate == "1" and tube[i] > 0), "a neuron that pushes itself on may be silent")
            demand(gate == "?" or (z > 0 if gate == "1" else z < 0), "x̂ has another sign than its gate")
        choices = product(*([1] if z > 0 else [0] if z < 0 else [0, 1] for z in tube))
        hessians, moving = [network.hessian(neurons, gates, J) for gates in choices], self.moving
        pulls = [length([H[i, j] for i in moving for j in range(34) if j not in moving]).upper() for H in hessians]
        delta = self.residual(network, about) + (0 if self.open else max(pulls) * self.held)
        demand(delta <= self.delta, "the residual is larger than δ")
        convex = len(moving) == 2 and self.mu == 0  # only w moves
        holds = [convex or all(grows_at_most(H, moving, mu) for H in hessians) for mu in (self.mu, self.mu / LOOSE)]
        demand(holds[0], "the Hessian allows faster growth than μ")
        demand(convex or not holds[1], "μ is larger than the Hessian asks for")
        x = self.time * self.mu
        grown = (before + self.time * self.delta) * (1 + x + x * x)
        demand(0 <= x <= 1 and grown <= self.radius <= grown * (1 + arb(1e-13)), "the radius is not the one of μ and δ")
        return self.read(network, about, neurons, J, slopes, tube)

    def read(self, network, about, neurons, J, slopes, tube):
        """Quantities in the tube, each as it rises: the mean value theorem on balls of all coordinates around x̂."""
        r, K, margins, points = self.radius + self.held, network.K, [], []
        for n, k in zip(range(K), range(K, 2 * K)):
            m, w = (z[n][0] * self.gates[n] - z[k][0] * self.gates[k] for _, z in about)
            size = sum((arb(m[j].abs_upper()) for j in range(1, TERMS - 1)), arb(w[TERMS - 1].abs_upper()))
            on_curve = m[0] + (size + r * (slopes[n] + slopes[k])) * UNIT
            margins.append((tube[n] + abs(tube[n]) - tube[k] - abs(tube[k])) / 2 if self.open else on_curve)
        for i in (0, 1):  # ∂m/∂w of the sample n = 0, both neurons on
            m, w = (z[0][1][i] - z[K][1][i] for _, z in about)
            bend = arb_mat([[a - b for a, b in zip(neurons[0][2][i], neurons[K][2][i])]]) * J
            points.append(m[0] + (w[1] + r * length(bend.entries())) * UNIT)
        p, least, H = network.probability, partial(reduce, arb.min), K // 2  # n < H: the plain vote is wrong
        each = [(1 + (-m).exp()).log() * share for m, share in zip(margins, p)]
        found = {"silent": -least(tube), "right": least(margins), "easy_margin": least(margins[H:])}
        found |= {"loss": -sum(each, ZERO), "loss_hard": -sum(each[:H], ZERO) / sum(p[:H])}
        low = max((points[0] * points[0] + points[1] * points[1]).lower(), ZERO).sqrt()
        feature = length(points).union(low) * network.scale if K == 2 else 1e9 * UNIT  # for K = 2 only
        return found | {"feature_margin": feature, "separated": feature - fmpq(1, 10)}


def check_form(stage, K, begin):
    """Every list has its length, the polynomials meet exactly, the cells follow one another inside them."""
    pieces, cells, still = stage["pieces"], stage["cells"], [i for i in range(34) if i not in MOVING[stage["moves"]]]
    n, begins, ends = len(cells["radius"]), cells["begin"], cells["end"]
    demand(n > 0 and all(len(each) == n for each in cells.values()), "a cell is incomplete")
    whole = [*begins, *ends, *cells["piece"], *(c for piece in pieces for row in piece["x"] for c in row)]
    demand(all(type(number) is int for number in whole), "a number is not whole")
    for piece in pieces:
        demand(len(piece["gates"]) == 2 * K and set(piece["gates"]) <= set("01?"), "a sign condition is missing")
        demand(len(piece["x"]) > 1 and all(len(row) == 34 for row in piece["x"]), "a coefficient is missing")
        demand(not any(row[i] for row in piece["x"][1:] for i in still), "what stands still moves")
    for one, two in pairwise(pieces):
        last, first = ([sum(c) for c in zip(*one["x"])], [sum(c[::2]) - sum(c[1::2]) for c in zip(*two["x"])])
        demand(one["begin"] < one["end"] == two["begin"] and last == first, "x̂ is not continuous")
    demand(begins[0] == pieces[0]["begin"] == begin and cells["piece"][0] == 0, "a stage begins at another time")
    demand(cells["piece"][-1] == len(pieces) - 1 and begins[1:] == ends[:-1], "a cell is missing")
    inside = [pieces[i]["begin"] <= t < u <= pieces[i]["end"] for i, t, u in zip(cells["piece"], begins, ends)]
    demand(all(inside), "a cell leaves its piece")


def turns(cells, values, low, high, reason, for_good=False):
    """A quantity is negative before low and positive at high; or, for good, negative at low, if given, and positive from high."""
    before = [v for (t, u), v in zip(cells, values) if (u == low if for_good else t < low)]
    after = [v for (t, _), v in zip(cells, values) if (t >= high if for_good else t == high)]
    told = high in [t for t, _ in cells] and (before or not for_good or low is None)
    demand(told and all(v < 0 for v in before) and all(v > 0 for v in after), reason)


def check(proof, report):
    """Verify the contents of a proof and return its claims; raises Refused."""
    ctx.prec, ctx.cap, K, stages, claims = 128, TERMS, proof["classes"], proof["stages"], proof["claims"]
    bare = json.dumps({k: v for k, v in proof.items() if k != "checksum"}, sort_keys=True, separators=(",", ":"))
    demand(proof["checksum"] == hashlib.sha256(bare.encode()).hexdigest(), "the checksum is of another file")
    demand(proof["format"] == "mixflow proof 2" and K in range(2, 9), "the format is another")
    demand([each["moves"] for each in stages] in (["all"], ["w", "attention", "w"]), "the stages are others")
    omega, bias = (fmpq(*a) + (fmpq(*b) - fmpq(*a)) * SHARE for a, b in (proof["omega"], proof["bias"]))
    network, radius, held, x, begin, cells, found = Network(K, bias), ZERO, ZERO, [ZERO] * 34, 0, [], []
    for s, place in product((0, 1), (0, 3, 12, 15)):  # W_K = ω [I; 0], W_Q = ω [0; I] in both sectors
        x[2 + 16 * s + place] = omega * arb(2 * (K - 1) if s else 2).sqrt()
    for stage in stages:
        check_form(stage, K, begin)
        away = [p(arb(-1)) - each for p, each in zip(Cell(proof, stage, 0).polynomials, x)]
        moving, n = MOVING[stage["moves"]], len(stage["cells"]["radius"])
        parts = [length([a for i, a in enumerate(away) if (i in moving) == which]) for which in (True, False)]
        needed, radius, held = (held + parts[0], radius + parts[1]), arb(stage["first_radius"]), arb(stage["held"])
        for given, need in zip((radius, held), needed):
            demand(need <= given <= 2 * need + 1e-13, "the start is not in the first ball")
        for k, cell in enumerate((Cell(proof, stage, k) for k in range(n)), 1):
            found.append(cell.check(network, radius))
            radius = cell.radius
            report(k, n)
        cells += zip(stage["cells"]["begin"], stage["cells"]["end"])
        end, last, (low, high) = stage["end"], stage is stages[-1], stage["time"] or (begin, cells[-1][1])
        if "duration" in end:
            ticks = fmpq(*end["duration"]) * 2 ** proof["tick_bits"]
            demand(low <= begin + ticks <= high, "a stage ends at another time")
        else:  # where a quantity first reaches its level; all but the last hand over at the end of the cell that says so
            level = fmpq(*end["level"]) * (-1 if end["quantity"].startswith("loss") else 1)
            values = [each[end["quantity"]] - level for each in found[-n:]]
            turns(cells[-n:], values, low, high if last else cells[-1][0], "a stage may end at another time")
        demand(last or (cell.piece["begin"] <= low and high == cells[-1][1]), "a stage ends in another piece")
        x, begin = [p(cell.s(low).union(cell.s(high))) for p in cell.polynomials], high
    for name in filter(claims.get, ("silent", "right", "separated")):
        turns(cells, [each[name] for each in found], *claims[name], f"{name} may be at another time", name == "right")
    return claims


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print("accepted:", check(json.load(file), lambda done, cells: None))
