"""Formulas of the mathematics page, from plain text to MathML: nothing is lost, nothing is invented."""

import re
import sys
import xml.etree.ElementTree as xml

import blocks
import pytest

sys.path.insert(0, str(blocks.ROOT / "docs"))
from _handbook.typeset import display, formula, is_formula

PAGE = (blocks.ROOT / "docs/mathematics.md").read_text()
BLOCKS = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", PAGE, re.M)
INLINE = sorted(set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", PAGE)))
PLAIN = {"ᵀ": "T", "²": "2", "³": "3", "⁴": "4", "⁺": "+", "⁻": "−", "ⁿ": "n", "₀": "0", "₁": "1", "₂": "2"}
MARKUP = str.maketrans(dict.fromkeys("_^{}()`'′\u00a0 \n", "") | PLAIN)


def said(mathml):
    """The characters of a formula, without markup and brackets."""
    return "".join(xml.fromstring(mathml).itertext()).translate(MARKUP)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_keeps_its_characters(block):
    assert said(display(block)) == block.translate(MARKUP)


def test_inline_formulas_keep_theirs_and_names_of_the_code_stay_names():
    found = [text for text in INLINE if is_formula(text)]
    assert len(found) > 50
    for text in found:
        assert said(formula(text)) == text.translate(MARKUP), text
    for name in ("tie_values", "mixflow check", "tests/twin.py", "relu_per_query", "width=8", "docs/mathematics.md"):
        assert not is_formula(name), name
    for text in ("w_h", "G_K", "c_1 … c_K", "y · Σ_j s_j > 0", "A[μ, ν] = ⟨W_K μ, W_Q ν⟩", "W_K, W_Q"):
        assert is_formula(text), text


def test_indices_and_exponents():
    def tags(text):
        return [element.tag for element in xml.fromstring(formula(text)).iter()]

    assert tags("w_h")[:2] == ["mrow", "msub"]
    assert tags("Aᵀ")[1] == "msup"
    assert tags("W_K,hᵀ")[1] == "msubsup"
    assert tags("e^{−B}")[1] == "msup"
    assert formula("A[c_k,c_k]").count("<msub>") == 2
    assert '<mi mathvariant="normal">softmax</mi>' in formula("softmax(x)")


def test_section_numbers_stay():
    assert re.findall(r"^## (\d+)\.", PAGE, re.M) == [str(n) for n in range(1, 17)]
