"""Google's generateContent, of the Gemini API and Vertex AI, and its Interactions API."""
