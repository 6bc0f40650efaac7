"""Weights of learned planners and their manifests: files only."""
