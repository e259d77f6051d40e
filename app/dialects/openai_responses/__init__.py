"""OpenAI Responses and compatible APIs."""
