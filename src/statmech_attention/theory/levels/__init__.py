"""How a point becomes what an energy sees: levels of paths, and of features of tokens."""
