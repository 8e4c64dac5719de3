"""Turns trained models into files for devices: ONNX and TFLite, float and INT8, with parity and inspection."""
