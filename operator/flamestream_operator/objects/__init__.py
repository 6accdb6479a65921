"""Kubernetes objects as plain data: one pure `build_*` function a kind."""
