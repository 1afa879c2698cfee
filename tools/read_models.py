"""Read tiny models of transformers with random weights, and write what came of each, with its residuals.

`make read` runs it and `make read QUICK=1` compares ten with the record; names after it read these alone and write
nothing. A residual that is no number, where a test could not be made, is left out.
"""

import importlib.metadata
import json
import math
import sys
import warnings
from pathlib import Path

TABLE = Path(__file__).parents[1] / "results/reading.json"
_TEXT = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
_GROUPED = _TEXT | {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
_IMAGE = {k: v for k, v in _TEXT.items() if k != "vocab_size"} | {"image_size": 16, "patch_size": 4}
_SOUND = _TEXT | {"conv_dim": (8, 8), "conv_stride": (2, 2), "conv_kernel": (3, 3), "num_feat_extract_layers": 2}
_SOUND |= {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


def _names(several: str) -> list[str]:
    return several.split()


# Kind, name, sizes; `Config` and `Model` are added to the name.
MODELS: list[tuple[str, str, dict]] = [
    *(
        ("encoder", name, _TEXT | {"pad_token_id": 0})
        for name in _names(
            "Bert Roberta Electra Deberta MPNet ConvBert MegatronBert XLMRoberta Camembert Ernie "
            "RemBert RoCBert Data2VecText Esm"
        )
    ),
    ("encoder", "SqueezeBert", _TEXT | {"embedding_size": 32}),
    ("encoder", "DebertaV2", _TEXT | {"relative_attention": True}),
    ("encoder", "DebertaV2", _TEXT | {"relative_attention": True, "conv_kernel_size": 3}),
    ("encoder", "Albert", _TEXT | {"embedding_size": 16}),
    (
        "encoder",
        "ModernBert",
        _TEXT | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    ("encoder", "DistilBert", {"vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 32}),
    (
        "encoder",
        "Funnel",
        {"vocab_size": 64, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 32, "block_sizes": [1, 1]},
    ),
    ("encoder", "XLNet", {"vocab_size": 64, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 32}),
    ("encoder", "XLM", {"vocab_size": 64, "emb_dim": 32, "n_layers": 2, "n_heads": 4}),
    ("encoder", "Longformer", _TEXT | {"attention_window": [6, 6], "pad_token_id": 0}),
    ("encoder", "T5Encoder", {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 4}),
    ("decoder", "GPT2", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}),
    (
        "decoder",
        "OPT",
        {
            "vocab_size": 64,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 32,
            "word_embed_proj_dim": 32,
        },
    ),
    ("decoder", "Bloom", {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    ("decoder", "GPTJ", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4}),
    ("decoder", "CTRL", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 32}),
    ("decoder", "Falcon", _TEXT | {"num_kv_heads": 2}),
    *(
        ("decoder", name, _GROUPED)
        for name in _names(
            "Llama Mistral Qwen2 Qwen3 Gemma Gemma2 Gemma3Text Phi Phi3 GPTNeoX StableLm Cohere "
            "Olmo2 Granite Glm Starcoder2 Helium SmolLM3 BitNet Arcee"
        )
    ),
    ("decoder", "Mixtral", _GROUPED | {"num_local_experts": 4}),
    ("decoder", "Qwen3Moe", _GROUPED | _EXPERTS),
    ("decoder", "GptOss", _GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2}),
    ("decoder", "JetMoe", _TEXT | {"num_key_value_heads": 2, "kv_channels": 8, "num_local_experts": 4}),
    ("decoder", "Afmoe", _GROUPED | _EXPERTS | {"num_dense_layers": 1}),
    ("decoder", "DiffLlama", _GROUPED),
    ("decoder", "MiniMax", _GROUPED | {"num_local_experts": 2, "layer_types": ["full_attention", "linear_attention"]}),
    *(("vision", name, _IMAGE) for name in _names("ViT DeiT ViTMSN Dinov2 DINOv3ViT IJepa VideoMAE Timesformer Beit")),
    ("vision", "CLIPVision", _IMAGE),
    ("vision", "SiglipVision", _IMAGE),
    (
        "vision",
        "Swin",
        {"image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    ),
    *(
        ("speech", name, _SOUND)
        for name in _names("Wav2Vec2 Hubert WavLM UniSpeech Data2VecAudio SEW Wav2Vec2Conformer")
    ),
    (
        "hybrid",
        "Jamba",
        _GROUPED
        | {
            "num_hidden_layers": 4,
            "attn_layer_period": 4,
            "attn_layer_offset": 3,
            "num_experts": 2,
            "use_mamba_kernels": False,
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
        },
    ),
    (
        "hybrid",
        "Qwen3Next",
        _GROUPED
        | _EXPERTS
        | {
            "num_hidden_layers": 4,
            "shared_expert_intermediate_size": 16,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
    ),
    (
        "hybrid",
        "Bamba",
        _GROUPED
        | {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1},
    ),
    ("hybrid", "Lfm2", _GROUPED | {"layer_types": ["conv", "full_attention"]}),
    ("hybrid", "FalconH1", _GROUPED | {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8}),
]


def made(name: str, sizes: dict):
    """A tiny model with random weights, and its batch."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = {"T5Encoder": "T5"}.get(name, name)
    config = getattr(transformers, f"{config}Config")(**sizes)
    config._attn_implementation = "eager"
    for part in vars(config).values():
        if hasattr(part, "model_type"):
            part._attn_implementation = "eager"
    model = getattr(transformers, f"{name}Model")(config).eval()
    if model.main_input_name == "pixel_values":
        frames = getattr(config, "num_frames", None)
        size = (2, frames, 3, 16, 16) if frames else (2, 3, 16, 16)
        return model, {"pixel_values": torch.randn(size)}
    if model.main_input_name == "input_values":
        return model, {"input_values": torch.randn(2, 60)}
    ids = torch.randint(3, 60, (2, 7))
    return model, {"input_ids": ids}


def tried(kind: str, name: str, sizes: dict) -> dict:
    """What comes of reading one model: "read" or why not, and the largest residuals of the three tests."""
    import statmech_attention as sma

    row = {"kind": kind, "model": name, "with": _told(sizes)}
    try:
        model, batch = made(name, sizes)
    except Exception as error:  # the library's version does not have it
        return row | {"outcome": f"not made: {type(error).__name__}: {error}"}
    try:
        found = sma.reading.read_residuals(model, **batch)
        shares = {one: float(max(getattr(rest, one) for rest in found)) for one in ("values", "heads", "tokens")}
        row |= {one: share for one, share in shares.items() if math.isfinite(share)}
    except ValueError:
        pass
    try:
        sma.attention_from_transformers(model, **batch)
        return row | {"outcome": "read"}
    except ValueError as error:
        return row | {"outcome": str(error).split(", got ")[-1].split(". Take ")[0]}


def _told(sizes: dict) -> str:
    """The sizes that set a second entry of a model apart."""
    return ", ".join(f"{name}={sizes[name]}" for name in ("conv_kernel_size",) if name in sizes)


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for one in MODELS:
        if names and one[1] not in names:
            continue
        rows.append(row := tried(*one))
        numbers = " ".join(f"{row[one]:.0e}" for one in ("values", "heads", "tokens") if one in row)
        print(f"{row['kind']:8} {row['model']:18} {numbers:20} {row['outcome']}", flush=True)
    if not names:
        versions = {one: importlib.metadata.version(one).partition("+")[0] for one in ("torch", "transformers")}
        made = [row for row in rows if not row["outcome"].startswith("not made")]
        TABLE.write_text(json.dumps(versions | {"models": made}, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
