"""The studio: Tracehouse in a browser. Its pages ask the same API as every client."""
