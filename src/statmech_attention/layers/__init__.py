"""Kinds of layers, one file each, and chains of them; `kind` says what a kind gives."""

from statmech_attention.layers.chains import Chain, Stage
from statmech_attention.layers.heads import Heads
from statmech_attention.layers.kind import Kind, Layer, Narrow, Part, Readout
from statmech_attention.layers.linear import Linear
from statmech_attention.layers.outputs import OneOutput, Outputs
from statmech_attention.layers.skip import SkipHeads

__all__ = ["Chain", "Heads", "Kind", "Layer", "Linear", "Narrow", "OneOutput", "Outputs", "Part"]
__all__ += ["Readout", "SkipHeads", "Stage"]
