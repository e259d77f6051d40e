"""Ollama's own API, /api/chat and /api/generate."""
