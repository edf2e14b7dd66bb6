"""Small models of Hugging Face transformers, built from configs without a download."""

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
transformers.logging.set_verbosity_error()

WORDS = 29
SIZES = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
TOKENS = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}


def build(kind: str, seed: int = 0, **options):
    """Build a model in evaluation mode; its weights are large enough for A to matter."""
    torch.manual_seed(seed)
    words = {"vocab_size": WORDS, "initializer_range": 0.5, **options}
    match kind:
        case "bert":
            model = transformers.BertModel(transformers.BertConfig(**SIZES, **words))
        case "vit":
            config = transformers.ViTConfig(image_size=8, patch_size=4, **SIZES, **options)
            model = transformers.ViTModel(config)
        case "gpt2":
            sizes = {"n_embd": 16, "n_layer": 2, "n_head": 4}
            config = transformers.GPT2Config(**sizes, **words, **TOKENS)
            model = transformers.GPT2LMHeadModel(config)
        case "llama":
            sizes = {**SIZES, "num_key_value_heads": 2}
            config = transformers.LlamaConfig(**sizes, **words, **TOKENS)
            model = transformers.LlamaForCausalLM(config)
        case "mistral":
            sizes = {**SIZES, "num_key_value_heads": 2, "sliding_window": 3}
            config = transformers.MistralConfig(**sizes, **words, **TOKENS)
            model = transformers.MistralForCausalLM(config)
        case "bart":
            config = transformers.BartConfig(
                d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24,
                decoder_start_token_id=1, forced_eos_token_id=None, **words, **TOKENS,
            )  # fmt: skip
            model = transformers.BartForConditionalGeneration(config)
    return model.eval()


def inputs_of(kind: str, padded: bool = False) -> dict[str, torch.Tensor]:
    """Return a batch for a model; with padding, at the left of the first text."""
    draw = torch.Generator().manual_seed(1)
    if kind == "vit":
        return {"pixel_values": torch.randn(2, 3, 8, 8, generator=draw)}
    tokens = torch.randint(2, WORDS, (2, 6), generator=draw)
    mask = torch.ones_like(tokens)
    if padded:
        mask[0, :2], tokens[0, :2] = 0, 0
    return {"input_ids": tokens, "attention_mask": mask}
