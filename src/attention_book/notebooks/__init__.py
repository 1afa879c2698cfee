"""The book's own machinery: what its pages call, their parameters, and how they are executed with others."""
