"""Google Gemini: generateContent, as its own API and Vertex AI speak it."""
