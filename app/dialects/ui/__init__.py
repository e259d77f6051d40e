"""The UI message stream of Vercel's AI SDK, which `useChat` reads."""
