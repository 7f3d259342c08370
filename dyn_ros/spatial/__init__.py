"""The vocabulary: numbers, and spatial algebra on them."""
