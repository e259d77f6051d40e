"""OpenAI Responses, and all who speak it alike."""
