"""OpenAI's legacy Completions for clients only: text in, text out."""
