"""Values of an expert's actions: its own critic, or one fitted to its episodes."""
