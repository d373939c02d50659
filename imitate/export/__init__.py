"""Policies for use elsewhere: ONNX, torch, Stable-Baselines3, safetensors, the Hugging Face hub."""
