"""The draws of chains that pages share, measures, and models that can be solved by themselves."""
