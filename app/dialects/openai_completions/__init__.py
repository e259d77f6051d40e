"""OpenAI's older Completions, towards clients only: a text in, a text out."""
