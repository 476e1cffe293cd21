"""Tiny models with random weights, saved in the format of ``transformers``."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

LETTERS = "ETAONIHSRDLUMWCFGYPBVK'XJQZ"


def _transformers() -> Any:
    import transformers

    return transformers  # much of it is untyped


def tiny_ctc(folder: Path, *, norm: str = "layer", seed: int = 0, weights: str = "safetensors") -> Path:
    """Save a wav2vec 2.0 of 2 layers with the vocabulary and front end (400 samples, stride 320) of the large one."""
    import torch

    hf = _transformers()

    folder.mkdir(parents=True)
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "|", *LETTERS]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    hf.Wav2Vec2CTCTokenizer(str(folder / "vocab.json")).save_pretrained(folder)
    hf.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=norm == "layer").save_pretrained(folder)
    config = hf.Wav2Vec2Config(
        vocab_size=len(tokens),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        conv_dim=[32] * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        feat_extract_norm=norm,
        do_stable_layer_norm=norm == "layer",
        mask_time_prob=0.0,
        pad_token_id=0,
        layerdrop=0.0,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
    )
    torch.manual_seed(seed)
    model = hf.Wav2Vec2ForCTC(config)
    with torch.no_grad():  # otherwise random logits hardly differ, and the best token is nearly always the same
        model.lm_head.weight.mul_(30.0)
    model.save_pretrained(folder)
    if weights == "bin":
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return folder


def tiny_features(folder: Path, *, seed: int = 0) -> Path:
    """Save a Wav2Vec2-BERT of 1 layer, which reads a spectrogram of 80 bands, two frames at a time."""
    import torch

    hf = _transformers()
    folder.mkdir(parents=True)
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "|", *LETTERS]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    hf.Wav2Vec2CTCTokenizer(str(folder / "vocab.json")).save_pretrained(folder)
    hf.SeamlessM4TFeatureExtractor(feature_size=80, num_mel_bins=80, stride=2).save_pretrained(folder)
    config = hf.Wav2Vec2BertConfig(
        vocab_size=len(tokens),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        feature_projection_input_dim=160,
        pad_token_id=0,
    )
    torch.manual_seed(seed)
    model = hf.Wav2Vec2BertForCTC(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(30.0)
    model.save_pretrained(folder)
    return folder


def tiny_whisper(folder: Path, *, seed: int = 0) -> Path:
    """Save an English Whisper of 1 + 1 layers whose vocabulary is the 256 bytes and the special tokens."""
    import torch

    hf = _transformers()
    folder.mkdir(parents=True)
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>"]
    characters = list(import_module("transformers.convert_slow_tokenizer").bytes_to_unicode().values())
    vocabulary = {token: i for i, token in enumerate([*characters, *special])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = hf.WhisperTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    hf.WhisperProcessor(hf.WhisperFeatureExtractor(feature_size=80), tokenizer).save_pretrained(folder)
    end, start, plain = (vocabulary[token] for token in special)
    config = hf.WhisperConfig(
        vocab_size=len(vocabulary),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_target_positions=300,
        tie_word_embeddings=False,
        decoder_start_token_id=start,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )
    torch.manual_seed(seed)
    model = hf.WhisperForConditionalGeneration(config)
    with torch.no_grad():
        model.proj_out.weight.mul_(30.0)
    model.generation_config = hf.GenerationConfig(
        decoder_start_token_id=start,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        no_timestamps_token_id=plain,
        is_multilingual=False,
        suppress_tokens=[start, plain],
        max_length=300,
    )
    model.save_pretrained(folder)
    return folder


def tiny_emotion(folder: Path) -> Path:
    """Save a wav2vec2 classifier of emotions of the real architecture, tiny and random; return its folder."""
    transformers = _transformers()
    import torch

    torch.manual_seed(0)
    labels = {0: "Neutral", 1: "happiness", 2: "ang", 3: "SADNESS", 4: "disgust"}
    config = transformers.Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        conv_dim=(8,) * 7,
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        classifier_proj_size=8,
        id2label=labels,
        label2id={name: k for k, name in labels.items()},
    )
    transformers.Wav2Vec2ForSequenceClassification(config).save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(folder)
    return folder


def tiny_wav2vec2(folder: Path, *, seed: int = 0, dropout: float = 0.1) -> Path:
    """Save a wav2vec 2.0 of 2 layers without an output layer, built like facebook/wav2vec2-base."""
    import torch

    hf = _transformers()
    folder.mkdir(parents=True)
    hf.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=False).save_pretrained(folder)
    config = hf.Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=[8] * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        feat_extract_norm="group",
        do_stable_layer_norm=False,
        layerdrop=0.0,
        hidden_dropout=dropout,
        attention_dropout=dropout,
        feat_proj_dropout=dropout,
    )
    torch.manual_seed(seed)
    hf.Wav2Vec2Model(config).save_pretrained(folder)
    return folder
