"""Ollama's native API, /api/chat and /api/generate."""
