"""Google's Interactions API, of the Gemini API."""
