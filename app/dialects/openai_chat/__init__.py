"""OpenAI Chat Completions, and all who speak it alike."""
