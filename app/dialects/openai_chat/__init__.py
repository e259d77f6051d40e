"""OpenAI Chat Completions and compatible APIs."""
