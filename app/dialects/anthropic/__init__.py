"""Anthropic Messages: Claude at Anthropic itself, on Vertex AI, and through Bedrock's invoke."""
