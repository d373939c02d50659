"""Policies for use elsewhere: ONNX, TorchScript, Stable-Baselines3, safetensors."""
