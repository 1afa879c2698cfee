"""Kinds of layers, and chains of them; `kind` says what a kind gives."""

from statmech_attention.layers.chains import Chain, Stage
from statmech_attention.layers.kind import Kind, Layer, Narrow, Part, Readout
from statmech_attention.layers.kinds import Gated, Heads, Linear, OneOutput, Outputs, SkipHeads

__all__ = ["Chain", "Gated", "Heads", "Kind", "Layer", "Linear", "Narrow", "OneOutput", "Outputs", "Part"]
__all__ += ["Readout", "SkipHeads", "Stage"]
